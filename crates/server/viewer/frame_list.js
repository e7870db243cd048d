// The raw log as a list: one row a frame, with its sizes and times, of some types and with some text in it.

import { Bodies, Column } from "./bodies.js";
import { followRun } from "./runwire.js";
import { columnNames, emptyRow } from "./columns.js";
import { h, setText } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { gistOf } from "./frame_gist.js";
import { oneLine } from "./said.js";
import { Sieve } from "./sieve.js";
import { token } from "./token.js";
import { VirtualList } from "./virtual_list.js";

/** The thirteen types, in the order in which they are offered as a filter. */
export const TYPES = [
  "run.start",
  "run.status",
  "run.end",
  "segment.start",
  "segment.end",
  "text.delta",
  "thinking.delta",
  "tool.call",
  "tool.result",
  "suspend",
  "resume",
  "notice",
  "error",
];

const ROW_HEIGHT = 22;

/** More rows than these are higher than any window that the list does not fill anyway. */
const MOST_ROWS_TOLD = 80;

const encoder = new TextEncoder();

/** How many bytes a text has in UTF-8. */
export function sizeOf(text) {
  // Most bodies are ASCII, of which a look is cheaper than a copy.
  return /^[\x00-\x7f]*$/.test(text) ? text.length : encoder.encode(text).length;
}

/** `+12.345`, or `+1:02:03.456`: seconds since the first frame. */
export function sinceStart(ms) {
  const whole = Math.floor(ms / 1000);
  const [hours, minutes, seconds] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const thousandths = String(ms % 1000).padStart(3, "0");
  if (whole < 100) return `+${whole}.${thousandths}`;
  const pad = (number) => String(number).padStart(2, "0");
  return `+${hours > 0 ? `${hours}:${pad(minutes)}` : minutes}:${pad(seconds)}.${thousandths}`;
}

/** Frames of a run, numbered from 1: row `seq - 1`. */
export class FrameList {
  #bodies;
  #types = new Column(Uint8Array);
  #segments = new Column(Uint32Array);
  #times = new Column(Float64Array);
  #sizes = new Column(Uint32Array);
  #segmentNames = [""];
  #segmentNumbers = new Map([["", 0]]);
  #counts = new Array(TYPES.length).fill(0);
  #sieve;
  #list;
  #empty = h("p", { class: "nothing", hidden: true }, "No frame fits this filter.");
  #marks = new Map();
  #linked = 0;
  #selected = 0;
  #onSelect;
  #onChange;

  /**
   * @param {object} options
   * @param {string} options.runId
   * @param {AbortSignal} options.signal
   * @param {(seq: number) => void} options.onSelect a person chose a frame
   * @param {() => void} options.onChange what is shown, or how much there is, is another thing
   * @param {(following: boolean) => void} options.onFollowing
   * @param {(error: Error) => void} options.onFailure the log cannot be searched
   */
  constructor({ runId, signal, onSelect, onChange, onFollowing, onFailure }) {
    this.#onSelect = onSelect;
    this.#onChange = onChange;
    this.#bodies = new Bodies({
      reload: (first, rows) => readFrames({ runId, first, rows, signal }),
      loaded: () => this.#list.refresh(),
      signal,
    });
    this.#list = new VirtualList({
      label: "Frames",
      make: () => emptyRow("frame-columns", COLUMNS),
      fill: (row, index) => this.#fill(row, index),
      signal,
      rowHeight: ROW_HEIGHT,
      onActive: (index) => this.#choose(index),
      onOpen: (index) => this.#choose(index),
      onFollowing,
    });
    this.#sieve = new Sieve({
      bodies: this.#bodies,
      changed: () => this.#sifted(),
      failed: onFailure,
      signal,
    });
    this.element = h("div", { class: "log" }, columnNames("frame-columns", COLUMNS), this.#list.element, this.#empty);
  }

  /** How many frames there are. */
  get count() {
    return this.#bodies.count;
  }

  /** How many of them are shown, and whether all were looked at. */
  get shown() {
    return { count: this.#sieve.size, isDone: this.#sieve.isDone };
  }

  get following() {
    return this.#list.following;
  }

  set following(following) {
    this.#list.following = following;
  }

  /** How many frames of each type there are, by the order of `TYPES`. */
  get counts() {
    return this.#counts;
  }

  /** Takes the next frames, in order. */
  take(frames) {
    for (const frame of frames) {
      const type = TYPES.indexOf(frame.type);
      this.#bodies.push(frame.body);
      this.#types.push(type);
      this.#segments.push(this.#segmentNumber(frame.segment_id ?? ""));
      this.#times.push(Date.parse(frame.ts));
      this.#sizes.push(sizeOf(frame.body));
      this.#counts[type] += 1;
    }
    this.#sieve.took();
  }

  /** What is known of a frame, without its body. */
  frame(seq) {
    const row = seq - 1;
    if (row < 0 || row >= this.count) return undefined;
    const time = this.#times.at(row);
    return {
      seq,
      type: TYPES[this.#types.at(row)],
      segment: this.#segmentNames[this.#segments.at(row)],
      time,
      sinceStart: time - this.#times.at(0),
      sinceBefore: row === 0 ? 0 : time - this.#times.at(row - 1),
      size: this.#sizes.at(row),
    };
  }

  /** A frame's body, read again where it has to be. */
  body(seq) {
    return this.#bodies.textOf(seq - 1);
  }

  /**
   * Shows frames of these types alone, and with this text in them.
   *
   * @param {Set<string>} types all when it is empty
   * @param {RegExp | null} text
   */
  filter(types, text) {
    // Every row holds another frame now.
    this.#list.refresh();
    if (types.size === 0 && text === null) {
      this.#sieve.set(null);
      return;
    }
    const wanted = TYPES.map((type) => types.size === 0 || types.has(type));
    this.#sieve.set({ row: (row) => wanted[this.#types.at(row)], text });
  }

  /** Makes a frame the active one and brings it into view, or the next that is shown. Tells its number, 0 where there is none. */
  select(seq) {
    const place = Math.min(this.#sieve.placeOf(seq - 1), this.#sieve.size - 1);
    if (place < 0) return 0;
    this.#list.activate(place, { align: "middle" });
    const found = this.#sieve.rowAt(place) + 1;
    this.#selected = found;
    return found;
  }

  /** Shows that a frame is the one that something else is about, without choosing it. */
  link(seq) {
    this.#linked = seq;
    this.#selected = seq;
    if (this.#sieve.has(seq - 1)) {
      const active = this.#sieve.placeOf(seq - 1);
      this.#list.following = false;
      this.#list.reordered({ count: this.#sieve.size, active });
      this.#list.reveal(active);
    }
    this.#list.refresh();
  }

  /** Marks frames; the values are severities. */
  mark(marks) {
    this.#marks = marks;
    this.#list.refresh();
  }

  focus() {
    this.#list.element.focus({ preventScroll: true });
  }

  #segmentNumber(name) {
    let number = this.#segmentNumbers.get(name);
    if (number === undefined) {
      number = this.#segmentNames.push(name) - 1;
      this.#segmentNumbers.set(name, number);
    }
    return number;
  }

  #sifted() {
    const size = this.#sieve.size;
    // Who looks at a frame keeps looking at it, however many are in front of it now.
    const active = this.#selected > 0 && this.#sieve.has(this.#selected - 1) ? this.#sieve.placeOf(this.#selected - 1) : -1;
    if (active === this.#list.active && size >= this.#list.count) {
      this.#list.setCount(size);
    } else {
      this.#list.reordered({ count: size, active });
      if (active >= 0 && !this.#list.following) this.#list.reveal(active);
    }
    this.#tellHeight(size);
    this.#empty.hidden = size > 0 || this.count === 0 || !this.#sieve.isDone;
    this.#onChange();
  }

  /** Where the list need not fill anything, it is no higher than its rows. */
  #tellHeight(size) {
    const rows = String(Math.min(size, MOST_ROWS_TOLD));
    if (this.element.style.getPropertyValue("--rows") !== rows) this.element.style.setProperty("--rows", rows);
  }

  #choose(index) {
    const seq = this.#sieve.rowAt(index) + 1;
    this.#selected = seq;
    this.#linked = 0;
    this.#onSelect(seq);
  }

  #fill(row, index) {
    const at = this.#sieve.rowAt(index);
    const frame = this.frame(at + 1);
    const [seq, time, delta, type, segment, size, data] = row.children;
    row.dataset.type = frame.type;
    row.dataset.mark = this.#marks.get(frame.seq) ?? "";
    row.dataset.linked = String(this.#linked === frame.seq);
    setText(seq, String(frame.seq));
    setText(time, sinceStart(frame.sinceStart));
    setText(delta, frame.seq === 1 ? "" : duration(frame.sinceBefore));
    setText(type, frame.type);
    setText(segment, oneLine(frame.segment));
    setText(size, bytes(frame.size));
    const body = this.#bodies.get(at);
    setText(data, body === undefined ? "…" : oneLine(gistOf(frame.type, body), 400));
  }
}

const COLUMNS = [
  ["seq", "Seq"],
  ["time", "Time"],
  ["delta", "Gap"],
  ["type", "Type"],
  ["segment", "Segment"],
  ["size", "Size"],
  ["data", "What it says"],
];

/** The bodies of frames, byte for byte as they are on every transport. */
async function readFrames({ runId, first, rows, signal }) {
  const bodies = [];
  const run = followRun({ server: "/", runId, cursor: first, token, signal });
  for await (const frame of run) {
    bodies.push(frame.body);
    if (bodies.length === rows) break;
  }
  return bodies;
}

/** `12 of 99,401 frames`. */
export function shownOf({ count: some, isDone }, all, what) {
  const whole = `${count(all)} ${what}`;
  if (some === all) return whole;
  return `${count(some)}${isDone ? "" : "…"} of ${whole}`;
}
