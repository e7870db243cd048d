// What a person sees of a session, made of the frames of its runs.
//
// Everything in a `Conversation` is plain JSON, so a page can keep it beside the cursor and, loaded again, go on at the very
// next frame. A frame costs the same however long the conversation is. No clock, no document, no request.
//
// A run holds its items in the order in which they came:
//
//   message    {role, name?, pieces, characters, status}    what was said, in the pieces in which it came
//   thinking   {pieces, characters, status}
//   tool       {call_id, name, arguments, is_complete, result?, status}
//   activity   {activity_type, content}
//   notice     {level, code, message, attributes?}
//   error      {code, message, retryable}
//   attempt    {attempt}                                    a further attempt begins
//   question   {interrupts, prompt, deadline_at?, answer?}
//
// each with `kind`, and where they have them `by` (the child agent that it is of), `abandoned` (its attempt was given up) and
// `hidden`. `status` is `open` or that of the end of the segment. `restated` counts how often a text was replaced.

import { PatchError, applyPatch } from "./json_patch.js";

/** What `JSON.stringify` of a conversation is. One of another shape is not taken for one. */
const FORMAT = 1;

/** Touched beside the items of a run: the run itself. */
export const RUN = -1;

const LIVE = new Set(["queued", "running", "suspended", "retrying", "cancelling"]);

/** Whether a run has yet to end. */
export const isLive = (run) => LIVE.has(run.status);

/** Notices of AG-UI events that are no part of what is said. The run's own page shows them. */
const NOT_SAID = new Set(["STATE_SNAPSHOT", "STATE_DELTA", "RAW", "REASONING_ENCRYPTED_VALUE"]);

/** The text of a message's content, with a word in place of each part that has none. */
function textOf(content) {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map((part) => part?.text ?? `[${part?.type ?? "part"}]`).join("");
  return content === undefined || content === null ? "" : JSON.stringify(content);
}

/** A text as it is kept: in pieces, so that adding to it does not copy what is there. */
const pieces = (text) => ({ pieces: text === "" ? [] : [text], characters: text.length });

/** The same item with its text in one piece. */
const compact = (item) => (item.pieces === undefined ? item : { ...item, pieces: pieces(item.pieces.join("")).pieces });

export class Conversation {
  /** The runs, in the order in which their first frames came. */
  runs = [];
  #byId = new Map();
  /** Where each message and each call of a tool is: `[run, place]`. A message of several inputs is shown once. */
  #messages = new Map();
  #calls = new Map();
  /** What changed since it was last asked for: of each run the places of its items, and `RUN`. */
  #touched = new Map();

  /** The conversation that was kept, or `undefined` when what was kept is none of this shape. */
  static from(kept) {
    if (kept?.format !== FORMAT) return undefined;
    const conversation = new Conversation();
    conversation.runs = kept.runs;
    for (const run of kept.runs) conversation.#byId.set(run.run_id, run);
    conversation.#messages = new Map(kept.messages);
    conversation.#calls = new Map(kept.calls);
    return conversation;
  }

  toJSON() {
    const runs = this.runs.map((run) => ({ ...run, items: run.items.map(compact) }));
    return { format: FORMAT, runs, messages: [...this.#messages], calls: [...this.#calls] };
  }

  run(runId) {
    return this.#byId.get(runId);
  }

  /** The runs that have yet to end. */
  get live() {
    return this.runs.filter(isLive);
  }

  /** The newest run of this agent that waits for an answer. */
  waiting(agentId) {
    return this.runs.findLast((run) => run.agent_id === agentId && run.question !== null);
  }

  /** What has changed since the last time: the places of items of each run. */
  takeTouched() {
    const touched = this.#touched;
    this.#touched = new Map();
    return touched;
  }

  /** The ids of the messages and of the calls that runs make that have yet to end. */
  unfinished() {
    const messages = new Set();
    const calls = new Set();
    for (const run of this.live) {
      for (const item of run.items) {
        if (item.kind === "tool") calls.add(item.call_id);
        else if (item.of_segment) messages.add(item.id);
      }
    }
    return { messages, calls };
  }

  /**
   * A run that was created by this page and of which no frame has come: it may wait for its turn. What the person said is
   * shown until the run's own first frame says it.
   */
  expect(runId, agentId, message) {
    if (this.#byId.has(runId)) return;
    const run = this.#begin(runId, agentId);
    this.#given(run, [message]);
  }

  /** Takes the next frame of one of the runs. */
  take(frame) {
    const { run_id, seq, type, data, segment_id } = frame;
    const run = this.#byId.get(run_id) ?? this.#begin(run_id, data.agent_id ?? "");
    run.head = seq;
    switch (type) {
      case "run.start":
        return this.#start(run, data);
      case "run.status":
        run.status = data.status;
        return this.#touch(run);
      case "run.end":
        return this.#end(run, data);
      case "segment.start":
        return this.#open(run, segment_id, data);
      case "segment.end":
        return this.#close(run, segment_id, data);
      case "text.delta":
        return this.#append(run, segment_id, "message", data.text);
      case "thinking.delta":
        return this.#append(run, segment_id, "thinking", data.text);
      case "tool.call":
        return this.#call(run, segment_id, data);
      case "tool.result":
        return this.#result(run, segment_id, data);
      case "suspend":
        return this.#ask(run, data);
      case "resume":
        return this.#answered(run, data);
      case "notice":
        return this.#notice(run, data);
      case "error": {
        const { code, message, retryable } = data;
        this.#add(run, { kind: "error", code, message, retryable });
      }
    }
  }

  #begin(runId, agentId) {
    const run = {
      run_id: runId,
      agent_id: agentId,
      status: "queued",
      attempt: 0,
      head: 0,
      items: [],
      /** Of each segment what its content goes into. Emptied when the run has ended. */
      segments: {},
      /** The place of the question that waits. */
      question: null,
      end: null,
    };
    this.runs.push(run);
    this.#byId.set(runId, run);
    this.#touch(run);
    return run;
  }

  #touch(run, place = RUN) {
    let places = this.#touched.get(run);
    if (places === undefined) this.#touched.set(run, (places = new Set()));
    places.add(place);
  }

  #add(run, item) {
    const place = run.items.push(item) - 1;
    this.#touch(run, place);
    return place;
  }

  #start(run, data) {
    run.agent_id = data.agent_id;
    run.attempt = data.attempt;
    run.started = true;
    if (data.attempt > 1) {
      // What the attempts before it said is no part of the result.
      run.items.forEach((item, place) => {
        if (!item.of_segment || item.abandoned) return;
        item.abandoned = true;
        this.#touch(run, place);
      });
      run.segments = {};
      this.#add(run, { kind: "attempt", attempt: data.attempt });
    }
    this.#given(run, data.agui?.input?.messages);
    this.#touch(run);
  }

  #end(run, { status, usage, cost, duration_ms, failure_class }) {
    run.status = status;
    run.end = { usage, cost, duration_ms, failure_class };
    run.question = null;
    run.segments = {};
    this.#touch(run);
  }

  /** Messages that a run was given, or that it restates. Those that are known are shown where they were. */
  #given(run, messages) {
    for (const message of Array.isArray(messages) ? messages : []) this.#message(run, Object(message));
  }

  #message(run, message) {
    const { id, role, name } = message;
    for (const call of Array.isArray(message.toolCalls) ? message.toolCalls : []) {
      if (this.#calls.has(call.id)) continue;
      const { name, arguments: given } = call.function ?? {};
      const place = this.#add(run, {
        kind: "tool",
        call_id: call.id,
        name: name ?? "",
        arguments: given ?? "",
        is_complete: true,
        status: "completed",
      });
      this.#calls.set(call.id, [run.run_id, place]);
    }
    if (role === "tool") {
      // It stands in a run's input in place of a result, and nobody has said it.
      if (id === `${message.toolCallId}.unanswered`) return;
      const result = { ok: message.error === undefined, preview: textOf(message.content) };
      this.#setResult(message.toolCallId, result, { isRestated: true });
      return;
    }
    if (role === "activity") {
      this.#activity(run, message);
      return;
    }
    const text = textOf(message.content);
    const known = this.#at(this.#messages.get(id));
    if (known !== undefined) {
      const [of, place, item] = known;
      // What an agent said is what its own frames say, which may be more than was known when it was restated.
      if (item.of_segment || item.pieces === undefined || item.pieces.join("") === text) return;
      Object.assign(item, pieces(text), { restated: (item.restated ?? 0) + 1 });
      this.#touch(of, place);
      return;
    }
    if (text === "") return;
    const kind = role === "reasoning" ? "thinking" : "message";
    const place = this.#add(run, { kind, id, role, name, ...pieces(text), status: "completed" });
    if (id !== undefined) this.#messages.set(id, [run.run_id, place]);
  }

  /** `[run, place, item]` of what is kept under a key. */
  #at(kept) {
    if (kept === undefined) return undefined;
    const run = this.#byId.get(kept[0]);
    return run === undefined ? undefined : [run, kept[1], run.items[kept[1]]];
  }

  #open(run, id, { kind, name, parent_segment_id, tool_slug, agui }) {
    const parent = run.segments[parent_segment_id];
    const by = parent?.kind === "agent" ? (parent.name ?? "agent") : parent?.by;
    const segment = { kind, name: name ?? tool_slug, by, id: agui?.messageId ?? `${run.run_id}.${id}`, role: agui?.role };
    run.segments[id] = segment;
    // Others say something only when content comes.
    if (kind === "message") this.#said(run, segment, "message");
    else if (kind === "tool") this.#opened(run, segment, agui);
  }

  #opened(run, segment, agui) {
    const call_id = agui?.toolCallId;
    if (agui?.type === "TOOL_CALL_RESULT" && this.#calls.has(call_id)) return;
    const { name, by } = segment;
    segment.tool = this.#add(run, {
      kind: "tool",
      of_segment: true,
      call_id,
      name,
      by,
      arguments: "",
      is_complete: false,
      status: "open",
    });
    this.#calls.set(call_id, [run.run_id, segment.tool]);
  }

  /** The item that a segment's text, or its reasoning, goes into. */
  #said(run, segment, kind) {
    if (segment[kind] === undefined) {
      const { by, role = "assistant" } = segment;
      // A model call may hold both, as two messages.
      const id = kind === "thinking" && segment.kind === "model" ? `${segment.id}.thinking` : segment.id;
      // A model call is called after its model; a message after who speaks.
      const name = segment.kind === "message" ? segment.name : undefined;
      const item = { kind, of_segment: true, id, role, name, by, ...pieces(""), status: "open" };
      segment[kind] = this.#add(run, item);
      this.#messages.set(item.id, [run.run_id, segment[kind]]);
    }
    return segment[kind];
  }

  #append(run, id, kind, text) {
    const segment = run.segments[id];
    if (segment === undefined) return;
    const place = this.#said(run, segment, kind);
    const item = run.items[place];
    item.pieces.push(text);
    item.characters += text.length;
    this.#touch(run, place);
  }

  #close(run, id, { status, error }) {
    const segment = run.segments[id];
    if (segment === undefined) return;
    for (const place of [segment.message, segment.thinking, segment.tool]) {
      if (place === undefined) continue;
      const item = run.items[place];
      item.status = status;
      if (error !== undefined) item.error = error;
      this.#touch(run, place);
    }
  }

  #call(run, id, { arguments_delta, arguments: whole }) {
    const place = run.segments[id]?.tool;
    if (place === undefined) return;
    const item = run.items[place];
    if (arguments_delta !== undefined) item.arguments += arguments_delta;
    if (whole !== undefined) {
      item.arguments = whole;
      item.is_complete = true;
    }
    this.#touch(run, place);
  }

  #result(run, id, { tool_call_id, ok, output_preview, truncated, bytes }) {
    const result = { ok, preview: output_preview ?? "" };
    // The whole is a payload of this segment, which may be in another run than the call.
    if (truncated) Object.assign(result, { bytes, run_id: run.run_id, segment_id: id });
    this.#setResult(tool_call_id, result);
  }

  #setResult(callId, result, { isRestated = false } = {}) {
    const known = this.#at(this.#calls.get(callId));
    if (known === undefined) return;
    const [run, place, item] = known;
    // A message says less of a result than its frame does: not whether the tool succeeded, for instance.
    if (isRestated && item.result !== undefined) return;
    item.result = result;
    this.#touch(run, place);
  }

  #ask(run, { resume_contract, prompt, deadline_at }) {
    const interrupts = Array.isArray(resume_contract.interrupts) ? resume_contract.interrupts : [];
    const item = { kind: "question", interrupts, prompt };
    if (deadline_at !== undefined) item.deadline_at = deadline_at;
    run.question = this.#add(run, item);
    this.#touch(run);
  }

  #answered(run, { resolved_by, agui }) {
    const entries = agui?.input?.resume ?? [];
    if (run.question !== null) {
      const item = run.items[run.question];
      // An input that answers nothing is followed by the same question.
      if (entries.length === 0 && resolved_by === null) item.hidden = true;
      else item.answer = { resolved_by, entries };
      this.#touch(run, run.question);
    }
    run.question = null;
    this.#given(run, agui?.input?.messages);
    this.#touch(run);
  }

  #notice(run, { level, code, message, attributes }) {
    const type = code.startsWith("agui.") ? code.slice(5) : undefined;
    if (type === undefined) {
      if (level === "debug") return;
      const item = { kind: "notice", level, code, message };
      if (attributes !== undefined) item.attributes = attributes;
      this.#add(run, item);
    } else if (type === "MESSAGES_SNAPSHOT") {
      this.#given(run, attributes?.messages);
    } else if (type === "ACTIVITY_SNAPSHOT") {
      this.#activity(run, { ...attributes, id: attributes?.messageId }, attributes?.replace !== false);
    } else if (type === "ACTIVITY_DELTA") {
      this.#activityDelta(attributes ?? {});
    } else if (type === "CUSTOM") {
      this.#add(run, { kind: "notice", level, code, message: `${attributes?.name ?? ""}`, attributes: attributes?.value });
    } else if (!NOT_SAID.has(type)) {
      this.#add(run, { kind: "notice", level, code, message });
    }
  }

  #activity(run, { id, activityType, content }, isReplaced = true) {
    const known = this.#at(this.#messages.get(id));
    if (known === undefined) {
      const place = this.#add(run, { kind: "activity", id, activity_type: activityType ?? "activity", content });
      this.#messages.set(id, [run.run_id, place]);
      return;
    }
    const [of, place, item] = known;
    if (!isReplaced || item.kind !== "activity") return;
    item.content = content;
    if (activityType !== undefined) item.activity_type = activityType;
    this.#touch(of, place);
  }

  #activityDelta({ messageId, patch }) {
    const known = this.#at(this.#messages.get(messageId));
    if (known === undefined || known[2].kind !== "activity") return;
    const [run, place, item] = known;
    try {
      item.content = applyPatch(item.content, patch);
      delete item.problem;
    } catch (error) {
      if (!(error instanceof PatchError)) throw error;
      // A patch that does not apply changes nothing for any client.
      item.problem = error.message;
    }
    this.#touch(run, place);
  }
}
