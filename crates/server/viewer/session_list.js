// The conversations that there are, by their newest runs.

import { chatPage, json } from "./api.js";
import { fill, h, setAttribute, setText } from "./dom.js";
import { age, dateTime } from "./format.js";
import { shown, wait } from "./pacing.js";
import { oneLine } from "./said.js";

/** So many runs are looked at. */
const RUNS = 300;

/** How often it is asked for, in milliseconds. */
const EVERY_MS = 4000;

export class SessionList {
  #signal;
  #current;
  #rows = new Map();
  #list = h("ul", { class: "session-list" });
  #message = h("p", { class: "dim" });
  element = h("nav", { "aria-label": "Conversations" }, this.#list, this.#message);

  /** @param {{current?: string, signal: AbortSignal}} what `current` is the session that the page shows */
  constructor({ current, signal }) {
    this.#current = current;
    this.#signal = signal;
    void this.#keepUpToDate();
  }

  async #keepUpToDate() {
    while (!this.#signal.aborted) {
      await shown(this.#signal);
      if (this.#signal.aborted) return;
      try {
        const { runs } = await json(`/v2/runs?limit=${RUNS}`, { signal: this.#signal });
        this.#show(runs);
      } catch (error) {
        if (this.#signal.aborted) return;
        setText(this.#message, `The list cannot be had: ${error.message}`);
      }
      await wait(EVERY_MS, this.#signal);
    }
  }

  /** @param {object[]} runs newest first */
  #show(runs) {
    const sessions = new Map();
    for (const run of runs) {
      const known = sessions.get(run.session_id);
      if (known === undefined) sessions.set(run.session_id, { newest: run, first: run, runs: 1 });
      else Object.assign(known, { first: run, runs: known.runs + 1 });
    }
    for (const gone of this.#rows.keys()) if (!sessions.has(gone)) this.#rows.delete(gone);
    const rows = [...sessions.values()].map((session) => this.#row(session));
    setText(this.#message, rows.length === 0 ? "There is none yet." : "");
    // Rows that stay where they are are not touched: one of them may have the focus.
    const isSame = rows.length === this.#list.children.length && rows.every((row, i) => row === this.#list.children[i]);
    if (isSame) return;
    const focused = this.#list.contains(document.activeElement) ? document.activeElement : null;
    fill(this.#list, rows);
    focused?.focus({ preventScroll: true });
  }

  #row({ newest, first, runs }) {
    let row = this.#rows.get(newest.session_id);
    if (row === undefined) {
      const parts = {
        status: h("span", { class: "status", title: "" }),
        agent: h("span", { class: "session-agent" }),
        facts: h("span", { class: "dim session-facts" }),
        about: h("span", { class: "dim session-about", dir: "auto" }),
      };
      const link = h("a", {}, h("span", { class: "session-line" }, parts.status, parts.agent, parts.facts), parts.about);
      row = { ...parts, link, element: h("li", {}, link) };
      this.#rows.set(newest.session_id, row);
    }
    setAttribute(row.link, "href", chatPage(newest.agent_id, newest.session_id));
    setAttribute(row.link, "aria-current", newest.session_id === this.#current && "page");
    setText(row.agent, oneLine(newest.agent_id, 60));
    // A conversation is known by what it began with, as far as that is still in the list.
    setText(row.about, oneLine(first.prompt ?? newest.session_id, 80));
    setAttribute(row.about, "title", oneLine(newest.session_id, 80));
    row.status.dataset.status = newest.status;
    setAttribute(row.status, "title", newest.status);
    setText(row.facts, `${runs === 1 ? "1 run" : `${runs} runs`} · ${age(newest.created_at)}`);
    setAttribute(row.facts, "title", dateTime(newest.created_at));
    return row.element;
  }
}
