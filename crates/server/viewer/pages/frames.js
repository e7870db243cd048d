// A run's raw log: its frames, the AG-UI events that come from them beside it, and what a checker says of these.

import { announce } from "../announce.js";
import { json, runApi, runPage } from "../api.js";
import { CheckView } from "../check_view.js";
import { Connection } from "../connection.js";
import { fill, h, icon, setAttribute, setText } from "../dom.js";
import { EventList } from "../event_list.js";
import { followFrames } from "../follow.js";
import { count } from "../format.js";
import { FrameList, TYPES, shownOf } from "../frame_list.js";
import { LogDetails } from "../log_details.js";
import { oncePerPicture } from "../pacing.js";
import { problemBox } from "../problem.js";
import { oneLine } from "../said.js";
import { searchFor } from "../sieve.js";
import { tabs } from "../tabs.js";

/** A longer log is checked when a person asks for it. */
const MOST_CHECKED = 250_000;

/** A search begins when nothing was typed for so long, in milliseconds. */
const TYPING_MS = 250;

export async function mount(root, context) {
  const { params, title, signal } = context;
  title(`Frames of ${params.id}`);
  fill(root, h("h1", { class: "run-title" }, "Frames of ", h("span", { class: "mono" }, oneLine(params.id))));
  const record = await json(runApi(params.id), { signal });
  new FramesPage(root, record, context).start();
}

class FramesPage {
  #record;
  #context;
  #connection = new Connection();
  #status = h("span", { class: "status" });
  #frames;
  #events;
  #check;
  #details = new LogDetails();
  #problem = h("div", {});
  #eventProblem = h("div", {});
  #shown = h("span", { class: "dim shown" });
  #eventsLabel = h("span", {}, "AG-UI events");
  #checkLabel = h("span", {}, "Check");
  #tabs;
  #types = new Set();
  #text = "";
  #typeButtons = TYPES.map((type) => {
    const number = h("span", { class: "chip-count" });
    const button = h("button", { type: "button", class: "chip", hidden: true, "aria-pressed": "false", on: { click: () => this.#toggle(type) } }, type, number);
    return { type, button, number };
  });
  #allTypes = h("button", { type: "button", class: "chip", "aria-pressed": "true", on: { click: () => this.#setTypes(new Set()) } }, "All");
  #search = h("input", { id: "frames-search", type: "search", placeholder: "Text in a frame", spellcheck: "false", autocomplete: "off" });
  #jump = h("input", { id: "frames-jump", type: "text", inputmode: "numeric", size: 7, placeholder: "Seq", autocomplete: "off" });
  #follow = h("button", { type: "button", "aria-pressed": "false", on: { click: () => this.#setFollowing(!this.#frames.following) } }, icon("down"), "Follow the end");
  #update;
  /** What the address asks for and is not there yet. */
  #wanted;

  constructor(root, record, context) {
    this.#record = record;
    this.#context = context;
    const { signal, query } = context;
    const runId = record.run_id;
    this.#update = oncePerPicture(() => this.#showCounts(), signal);
    this.#frames = new FrameList({
      runId,
      signal,
      onSelect: (seq) => this.#showFrame(seq),
      onChange: () => this.#update(),
      onFollowing: (following) => setAttribute(this.#follow, "aria-pressed", String(following)),
      onFailure: (error) => fill(this.#problem, problemBox(error, { again: () => this.#filter() })),
    });
    this.#events = new EventList({ runId, signal, onSelect: (event) => this.#showEvent(event), onChange: () => this.#update() });
    this.#check = new CheckView({
      runId,
      signal,
      onEvent: (id) => this.#goToEvent(id),
      onFrame: (seq) => this.#goTo(seq),
      onChecked: (told) => this.#checked(told),
    });
    fill(root, this.#head(), this.#problem, this.#toolbar(), this.#split(query.get("side") === "check" ? "check" : "events"));
    this.#read(query);
    this.#wanted = { seq: Number(query.get("seq")) || 0, event: query.get("event") };
    // Who comes to a run that goes on wants to see it go on, unless they were sent to a frame.
    const isLive = record.ended_at === null;
    if (isLive && this.#wanted.seq === 0 && this.#wanted.event === null) this.#setFollowing(true);
    this.#showStatus(record.status);
    context.onQuery((now) => this.#went(now));
  }

  start() {
    const { signal } = this.#context;
    const runId = this.#record.run_id;
    this.#connection.progress({ head: this.#record.head });
    const frames = followFrames({ runId, signal, connection: this.#connection, take: (some) => this.#take(some) });
    frames.catch((error) => {
      if (!signal.aborted) fill(this.#problem, problemBox(error, { again: () => location.reload() }));
    });
    this.#events.follow().catch((error) => {
      if (!signal.aborted) fill(this.#eventProblem, problemBox(error, { again: () => location.reload() }));
    });
  }

  #head() {
    const { run_id: id } = this.#record;
    return h(
      "div",
      { class: "run-line" },
      h("h1", { class: "run-title" }, "Frames of ", h("span", { class: "mono" }, oneLine(id))),
      this.#status,
      this.#connection.element,
      h("span", { class: "grow" }),
      h("a", { class: "button", href: runPage(id) }, icon("play"), "Run"),
    );
  }

  #toolbar() {
    let typing;
    this.#search.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.#setText(this.#search.value), TYPING_MS);
    });
    this.#context.signal.addEventListener("abort", () => clearTimeout(typing));
    const jump = (event) => {
      event.preventDefault();
      const seq = Number(this.#jump.value.replace(/\D/g, ""));
      if (seq > 0) this.#goTo(seq);
    };
    return h(
      "div",
      { class: "filters" },
      h("div", { class: "chips", role: "group", "aria-label": "Types" }, this.#allTypes, this.#typeButtons.map(({ button }) => button)),
      h("span", { class: "field" }, h("label", { for: "frames-search", class: "visually-hidden" }, "Search in frames"), this.#search),
      h(
        "form",
        { class: "field", on: { submit: jump } },
        h("label", { for: "frames-jump", class: "visually-hidden" }, "Go to frame"),
        this.#jump,
        h("button", { type: "submit" }, "Go"),
      ),
      this.#follow,
      h("span", { class: "grow" }),
      this.#shown,
    );
  }

  #split(side) {
    const events = h("div", { class: "side-panel" }, this.#eventProblem, this.#events.element);
    const check = h("div", { class: "side-panel" }, this.#check.element);
    this.#tabs = tabs({
      label: "Beside the log",
      tabs: [
        { id: "events", label: this.#eventsLabel, panel: events },
        { id: "check", label: this.#checkLabel, panel: check },
      ],
      chosen: side,
      onChoose: (id) => {
        this.#context.setQuery({ side: id === "events" ? null : id });
        if (id === "check") this.#check.checkOnce();
      },
    });
    if (side === "check") this.#check.checkOnce();
    return h(
      "div",
      { class: "frames-split" },
      this.#frames.element,
      h("div", { class: "frames-side" }, h("div", { class: "side-box" }, this.#tabs.list, events, check), this.#details.element),
    );
  }

  #take(frames) {
    this.#frames.take(frames);
    for (const { type, data } of frames) if (type === "run.status") this.#showStatus(data.status);
    const last = frames[frames.length - 1];
    this.#showWanted();
    if (last.type === "run.end") {
      this.#showStatus(last.data.status);
      if (this.#record.ended_at === null) announce(`The run has ended: ${last.data.status}`);
      // A log that is complete does not change, so neither does what is said of it. A very long one is work for the server.
      if (this.#frames.count <= MOST_CHECKED) void this.#check.check();
    }
  }

  /** Shows what the address asks for, as soon as it has come. */
  #showWanted() {
    const { seq, event } = this.#wanted;
    if (seq > 0 && this.#frames.count >= seq) {
      this.#wanted.seq = 0;
      this.#frames.select(seq);
    }
    if (event !== null && this.#events.byId(event) !== undefined) {
      this.#wanted.event = null;
      this.#events.select(this.#events.byId(event).row);
    }
  }

  #showStatus(status) {
    setText(this.#status, status);
    this.#status.dataset.status = status;
  }

  #showCounts() {
    const { counts } = this.#frames;
    this.#typeButtons.forEach(({ type, button, number }, i) => {
      button.hidden = counts[i] === 0 && !this.#types.has(type);
      setText(number, count(counts[i]));
    });
    setText(this.#shown, shownOf(this.#frames.shown, this.#frames.count, "frames"));
    setText(this.#eventsLabel, `AG-UI events ${count(this.#events.count)}`);
    this.#details.update();
    this.#showWanted();
  }

  // What is shown, and what the address says of it.

  #read(query) {
    const given = (query.get("type") ?? "").split(",").filter((type) => TYPES.includes(type));
    this.#types = new Set(given);
    this.#text = query.get("q") ?? "";
    if (document.activeElement !== this.#search) this.#search.value = this.#text;
    this.#filter();
  }

  #went(query) {
    this.#read(query);
    this.#tabs.choose(query.get("side") === "check" ? "check" : "events");
    this.#wanted = { seq: Number(query.get("seq")) || 0, event: query.get("event") };
    this.#showWanted();
  }

  #toggle(type) {
    const types = new Set(this.#types);
    if (!types.delete(type)) types.add(type);
    this.#setTypes(types);
  }

  #setTypes(types) {
    this.#types = types;
    this.#context.setQuery({ type: [...types].join(",") }, { push: true });
    this.#filter();
  }

  #setText(text) {
    if (text === this.#text) return;
    this.#text = text;
    this.#context.setQuery({ q: text }, { push: true });
    this.#filter();
  }

  #filter() {
    fill(this.#problem);
    setAttribute(this.#allTypes, "aria-pressed", String(this.#types.size === 0));
    for (const { type, button } of this.#typeButtons) setAttribute(button, "aria-pressed", String(this.#types.has(type)));
    this.#frames.filter(this.#types, searchFor(this.#text));
  }

  #setFollowing(following) {
    this.#frames.following = following;
    this.#events.following = following;
  }

  // One thing chosen shows the other side of it.

  #showFrame(seq) {
    const events = () => (this.#events.hasRead(seq) ? this.#events.ofFrame(seq) : null);
    this.#events.link(seq);
    this.#context.setQuery({ seq: String(seq), event: null });
    this.#details.frame(this.#frames.frame(seq), this.#frames.body(seq), events, (event) => this.#goToEvent(event.id));
  }

  #showEvent(event) {
    this.#frames.link(event.seq);
    this.#context.setQuery({ seq: null, event: event.id });
    this.#details.event(event, this.#events.body(event.row), (seq) => this.#goTo(seq));
  }

  #goTo(seq) {
    if (seq > this.#frames.count) {
      announce(`There is no frame ${count(seq)} yet`);
      setAttribute(this.#jump, "aria-invalid", "true");
      return;
    }
    setAttribute(this.#jump, "aria-invalid", null);
    const found = this.#frames.select(seq);
    if (found !== seq) announce(found === 0 ? "The filter shows no frame" : `Frame ${count(seq)} is not shown by the filter; this is ${count(found)}`);
    else this.#showFrame(seq);
    this.#frames.focus();
  }

  #goToEvent(id) {
    const event = this.#events.byId(id);
    if (event === undefined) return;
    this.#tabs.choose("events");
    this.#events.select(event.row);
    this.#showEvent(event);
  }

  #checked({ findings, events, frames }) {
    setText(this.#checkLabel, findings === 0 ? "Check" : `Check ${count(findings)}`);
    this.#events.mark(events);
    this.#frames.mark(frames);
  }
}
