// The list of runs: newest first, by itself up to date, with its filters in the address.

import { announce } from "../announce.js";
import { about, json, runPage } from "../api.js";
import { add, fill, h, icon, setAttribute, setText } from "../dom.js";
import { UNKNOWN, age, cost, count, dateTime, duration, tokens } from "../format.js";
import { shown, wait } from "../pacing.js";
import { problemBox } from "../problem.js";
import { oneLine } from "../said.js";

const PAGE = 50;

/** As many are asked for at once at most, which is what the server gives. */
const MOST = 1000;

/** How often the list is asked for while something goes on in it, and while nothing does, in milliseconds. */
const BUSY_MS = 1500;
const QUIET_MS = 4000;

/** The statuses that a person looks for, in the words of a filter. */
const STATUS_FILTERS = [
  ["", "All"],
  ["queued,running,retrying,cancelling", "Going on"],
  ["suspended", "Waiting"],
  ["completed", "Completed"],
  ["failed", "Failed"],
  ["cancelled", "Cancelled"],
];

const FILTERS = ["status", "agent_id", "session_id", "run_id", "prompt"];

/** A search has so many characters, or is none yet. */
const LEAST_SEARCHED = 3;

const COLUMNS = [
  ["status", "Status"],
  ["run", "Run"],
  ["agent", "Agent"],
  ["session", "Session"],
  ["lane", "Lane"],
  ["attempt", "Attempt"],
  ["age", "Age"],
  ["took", "Duration"],
  ["tokens", "Tokens in / out"],
  ["cost", "Cost"],
];

const NUMBERS = new Set(["attempt", "age", "took", "tokens", "cost"]);

export async function mount(root, { query, setQuery, onQuery, title, navigate, signal }) {
  title("Runs");
  const page = new RunsPage({ query, setQuery, navigate, signal });
  onQuery((query) => page.filterBy(query));
  fill(root, page.element);
  page.start();
}

class RunsPage {
  #signal;
  #setQuery;
  #navigate;
  #filters = {};
  #rows = new Map();
  #order = [];
  #next = null;
  #known = PAGE;
  /** Aborted when the filters change: what is underway is of no use then. */
  #loading = new AbortController();
  #body = h("tbody", { role: "rowgroup" });
  #table = h("table", { class: "runs", role: "table", "aria-label": "Runs" });
  #message = h("div", { class: "runs-message" });
  #older = h("button", { type: "button", hidden: true, on: { click: () => void this.#loadOlder() } }, icon("down"), "Older runs");
  #statusButtons = new Map();
  #agent = h("select", { id: "filter-agent", on: { change: () => this.#change({ agent_id: this.#agent.value }) } });
  #session = h("input", { id: "filter-session", type: "search", size: 16, placeholder: "its whole id", spellcheck: "false" });
  #search = h("input", { id: "filter-search", type: "search", size: 22, placeholder: "in prompts, or an id", spellcheck: "false" });
  #newAgent = h("select", { id: "new-agent", required: true });
  #prompt = h("input", { id: "new-prompt", type: "text", required: true, autocomplete: "off", placeholder: "What should it do?" });
  #startButton = h("button", { type: "submit", class: "primary" }, icon("play"), "Start");
  #startProblem = h("div", {});

  constructor({ query, setQuery, navigate, signal }) {
    this.#signal = signal;
    this.#setQuery = setQuery;
    this.#navigate = navigate;
    for (const [status, label] of STATUS_FILTERS) {
      const button = h("button", { type: "button", class: "chip", on: { click: () => this.#change({ status }) } }, label);
      this.#statusButtons.set(status, button);
    }
    for (const [input, changes] of [[this.#session, (value) => ({ session_id: value })], [this.#search, searched]]) {
      let typing;
      input.addEventListener("input", () => {
        clearTimeout(typing);
        typing = setTimeout(() => this.#change(changes(input.value.trim())), 300);
      });
      signal.addEventListener("abort", () => clearTimeout(typing));
    }
    const head = COLUMNS.map(([name, label]) => h("th", { role: "columnheader", scope: "col", class: `of-${name}` }, label));
    add(this.#table, [h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)), this.#body]);
    this.element = h(
      "div",
      { class: "runs-page" },
      h("h1", { class: "visually-hidden" }, "Runs"),
      h(
        "form",
        { class: "new-run", "aria-label": "New run", on: { submit: (event) => this.#create(event) } },
        h("label", { for: "new-agent", class: "visually-hidden" }, "Agent"),
        this.#newAgent,
        h("label", { for: "new-prompt", class: "visually-hidden" }, "Prompt"),
        this.#prompt,
        this.#startButton,
      ),
      this.#startProblem,
      h(
        "div",
        { class: "filters", role: "group", "aria-label": "Filters" },
        h("div", { class: "chips", role: "group", "aria-label": "Status" }, [...this.#statusButtons.values()]),
        h("span", { class: "field" }, h("label", { for: "filter-agent" }, "Agent"), this.#agent),
        h("span", { class: "field" }, h("label", { for: "filter-session" }, "Session"), this.#session),
        h("span", { class: "field" }, h("label", { for: "filter-search" }, "Search"), this.#search),
      ),
      h("div", { class: "table-box" }, this.#table),
      this.#message,
      this.#older,
    );
    this.#read(query);
  }

  start() {
    void this.#fillAgents();
    void this.#keepUpToDate();
    const ticking = setInterval(() => {
      if (!document.hidden) this.#tick();
    }, 1000);
    this.#signal.addEventListener("abort", () => {
      clearInterval(ticking);
      this.#loading.abort();
    });
  }

  /** Takes the filters of an address. */
  filterBy(query) {
    this.#read(query);
    this.#reload();
  }

  #read(query) {
    this.#filters = {};
    for (const name of FILTERS) {
      const value = query.get(name) ?? "";
      if (value !== "") this.#filters[name] = value;
    }
    for (const [status, button] of this.#statusButtons) {
      setAttribute(button, "aria-pressed", String((this.#filters.status ?? "") === status));
    }
    const { session_id: session = "", run_id: id, prompt = "" } = this.#filters;
    for (const [input, value] of [[this.#session, session], [this.#search, id ?? prompt]]) {
      if (document.activeElement !== input) input.value = value;
    }
    this.#chooseAgent();
  }

  #change(changes) {
    if (Object.entries(changes).every(([name, value]) => (this.#filters[name] ?? "") === value)) return;
    this.#setQuery(changes, { push: true });
    this.filterBy(new URLSearchParams(location.search));
  }

  #reload() {
    this.#loading.abort();
    this.#known = PAGE;
    this.#next = null;
    for (const run of this.#rows.values()) run.row.remove();
    this.#rows.clear();
    this.#order = [];
    fill(this.#message);
    this.#older.hidden = true;
    void this.#keepUpToDate();
  }

  /** Agents may also be in the list that the server does not have any more, so the filter keeps what the address says. */
  #chooseAgent() {
    const wanted = this.#filters.agent_id ?? "";
    if (![...this.#agent.options].some((option) => option.value === wanted)) {
      this.#agent.append(h("option", { value: wanted }, wanted === "" ? "any" : oneLine(wanted)));
    }
    this.#agent.value = wanted;
  }

  async #fillAgents() {
    const { agents } = await about(this.#signal).catch((error) => {
      if (!this.#signal.aborted) fill(this.#startProblem, problemBox(error));
      return { agents: null };
    });
    if (this.#signal.aborted) return;
    const option = ({ agent_id: id, description }) => {
      const told = description ? ` – ${oneLine(description, 60)}` : "";
      return h("option", { value: id }, `${oneLine(id)}${told}`);
    };
    fill(this.#newAgent, (agents ?? []).map(option));
    fill(this.#agent, h("option", { value: "" }, "any"), (agents ?? []).map(({ agent_id: id }) => h("option", { value: id }, oneLine(id))));
    this.#chooseAgent();
    for (const control of [this.#newAgent, this.#prompt, this.#startButton]) control.disabled = (agents ?? []).length === 0;
  }

  async #create(event) {
    event.preventDefault();
    this.#startButton.disabled = true;
    fill(this.#startProblem);
    try {
      const body = { agent_id: this.#newAgent.value, prompt: this.#prompt.value };
      const run = await json("/v2/runs", { method: "POST", body, signal: this.#signal });
      this.#navigate(runPage(run.run_id));
    } catch (error) {
      if (!this.#signal.aborted) fill(this.#startProblem, problemBox(error));
    } finally {
      this.#startButton.disabled = false;
    }
  }

  /** Asks again and again, while the page is shown and the filters are these. */
  async #keepUpToDate() {
    const loading = new AbortController();
    this.#loading = loading;
    const { signal } = loading;
    let failures = 0;
    while (!signal.aborted) {
      await shown(signal);
      if (signal.aborted) return;
      try {
        const { runs, next } = await this.#ask({ limit: this.#extent() }, signal);
        if (signal.aborted) return;
        this.#take(runs, next);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        failures += 1;
        fill(this.#message, problemBox(error, { again: () => this.#reload() }));
        // A token that nobody enters, or a filter that the server does not know, is not repaired by asking.
        if (error.status >= 400 && error.status < 500) return;
      }
      const busy = this.#order.some((id) => this.#rows.get(id).record.ended_at === null);
      const pace = this.#order.length > 4 * PAGE ? 4 : 1;
      await wait(Math.min(30_000, pace * (busy ? BUSY_MS : QUIET_MS) * 2 ** Math.min(failures, 4)), signal);
    }
  }

  /** As many runs as can have changed: all those shown when one further down goes on, otherwise the first page. */
  #extent() {
    const last = this.#order.findLastIndex((id) => this.#rows.get(id).record.ended_at === null);
    return Math.min(MOST, Math.max(PAGE, last + 1));
  }

  #ask(more, signal) {
    const query = new URLSearchParams({ ...this.#filters, ...more });
    return json(`/v2/runs?${query}`, { signal });
  }

  async #loadOlder() {
    this.#older.disabled = true;
    const { signal } = this.#loading;
    try {
      const { runs, next } = await this.#ask({ limit: PAGE, before: this.#next }, signal);
      if (signal.aborted) return;
      this.#next = next;
      for (const record of runs) this.#put(record);
      this.#place([...this.#order, ...runs.map((record) => record.run_id)]);
      this.#rows.get(runs[0]?.run_id)?.link.focus({ preventScroll: true });
      announce(`${runs.length} older runs`);
    } catch (error) {
      if (!signal.aborted) fill(this.#message, problemBox(error));
    } finally {
      this.#older.disabled = false;
      this.#older.hidden = this.#next === null;
    }
  }

  /** What the newest runs are now. What is older than the last of them, and was shown, stays. */
  #take(runs, next) {
    const last = runs[runs.length - 1];
    const fresh = new Set(runs.map((record) => record.run_id));
    const isOlder = (record) =>
      next !== null &&
      (record.created_at < last.created_at || (record.created_at === last.created_at && record.run_id < last.run_id));
    const kept = this.#order.filter((id) => !fresh.has(id) && isOlder(this.#rows.get(id).record));
    for (const record of runs) this.#put(record);
    if (kept.length === 0) this.#next = next;
    this.#place([...runs.map((record) => record.run_id), ...kept]);
    this.#older.hidden = this.#next === null;
    if (this.#order.length > 0) fill(this.#message);
    else if (this.#message.dataset.empty !== "true" || this.#message.childElementCount === 0) fill(this.#message, this.#nothing());
  }

  #nothing() {
    const filtered = Object.keys(this.#filters).length > 0;
    return h("p", { class: "dim nothing" }, filtered ? "No run fits these filters." : "No runs yet. Start one above, or by POST /v2/runs.");
  }

  /** Puts the rows into this order, moving only those that are somewhere else, and takes away the others. */
  #place(order) {
    const wanted = new Set(order);
    for (const [id, { row, link }] of this.#rows) {
      if (wanted.has(id)) continue;
      if (document.activeElement === link) {
        const neighbour = row.nextElementSibling ?? row.previousElementSibling;
        neighbour?.querySelector("a")?.focus({ preventScroll: true });
      }
      row.remove();
      this.#rows.delete(id);
    }
    this.#order = [...wanted];
    let at = this.#body.firstElementChild;
    for (const id of this.#order) {
      const { row } = this.#rows.get(id);
      if (row === at) at = at.nextElementSibling;
      else this.#body.insertBefore(row, at);
    }
  }

  #put(record) {
    let run = this.#rows.get(record.run_id);
    if (run === undefined) {
      run = newRow(record);
      this.#rows.set(record.run_id, run);
    }
    run.record = record;
    show(run);
  }

  #tick() {
    for (const run of this.#rows.values()) showTimes(run);
  }
}

/** What is searched for: a run by its id, or by what it was asked. */
function searched(text) {
  if (text.startsWith("run_")) return { run_id: text, prompt: "" };
  return { run_id: "", prompt: [...text].length < LEAST_SEARCHED ? "" : text };
}

function newRow(record) {
  const cells = {};
  for (const [name] of COLUMNS) {
    cells[name] = h("td", { role: "cell", class: `of-${name}${NUMBERS.has(name) ? " number" : ""}` });
  }
  const { run_id: id, prompt } = record;
  const link = h("a", { href: runPage(id), class: `run-link${prompt ? "" : " mono"}`, dir: "auto", title: id }, prompt ? oneLine(prompt) : id);
  const status = h("span", { class: "status" });
  cells.status.append(status);
  // The end of an id tells runs of the same moment apart; a search takes the whole.
  cells.run.append(h("span", { class: "run-cell" }, link, prompt && h("span", { class: "mono dim", title: id }, `…${id.slice(-6)}`)));
  return { record, cells, status, link, row: h("tr", { role: "row" }, Object.values(cells)) };
}

/** Shows a record in its row; only what changed is written. */
function show(run) {
  const { record, cells, status } = run;
  setText(status, record.status);
  status.dataset.status = record.status;
  setAttribute(status, "title", record.failure && `${record.failure.code}: ${oneLine(record.failure.detail ?? "")}`);
  setText(cells.agent, oneLine(record.agent_id));
  setText(cells.session, oneLine(record.session_id));
  setAttribute(cells.session, "title", oneLine(record.session_id));
  setText(cells.lane, oneLine(record.lane));
  setText(cells.attempt, record.attempt === 0 ? UNKNOWN : String(record.attempt));
  const { input, output } = tokens(record.usage);
  setText(cells.tokens, input === undefined && output === undefined ? UNKNOWN : `${count(input)} / ${count(output)}`);
  setText(cells.cost, cost(record.cost));
  showTimes(run);
}

function showTimes({ record, cells }) {
  setText(cells.age, age(record.created_at));
  setAttribute(cells.age, "title", dateTime(record.created_at));
  const end = record.ended_at ?? Date.now();
  // What goes on is shown in whole seconds: tenths that are always wrong say nothing.
  const took = record.started_at === null ? null : Math.max(0, end - record.started_at);
  setText(cells.took, record.ended_at === null && took !== null ? duration(Math.floor(took / 1000) * 1000).replace(/\.0+ s$/, " s") : duration(took));
}
