// A conversation on a page. Only what was touched is looked at again, and of that only what is another is written.

import { answerForm } from "./answer_form.js";
import { announce } from "./announce.js";
import { runApi, runPage, text as textAt } from "./api.js";
import { RUN, isLive } from "./conversation.js";
import { fill, h, icon, setAttribute, setText } from "./dom.js";
import { bytes, cost, count, duration, tokens } from "./format.js";
import { problemBox } from "./problem.js";
import { Flow, oneLine, said, say } from "./said.js";

/** What somebody listens to of a message; they may read on by themselves. */
const ANNOUNCED = 300;

/** What a status of a run means to whoever talks to it. */
const STATUS_WORDS = {
  queued: "waits for its turn",
  running: "answers",
  suspended: "waits for you",
  retrying: "tries again",
  cancelling: "is being stopped",
  completed: "completed",
  failed: "failed",
  cancelled: "stopped",
};

/** So many of the newest runs, and of the newest items of each run, are on the page; more when a person asks for them. */
const KEPT = { runs: 40, items: 150 };

/**
 * The newest of a list that grows, each with a view of its own, and a button for those before them. What is on the page stays
 * bounded as long as nobody reads further up.
 */
class Newest {
  #kept;
  #make;
  #list = h("div", { class: "chat-newest" });
  #views = [];
  /** The place of the first that has a view. */
  #from = 0;
  #earlier;
  element;

  /** @param {{kept: number, name: string, make: (one: object, place: number) => {element: Element}}} how */
  constructor({ kept, name, make }) {
    this.#kept = kept;
    this.#make = make;
    this.name = name;
    this.#earlier = h("button", { type: "button", class: "quiet chat-earlier", hidden: true });
    this.#earlier.addEventListener("click", () => this.#showEarlier());
    this.element = h("div", { class: "chat-newest-box" }, this.#earlier, this.#list);
  }

  #all = [];

  /** Makes views for what is new. Where the reader is at the end, those far from it go. */
  grow(all, isAtEnd) {
    this.#all = all;
    // Of many at once, those that would go again are not made.
    const due = all.length - this.#from - this.#views.length;
    if (isAtEnd && due > 2 * this.#kept) {
      this.#views = [];
      fill(this.#list);
      this.#from = all.length - this.#kept;
    }
    while (this.#from + this.#views.length < all.length) {
      const place = this.#from + this.#views.length;
      const view = this.#make(all[place], place);
      this.#views.push(view);
      this.#list.append(view.element);
    }
    if (isAtEnd && this.#views.length > 2 * this.#kept) {
      const gone = this.#views.splice(0, this.#views.length - this.#kept);
      for (const { element } of gone) element.remove();
      this.#from += gone.length;
    }
    this.#tell();
  }

  /** The view of a place, if there is one. */
  at(place) {
    return this.#views[place - this.#from];
  }

  get views() {
    return this.#views;
  }

  #tell() {
    this.#earlier.hidden = this.#from === 0;
    setText(this.#earlier, `${count(this.#from)} earlier ${this.name}: show ${count(Math.min(this.#kept, this.#from))} more`);
  }

  #showEarlier() {
    const from = Math.max(0, this.#from - this.#kept);
    const earlier = this.#all.slice(from, this.#from).map((one, i) => this.#make(one, from + i));
    const first = this.#list.firstElementChild;
    const top = first?.getBoundingClientRect().top;
    this.#list.prepend(...earlier.map(({ element }) => element));
    this.#views.unshift(...earlier);
    this.#from = from;
    this.#tell();
    // What was there stays where it is. A browser sees to that by itself, but not at the very top.
    const scroller = this.element.closest(".chat-scroller");
    if (first && scroller) scroller.scrollTop += first.getBoundingClientRect().top - top;
    if (this.#earlier.hidden) {
      // The button that had the focus is gone.
      this.#list.tabIndex = -1;
      this.#list.focus({ preventScroll: true });
    }
  }
}

export class ConversationView {
  #runs;
  #places = new Map();
  element;

  /**
   * @param {object} what
   * @param {string} what.agentId whom the person talks to: of other agents it is said who they are
   * @param {AbortSignal} what.signal
   */
  constructor({ agentId, signal }) {
    const make = (run) => {
      const view = new RunView(run, { agentId, signal });
      view.show(new Set([RUN]), true);
      return view;
    };
    this.#runs = new Newest({ kept: KEPT.runs, name: "runs", make });
    this.element = h("div", { class: "conversation", role: "log", "aria-live": "off", "aria-label": "Conversation" }, this.#runs.element);
  }

  /**
   * Shows what was touched, as `Conversation.takeTouched()` tells it.
   *
   * @param {object[]} runs of the conversation
   * @param {Map<object, Set<number>>} touched
   * @param {boolean} isAtEnd whether the reader is at the end of what is shown
   */
  show(runs, touched, isAtEnd) {
    for (let place = this.#places.size; place < runs.length; place += 1) this.#places.set(runs[place], place);
    this.#runs.grow(runs, isAtEnd);
    for (const [run, places] of touched) this.#runs.at(this.#places.get(run))?.show(places, isAtEnd);
  }
}

class RunView {
  #run;
  #agentId;
  #items;
  #status = h("span", { class: "status" });
  #facts = h("span", { class: "dim" });
  #wasLive = false;

  constructor(run, { agentId, signal }) {
    this.#run = run;
    this.#agentId = agentId;
    const make = (item, place) => {
      const view = viewOf(item, { run, place, signal });
      view.show(item);
      return view;
    };
    this.#items = new Newest({ kept: KEPT.items, name: "items", make });
    this.element = h(
      "section",
      { class: "chat-run", "aria-label": `Run of ${oneLine(run.agent_id, 60)}` },
      this.#items.element,
      h(
        "p",
        { class: "chat-run-foot" },
        this.#status,
        this.#facts,
        h("a", { href: runPage(run.run_id), class: "chat-run-link" }, "Run details"),
      ),
    );
  }

  show(places, isAtEnd) {
    const { items } = this.#run;
    this.#items.grow(items, isAtEnd);
    for (const place of places) if (place !== RUN) this.#items.at(place)?.show(items[place]);
    if (places.has(RUN)) this.#showRun();
  }

  #showRun() {
    const { agent_id, status, attempt, end, question } = this.#run;
    const isOther = agent_id !== this.#agentId && agent_id !== "";
    setText(this.#status, isOther ? `${oneLine(agent_id, 60)} ${STATUS_WORDS[status]}` : STATUS_WORDS[status]);
    this.#status.dataset.status = status;
    setAttribute(this.element, "data-status", status);
    setAttribute(this.element, "data-asks", question !== null && true);
    const facts = [];
    if (attempt > 1) facts.push(`attempt ${attempt}`);
    if (end !== null) {
      facts.push(duration(end.duration_ms));
      const { input, output } = tokens(end.usage);
      if (input !== undefined || output !== undefined) facts.push(`${count(input)} in, ${count(output)} out`);
      if (end.cost) facts.push(cost(end.cost));
      if (end.failure_class) facts.push(end.failure_class);
    }
    setText(this.#facts, facts.map((fact) => ` · ${fact}`).join(""));
    // A question that nobody answered is not one any more when its run has ended.
    if (!isLive(this.#run)) {
      for (const view of this.#items.views) view.over?.();
      if (this.#wasLive && status !== "completed") announce(`The run ${STATUS_WORDS[status]}.`);
    }
    this.#wasLive = isLive(this.#run);
  }
}

/** What shows an item: `{element, show(item)}`. */
function viewOf(item, context) {
  switch (item.kind) {
    case "message":
      return new MessageView(item);
    case "thinking":
      return new ThinkingView();
    case "tool":
      return new ToolView(context);
    case "question":
      return new QuestionView(item, context);
    case "activity":
      return new ActivityView();
    case "notice":
      return new NoticeView();
    case "error":
      return new ErrorView();
    default:
      return new AttemptView();
  }
}

/** What all items show in the same way: whose they are, and whether they still count. */
function mark(element, item) {
  element.hidden = item.hidden === true;
  setAttribute(element, "data-abandoned", item.abandoned && true);
}

/** A text that grows mostly, and is another one now and then. What is there already costs nothing. */
class Growing {
  #flow;
  #shown = 0;
  #restated;
  element = h("div", { class: "chat-text" });

  show({ pieces, restated = 0 }) {
    if (this.#flow === undefined || restated !== this.#restated) {
      this.#flow = new Flow();
      this.#shown = 0;
      this.#restated = restated;
      fill(this.element, this.#flow.element);
    }
    if (pieces.length > this.#shown) this.#flow.append(pieces.slice(this.#shown).join(""));
    this.#shown = pieces.length;
  }
}

/** How a piece of the agent's work ended, where that is not as it should be. */
const CUT_OFF = { failed: "failed", cancelled: "stopped here", abandoned: "given up" };

class MessageView {
  #text = new Growing();
  #cut = h("span", { class: "chat-cut dim" });
  #who;
  #wasOpen = false;

  constructor({ role, name, by }) {
    const person = role === "user";
    const isPlain = person || role === "assistant";
    this.#who = name ?? (person ? "You" : isPlain ? "Agent" : (role ?? "message"));
    if (by) this.#who = `${by} · ${this.#who}`;
    // Of the two that talk to each other it is to be seen which is which.
    const isNamed = !isPlain || name !== undefined || by !== undefined;
    this.element = h(
      "article",
      { class: `chat-message ${person ? "of-person" : "of-agent"}`, "aria-label": oneLine(this.#who, 80) },
      isNamed && h("div", { class: "chat-who dim" }, said(this.#who)),
      this.#text.element,
      this.#cut,
    );
  }

  show(item) {
    mark(this.element, item);
    const isOpen = item.status === "open";
    // A message that was opened and says nothing yet is not shown as an empty one.
    if (item.characters === 0) this.element.hidden = true;
    this.#text.show(item);
    setAttribute(this.element, "data-open", isOpen && true);
    setText(this.#cut, item.abandoned ? "given up: another attempt was made" : (CUT_OFF[item.status] ?? ""));
    if (this.#wasOpen && item.status === "completed") announce(oneLine(`${this.#who}: ${item.pieces.join("")}`, ANNOUNCED));
    this.#wasOpen = isOpen;
  }
}

class ThinkingView {
  #text = new Growing();
  #summary = h("span", {});
  #item;
  element = h("details", { class: "chat-thinking" }, h("summary", {}, this.#summary), this.#text.element);

  constructor() {
    // What is folded is not laid out: reasoning may be long, and few look at it.
    this.element.addEventListener("toggle", () => {
      if (this.element.open) this.#text.show(this.#item);
    });
  }

  show(item) {
    this.#item = item;
    mark(this.element, item);
    const label = item.by ? `Reasoning of ${oneLine(item.by, 60)}` : "Reasoning";
    const state = item.status === "open" ? "…" : (CUT_OFF[item.abandoned ? "abandoned" : item.status] ?? "");
    setText(this.#summary, `${label} · ${count(item.characters)} characters${state === "" ? "" : ` · ${state}`}`);
    if (this.element.open) this.#text.show(item);
  }
}

/** Most characters of arguments and results that a closed tool call shows. */
const GLANCE = 120;

class ToolView {
  #signal;
  #name = said("", { class: "chat-tool-name mono" });
  #glance = said("", { class: "chat-tool-glance mono" });
  #state = h("span", { class: "chat-tool-state" });
  #body = h("div", { class: "chat-tool-body" });
  #item;
  #shown = {};
  element = h("details", { class: "chat-tool" }, h("summary", {}, this.#name, this.#glance, this.#state), this.#body);

  constructor({ signal }) {
    this.#signal = signal;
    this.element.addEventListener("toggle", () => this.#showBody());
  }

  show(item) {
    this.#item = item;
    mark(this.element, item);
    this.#write("name", item.by ? `${item.by} · ${item.name ?? ""}` : (item.name ?? ""), this.#name);
    const result = item.result === undefined ? "" : ` → ${oneLine(item.result.preview, GLANCE)}`;
    this.#write("glance", `${oneLine(item.arguments, GLANCE)}${result}`, this.#glance);
    setText(this.#state, this.#stateOf(item));
    setAttribute(this.element, "data-state", item.result?.ok === false || item.status === "failed" ? "bad" : undefined);
    this.#showBody();
  }

  #write(what, text, element) {
    if (this.#shown[what] === text) return;
    this.#shown[what] = text;
    say(element, text);
  }

  #stateOf({ abandoned, status, result, is_complete }) {
    if (abandoned) return "given up";
    if (result !== undefined) return result.ok ? "" : "did not succeed";
    if (CUT_OFF[status] !== undefined) return CUT_OFF[status];
    if (status === "completed") return "without a result";
    return is_complete ? "no result yet" : "being called";
  }

  #showBody() {
    if (!this.element.open) return;
    const { arguments: given, is_complete, result } = this.#item;
    const key = `${given.length} ${is_complete} ${result?.preview.length} ${result?.segment_id}`;
    if (this.#shown.body === key) return;
    this.#shown.body = key;
    fill(
      this.#body,
      h("h3", {}, "Arguments"),
      said(is_complete ? pretty(given) : given, { class: "mono chat-value" }, "pre"),
      result && [h("h3", {}, result.ok ? "Result" : "Result, not a success"), this.#result(result)],
    );
  }

  #result({ preview, bytes: size, run_id, segment_id }) {
    const value = said(segment_id === undefined ? pretty(preview) : preview, { class: "mono chat-value" }, "pre");
    if (segment_id === undefined) return value;
    const whole = h("button", { type: "button" }, icon("down"), `The whole value, ${bytes(size)}`);
    whole.addEventListener("click", async () => {
      whole.disabled = true;
      try {
        const path = runApi(run_id, `/segments/${encodeURIComponent(segment_id)}/payload`);
        const { text } = await textAt(path, { signal: this.#signal });
        const flow = new Flow({ class: "mono chat-value" });
        flow.append(pretty(text));
        value.replaceWith(flow.element);
        whole.remove();
      } catch (error) {
        if (this.#signal.aborted) return;
        whole.disabled = false;
        whole.after(problemBox(error));
      }
    });
    return [value, whole];
  }
}

/** JSON with its lines apart, and any other text as it is. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

class QuestionView {
  #run;
  #place;
  #form;
  #answer = h("p", { class: "dim" });
  element;

  constructor(item, { run, place, signal }) {
    this.#run = run;
    this.#place = place;
    this.#form = answerForm({ runId: run.run_id, question: item, signal });
    this.element = h("div", { class: "chat-question" }, this.#form.element, this.#answer);
    // Of what is long over nobody has to be told.
    if (run.question === place) announce(`The agent asks: ${oneLine(item.prompt ?? "for an answer", ANNOUNCED)}`);
  }

  show(item) {
    mark(this.element, item);
    this.#settle(item);
  }

  over() {
    this.#settle(this.#run.items[this.#place]);
  }

  #settle(item) {
    if (this.#run.question === this.#place) return;
    say(this.#answer, answerInWords(item));
    if (this.#form !== undefined) {
      const had = this.#form.element.contains(document.activeElement);
      const asked = item.interrupts.map((interrupt) => said(interrupt.message ?? interrupt.reason ?? "", {}, "p"));
      this.#form.element.replaceWith(...asked);
      this.#form = undefined;
      setAttribute(this.element, "data-over", true);
      // Whoever answered by the keyboard is not to be thrown to the top of the page.
      if (had) {
        this.#answer.tabIndex = -1;
        this.#answer.focus({ preventScroll: true });
      }
    }
  }
}

function answerInWords({ answer }) {
  if (answer === undefined) return "It was not answered: the run was stopped, or ended without it.";
  const { resolved_by, entries } = answer;
  const by = resolved_by === null ? "" : resolved_by === "deadline" ? " when its time had passed" : ` by ${oneLine(resolved_by, 60)}`;
  const words = entries.map(({ status, payload }) => {
    if (status !== "resolved") return "given up";
    if (payload?.approved === true && Object.keys(payload).length === 1) return "approved";
    if (payload?.approved === false && Object.keys(payload).length === 1) return "denied";
    return oneLine(JSON.stringify(payload ?? null));
  });
  return words.length === 0 ? `Answered${by}.` : `Answered${by}: ${words.join(", ")}`;
}

class ActivityView {
  #type = said("", { class: "chat-who dim" });
  #content = said("", { class: "mono chat-value" }, "pre");
  #problem = h("p", { class: "dim" });
  #shown;
  element = h("div", { class: "chat-activity" }, this.#type, this.#content, this.#problem);

  show(item) {
    mark(this.element, item);
    const text = JSON.stringify(item.content, null, 2) ?? "";
    if (text !== this.#shown) {
      say(this.#type, `Activity: ${oneLine(item.activity_type, 80)}`);
      say(this.#content, text);
      this.#shown = text;
    }
    setText(this.#problem, item.problem === undefined ? "" : `A change to it does not apply: ${oneLine(item.problem)}`);
  }
}

class NoticeView {
  #text = h("span", {});
  #more = h("pre", { class: "mono chat-value", hidden: true });
  element = h("div", { class: "chat-notice" }, this.#text, this.#more);

  show(item) {
    mark(this.element, item);
    setAttribute(this.element, "data-level", item.level);
    fill(this.#text, h("span", { class: "mono dim" }, oneLine(item.code, 80)), " ", said(item.message));
    if (item.attributes === undefined) return;
    const details = h(
      "details",
      {},
      h("summary", {}, "more"),
      said(JSON.stringify(item.attributes, null, 2), { class: "mono chat-value" }, "pre"),
    );
    this.#more.replaceWith(details);
    this.#more = details;
  }
}

class ErrorView {
  element = h("div", { class: "notice-box bad" });

  show(item) {
    mark(this.element, item);
    fill(
      this.element,
      h("strong", { class: "mono" }, item.code),
      said(item.message),
      item.retryable && h("span", { class: "dim" }, "Trying again can help."),
    );
  }
}

class AttemptView {
  #text = h("span", {});
  element = h("div", { class: "chat-attempt dim" }, this.#text);

  show(item) {
    mark(this.element, item);
    setText(this.#text, `Attempt ${item.attempt}: what the one before it said does not count`);
  }
}
