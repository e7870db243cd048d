// A run as a tree, made from its frames one by one: attempts, what is inside of them, and what each of these came to.
//
// A frame costs the same however long the run is already. Nothing here knows of the page.

/** A run keeps at most so many characters of a row's short text. */
const SUMMARY = 160;

const millis = (ts) => Date.parse(ts);

/**
 * Something that has a row: the run itself, an attempt, a segment, a wait, a notice, an error, or the state.
 *
 * @typedef {object} Node
 * @property {"run" | "attempt" | "segment" | "wait" | "notice" | "error" | "state"} type
 * @property {string} key unique in the run, and the same in every replay
 * @property {number} seq of the frame that began it
 * @property {number} start milliseconds since 1970
 * @property {number | null} end null while it goes on
 * @property {Node | null} parent
 * @property {Node[]} children in the order in which they came
 */
function node(type, key, frame, more = {}) {
  return {
    type,
    key,
    seq: frame.seq,
    start: millis(frame.ts),
    end: null,
    parent: null,
    children: [],
    isFolded: false,
    ...more,
  };
}

/** What is counted of everything that streams: when it first said something, how much, and its longest silence. */
const stream = () => ({ first: null, last: null, frames: 0, gap: 0, gapAt: null, gapSeq: null });

function flowed(flow, at, seq) {
  if (flow.first === null) flow.first = at;
  else if (at - flow.last > flow.gap) {
    flow.gap = at - flow.last;
    flow.gapAt = flow.last;
    flow.gapSeq = seq;
  }
  flow.last = at;
  flow.frames += 1;
}

export class RunModel {
  /** @type {Node} */
  run;
  /** Attempts, in order. */
  attempts = [];
  /** Segments by their id. */
  segments = new Map();
  /** Segments of tool calls, by the call's id. */
  calls = new Map();
  status = "queued";
  /** What `run.end` said, once it came. */
  ended = null;
  /** The `suspend` that waits for its answer. */
  waiting = null;
  /** The last frame's `seq`, and how many of each type there were. */
  head = 0;
  /** When the last frame was recorded, in milliseconds since 1970. */
  lastAt = null;
  bytes = 0;
  /** Grows whenever `usage()` may tell something else. */
  usageVersion = 0;
  /** The exchange's input, as `run.start` had it first. */
  input = null;
  agentId = null;
  /** Waits of the run: for answers, and between two attempts. */
  waits = [];
  /** Of the run's text and reasoning. */
  flow = stream();
  #state = null;
  /** The wait between two attempts that goes on. */
  #retryWait = null;
  #attempt = null;
  #changed = new Set();
  #hasNew = false;
  /** What was counted last, and of which version. */
  #usage = null;

  /**
   * Takes frames, in order. Answers with what is not as it was: the nodes that changed, and whether there are new ones.
   *
   * @returns {{changed: Set<Node>, hasNew: boolean}}
   */
  take(frames) {
    this.#changed = new Set();
    this.#hasNew = false;
    for (const frame of frames) this.#frame(frame);
    return { changed: this.#changed, hasNew: this.#hasNew };
  }

  /** Tokens and cost by model: of `run.end` once it came, else of the segments that have ended. */
  usage() {
    if (this.#usage?.version !== this.usageVersion) this.#usage = { version: this.usageVersion, entries: this.#count() };
    return this.#usage.entries;
  }

  #count() {
    const entries = [];
    for (const segment of this.segments.values()) {
      if (segment.usage === undefined && segment.cost === undefined) continue;
      const [provider, model] = modelOf(segment);
      let entry = entries.find((one) => one.provider === provider && one.model === model);
      if (entry === undefined) entries.push((entry = { provider, model, calls: 0, costs: [] }));
      entry.calls += 1;
      if (segment.cost) entry.costs.push(segment.cost);
      for (const [name, number] of Object.entries(segment.usage ?? {})) {
        if (typeof number === "number") entry[name] = (entry[name] ?? 0) + number;
      }
    }
    const total = this.ended?.usage;
    if (!Array.isArray(total)) return entries;
    return total.map((told) => {
      const counted = entries.find((one) => one.provider === told.provider && one.model === told.model);
      return { calls: counted?.calls, costs: counted?.costs ?? [], ...told };
    });
  }

  /** The segments that hold the run's output: those of the last attempt with text, in the order of their first word. */
  get output() {
    return this.#attempt?.texts ?? [];
  }

  #new(parent, one) {
    one.parent = parent;
    parent.children.push(one);
    this.#hasNew = true;
    this.#changed.add(one);
    return one;
  }

  #touch(one) {
    this.#changed.add(one);
  }

  #frame(frame) {
    const { seq, type, data, segment_id: id } = frame;
    const at = millis(frame.ts);
    this.head = seq;
    this.lastAt = at;
    this.bytes += frame.body?.length ?? 0;
    if (this.run === undefined) {
      this.run = node("run", "run", frame);
      this.#hasNew = true;
    }
    this.#touch(this.run);
    switch (type) {
      case "run.start":
        return this.#startAttempt(frame, data);
      case "run.status":
        return this.#setStatus(frame, data, at);
      case "run.end":
        return this.#end(data, at);
      case "segment.start":
        return this.#open(frame, data, id);
      case "suspend":
        this.waiting = this.#new(this.#attempt, node("wait", `wait.${seq}`, frame, { question: data, answer: null }));
        this.waits.push(this.waiting);
        return undefined;
      case "resume":
        return this.#resume(frame, data, at);
      case "notice":
        return this.#notice(frame, data, at);
      case "error":
        return void this.#new(this.#attempt ?? this.run, node("error", `error.${seq}`, frame, { end: at, error: data }));
      default:
        return this.#content(frame, at);
    }
  }

  #startAttempt(frame, data) {
    this.agentId = data.agent_id;
    this.input ??= data.agui?.input ?? null;
    if (this.#attempt !== null && this.#attempt.end === null) this.#close(this.#attempt, millis(frame.ts), "abandoned");
    if (this.#retryWait !== null) {
      this.#close(this.#retryWait, millis(frame.ts), "over");
      this.#retryWait = null;
    }
    // The silence in front of an attempt was the wait for it.
    if (this.flow.first !== null) this.flow.last = millis(frame.ts);
    const attempt = node("attempt", `attempt.${frame.seq}`, frame, { number: data.attempt, started: data, status: null, texts: [] });
    this.#attempt = this.#new(this.run, attempt);
    this.attempts.push(attempt);
    // How the attempts before are called has to change when there is more than one.
    for (const one of this.attempts) this.#touch(one);
  }

  #setStatus(frame, { status }, at) {
    this.status = status;
    if (this.#attempt === null) return;
    if (status === "retrying") {
      this.#close(this.#attempt, at, "failed");
      const wait = node("wait", `wait.${frame.seq}`, frame, { question: null, answer: null });
      this.#retryWait = this.#new(this.run, wait);
      this.waits.push(wait);
    } else if (["completed", "failed", "cancelled"].includes(status)) {
      this.#close(this.#attempt, at, status);
    }
    if (status === "cancelling" || status === "cancelled") this.#stopWaiting(at, "cancelled");
  }

  #end(data, at) {
    this.ended = data;
    this.usageVersion += 1;
    this.status = data.status;
    this.#stopWaiting(at, data.status);
    if (this.#attempt?.end === null) this.#close(this.#attempt, at, data.status);
    this.#close(this.run, at, data.status);
    if (this.#state !== null) this.#state.end = at;
  }

  #stopWaiting(at, status) {
    for (const wait of [this.waiting, this.#retryWait]) {
      if (wait !== null && wait.end === null) this.#close(wait, at, status);
    }
    this.waiting = null;
    this.#retryWait = null;
  }

  #resume(frame, data, at) {
    if (this.waiting === null) return;
    this.waiting.answer = { resolvedBy: data.resolved_by, entries: data.agui?.input?.resume ?? null };
    this.#close(this.waiting, at, "answered");
    this.waiting = null;
    // A new exchange begins: the silence in front of it was the person's.
    this.flow.last = at;
  }

  #close(one, at, status) {
    one.end = at;
    one.status = status;
    this.#touch(one);
  }

  #open(frame, data, id) {
    const parent = this.segments.get(data.parent_segment_id) ?? this.#attempt ?? this.run;
    const segment = node("segment", id, frame, {
      id,
      kind: data.kind,
      name: data.name ?? null,
      started: data,
      ended: null,
      status: null,
      text: [],
      thinking: [],
      characters: 0,
      flow: stream(),
      toolCallId: data.agui?.toolCallId ?? null,
      argumentPieces: [],
      arguments: null,
      result: null,
      summary: "",
    });
    this.segments.set(id, segment);
    if (segment.toolCallId !== null) this.calls.set(segment.toolCallId, segment);
    this.#new(parent, segment);
  }

  #content(frame, at) {
    const segment = this.segments.get(frame.segment_id);
    if (segment === undefined) return;
    const { type, data } = frame;
    this.#touch(segment);
    if (type === "text.delta" || type === "thinking.delta") {
      if (type === "text.delta" && segment.text.length === 0) this.#attempt?.texts.push(segment);
      (type === "text.delta" ? segment.text : segment.thinking).push(data.text);
      segment.characters += data.text.length;
      if (segment.summary.length < SUMMARY) segment.summary += data.text.slice(0, SUMMARY);
      flowed(segment.flow, at, frame.seq);
      flowed(this.flow, at, frame.seq);
      // A model's first word is that of the message or the reasoning inside of it.
      for (let around = segment.parent; around?.type === "segment"; around = around.parent) {
        if (around.kind === "model") flowed(around.flow, at, frame.seq);
      }
      return;
    }
    if (type === "tool.call") {
      segment.toolCallId = data.tool_call_id;
      this.calls.set(data.tool_call_id, segment);
      flowed(segment.flow, at, frame.seq);
      if (data.arguments !== undefined) segment.arguments = data.arguments;
      else segment.argumentPieces.push(data.arguments_delta ?? "");
      if (segment.summary.length < SUMMARY) segment.summary = (data.arguments ?? segment.argumentPieces.join("")).slice(0, SUMMARY);
    } else if (type === "tool.result") {
      segment.result = { ...data, at };
    } else if (type === "segment.end") {
      segment.ended = data;
      segment.usage = data.usage;
      segment.cost = data.cost;
      if (data.usage !== undefined || data.cost !== undefined) this.usageVersion += 1;
      this.#close(segment, at, data.status);
    }
  }

  #notice(frame, data, at) {
    const { code, attributes } = data;
    const around = this.#attempt ?? this.run;
    if (code === "agui.STATE_SNAPSHOT" || code === "agui.STATE_DELTA") {
      if (this.#state === null) {
        this.#state = this.#new(this.run, node("state", "state", frame, { changes: [] }));
        // In front of everything else, where it stays while the run grows.
        this.run.children.unshift(this.run.children.pop());
      }
      const isSnapshot = code === "agui.STATE_SNAPSHOT";
      this.#state.changes.push({
        seq: frame.seq,
        at,
        attempt: this.#attempt?.number ?? 1,
        snapshot: isSnapshot ? attributes?.snapshot : undefined,
        patch: isSnapshot ? undefined : (attributes?.delta ?? []),
      });
      this.#touch(this.#state);
      return;
    }
    this.#new(around, node("notice", `notice.${frame.seq}`, frame, { end: at, notice: data }));
  }
}

/** Provider and model of a segment's usage. */
function modelOf({ usage, started }) {
  const [provider, ...model] = (started.model_ref ?? "").split("/");
  return [usage?.provider ?? (provider || undefined), usage?.model ?? (model.join("/") || started.name || undefined)];
}

/**
 * The rows of a tree, each with its depth and its place among its siblings, as a reader of the screen is told it. The attempts of
 * a run that has only one have no row of their own.
 *
 * @param {RunModel} model
 */
export function rowsOf(model) {
  const rows = [];
  if (model.run === undefined) return rows;
  const isSplit = model.attempts.length > 1;
  const childrenOf = (one) =>
    one.type === "run" && !isSplit ? one.children.flatMap((child) => (child.type === "attempt" ? child.children : [child])) : one.children;
  const walk = (one, level, position, siblings) => {
    const children = childrenOf(one);
    one.index = rows.length;
    rows.push({ node: one, level, position, siblings, hasChildren: children.length > 0 });
    if (one.isFolded) return;
    for (let i = 0; i < children.length; i += 1) walk(children[i], level + 1, i + 1, children.length);
  };
  walk(model.run, 1, 1, 1);
  return rows;
}
