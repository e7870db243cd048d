// A run as a waterfall: a row for everything that it is made of, with a bar from its begin to its end.

import { h, setAttribute, setText } from "./dom.js";
import { clock, count, duration } from "./format.js";
import { nextPicture } from "./pacing.js";
import { rowsOf } from "./run_model.js";
import { oneLine } from "./said.js";
import { TimeScale } from "./time_scale.js";
import { VirtualList } from "./virtual_list.js";

const ROW_HEIGHT = 24;

/** How often what goes on is drawn anew while nothing comes. */
const TICK_MS = 250;

/** A tree that is larger is put in order at most so often, in milliseconds. */
const LARGE = 3000;
const LARGE_EVERY_MS = 300;

/** Most marks in the row of the state: more cannot be told apart. */
const STATE_MARKS = 200;

/** Deeper levels are not moved further to the right. */
const DEEPEST = 10;

export class Timeline {
  #model;
  #signal;
  #now;
  #onSelect;
  #rows = [];
  #selected = "run";
  #list;
  #scale;
  #axis = h("div", { class: "timeline-axis", "aria-hidden": "true" });
  #grid = h("div", { class: "timeline-grid", "aria-hidden": "true" });
  #follow = h("button", { type: "button", class: "timeline-follow", hidden: true }, "Follow the end");
  #isLive = true;
  #orderedAt = 0;
  #isWaitingToOrder = false;
  #marksAt = "";
  #axisWidth = 0;

  /**
   * @param {object} options
   * @param {import("./run_model.js").RunModel} options.model
   * @param {() => number} options.now the server's time, in milliseconds since 1970
   * @param {boolean} options.isLive whether it begins at its end, and stays there
   * @param {string} options.selected the key of the node that is selected first, whenever it comes
   * @param {(node: object) => void} options.onSelect
   * @param {AbortSignal} options.signal
   */
  constructor({ model, now, isLive, selected, onSelect, signal }) {
    this.#model = model;
    this.#now = now;
    this.#isLive = isLive;
    this.#selected = selected;
    this.#onSelect = onSelect;
    this.#signal = signal;
    this.#list = new VirtualList({
      label: "Timeline of the run",
      role: "tree",
      rowHeight: ROW_HEIGHT,
      signal,
      following: isLive,
      make: newRow,
      fill: (row, index) => this.#fill(row, index),
      describe: (index) => this.#describe(index),
      onActive: (index) => this.#select(this.#rows[index].node),
      onOpen: (index, event) => this.#open(index, event),
      onKey: (event, index) => this.#key(event, index),
      onFollowing: (following) => this.#showFollow(following),
    });
    this.#list.element.classList.add("timeline-rows");
    this.#follow.addEventListener("click", () => {
      this.#list.following = true;
      this.#list.element.focus({ preventScroll: true });
    });
    this.element = h(
      "div",
      { class: "timeline" },
      h("div", { class: "timeline-head" }, h("span", {}, "What"), h("span", { class: "number" }, "Took"), this.#axis),
      h("div", { class: "timeline-body" }, this.#grid, this.#list.element, this.#follow),
    );
    // Sizes are asked for when they change, and not with every batch: to ask lays out the page.
    const sizes = new ResizeObserver(() => {
      const { element: list } = this.#list;
      // The axis is above the rows, and ends where they do: in front of their scrollbar.
      this.element.style.setProperty("--gutter", `${list.offsetWidth - list.clientWidth - 2}px`);
      this.#axisWidth = this.#axis.clientWidth;
      this.#rescale();
    });
    sizes.observe(this.#list.element);
    const ticking = setInterval(() => {
      if (this.#isLive && !document.hidden) this.#tick();
    }, TICK_MS);
    signal.addEventListener("abort", () => {
      clearInterval(ticking);
      sizes.disconnect();
    });
  }

  /** The node that is selected, once there is one. */
  get selected() {
    const index = this.#list.active;
    return index < 0 ? undefined : this.#rows[index].node;
  }

  /** The model has taken frames. */
  took({ changed, hasNew }) {
    if (this.#model.ended !== null) this.#isLive = false;
    this.#rescale();
    if (hasNew) this.#order();
    else for (const node of changed) this.#refresh(node);
    if (!this.#isLive) this.#list.refresh();
  }

  /** Selects a node and brings it into view, unfolding what is around it. */
  reveal(node) {
    for (let around = node.parent; around !== null; around = around.parent) around.isFolded = false;
    this.#orderNow();
    this.#list.activate(node.index, { align: "middle" });
  }

  #tick() {
    if (this.#model.run === undefined) return;
    this.#rescale();
    this.#list.refresh();
  }

  #refresh(node) {
    if (this.#rows[node.index]?.node === node) this.#list.refreshRow(node.index);
  }

  #rescale() {
    const { run, lastAt, waits } = this.#model;
    if (run === undefined) return;
    const end = run.end ?? Math.max(lastAt, this.#now());
    this.#scale = new TimeScale(run.start, end, waits, this.#isLive);
    const width = this.#axisWidth;
    const marks = this.#scale.marks(Math.max(2, Math.floor(width / 110)));
    // Marks of two stretches may come close to each other at a wait between them: the later gives way.
    const shown = marks.filter(({ place }, i) => i === 0 || (place - marks[i - 1].place) * width > 44);
    const at = JSON.stringify(shown);
    if (at === this.#marksAt) return;
    this.#marksAt = at;
    const lines = shown.map(({ place }) => h("i", { vars: { left: `${place * 100}%` } }));
    // A label that would be cut off at the end is left out; its line stays.
    const labelled = shown.filter(({ place }) => (1 - place) * width > 36);
    const labels = labelled.map(({ elapsed, place }) => h("span", { vars: { left: `${place * 100}%` } }, elapsed === 0 ? "0" : duration(elapsed).replace(/\.0+ s$/, " s")));
    this.#grid.replaceChildren(...lines);
    this.#axis.replaceChildren(...labels);
    // Every bar has another place now.
    this.#list.refresh();
  }

  /** Puts the rows into order: at once, or a little later where that takes long. */
  #order() {
    const isSmallOrDone = this.#rows.length < LARGE || this.#model.ended !== null;
    const wait = isSmallOrDone ? 0 : LARGE_EVERY_MS - (performance.now() - this.#orderedAt);
    if (wait <= 0) {
      this.#orderNow();
    } else if (!this.#isWaitingToOrder) {
      this.#isWaitingToOrder = true;
      setTimeout(async () => {
        await nextPicture();
        this.#isWaitingToOrder = false;
        if (!this.#signal.aborted) this.#orderNow();
      }, wait);
    }
  }

  #orderNow() {
    const first = this.#rows[this.#list.first]?.node;
    const was = first?.index;
    const before = this.selected;
    this.#rows = rowsOf(this.#model);
    this.#orderedAt = performance.now();
    const isShown = (node) => node !== undefined && this.#rows[node.index]?.node === node;
    let active = this.#list.active;
    if (before === undefined || before.key !== this.#selected) {
      const wanted = this.#rows.find(({ node }) => node.key === this.#selected);
      active = (wanted ?? this.#rows[0])?.node.index ?? -1;
      if (this.#rows[active] !== undefined) this.#onSelect(this.#rows[active].node);
    } else {
      // What was folded away leaves its place to what is around it.
      let node = before;
      while (!isShown(node) && node.parent !== null) node = node.parent;
      active = isShown(node) ? node.index : 0;
      if (node !== before) this.#select(this.#rows[active].node);
    }
    this.element.style.setProperty("--rows", this.#rows.length);
    this.#list.reordered({ count: this.#rows.length, shift: isShown(first) ? first.index - was : 0, active });
  }

  #select(node) {
    this.#selected = node.key;
    this.#onSelect(node);
  }

  #open(index, event) {
    const { node, hasChildren } = this.#rows[index];
    const onCaret = event.target instanceof Element && event.target.closest(".timeline-caret") !== null;
    if (hasChildren && (onCaret || event.type === "keydown")) this.#fold(node, !node.isFolded);
  }

  #fold(node, isFolded) {
    node.isFolded = isFolded;
    this.#orderNow();
  }

  /** As trees have it: right opens, then goes in; left closes, then goes out. */
  #key(event, index) {
    const row = this.#rows[index];
    if (row === undefined) return;
    const { node, hasChildren } = row;
    if (event.key === "ArrowRight" && hasChildren) {
      event.preventDefault();
      if (node.isFolded) this.#fold(node, false);
      else this.#list.activate(index + 1);
    } else if (event.key === "ArrowLeft") {
      event.preventDefault();
      if (hasChildren && !node.isFolded) this.#fold(node, true);
      else this.#list.activate(this.#outer(index));
    }
  }

  /** The row that a row is inside of. */
  #outer(index) {
    const { level } = this.#rows[index];
    for (let i = index - 1; i >= 0; i -= 1) if (this.#rows[i].level < level) return i;
    return index;
  }

  #showFollow(following) {
    this.#follow.hidden = following || !this.#isLive;
  }

  #describe(index) {
    const { node, level, position, siblings, hasChildren } = this.#rows[index];
    return {
      "aria-level": level,
      "aria-posinset": position,
      "aria-setsize": siblings,
      "aria-expanded": hasChildren && String(!node.isFolded),
    };
  }

  #fill(row, index) {
    const { node, level, hasChildren } = this.#rows[index];
    const { label, caret, name, more, took, bar, early, marks, status } = row.parts;
    const look = lookOf(node);
    row.dataset.kind = look.kind;
    row.dataset.status = look.status;
    const indent = `${Math.min(level - 1, DEEPEST) * 14}px`;
    if (label.style.paddingLeft !== indent) label.style.paddingLeft = indent;
    setText(caret, hasChildren ? (node.isFolded ? "▸" : "▾") : "");
    setText(name, look.name);
    setText(more, look.more);
    setText(status, `, ${look.status}`);
    const now = node.end ?? Math.max(this.#model.lastAt, this.#now());
    setText(took, look.isPoint ? "" : duration(node.end === null ? Math.floor((now - node.start) / 100) * 100 : now - node.start));
    this.#placeBar(bar, early, node, now, look);
    this.#placeMarks(marks, node);
  }

  #placeBar(bar, early, node, now, look) {
    const from = this.#scale.place(node.start);
    const to = this.#scale.place(now);
    bar.style.left = `${from * 100}%`;
    bar.style.width = look.isPoint ? "0" : `${(to - from) * 100}%`;
    bar.className = look.isPoint ? "lane-bar point" : `lane-bar${node.end === null ? " goes-on" : ""}`;
    bar.hidden = node.type === "state";
    // The part in front of the first word is what a person waits for.
    const first = node.flow?.first ?? null;
    const share = first === null || to <= from ? 0 : (this.#scale.place(first) - from) / (to - from);
    early.hidden = node.type !== "segment" || share <= 0.02;
    early.style.width = `${share * 100}%`;
  }

  #placeMarks(marks, node) {
    marks.hidden = node.type !== "state";
    if (node.type !== "state") return;
    const places = new Set(node.changes.map(({ at }) => Math.round(this.#scale.place(at) * STATE_MARKS)));
    if (marks.childElementCount !== places.size) marks.replaceChildren(...[...places].map(() => h("i", {})));
    let mark = marks.firstElementChild;
    for (const place of places) {
      mark.style.left = `${(place / STATE_MARKS) * 100}%`;
      mark = mark.nextElementSibling;
    }
  }
}

function newRow() {
  const caret = h("span", { class: "timeline-caret", "aria-hidden": "true" });
  const name = h("span", { class: "timeline-name" });
  const more = h("span", { class: "timeline-more" });
  const status = h("span", { class: "visually-hidden" });
  const label = h("span", { class: "timeline-label" }, caret, h("span", { class: "timeline-kind", "aria-hidden": "true" }), name, more, status);
  const took = h("span", { class: "timeline-took number" });
  const early = h("span", { class: "early" });
  const bar = h("span", { class: "lane-bar" }, early);
  const marks = h("span", { class: "marks" });
  const row = h("div", {}, label, took, h("span", { class: "timeline-lane", "aria-hidden": "true" }, bar, marks));
  row.parts = { label, caret, name, more, took, bar, early, marks, status };
  return row;
}

const withModel = (segment) => segment.started.model_ref ?? segment.name ?? "";

/** What a row says of a node, in words. */
export function lookOf(node) {
  switch (node.type) {
    case "run":
      return { kind: "run", name: "run", more: "", status: node.status ?? "running" };
    case "attempt":
      return { kind: "attempt", name: `attempt ${node.number}`, more: "", status: node.status ?? "running" };
    case "wait":
      return waitLook(node);
    case "notice":
      return { kind: "notice", ...noticeWords(node.notice), status: node.notice.level, isPoint: true };
    case "error":
      return { kind: "error", name: oneLine(node.error.code), more: oneLine(node.error.message), status: "error", isPoint: true };
    case "state":
      return { kind: "state", name: "state", more: node.changes.length === 1 ? "1 change" : `${count(node.changes.length)} changes`, status: "state" };
    default:
      return segmentLook(node);
  }
}

/** What an application's own event is called is in it, and says more than its type. */
function noticeWords({ code, message, attributes }) {
  const { name, value, activityType, content, event } = Object(attributes);
  const told = (given) => (given === undefined ? "" : oneLine(JSON.stringify(given).slice(0, 400), 120));
  if (code === "agui.CUSTOM") return { name: `custom ${oneLine(String(name), 60)}`, more: told(value) };
  if (code.startsWith("agui.ACTIVITY_")) return { name: `activity ${oneLine(String(activityType), 60)}`, more: told(content) };
  if (code === "agui.RAW") return { name: "raw event", more: told(event) };
  return { name: oneLine(code), more: oneLine(message) };
}

function waitLook(node) {
  if (node.question === null) return { kind: "wait", name: "waits to try again", more: "", status: node.status ?? "waits" };
  const answered = node.answer === null ? "" : ` · ${node.answer.resolvedBy === null ? "answered" : `answered by ${oneLine(node.answer.resolvedBy, 40)}`}`;
  const what = node.question.kind === "approval" ? "waits for approval" : "waits for an answer";
  return { kind: "wait", name: what, more: `${oneLine(node.question.prompt ?? "", 120)}${answered}`, status: node.status ?? "waits" };
}

function segmentLook(node) {
  const { kind } = node;
  const tokens = node.usage === undefined ? "" : ` ${count(node.usage.input_tokens)} → ${count(node.usage.output_tokens)} tokens`;
  const status = node.status ?? "running";
  if (kind === "model") return { kind, name: `model ${oneLine(withModel(node), 60)}`, more: `${tokens} ${oneLine(node.summary, 120)}`.trim(), status };
  // Nearly every message is the assistant's.
  const isUsual = node.name === null || (kind === "message" && node.name === "assistant");
  return { kind, name: isUsual ? kind : `${kind} ${oneLine(node.name, 80)}`, more: oneLine(node.summary, 120), status };
}

/** A moment of the run, as its clock says and since its start. */
export function moment(ms, start) {
  return `${clock(ms)} (+${duration(ms - start)})`;
}
