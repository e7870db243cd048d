// One run: its timeline and everything about it, live while it goes on.

import { announce } from "../announce.js";
import { answerForm } from "../answer_form.js";
import { ApiError, chatPage, json, request, runApi, runPage } from "../api.js";
import { Connection } from "../connection.js";
import { copyButton, curl } from "../copy.js";
import { fill, h, icon, setText } from "../dom.js";
import { UNKNOWN, cost, count, dateTime, duration, tokens } from "../format.js";
import { followFrames } from "../follow.js";
import { problemBox } from "../problem.js";
import { routeOf } from "../routes.js";
import { detailsOf } from "../run_details.js";
import { RunModel } from "../run_model.js";
import { oneLine } from "../said.js";
import { Timeline } from "../timeline.js";

/** A clock that differs by less is that of the same second. */
const SAME_CLOCK_MS = 2000;

/** A row that is selected for so long is named in the address. */
const NAMED_AFTER_MS = 200;

export async function mount(root, context) {
  const { params, title, signal } = context;
  title(`Run ${params.id}`);
  fill(root, h("h1", { class: "run-title" }, h("span", { class: "mono" }, oneLine(params.id))));
  const response = await request(runApi(params.id), { signal });
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({ title: `HTTP ${response.status}` })));
  const record = await response.json();
  new RunPage(root, record, clockOf(response), context).start();
}

/** The server's time by this machine's clock, where the two differ. */
function clockOf(response) {
  const ahead = Date.parse(response.headers.get("date") ?? "") - Date.now();
  const shift = Math.abs(ahead) < SAME_CLOCK_MS || Number.isNaN(ahead) ? 0 : ahead;
  return () => Date.now() + shift;
}

class RunPage {
  #record;
  #now;
  #context;
  #model = new RunModel();
  #connection = new Connection();
  #timeline;
  #details = h("div", { class: "run-details", role: "region", "aria-label": "Details" });
  #shown;
  /** Before the row that is shown gets into the address. */
  #naming;
  #status = h("span", { class: "status" });
  #question = h("section", { class: "question", "aria-label": "The run waits for you", hidden: true });
  #asked;
  /** Whether the focus is, or was last, in the question. */
  #isAnswering = false;
  #problem = h("div", {});
  #cancel = h("button", { type: "button", class: "danger", on: { click: () => void this.#stop() } }, icon("stop"), "Cancel");
  #retry = h("button", { type: "button", on: { click: () => void this.#again() } }, icon("retry"), "Retry as a new run");
  #facts = {};

  constructor(root, record, now, context) {
    this.#record = record;
    this.#now = now;
    this.#context = context;
    this.#timeline = new Timeline({
      model: this.#model,
      now,
      isLive: record.ended_at === null,
      selected: context.query.get("row") ?? "run",
      onSelect: (node) => this.#show(node),
      signal: context.signal,
    });
    fill(
      root,
      this.#head(),
      this.#problem,
      this.#question,
      h("div", { class: "run-split" }, this.#timeline.element, this.#details),
    );
    root.addEventListener("focusin", ({ target }) => {
      this.#isAnswering = this.#question.contains(target);
    });
    this.#showRecord();
  }

  start() {
    const { signal } = this.#context;
    const following = followFrames({
      runId: this.#record.run_id,
      signal,
      connection: this.#connection,
      take: (frames) => this.#take(frames),
    });
    following.catch((error) => {
      if (!signal.aborted) fill(this.#problem, problemBox(error, { again: () => location.reload() }));
    });
    this.#connection.progress({ head: this.#record.head });
    const ticking = setInterval(() => {
      if (this.#model.ended === null && !document.hidden) this.#showTimes();
    }, 1000);
    signal.addEventListener("abort", () => {
      clearInterval(ticking);
      clearTimeout(this.#naming);
    });
  }

  #head() {
    const { run_id: id, agent_id: agent, session_id: session } = this.#record;
    const names = ["Agent", "Session", "Lane", "Attempt", "Created", "Queued for", "Duration", "First word", "Longest silence", "Tokens in / out", "Cost"];
    for (const name of names) this.#facts[name] = h("dd", {}, UNKNOWN);
    const parent = this.#record.parent_run_id;
    if (parent !== null) {
      names.push("Parent run");
      this.#facts["Parent run"] = h("dd", {}, h("a", { href: runPage(parent), class: "mono", title: oneLine(parent) }, oneLine(parent)));
    }
    fill(this.#facts.Agent, h("a", { href: `/?agent_id=${encodeURIComponent(agent)}` }, oneLine(agent)));
    fill(this.#facts.Session, h("a", { href: `/?session_id=${encodeURIComponent(session)}`, title: oneLine(session) }, oneLine(session)));
    return h(
      "div",
      { class: "run-head" },
      h(
        "div",
        { class: "run-line" },
        h("h1", { class: "run-title" }, h("span", { class: "visually-hidden" }, "Run "), h("span", { class: "mono" }, oneLine(id))),
        this.#status,
        this.#connection.element,
        h("span", { class: "grow" }),
        h("div", { class: "run-actions" }, this.#links(), this.#copy(), this.#retry, this.#cancel),
      ),
      h("dl", { class: "run-facts" }, names.map((name) => h("div", {}, h("dt", {}, name), this.#facts[name]))),
    );
  }

  #links() {
    const { run_id: id, agent_id: agent, session_id: session } = this.#record;
    const pages = [
      ["Frames", "frames", `${runPage(id)}/frames`],
      ["Conversation", "chat", chatPage(agent, session)],
    ];
    // A viewer has the pages that its routes name.
    const there = pages.filter(([, , path]) => routeOf(path) !== undefined);
    return there.map(([label, picture, path]) => h("a", { class: "button", href: path }, icon(picture), label));
  }

  #copy() {
    return copyButton("Copy as curl", "Command", () => curl("/v2/runs", { method: "POST", body: this.#sameRun() }), icon("copy"));
  }

  #take(frames) {
    const change = this.#model.take(frames);
    this.#timeline.took(change);
    if (this.#shown !== undefined && change.changed.has(this.#shown.node)) this.#shown.update();
    this.#showRecord();
    this.#askOrNot();
    if (this.#model.ended !== null && this.#record.ended_at === null) announce(`The run has ended: ${this.#model.status}`);
  }

  #show(node) {
    if (this.#shown?.node === node) return;
    const { query, setQuery, signal } = this.#context;
    const around = { model: this.#model, runId: this.#record.run_id, record: () => this.#record, signal };
    const { element, update } = detailsOf(node, around);
    this.#shown = { node, update };
    fill(this.#details, element);
    this.#details.scrollTop = 0;
    // Not with every row that a held key passes: browsers allow so many changes of an address in a time.
    clearTimeout(this.#naming);
    const key = node.key === "run" ? null : node.key;
    if (query.get("row") !== key) this.#naming = setTimeout(() => setQuery({ row: key }), NAMED_AFTER_MS);
  }

  /** What is said of the run as a whole: its record until frames say more. */
  #showRecord() {
    const model = this.#model;
    const begun = model.run !== undefined;
    const status = begun ? model.status : this.#record.status;
    setText(this.#status, status);
    this.#status.dataset.status = status;
    const isOver = this.#record.ended_at !== null || model.ended !== null;
    this.#cancel.disabled = isOver || status === "cancelling";
    this.#cancel.hidden = isOver;
    this.#retry.disabled = model.input === null;
    setText(this.#facts.Lane, oneLine(this.#record.lane));
    const attempt = model.attempts.at(-1)?.number ?? this.#record.attempt;
    setText(this.#facts.Attempt, attempt === 0 ? UNKNOWN : String(attempt));
    setText(this.#facts.Created, dateTime(this.#record.created_at));
    const usage = model.ended?.usage ?? this.#record.usage ?? (begun ? model.usage() : []);
    const { input, output } = tokens(usage);
    setText(this.#facts["Tokens in / out"], input === undefined && output === undefined ? UNKNOWN : `${count(input)} / ${count(output)}`);
    setText(this.#facts.Cost, cost(model.ended?.cost ?? this.#record.cost));
    if (begun) {
      setText(this.#facts["First word"], model.flow.first === null ? UNKNOWN : duration(model.flow.first - model.run.start));
      const { gap, gapAt } = model.flow;
      setText(this.#facts["Longest silence"], gap === 0 ? UNKNOWN : `${duration(gap)} at +${duration(gapAt - model.run.start)}`);
    }
    this.#showTimes();
  }

  #showTimes() {
    const { run } = this.#model;
    const started = run?.start ?? this.#record.started_at;
    const end = run?.end ?? this.#record.ended_at ?? this.#now();
    setText(this.#facts["Queued for"], duration(Math.max(0, (started ?? this.#now()) - this.#record.created_at)));
    const isOver = run?.end != null || this.#record.ended_at !== null;
    const took = started === null ? null : Math.max(0, end - started);
    setText(this.#facts.Duration, isOver || took === null ? duration(took) : duration(Math.floor(took / 1000) * 1000).replace(/\.0+ s$/, " s"));
  }

  // What a person does.

  /** The form, while the run waits. It stays the same form as long as it is the same question. */
  #askOrNot() {
    const { waiting } = this.#model;
    const isWaiting = waiting !== null && this.#model.status === "suspended";
    if (!isWaiting) {
      if (this.#asked === undefined) return;
      this.#asked.leaving.abort();
      this.#asked = undefined;
      this.#question.hidden = true;
      fill(this.#question);
      // What had the focus is gone, and the page should not lose it. A button that was pressed has lost it by being disabled.
      if (this.#isAnswering) this.#timeline.element.querySelector("[tabindex]")?.focus({ preventScroll: true });
      return;
    }
    if (this.#asked?.waiting === waiting) return;
    this.#asked?.leaving.abort();
    const leaving = new AbortController();
    this.#context.signal.addEventListener("abort", () => leaving.abort());
    this.#asked = { waiting, leaving };
    const { question } = waiting;
    const { resume_contract: contract, prompt, deadline_at } = question;
    const interrupts = Array.isArray(contract.interrupts) ? contract.interrupts : [];
    const form = answerForm({ runId: this.#record.run_id, question: { interrupts, prompt, deadline_at }, signal: leaving.signal });
    const title = question.kind === "approval" ? "Waits for approval" : "Waits for an answer";
    fill(this.#question, h("h2", {}, title, interrupts.map((interrupt) => this.#callOf(interrupt))), form.element);
    this.#question.hidden = false;
    announce(`The run waits: ${oneLine(prompt ?? "")}`);
  }

  /** Leads to the call that is asked about: its arguments are there. */
  #callOf({ toolCallId }) {
    const call = this.#model.calls.get(toolCallId);
    if (call === undefined) return null;
    const show = () => this.#timeline.reveal(call);
    return h("button", { type: "button", class: "quiet", on: { click: show } }, `Show ${oneLine(call.name ?? "the call", 40)}`);
  }

  async #stop() {
    this.#cancel.disabled = true;
    fill(this.#problem);
    try {
      await json(runApi(this.#record.run_id, "/cancel"), { method: "POST", signal: this.#context.signal });
      announce("The run is being stopped");
    } catch (error) {
      if (this.#context.signal.aborted) return;
      fill(this.#problem, problemBox(error));
      this.#cancel.disabled = false;
    }
  }

  /** What makes a run like this one: its input, without the ids that would make it the same one. */
  #sameRun() {
    const { agent_id, lane, metadata, session_id } = this.#record;
    const { input } = this.#model;
    if (input === null) return { agent_id, prompt: "", session_id };
    const { runId: _, resume: __, threadId: ___, ...same } = input;
    return { agent_id, input: same, session_id, lane, ...(metadata === null ? {} : { metadata }) };
  }

  async #again() {
    this.#retry.disabled = true;
    fill(this.#problem);
    try {
      const run = await json("/v2/runs", { method: "POST", body: this.#sameRun(), signal: this.#context.signal });
      this.#context.navigate(runPage(run.run_id));
    } catch (error) {
      if (this.#context.signal.aborted) return;
      fill(this.#problem, problemBox(error));
      this.#retry.disabled = false;
    }
  }
}
