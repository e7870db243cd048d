// What a checker says of the run's AG-UI view: findings with the event, the frame and the page of the rule.

import { announce } from "./announce.js";
import { json, runApi } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { count } from "./format.js";
import { problemBox } from "./problem.js";
import { oneLine, said } from "./said.js";

/** Findings that are shown at once; the others on demand. */
const MOST = 50;

/** How grave each severity is; the gravest is what a frame is marked with. */
const GRAVITY = ["violation", "truncation", "warning", "advice"];

const OUTCOMES = {
  completed: "A client takes it all.",
  rejected: "A client rejects it.",
  truncated: "It stopped short: a client has a run without an outcome.",
};

/** The report, asked for when it is first looked at, and anew on demand. */
export class CheckView {
  #runId;
  #signal;
  #onEvent;
  #onFrame;
  #onChecked;
  #again = h("button", { type: "button", on: { click: () => void this.check() } }, icon("retry"), "Check again");
  #summary = h("div", { class: "check-summary" });
  #findings = h("div", { class: "check-findings" });
  #asked = false;

  /**
   * @param {object} options
   * @param {string} options.runId
   * @param {AbortSignal} options.signal
   * @param {(id: string) => void} options.onEvent a person wants to see an event
   * @param {(seq: number) => void} options.onFrame a person wants to see a frame
   * @param {(told: {findings: number, events: Map<string, string>, frames: Map<number, string>}) => void} options.onChecked
   *   how many there are, and the gravest severity of each event and frame
   */
  constructor({ runId, signal, onEvent, onFrame, onChecked }) {
    this.#runId = runId;
    this.#signal = signal;
    this.#onEvent = onEvent;
    this.#onFrame = onFrame;
    this.#onChecked = onChecked;
    this.element = h("div", { class: "check-view" }, h("div", { class: "check-head" }, this.#summary, this.#again), this.#findings);
  }

  /** Asks, unless it was asked for before. */
  checkOnce() {
    if (!this.#asked) void this.check();
  }

  async check() {
    this.#asked = true;
    this.#again.disabled = true;
    if (this.#summary.childElementCount === 0) fill(this.#summary, h("span", { class: "dim" }, "Being checked …"));
    try {
      const checked = await json(runApi(this.#runId, "/check"), { signal: this.#signal });
      this.#show(checked);
    } catch (error) {
      if (this.#signal.aborted) return;
      this.#asked = false;
      fill(this.#summary);
      fill(this.#findings, problemBox(error));
    } finally {
      this.#again.disabled = false;
    }
  }

  #show(checked) {
    const { outcome, through, ended, findings, left_out: leftOut, broken, more, events } = checked;
    const all = findings.length + more.findings;
    const words = outcome === null ? "Nothing is wrong so far." : OUTCOMES[outcome];
    const reach = `${count(events.read)} events, through frame ${count(through)}${ended ? "" : ", while the run goes on"}`;
    fill(
      this.#summary,
      h("strong", { class: "check-outcome", dataset: { outcome: outcome ?? "open" } }, words),
      h("span", { class: "dim" }, reach),
      events.reduced < events.delivered && h("span", { class: "dim" }, `messages and state were built from the first ${count(events.reduced)} events`),
    );
    fill(this.#findings);
    if (broken !== null) {
      this.#findings.append(h("div", { class: "notice-box bad" }, h("strong", {}, "The view breaks off"), said(broken)));
    }
    if (all === 0 && leftOut.length === 0 && broken === null) {
      this.#findings.append(h("p", { class: "dim nothing" }, "No findings."));
    }
    this.#append(findings.map((finding) => () => this.#finding(finding)));
    if (more.findings > 0) this.#findings.append(h("p", { class: "dim" }, `${count(more.findings)} further findings are not told.`));
    if (leftOut.length > 0) this.#leftOut(leftOut, more.left_out);
    announce(`Checked: ${words} ${count(all)} findings`);
    this.#onChecked({ findings: all + leftOut.length + more.left_out, ...marksOf(findings, leftOut) });
  }

  /** Shows what `make` makes, so many at a time. */
  #append(makers) {
    const place = h("div", { class: "check-list" });
    const showFrom = (from) => {
      const end = Math.min(makers.length, from + MOST);
      for (const make of makers.slice(from, end)) place.append(make());
      if (end === makers.length) return;
      const more = h("button", { type: "button" }, `${count(makers.length - end)} more`);
      more.addEventListener("click", () => {
        more.remove();
        showFrom(end);
        place.children[end]?.querySelector("a, button")?.focus();
      });
      place.append(more);
    };
    showFrom(0);
    this.#findings.append(place);
  }

  #finding(finding) {
    const { rule, severity, message, id, event, path, page, expected, found, contradicts, excerpt } = finding;
    const facts = [
      ["Expected", said(expected)],
      ["Came", said(found)],
      ["At", path !== null && h("code", {}, oneLine(path))],
      ["Earlier", contradicts !== null && [this.#place(contradicts.id, contradicts.event), " ", said(contradicts.what)]],
      ["Event", excerpt !== null && said(excerpt, { class: "mono" })],
    ];
    return h(
      "article",
      { class: "finding", dataset: { severity } },
      h(
        "div",
        { class: "finding-head" },
        h("span", { class: "severity" }, severity),
        // The pages of the specification are on the web; nothing is asked there until a person goes.
        h("a", { href: page, target: "_blank", rel: "noreferrer noopener", class: "mono", title: "The rule's page" }, rule),
        this.#place(id, event),
      ),
      said(message, {}, "p"),
      h("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    );
  }

  /** A way to an event; to nothing for one that did not come. */
  #place(id, event) {
    if (id === null) return h("span", { class: "dim" }, `event ${count(event)}, which did not come`);
    return h("button", { type: "button", class: "link", on: { click: () => this.#onEvent(id) } }, `event ${id}`);
  }

  #leftOut(leftOut, more) {
    this.#findings.append(h("h2", {}, "In the log, and not told to AG-UI clients"));
    this.#append(
      leftOut.map(({ seq, message }) => () => {
        const link = h("button", { type: "button", class: "link", on: { click: () => this.#onFrame(seq) } }, `frame ${count(seq)}`);
        return h("article", { class: "finding", dataset: { severity: "warning" } }, h("div", { class: "finding-head" }, link), said(message, {}, "p"));
      }),
    );
    if (more > 0) this.#findings.append(h("p", { class: "dim" }, `${count(more)} more are not told.`));
  }
}

/** The gravest severity of each event and each frame. */
function marksOf(findings, leftOut) {
  const events = new Map();
  const frames = new Map();
  const mark = (map, key, severity) => {
    const known = map.get(key);
    if (known === undefined || GRAVITY.indexOf(severity) < GRAVITY.indexOf(known)) map.set(key, severity);
  };
  for (const { id, severity } of findings) {
    if (id === null) continue;
    mark(events, id, severity);
    mark(frames, Number(id.split(".")[0]), severity);
  }
  for (const { seq } of leftOut) mark(frames, seq, "warning");
  return { events, frames };
}
