// How the page stands to the run that it follows: live, behind by so many frames, resuming, ended.

import { h, setText } from "./dom.js";
import { count } from "./format.js";

/** So many frames may be on their way without the page counting as behind. */
const BEHIND_FROM = 200;

/**
 * A line that shows it. What changes many times a second is only to be seen; what changes the state is also said.
 *
 * It is told by `status()` what `followRun` says, and by `progress()` how far the page is and how far the run.
 */
export class Connection {
  #word = h("span", { class: "connection-word" }, "connecting");
  #more = h("span", { class: "connection-more" });
  #spoken = h("span", { class: "visually-hidden", role: "status" });
  #state = "connecting";
  #detail = "";
  #cursor = 0;
  #head = 0;
  #resumedAt;

  constructor() {
    this.element = h(
      "span",
      { class: "connection", dataset: { state: "connecting" } },
      h("span", { class: "dot", "aria-hidden": "true" }),
      h("span", { "aria-hidden": "true" }, this.#word, this.#more),
      this.#spoken,
    );
  }

  /** One of `connecting`, `waiting`, `live`, `behind`, `resuming`, `paused`, `ended`, `failed`. */
  get state() {
    return this.#state;
  }

  /** Takes a status of `followRun`. */
  status(status) {
    if (status.state === "live") {
      this.#detail = "";
      this.#show(this.#isBehind() ? "behind" : "live");
    } else if (status.state === "resuming") {
      const seconds = Math.ceil(status.retryInMs / 1000);
      this.#detail = `${status.reason}; next try in ${seconds} s`;
      this.#show("resuming");
    } else if (status.state === "ended") {
      this.#detail = "";
      this.#show("ended");
    }
  }

  /** The page has frames up to `cursor`, and the run up to `head`, as far as is known. */
  progress({ cursor = this.#cursor, head = this.#head }) {
    this.#cursor = cursor;
    this.#head = Math.max(head, cursor);
    if (this.#state === "live" || this.#state === "behind") this.#show(this.#isBehind() ? "behind" : "live");
    else this.#write();
  }

  /** The page had been here before, and goes on behind this frame. */
  resumedAt(seq) {
    this.#resumedAt = seq;
    this.#write();
  }

  /** Nothing is followed while nobody looks. */
  paused() {
    this.#detail = "while this tab is in the background";
    this.#show("paused");
  }

  /** There is nothing to follow yet. */
  waiting() {
    this.#detail = "";
    this.#show("waiting");
  }

  /** Following was given up. */
  failed(message) {
    this.#detail = message;
    this.#show("failed");
  }

  #isBehind() {
    return this.#head - this.#cursor >= BEHIND_FROM;
  }

  #show(state) {
    const changed = state !== this.#state;
    this.#state = state;
    this.element.dataset.state = state;
    this.#write();
    if (changed) setText(this.#spoken, `Connection: ${state}${this.#detail === "" ? "" : `, ${this.#detail}`}`);
  }

  #write() {
    const behind = this.#state === "behind" ? ` by ${count(this.#head - this.#cursor)}` : "";
    setText(this.#word, `${this.#state}${behind}`);
    const at = this.#cursor > 0 && this.#state !== "behind" ? ` · frame ${count(this.#cursor)}` : "";
    const resumed = this.#resumedAt === undefined ? "" : ` · resumed at frame ${count(this.#resumedAt)}`;
    setText(this.#more, `${this.#detail === "" ? "" : ` · ${this.#detail}`}${at}${resumed}`);
  }
}
