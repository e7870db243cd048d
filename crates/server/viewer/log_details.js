// One frame, or one AG-UI event, whole.

import { copyButton } from "./copy.js";
import { fill, h } from "./dom.js";
import { bytes, clock, count, dateTime, duration } from "./format.js";
import { sinceStart, sizeOf } from "./frame_list.js";
import { jsonTree } from "./json_tree.js";
import { problemBox } from "./problem.js";
import { oneLine, said } from "./said.js";

/** A text that is longer is shown in parts: one line of many megabytes is what browsers lay out worst. */
const PART = 4000;

/** So many parts are shown at once. */
const PARTS = 25;

/** So many events of a frame are named. */
const MOST_LINKS = 8;

/** Shows what was chosen, as a tree or as the text that went over the wire. */
export class LogDetails {
  #title = h("h2", { class: "detail-name" }, "Frame");
  #links = h("div", { class: "detail-links" });
  #facts = h("dl", { class: "detail-facts" });
  #content = h("div", { class: "detail-content" });
  #body;
  /** Links the events of the frame that is shown, when they are known; whether they were. */
  #unlinked;
  #isTree = true;
  #form = h("button", { type: "button", "aria-pressed": "false", on: { click: () => this.#changeForm() } }, "As sent");
  #copy = copyButton("Copy", "JSON", () => this.#body ?? "");
  /** Grows with what is shown, so that a body which comes late is not taken for another's. */
  #turn = 0;

  constructor() {
    for (const button of [this.#form, this.#copy]) button.hidden = true;
    fill(this.#content, h("p", { class: "dim nothing" }, "Choose a frame or an event to see it whole."));
    this.element = h(
      "section",
      { class: "log-details", "aria-label": "Details" },
      h("div", { class: "detail-head" }, this.#title, this.#links, h("span", { class: "grow" }), this.#form, this.#copy),
      this.#facts,
      this.#content,
    );
    this.#content.tabIndex = 0;
    this.#content.setAttribute("role", "region");
    this.#content.setAttribute("aria-label", "JSON");
  }

  /**
   * A frame, and the events that came from it.
   *
   * @param {object} frame as `FrameList.frame` tells it
   * @param {Promise<string>} body
   * @param {() => object[] | null} events those that came from it; `null` while that is not known
   * @param {(event: object) => void} onEvent a person wants to see one of them
   */
  frame(frame, body, events, onEvent) {
    const { seq, type, segment, time, size } = frame;
    const facts = [
      ["Recorded", `${dateTime(time).slice(0, 10)} ${clock(time)}`],
      ["Time", sinceStart(frame.sinceStart)],
      ["Gap", seq === 1 ? "–" : duration(frame.sinceBefore)],
      ["Segment", segment === "" ? "none" : oneLine(segment)],
      ["Size", bytes(size)],
    ];
    this.#unlinked = () => {
      const known = events();
      if (known === null) return false;
      const links = known.slice(0, MOST_LINKS).map((event) =>
        h("button", { type: "button", class: "link", on: { click: () => onEvent(event) } }, event.id),
      );
      const more = known.length > links.length ? ` and ${count(known.length - links.length)} more` : "";
      fill(this.#links, links.length === 0 ? "no AG-UI event" : ["AG-UI ", links, more]);
      return true;
    };
    void this.#show(`Frame ${count(seq)} · ${type}`, [], facts, body);
    this.update();
  }

  /** More events are known. */
  update() {
    if (this.#unlinked?.()) this.#unlinked = undefined;
  }

  /** An AG-UI event, and the frame that it came from. */
  event(event, body, onFrame) {
    this.#unlinked = undefined;
    const link = h("button", { type: "button", class: "link", on: { click: () => onFrame(event.seq) } }, `frame ${count(event.seq)}`);
    void this.#show(`Event ${event.id} · ${oneLine(event.type, 60)}`, ["from ", link], [], body);
  }

  async #show(title, links, facts, body) {
    this.#turn += 1;
    const turn = this.#turn;
    fill(this.#title, title);
    fill(this.#links, links);
    fill(this.#facts, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    try {
      const text = await body;
      if (turn !== this.#turn) return;
      this.#body = text;
      for (const button of [this.#form, this.#copy]) button.hidden = false;
      this.#draw();
    } catch (error) {
      if (turn === this.#turn) fill(this.#content, problemBox(error));
    }
  }

  #changeForm() {
    this.#isTree = !this.#isTree;
    this.#form.setAttribute("aria-pressed", String(!this.#isTree));
    this.#draw();
  }

  #draw() {
    fill(this.#content, this.#isTree ? this.#tree() : sent(this.#body));
    this.#content.scrollTop = 0;
  }

  #tree() {
    try {
      return jsonTree(JSON.parse(this.#body), { open: 3 });
    } catch {
      return sent(this.#body);
    }
  }
}

/** The text as it was sent, in parts. */
function sent(text) {
  const place = h("div", { class: "as-sent mono" });
  const showFrom = (from) => {
    const end = Math.min(text.length, from + PART * PARTS);
    for (let at = from; at < end; at += PART) place.append(said(text.slice(at, Math.min(at + PART, end)), { class: "part" }));
    if (end === text.length) return;
    const more = h("button", { type: "button" }, `${bytes(sizeOf(text.slice(end)))} more`);
    more.addEventListener("click", () => {
      more.remove();
      showFrom(end);
    });
    place.append(more);
  };
  showFrom(0);
  return place;
}
