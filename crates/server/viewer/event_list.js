// The AG-UI view of a run as a list: one row an event, each of which knows the frame that it came from.

import { followEvents, readEvents } from "./agui_events.js";
import { Bodies, Column } from "./bodies.js";
import { columnNames, emptyRow } from "./columns.js";
import { h, setText } from "./dom.js";
import { sizeOf } from "./frame_list.js";
import { bytes } from "./format.js";
import { oneLine } from "./said.js";
import { VirtualList } from "./virtual_list.js";

const ROW_HEIGHT = 22;

/** What an event says besides its type. */
function restOf(body, type) {
  const begin = `{"type":"${type}"`;
  const rest = body.startsWith(begin) ? body.slice(begin.length, begin.length + 600).replace(/^,/, "") : body.slice(0, 600);
  return rest.replace(/\}$/, "");
}

/** The family of a type, which has a colour: what is before its first underline. */
const familyOf = (type) => type.split("_")[0].toLowerCase();

/** Events of a run, from row 0 on. */
export class EventList {
  #runId;
  #signal;
  #bodies;
  #types = new Column(Uint8Array);
  #typeNames = [];
  #seqs = new Column(Float64Array);
  #numbers = new Column(Uint32Array);
  #list;
  /** Whether the run has ended and every event is here. */
  #isWhole = false;
  #linked = 0;
  #marks = new Map();
  #onSelect;
  #onChange;

  /**
   * @param {object} options
   * @param {string} options.runId
   * @param {AbortSignal} options.signal
   * @param {(event: {id: string, seq: number, type: string, row: number}) => void} options.onSelect a person chose an event
   * @param {() => void} options.onChange there are more
   */
  constructor({ runId, signal, onSelect, onChange }) {
    this.#runId = runId;
    this.#signal = signal;
    this.#onSelect = onSelect;
    this.#onChange = onChange;
    this.#bodies = new Bodies({
      reload: (first, count) => readEvents({ runId, after: first === 0 ? undefined : this.event(first - 1).id, count, signal }),
      loaded: () => this.#list.refresh(),
      signal,
      // The log itself is there too, and says nearly the same.
      most: 24_000_000,
    });
    this.#list = new VirtualList({
      label: "AG-UI events",
      make: () => emptyRow("event-columns", COLUMNS),
      fill: (row, index) => this.#fill(row, index),
      signal,
      rowHeight: ROW_HEIGHT,
      onActive: (index) => this.#choose(index),
      onOpen: (index) => this.#choose(index),
    });
    this.element = h("div", { class: "log" }, columnNames("event-columns", COLUMNS), this.#list.element);
  }

  get count() {
    return this.#bodies.count;
  }

  get following() {
    return this.#list.following;
  }

  set following(following) {
    this.#list.following = following;
  }

  /** Reads the events until the run has ended. */
  async follow() {
    await followEvents({ runId: this.#runId, signal: this.#signal, take: (events) => this.#take(events) });
    this.#isWhole = true;
    this.#onChange();
  }

  /** Whether every event of this frame has come, if it has any. */
  hasRead(seq) {
    return this.#isWhole || (this.count > 0 && this.#seqs.at(this.count - 1) > seq);
  }

  /** What is known of an event, without its body. */
  event(row) {
    if (row < 0 || row >= this.count) return undefined;
    const [seq, n] = [this.#seqs.at(row), this.#numbers.at(row)];
    return { row, seq, n, id: `${seq}.${n}`, type: this.#typeNames[this.#types.at(row)] };
  }

  /** The event of an id; `undefined` while it is not there. */
  byId(id) {
    const [seq, n] = id.split(".").map(Number);
    return this.ofFrame(seq).find((event) => event.n === n);
  }

  /** The events that came from a frame. */
  ofFrame(seq) {
    const events = [];
    for (let row = this.#seqs.lowerBound(seq); row < this.count && this.#seqs.at(row) === seq; row += 1) events.push(this.event(row));
    return events;
  }

  /** An event's body, read again where it has to be. */
  body(row) {
    return this.#bodies.textOf(row);
  }

  /** Shows which events came from a frame: those, or the place where they would be. */
  link(seq) {
    this.#linked = seq;
    const row = Math.min(this.#seqs.lowerBound(seq), this.count - 1);
    if (row >= 0) {
      this.#list.following = false;
      this.#list.reordered({ count: this.count, active: this.#seqs.at(row) === seq ? row : -1 });
      this.#list.reveal(row);
    }
    this.#list.refresh();
  }

  /** Makes an event the active one, as a person does. */
  select(row) {
    this.#list.activate(row, { align: "middle" });
  }

  /** Marks events by id; the values are severities. */
  mark(marks) {
    this.#marks = marks;
    this.#list.refresh();
  }

  #take(events) {
    for (const { seq, n, type, body } of events) {
      let number = this.#typeNames.indexOf(type);
      if (number < 0) number = this.#typeNames.push(type) - 1;
      this.#bodies.push(body);
      this.#types.push(number);
      this.#seqs.push(seq);
      this.#numbers.push(n);
    }
    this.#list.setCount(this.count);
    this.#onChange();
  }

  #choose(index) {
    const event = this.event(index);
    this.#linked = event.seq;
    this.#list.refresh();
    this.#onSelect(event);
  }

  #fill(row, index) {
    const event = this.event(index);
    const [id, type, size, data] = row.children;
    row.dataset.family = familyOf(event.type);
    row.dataset.mark = this.#marks.get(event.id) ?? "";
    row.dataset.linked = String(this.#linked === event.seq);
    setText(id, event.id);
    setText(type, oneLine(event.type, 60));
    const body = this.#bodies.get(index);
    setText(size, body === undefined ? "" : bytes(sizeOf(body)));
    setText(data, body === undefined ? "…" : oneLine(restOf(body, event.type), 400));
  }
}

const COLUMNS = [
  ["id", "Event"],
  ["type", "Type"],
  ["size", "Size"],
  ["data", "Data"],
];
