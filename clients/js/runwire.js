// Follows runs of a Runwire server from browsers and Node.js, and resumes by itself when a connection is lost.
//
// `followRun()` reads a run's frames (frame protocol v2, docs/protocol.md), `followSession()` those of all runs of a session.
// `resumableFetch()` makes a `fetch` with which an AG-UI client reads an exchange over any number of connections as if it were
// one. All pull: nothing is read ahead of what the caller asks for, except over a WebSocket, where a page cannot make the other
// side wait. None ever cancels a run: that a reader leaves, by an `AbortSignal` too, only closes its connection (guarantee G9).

/** The version of the frame protocol. */
const PROTOCOL = 2;

const ENVELOPE = ["protocol", "seq", "run_id", "ts", "type", "segment_id", "data"];

const OF_A_SEGMENT = ["segment.start", "segment.end", "text.delta", "thinking.delta", "tool.call", "tool.result"];

const TYPES = ["run.start", "run.status", "run.end", ...OF_A_SEGMENT, "suspend", "resume", "notice", "error"];

/** The server gives a sign of life every 15 s. */
const IDLE_MS = 45_000;

const MAX_EVENT_BYTES = 64 * 1024 * 1024;

/** So many WebSockets in a row may end because the first message came too late: a line or a machine that is slow recovers,
 * something on the way that lets no message through does not. */
const LATE_MAX = 10;

/** Most characters that wait for a slow caller over a WebSocket. Behind that, the socket is left and opened again later. */
const MAX_QUEUED_CHARACTERS = 8 * 1024 * 1024;

/** A request that has had no answer yet is not repeated for longer: whoever waits for it knows nothing of the run. */
const FIRST_ANSWER_MS = 30_000;

/** Most bytes of a refusal's body that are read. */
const REFUSAL_BYTES = 64 * 1024;

/** Pages that come back online at the same instant return within this time. */
const ONLINE_SPREAD_MS = 250;

const LONGEST_WAIT_MS = 24 * 60 * 60 * 1000;

/** The longest that timers can count. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Following was given up: coming back cannot help, or was not allowed to go on. `code` says which of the cases it is. */
export class FollowError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{status?: number, oldest?: number, head?: number, cursor?: number | string, cause?: unknown}} [more]
   */
  constructor(code, message, { cause, ...more } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "FollowError";
    this.code = code;
    this.status = more.status;
    this.oldest = more.oldest;
    this.head = more.head;
    this.cursor = more.cursor;
  }
}

/** Why a connection was lost, or did not come about. Coming back repairs it. */
class Cut extends Error {
  /**
   * @param {string} reason
   * @param {object} [how]
   * @param {number} [how.askedMs] how long the server asked to wait
   * @param {boolean} [how.clean] the body ended in good order
   * @param {boolean} [how.ours] nothing is wrong with the server: this side left
   * @param {unknown} [how.cause]
   */
  constructor(reason, { askedMs = 0, clean = false, ours = false, cause = undefined } = {}) {
    super(reason, { cause });
    this.askedMs = askedMs;
    this.clean = clean;
    this.ours = ours;
  }
}

/** Thrown when the server says that nothing is after the cursor, and nothing will be. */
const ENDED = Symbol("ended");

/** The reason of an abort when the caller has just stopped asking. */
const LEFT = Symbol("left");

const now = () => performance.now();

/**
 * How long to wait before coming back: exponential backoff with full jitter, as in the Rust client. What the server asks for
 * is a lower bound on top of it.
 */
class Retries {
  #firstMs;
  #capMs;
  #maxElapsedMs;
  /** Cuts since the last sign that the server works. */
  #cuts = 0;
  /** Time without a working connection since the first of those. It is summed up from its parts, so that a machine that
   * slept for a night has not used it up when it wakes. */
  #spentMs = 0;
  /** What `retry:` asked for, as a lower bound of the first wait. */
  floorMs = 0;

  constructor({ firstMs = 250, capMs = 15_000, maxElapsedMs = 600_000 } = {}) {
    for (const [name, value] of Object.entries({ firstMs, capMs, maxElapsedMs })) {
      if (typeof value !== "number" || !(value >= 0))
        throw new TypeError(`backoff.${name} must be milliseconds, 0 or more`);
    }
    this.#firstMs = firstMs;
    this.#capMs = capMs;
    this.#maxElapsedMs = maxElapsedMs;
  }

  get spentMs() {
    return this.#spentMs;
  }

  /** The server works: the next wait is a first one again. */
  recovered() {
    this.#cuts = 0;
    this.#spentMs = 0;
  }

  /** A connection that stayed up for so long was lost. One that outlived the longest wait counts as working, even if it
   * brought nothing: a run may be suspended for days. */
  held(ms) {
    if (ms >= this.#capMs) this.recovered();
  }

  /**
   * A connection was lost or did not come about: how long to wait, or `undefined` when it is time to give up.
   *
   * @param {number} askedMs what the server asked for this once
   * @param {number} triedMs how long the connection took to fail
   */
  cut(askedMs, triedMs) {
    const drawn = Math.random() * Math.min(this.#capMs, this.#firstMs * 2 ** Math.min(this.#cuts, 40));
    const floor = Math.max(askedMs, this.#cuts === 0 ? this.floorMs : 0);
    const wait = Math.min(LONGEST_WAIT_MS, Math.max(drawn, floor));
    if (this.#cuts > 0) this.#spentMs += triedMs;
    this.#cuts += 1;
    if (this.#spentMs + wait > this.#maxElapsedMs) return undefined;
    this.#spentMs += wait;
    return { wait, floor };
  }
}

/** What a promise brings, unless it takes longer than `ms` or the signal says to leave. */
function within(ms, signal, promise) {
  return new Promise((resolve, reject) => {
    const settle = (how) => (value) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
      how(value);
    };
    const leave = () => settle(reject)(signal.reason);
    const silent = () => settle(reject)(new Cut(`nothing came from the server for ${ms / 1000} s`));
    const timer = ms === Infinity ? undefined : setTimeout(silent, Math.min(ms, LONGEST_TIMER_MS));
    signal.addEventListener("abort", leave);
    promise.then(settle(resolve), settle(reject));
    if (signal.aborted) leave();
  });
}

/**
 * Waits before the next connection. A browser that comes back online ends the wait, though never before `floor`, which the
 * server asked for, and not for all pages at the same instant.
 */
function pause({ wait, floor }, signal) {
  return new Promise((resolve, reject) => {
    const began = now();
    const settle = (how) => () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
      globalThis.removeEventListener?.("online", online);
      how(signal.reason);
    };
    const leave = settle(reject);
    const over = settle(resolve);
    const online = () => {
      const waited = now() - began;
      clearTimeout(timer);
      timer = setTimeout(over, Math.min(wait - waited, Math.max(floor - waited, Math.random() * ONLINE_SPREAD_MS)));
    };
    let timer = setTimeout(over, wait);
    signal.addEventListener("abort", leave);
    globalThis.addEventListener?.("online", online);
    if (signal.aborted) leave();
  });
}

/** Aborts when `signal` does. Answers with what undoes that. */
function follow(signal, controller) {
  if (!signal) return () => {};
  const leave = () => controller.abort(signal.reason);
  if (signal.aborted) leave();
  signal.addEventListener("abort", leave);
  return () => signal.removeEventListener("abort", leave);
}

/** The innermost cause that a failed `fetch` gives: what a person can act on. */
const why = (error) => String(error?.cause?.message || error?.cause?.code || error?.message || error);

/**
 * Connect, read, lose the connection, wait, connect again: the one loop behind both followers.
 *
 * @param reading what is read: `connect(signal)`, `take(arrived)`, `ended`, `afterCut(cut)`, `idleMs`, `cursor`
 * @param {Retries} retries
 * @param {(status: object) => void} tell
 * @param {AbortSignal} signal
 */
async function* reconnecting(reading, retries, tell, signal) {
  while (!reading.ended) {
    signal.throwIfAborted();
    const link = new AbortController();
    const unlink = follow(signal, link);
    const began = now();
    let since;
    let connection;
    let cut;
    try {
      connection = await within(reading.idleMs, signal, reading.connect(link.signal));
      since = now();
      tell({ state: "live", cursor: reading.cursor });
      while (!reading.ended) {
        for (const arrived of await within(reading.idleMs, signal, connection.read())) {
          const taken = reading.take(arrived);
          if (taken === undefined) continue;
          if (taken.moves) retries.recovered();
          yield taken.item;
          signal.throwIfAborted();
          if (reading.ended) break;
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      if (error === ENDED) {
        reading.nothingFollows();
      } else if (error instanceof Cut) {
        cut = error;
      } else {
        throw error;
      }
    } finally {
      unlink();
      link.abort();
      connection?.close();
    }
    if (cut === undefined) continue;
    reading.afterCut(cut);
    if (reading.ended) continue;
    retries.floorMs = connection?.retryMs ?? retries.floorMs;
    if (since !== undefined) retries.held(now() - since);
    const next = cut.ours ? { wait: 0, floor: 0 } : retries.cut(cut.askedMs, Math.min(now() - began, reading.idleMs));
    if (next === undefined) {
      const message = `gave up after ${Math.round(retries.spentMs / 1000)} s without a working connection: ${cut.message}`;
      throw new FollowError("GAVE_UP", message, { cursor: reading.cursor, cause: cut.cause });
    }
    tell({ state: "resuming", cursor: reading.cursor, reason: cut.message, retryInMs: next.wait });
    await pause(next, signal);
  }
  tell({ state: "ended", cursor: reading.cursor });
}

// Server-Sent Events.

const LF = 0x0a;
const CR = 0x0d;

/** The pieces as one; a single piece as it is. */
function joined(pieces) {
  if (pieces.length === 1) return pieces[0];
  const bytes = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/**
 * Splits a body into the blocks that blank lines end, by the HTML standard's grammar: an event, comments, or fields alone.
 * What no blank line has ended is never given out, so what is cut within an event is as if it had not come.
 */
class EventSplitter {
  #maxBytes;
  #block = [];
  #blockBytes = 0;
  #line = [];
  #afterCarriageReturn = false;
  #fields = {};
  // Fatal: bytes that are no UTF-8 must not pass as a replacement character.
  #utf8 = new TextDecoder("utf-8", { fatal: true });
  /** The last `retry:` value, in milliseconds. */
  retryMs;

  constructor(maxBytes) {
    this.#maxBytes = maxBytes;
  }

  /**
   * The blocks that the next bytes complete: `{bytes, id, data, retry}`, `bytes` exactly as they came, the others undefined
   * where the block has no such field.
   *
   * @param {Uint8Array} chunk cut anywhere
   */
  *push(chunk) {
    let blockStart = 0;
    let lineStart = this.#afterCarriageReturn && chunk[0] === LF ? 1 : 0;
    let carriageReturn = chunk.indexOf(CR, lineStart);
    if (chunk.length > 0) this.#afterCarriageReturn = false;
    for (;;) {
      const lineFeed = chunk.indexOf(LF, lineStart);
      if (carriageReturn >= 0 && carriageReturn < lineStart) carriageReturn = chunk.indexOf(CR, lineStart);
      const ends = [lineFeed, carriageReturn].filter((at) => at >= 0);
      if (ends.length === 0) break;
      const end = Math.min(...ends);
      const line = joined([...this.#line, chunk.subarray(lineStart, end)]);
      this.#line = [];
      lineStart = end + 1;
      if (chunk[end] === CR) {
        if (chunk[lineStart] === LF) lineStart += 1;
        else if (lineStart === chunk.length) this.#afterCarriageReturn = true;
      }
      if (line.length > 0) {
        this.#field(line);
        continue;
      }
      const bytes = joined([...this.#block, chunk.subarray(blockStart, lineStart)]);
      const fields = this.#fields;
      blockStart = lineStart;
      this.#block = [];
      this.#blockBytes = 0;
      this.#fields = {};
      if (bytes.length > this.#maxBytes) throw this.#tooLarge();
      yield { bytes, ...fields, data: fields.data?.join("\n") };
    }
    if (lineStart < chunk.length) this.#line.push(chunk.subarray(lineStart));
    if (blockStart < chunk.length) this.#block.push(chunk.subarray(blockStart));
    this.#blockBytes += chunk.length - blockStart;
    if (this.#blockBytes > this.#maxBytes) throw this.#tooLarge();
  }

  #tooLarge() {
    return new FollowError(
      "TOO_LARGE",
      `the server sent an event of more than ${this.#maxBytes} bytes; raise \`maxEventBytes\``,
    );
  }

  #field(bytes) {
    let line;
    try {
      line = this.#utf8.decode(bytes);
    } catch (cause) {
      throw new FollowError("BAD_TRANSPORT", "the server sent Server-Sent Events that are not UTF-8", { cause });
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") (this.#fields.data ??= []).push(value);
    else if (name === "id" && !value.includes("\0")) this.#fields.id = value;
    else if (name === "retry" && /^\d{1,15}$/.test(value)) this.#fields.retry = this.retryMs = Number(value);
  }
}

/** One connection over Server-Sent Events. */
class EventStream {
  #reader;
  #splitter;

  constructor(response, maxBytes) {
    this.#reader = response.body.getReader();
    this.#splitter = new EventSplitter(maxBytes);
  }

  get retryMs() {
    return this.#splitter.retryMs;
  }

  /** The blocks that one read from the network completes. A body that ends is a cut: whether that was right is for those to
   * say who know what the last event was. */
  async read() {
    let read;
    try {
      read = await this.#reader.read();
    } catch (cause) {
      throw new Cut(`the connection broke: ${why(cause)}`, { cause });
    }
    if (read.done) throw new Cut("the server closed the stream before the run ended", { clean: true });
    return this.#splitter.push(read.value);
  }

  close() {
    this.#reader.cancel().catch(() => {});
  }
}

const isEventStream = (response) =>
  (response.headers.get("content-type") ?? "").split(";")[0].trim().toLowerCase() === "text/event-stream";

/** Whether what the server answers may be another thing later: too slow, too early, too often, or out of order. */
const mayPass = (status) => [408, 425, 429].includes(status) || status >= 500;

/** `Retry-After` in milliseconds: seconds, or a date. 0 where it is absent or unreadable. */
function retryAfter(response) {
  const value = (response.headers.get("retry-after") ?? "").trim();
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  return Math.max(0, Date.parse(value) - Date.now()) || 0;
}

/** What a refusal says: its problem document (RFC 9457), or the beginning of whatever it is. */
async function problemOf(response) {
  const pieces = [];
  let bytes = 0;
  try {
    const reader = response.body?.getReader();
    for (let read = await reader?.read(); read !== undefined && !read.done; read = await reader.read()) {
      pieces.push(read.value);
      bytes += read.value.length;
      if (bytes >= REFUSAL_BYTES) {
        await reader.cancel();
        break;
      }
    }
  } catch {
    // A body that breaks off still has its status, which is what decides.
  }
  const text = new TextDecoder().decode(joined([new Uint8Array(), ...pieces]));
  let document = {};
  try {
    document = Object(JSON.parse(text));
  } catch {
    document = { detail: text.trim().slice(0, 200) };
  }
  const title = typeof document.title === "string" ? document.title : response.statusText || "refused";
  const detail = typeof document.detail === "string" && document.detail !== "" ? `: ${document.detail}` : "";
  return { sentence: `${title} (HTTP ${response.status})${detail}`, oldest: document.oldest, head: document.head };
}

/** Throws what follows from an answer that opens no stream. `what` names what was asked for. */
async function refuse(response, what, cursor) {
  const { status } = response;
  if (status === 204) throw ENDED;
  const { sentence, oldest, head } = await problemOf(response);
  if (mayPass(status)) throw new Cut(`the server answered ${sentence}`, { askedMs: retryAfter(response) });
  throw refused(status, what, sentence, { status, oldest, head, cursor });
}

function refused(status, what, said, more) {
  switch (status) {
    case 401:
    case 403:
      return new FollowError("UNAUTHORIZED", `the server does not allow to read ${what}: ${said}`, more);
    case 404:
      return new FollowError(
        "RUN_NOT_FOUND",
        `there is no ${what} on this server, or the token may not see it: ${said}`,
        more,
      );
    case 410:
      return new FollowError("GONE", `what comes after the cursor of ${what} is no longer kept: ${said}`, more);
    case 416:
      return new FollowError(
        "PAST_HEAD",
        `the cursor is past the end of ${what}; it belongs to another run or server: ${said}`,
        more,
      );
    default:
      return new FollowError("REFUSED", `the server refused to stream ${what}: ${said}`, more);
  }
}

// Frames.

/** One connection over a WebSocket, behind its first message. */
class FrameSocket {
  #socket;
  #what;
  #queue = [];
  #queuedCharacters = 0;
  /** How the connection ended, thrown when the queue is empty. */
  #end;
  #wake = () => {};
  #anyFrame = false;

  /**
   * @param {WebSocket} socket
   * @param {string} what
   */
  constructor(socket, what) {
    this.#socket = socket;
    this.#what = what;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => this.#arrive(data);
    // The package `ws` tells of the server's pings, which a browser keeps to itself.
    /** @type {any} */ (socket).on?.("ping", () => this.#arrive(undefined));
  }

  /** Opens it and sends the first message. */
  static open(WebSocketClass, url, first, what, signal) {
    return new Promise((resolve, reject) => {
      const socket = new WebSocketClass(url);
      const connection = new FrameSocket(socket, what);
      const unreachable = (event) => {
        const said = event?.message ? `: ${event.message}` : "";
        const cut = new Cut(`no WebSocket to the server came about${said}`);
        connection.#ends(cut);
        reject(cut);
      };
      signal.addEventListener("abort", () => connection.close());
      socket.onerror = unreachable;
      socket.onclose = unreachable;
      socket.onopen = () => {
        socket.onerror = () => {};
        socket.onclose = ({ code, reason }) => connection.#closed(code, reason);
        socket.send(JSON.stringify(first));
        resolve(connection);
      };
    });
  }

  /** @param {string | ArrayBuffer | undefined} body a message, or `undefined` for a sign of life */
  #arrive(body) {
    if (this.#end !== undefined) return;
    if (body instanceof ArrayBuffer) {
      const message = "the server sent a binary WebSocket message, and a frame is a text message";
      this.#ends(new FollowError("BAD_TRANSPORT", message));
      return;
    }
    this.#anyFrame ||= body !== undefined;
    this.#queue.push({ data: body });
    this.#queuedCharacters += body?.length ?? 0;
    if (this.#queuedCharacters > MAX_QUEUED_CHARACTERS) {
      // Nothing makes the other side of a WebSocket wait. What was sent is in the server's log, so it can be had again.
      this.#ends(new Cut("the reader is slower than the WebSocket", { ours: true }));
      this.close();
    }
    this.#wake();
  }

  #ends(end) {
    this.#end ??= end;
    this.#wake();
  }

  /** What a close means (the seed's *WebSocket close codes*). */
  #closed(code, reason) {
    const said = reason === "" ? `closed with code ${code}` : `closed with code ${code} ${reason}`;
    switch (code) {
      case 1000:
        // Behind `run.end`. Where frames came and `run.end` did not, the server is asked again; where none came, it says that
        // none are left.
        return this.#ends(this.#anyFrame ? new Cut(`the WebSocket was ${said}`) : ENDED);
      case 4401:
        return this.#ends(refused(401, this.#what, said));
      case 4404:
        return this.#ends(refused(404, this.#what, said));
      case 4409:
        return this.#ends(
          new FollowError("PROTOCOL_UNSUPPORTED", `the server does not speak frame protocol ${PROTOCOL}: ${said}`),
        );
      default:
        return this.#ends(new Cut(`the WebSocket was ${said}`));
    }
  }

  /** The messages that have come. */
  async read() {
    while (this.#queue.length === 0) {
      if (this.#end !== undefined) throw this.#end;
      await new Promise((wake) => {
        this.#wake = () => wake(undefined);
      });
    }
    const messages = this.#queue;
    this.#queue = [];
    this.#queuedCharacters = 0;
    return messages;
  }

  close() {
    this.#ends(new Cut("this side closed the WebSocket"));
    this.#socket.close();
  }
}

/**
 * What came as a frame, judged by the rules of the envelope.
 *
 * @param {string} body
 * @param {number | string | undefined} cursor behind which it came
 */
function frameOf(body, cursor) {
  const bad = (problem, code = "BAD_FRAME", /** @type {unknown} */ cause = undefined) => {
    const message = `what came after frame ${cursor ?? 0} is no frame of protocol version ${PROTOCOL}: ${problem}`;
    return new FollowError(code, message, { cursor, cause });
  };
  let frame;
  try {
    frame = JSON.parse(body);
  } catch (cause) {
    throw bad("it is no JSON", "BAD_FRAME", cause);
  }
  if (frame === null || typeof frame !== "object" || Array.isArray(frame)) throw bad("it is no JSON object");
  if ("protocol" in frame && frame.protocol !== PROTOCOL) {
    throw bad(`it is of protocol ${JSON.stringify(frame.protocol)}`, "PROTOCOL_UNSUPPORTED");
  }
  for (const key of ENVELOPE) if (!Object.hasOwn(frame, key)) throw bad(`it has no \`${key}\``);
  const other = Object.keys(frame).find((key) => !ENVELOPE.includes(key));
  if (other !== undefined) throw bad(`its envelope has the key \`${other}\``);
  const { seq, run_id, ts, type, segment_id, data } = frame;
  if (!Number.isSafeInteger(seq) || seq < 0) throw bad("its `seq` is no whole number");
  if (typeof run_id !== "string" || typeof ts !== "string") throw bad("its `run_id` or `ts` is no string");
  if (!TYPES.includes(type)) throw bad(`its type is ${JSON.stringify(type)}`);
  if (segment_id !== null && typeof segment_id !== "string") throw bad("its `segment_id` is no string and not null");
  if (segment_id === null && OF_A_SEGMENT.includes(type)) throw bad(`it is a ${type} without a \`segment_id\``);
  if (data === null || typeof data !== "object" || Array.isArray(data)) throw bad("its `data` is no object");
  if (seq === 0 && type !== "error") throw bad("its `seq` is 0");
  return Object.defineProperty(frame, "body", { value: body });
}

/** The address of a server's routes, with the path in front of them. */
function baseOf(server) {
  const base = new URL(server, globalThis.location?.href);
  if (!/^https?:$/.test(base.protocol))
    throw new TypeError(`server must be an http or https address, and is ${base.href}`);
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  return base;
}

/** Opens a stream of frames by Server-Sent Events. `what` names it. */
async function openFrames(url, { token, fetch, signal, what, cursor, maxEventBytes }) {
  const headers = new Headers({ Accept: "text/event-stream" });
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(url.href, { headers, cache: "no-store", signal });
  } catch (cause) {
    throw new Cut(`cannot reach the server: ${why(cause)}`, { cause });
  }
  if (response.status !== 200) await refuse(response, what, cursor);
  if (!isEventStream(response)) {
    const message = `${url.href} answered with no event stream; is \`server\` the address of a Runwire server?`;
    throw new FollowError("NOT_AN_EVENT_STREAM", message, { cursor });
  }
  return new EventStream(response, maxEventBytes);
}

/** A run's log as something to be read over many connections. */
class FrameReading {
  #base;
  #runId;
  #what;
  #transport;
  #token;
  #fetch;
  #WebSocket;
  #maxEventBytes;
  /** The last `seq` that came over this connection. */
  #previous;
  /** The cursor at which the order of the frames was last found broken, until a frame is delivered. */
  #brokenAt;
  /** How many connections ended because the first message came too late, since the server last took one. */
  #late = 0;
  ended = false;

  /** @param {import("./runwire.d.ts").FollowRunOptions} options */
  constructor({
    server,
    runId,
    cursor = 0,
    transport = "sse",
    token,
    fetch,
    WebSocket,
    idleMs = IDLE_MS,
    maxEventBytes = MAX_EVENT_BYTES,
  }) {
    if (typeof runId !== "string" || runId === "") throw new TypeError("runId must be a run's id");
    if (!Number.isSafeInteger(cursor) || cursor < 0) throw new TypeError("cursor must be the seq of a frame, or 0");
    if (transport !== "sse" && transport !== "websocket") throw new TypeError('transport must be "sse" or "websocket"');
    const base = baseOf(server);
    if (typeof token === "string") void new Headers({ Authorization: `Bearer ${token}` });
    this.#base = base;
    this.#runId = runId;
    this.#what = `run \`${runId}\``;
    this.#transport = transport;
    this.#token = token;
    this.#fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.#WebSocket = WebSocket ?? globalThis.WebSocket;
    this.#maxEventBytes = maxEventBytes;
    if (transport === "websocket" && this.#WebSocket === undefined) {
      throw new TypeError(
        "this environment has no WebSocket (Node.js has one from version 22 on): pass one as `WebSocket`",
      );
    }
    this.cursor = cursor;
    this.idleMs = idleMs;
  }

  #url(end) {
    return new URL(`v2/runs/${encodeURIComponent(this.#runId)}/${end}`, this.#base);
  }

  async connect(signal) {
    this.#previous = undefined;
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    signal.throwIfAborted();
    if (this.#transport === "websocket") {
      const url = this.#url("ws");
      url.protocol = url.protocol.replace("http", "ws");
      const first = { type: "auth", token: token ?? "", protocol: PROTOCOL, after: this.cursor };
      return FrameSocket.open(this.#WebSocket, url.href, first, this.#what, signal);
    }
    const url = this.#url("stream");
    // In the query and not in a header: so a page of another origin asks nobody first, and no proxy takes it away.
    if (this.cursor > 0) url.searchParams.set("after", String(this.cursor));
    const fetch = this.#fetch;
    return openFrames(url, {
      token,
      fetch,
      signal,
      what: this.#what,
      cursor: this.cursor,
      maxEventBytes: this.#maxEventBytes,
    });
  }

  /** Judges what came: the next frame, or nothing to be delivered. */
  take({ data: body }) {
    if (body === undefined) {
      // Pings come only behind a first message that was taken.
      this.#late = 0;
      return undefined;
    }
    if (body.length > this.#maxEventBytes) {
      throw new FollowError(
        "TOO_LARGE",
        `the server sent a frame of more than ${this.#maxEventBytes} bytes; raise \`maxEventBytes\``,
      );
    }
    const frame = frameOf(body, this.cursor);
    if (frame.seq === 0) throw this.#connectionError(frame.data);
    if (frame.run_id !== this.#runId) {
      const message = `frame ${frame.seq} is of run \`${frame.run_id}\`, and ${this.#what} is followed`;
      throw new FollowError("WRONG_RUN", message, { cursor: this.cursor });
    }
    this.#late = 0;
    const fresh = this.#previous === undefined;
    if (fresh ? frame.seq > this.cursor + 1 : frame.seq !== this.#previous + 1) this.#outOfOrder(frame.seq);
    this.#previous = frame.seq;
    // A connection that begins with what is known already repeats it, and nothing is lost by that.
    if (frame.seq <= this.cursor) return undefined;
    this.cursor = frame.seq;
    this.#brokenAt = undefined;
    this.ended = frame.type === "run.end";
    return { item: frame, moves: true };
  }

  #outOfOrder(seq) {
    const expected = (this.#previous ?? this.cursor) + 1;
    const code = seq > expected ? "GAP" : "DUPLICATE";
    const message = `frame ${expected} should have come, and frame ${seq} came`;
    if (this.#brokenAt === this.cursor) {
      throw new FollowError(code, `${message}, also after asking for it again`, { cursor: this.cursor });
    }
    this.#brokenAt = this.cursor;
    throw new Cut(message);
  }

  /** What an `error` frame with `seq` 0 means. It comes right before the close, and says more than the close does. */
  #connectionError({ code, message, retryable, oldest, head }) {
    const said = `${message} (${code})`;
    const more = { oldest, head, cursor: this.cursor };
    if (oldest !== undefined) return refused(410, this.#what, said, more);
    if (head !== undefined) return refused(416, this.#what, said, more);
    if (code === "AUTH_FAILED" && retryable === true) {
      // The first message came too late, and nothing is said of the token.
      this.#late += 1;
      if (this.#late < LATE_MAX) return new Cut(`the server reported ${said}`);
      const message = `the server did not get the first message of the WebSocket in time, ${this.#late} times in a row: ${said}`;
      return new FollowError("AUTH_LATE", message, more);
    }
    if (code === "AUTH_FAILED" || code === "MALFORMED_FRAME") return refused(401, this.#what, said, more);
    if (code === "RUN_NOT_FOUND") return refused(404, this.#what, said, more);
    if (code === "PROTOCOL_UNSUPPORTED")
      return new FollowError(code, `the server does not speak frame protocol ${PROTOCOL}: ${said}`, more);
    return retryable === true ? new Cut(`the server reported ${said}`) : refused(undefined, this.#what, said, more);
  }

  /** A log begins with `run.start`, so a run that ended has at least that. */
  nothingFollows() {
    if (this.cursor === 0) {
      const message = `the server says that nothing of ${this.#what} is left to read, and nothing of it was ever received`;
      throw new FollowError("ENDED_UNREAD", message, { cursor: 0 });
    }
    this.ended = true;
  }

  /** A cut is a break and never an ending, also where the body ended in good order. */
  afterCut() {}
}

/** All runs of a session as something to be read over many connections. It has no end. */
class SessionReading {
  #url;
  #what;
  #token;
  #fetch;
  #maxEventBytes;
  /** The last `seq` of each run that frames came of. */
  #runs = new Map();
  /** The cursor at which the order of the frames was last found broken, until a frame is delivered. */
  #brokenAt;
  ended = false;

  /** @param {import("./runwire.d.ts").FollowSessionOptions} options */
  constructor({ server, sessionId, cursor, token, fetch, idleMs = IDLE_MS, maxEventBytes = MAX_EVENT_BYTES }) {
    if (typeof sessionId !== "string" || sessionId === "") throw new TypeError("sessionId must be a session's id");
    if (cursor !== undefined && (typeof cursor !== "string" || cursor === ""))
      throw new TypeError("cursor must be the cursor of an earlier follower, or undefined");
    if (typeof token === "string") void new Headers({ Authorization: `Bearer ${token}` });
    this.#url = new URL(`v2/sessions/${encodeURIComponent(sessionId)}/stream`, baseOf(server));
    this.#what = `session \`${sessionId}\``;
    this.#token = token;
    this.#fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.#maxEventBytes = maxEventBytes;
    // A cursor that is none is for the server to refuse.
    for (const [, runId, seq] of (cursor ?? "").matchAll(/([^,]+):(\d{1,15})(?:,|$)/g)) {
      this.#runs.set(runId, Number(seq));
    }
    this.cursor = cursor;
    this.idleMs = idleMs;
  }

  async connect(signal) {
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    signal.throwIfAborted();
    const url = new URL(this.#url);
    if (this.cursor !== undefined) url.searchParams.set("after", this.cursor);
    const fetch = this.#fetch;
    return openFrames(url, {
      token,
      fetch,
      signal,
      what: this.#what,
      cursor: this.cursor,
      maxEventBytes: this.#maxEventBytes,
    });
  }

  /** Judges what came: the next frame of one of the runs, or nothing to be delivered. */
  take({ id, data: body }) {
    if (body === undefined) return undefined;
    const frame = frameOf(body, this.cursor);
    const { run_id, seq } = frame;
    // Without a cursor of its own a frame could not be gone on from.
    if (!(id ?? "").split(",").includes(`${run_id}:${seq}`)) {
      const message = `what came after ${this.cursor ?? "the beginning"} is no frame of a session: its id does not say that it is frame ${seq} of run \`${run_id}\``;
      throw new FollowError("BAD_EVENT", message, { cursor: this.cursor });
    }
    const last = this.#runs.get(run_id) ?? 0;
    if (seq <= last) return undefined;
    if (seq > last + 1) this.#gap(run_id, last + 1, seq);
    this.#runs.set(run_id, seq);
    this.#brokenAt = undefined;
    this.cursor = id;
    return { item: frame, moves: true };
  }

  #gap(runId, expected, seq) {
    const message = `frame ${expected} of run \`${runId}\` should have come, and frame ${seq} came`;
    const place = `${this.cursor} ${runId}`;
    if (this.#brokenAt === place) {
      throw new FollowError("GAP", `${message}, also after asking for it again`, { cursor: this.cursor });
    }
    this.#brokenAt = place;
    throw new Cut(message);
  }

  /** A session has no end that a server could tell of. */
  nothingFollows() {
    const message = `the server says that ${this.#what} has ended, which no session does`;
    throw new FollowError("REFUSED", message, { status: 204, cursor: this.cursor });
  }

  afterCut() {}
}

/** Frames, in order, without gap or duplicate, across connections: of a run, or of each run of a session. */
class Follower {
  #reading;
  #leaving = new AbortController();
  #frames;

  constructor(reading, options) {
    this.#reading = reading;
    const retries = new Retries(options.backoff);
    const tell = options.onStatus ?? (() => {});
    const { signal } = options;
    const leaving = this.#leaving;
    this.#frames = (async function* (reading) {
      const unlink = follow(signal, leaving);
      try {
        yield* reconnecting(reading, retries, tell, leaving.signal);
      } finally {
        unlink();
      }
    })(this.#reading);
  }

  get cursor() {
    return this.#reading.cursor;
  }

  /** @returns {Promise<IteratorResult<import("./runwire.d.ts").Frame, any>>} */
  async next() {
    try {
      return await this.#frames.next();
    } catch (error) {
      if (error === LEFT) return { done: true, value: undefined };
      throw error;
    }
  }

  /** @returns {Promise<IteratorReturnResult<undefined>>} */
  async return() {
    this.#leaving.abort(LEFT);
    await this.#frames.return();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

/**
 * Follows a run over frame protocol v2. Options, errors and what cancels it: runwire.d.ts.
 *
 * @type {typeof import("./runwire.d.ts").followRun}
 */
export function followRun(options) {
  return /** @type {import("./runwire.d.ts").RunFollower} */ (new Follower(new FrameReading(options), options));
}

/**
 * Follows all runs of a session over one connection. Options, errors and what cancels it: runwire.d.ts.
 *
 * @type {typeof import("./runwire.d.ts").followSession}
 */
export function followSession(options) {
  return /** @type {import("./runwire.d.ts").SessionFollower} */ (new Follower(new SessionReading(options), options));
}

// AG-UI.

/** CopilotKit's way to name the route in the body. */
const METHOD = /^agent\/(run|connect)$/;

/** The ids of the exchange that a request asks for, or `undefined` when it is none that may be repeated. */
function exchangeOf(input, init) {
  if (typeof init.body !== "string" || !/^post$/i.test(init.method ?? "")) return undefined;
  if (typeof input !== "string" && !(input instanceof URL)) return undefined;
  try {
    const asked = JSON.parse(init.body);
    const { threadId, runId } = METHOD.test(asked.method) ? Object(asked.body) : asked;
    const named = (id) => typeof id === "string" && id !== "";
    return named(threadId) && named(runId) ? { threadId, runId } : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the request gets a thread back, which starts nothing: of an agent, or of CopilotKit's runtime. */
const isConnect = (input, init) =>
  /\/(agui|agent)\/[^/]+\/connect\/?$/.test(new URL(input, "http://localhost").pathname) ||
  METHOD.exec(JSON.parse(init.body).method)?.[1] === "connect";

/** The ids of an exchange's events. */
const IDS_OF_AN_EXCHANGE = {
  form: "<seq>.<n>",
  /** The frame that an event comes from, and which of that frame's events it is. */
  placeOf(id) {
    const parts = /^(\d{1,15})\.(\d{1,15})$/.exec(id);
    return parts === null ? undefined : [Number(parts[1]), Number(parts[2])];
  },
  isSame: (place, other) => place[0] === other[0] && place[1] === other[1],
  isKnown: (place, last) => place[0] < last[0] || (place[0] === last[0] && place[1] <= last[1]),
  /** Whether more runs follow the one that this event is of. */
  goesOn: () => false,
};

/** The ids of a thread's events: several runs, one after the other, whose order is the server's to know. */
const IDS_OF_A_THREAD = {
  form: "<where>/<place>",
  placeOf: (id) => (/^[^\s/~]+\/\d+(\.\d+(\+\d+)?)?(~[^\s/~]+\/\d+)*$/.test(id) ? id : undefined),
  isSame: (place, other) => place === other,
  isKnown: (place, last) => place === last,
  goesOn: (place) => place.includes("~"),
};

/** An exchange, or a thread that is got back, as something to be read over many connections, as the bytes of one. */
class ExchangeReading {
  #ids;
  #request;
  #first;
  #what;
  #idleMs;
  #maxEventBytes;
  /** Whether the server is one that a repeated request re-attaches at. Of another, nothing may be asked twice. */
  #isRunwire;
  /** Whether nothing has come yet that asking a second time could bring again. */
  #isUntouched;
  #at;
  /** The place of the last event that came over this connection. */
  #came;
  /** Whether the last event was the ending of a run behind which none follows. */
  #closedRun = false;
  #retryIsForwarded = false;
  cursor;
  ended = false;

  constructor({ request, first, exchange, isThread, idleMs, maxEventBytes }) {
    this.#ids = isThread ? IDS_OF_A_THREAD : IDS_OF_AN_EXCHANGE;
    this.#request = request;
    this.#first = first;
    const thread = `thread \`${exchange.threadId}\``;
    this.#what = isThread ? thread : `exchange \`${exchange.runId}\` of ${thread}`;
    this.#isUntouched = isThread;
    this.#idleMs = idleMs;
    this.#maxEventBytes = maxEventBytes;
    this.#isRunwire = first.headers.has("runwire-run-id");
  }

  /** Other servers need give no sign of life. */
  get idleMs() {
    return this.#isRunwire || this.#isUntouched ? this.#idleMs : Infinity;
  }

  async connect(signal) {
    this.#came = undefined;
    const response = this.#first ?? (await this.#request(this.cursor, signal));
    this.#first = undefined;
    if (response.status !== 200) await refuse(response, this.#what, this.cursor);
    if (!isEventStream(response)) {
      throw new FollowError("NOT_AN_EVENT_STREAM", `what goes on with ${this.#what} is no event stream`, {
        cursor: this.cursor,
      });
    }
    return new EventStream(response, this.#maxEventBytes);
  }

  /** The bytes of a block, where they belong into the body. */
  take({ bytes, id, data, retry }) {
    if (data === undefined) {
      // Each connection begins with a `retry:`, and the body is to have one beginning.
      if (retry !== undefined && this.#retryIsForwarded) return undefined;
      this.#retryIsForwarded ||= retry !== undefined;
      return { item: bytes, moves: false };
    }
    this.#isUntouched = false;
    const { form, placeOf, isSame, isKnown, goesOn } = this.#ids;
    const place = placeOf(id ?? "");
    if (place === undefined) {
      if (this.#isRunwire)
        throw this.#bad(id === undefined ? "it has no id of its own" : `its id is \`${id}\` and not ${form}`);
      return { item: bytes, moves: true };
    }
    this.#isRunwire = true;
    if (this.#came !== undefined && isSame(place, this.#came)) throw this.#bad(`the id \`${id}\` stands for two events`);
    this.#came = place;
    if (this.#at !== undefined && isKnown(place, this.#at)) return undefined;
    this.#at = place;
    this.cursor = id;
    this.#closedRun = /^RUN_(FINISHED|ERROR)$/.test(typeOf(data)) && !goesOn(place);
    return { item: bytes, moves: true };
  }

  #bad(problem) {
    const message = `what came after event ${this.cursor ?? "0"} is no event of a resumable stream: ${problem}`;
    return new FollowError("BAD_EVENT", message, { cursor: this.cursor });
  }

  nothingFollows() {
    if (!this.#closedRun) {
      const message = `the server says that nothing of ${this.#what} is left to read, and its ending never came`;
      throw new FollowError("ENDED_UNREAD", message, { cursor: this.cursor });
    }
    this.ended = true;
  }

  /** The body may end where the server ended it behind the run's ending, and nowhere else. `RUN_ERROR` may still follow
   * `RUN_FINISHED`, so a connection that breaks there is no end either. */
  afterCut(cut) {
    if (!this.#isRunwire && !this.#isUntouched && !cut.clean) throw cut.cause ?? cut;
    this.ended = cut.clean && (this.#closedRun || !this.#isRunwire);
  }
}

/** An event's type. What is no event is for the AG-UI client to judge. */
function typeOf(data) {
  try {
    return String(Object(JSON.parse(data)).type);
  } catch {
    return "";
  }
}

/**
 * The first answer. It may be any that a `fetch` gives; only what may pass is tried again.
 *
 * @param {(cursor: undefined, signal: AbortSignal) => Promise<Response>} request
 */
async function firstAnswer(request, { idleMs, retries, tell, signal }) {
  for (;;) {
    const began = now();
    const link = new AbortController();
    const unlink = follow(signal, link);
    let response;
    let cut;
    try {
      response = await within(idleMs, signal, request(undefined, link.signal));
      if (!mayPass(response.status)) return { response, unlink };
      cut = new Cut(`the server answered ${response.status}`, { askedMs: retryAfter(response) });
    } catch (error) {
      unlink();
      link.abort();
      signal.throwIfAborted();
      if (!(error instanceof Cut)) throw error;
      cut = error;
    }
    const next = retries.cut(cut.askedMs, Math.min(now() - began, idleMs));
    if (next === undefined) {
      if (response !== undefined) return { response, unlink };
      // What `fetch` says is what the caller of a `fetch` expects.
      throw cut.cause ?? new FollowError("GAVE_UP", `gave up on an answer: ${cut.message}`);
    }
    unlink();
    link.abort();
    tell({ state: "resuming", cursor: undefined, reason: cut.message, retryInMs: next.wait });
    await pause(next, signal);
  }
}

/** The exchange as one body. */
function bodyOf(reading, { retries, tell, leaving, release }) {
  const blocks = reconnecting(reading, retries, tell, leaving.signal);
  return new ReadableStream(
    {
      start(controller) {
        // At once, also while nobody reads.
        leaving.signal.addEventListener("abort", () => {
          if (leaving.signal.reason !== LEFT) controller.error(leaving.signal.reason);
          release();
          void blocks.return().catch(() => {});
        });
      },
      async pull(controller) {
        try {
          const { done, value } = await blocks.next();
          if (!done) return controller.enqueue(value);
          release();
          controller.close();
        } catch (error) {
          if (leaving.signal.aborted) return;
          release();
          controller.error(error);
        }
      },
      cancel() {
        leaving.abort(LEFT);
      },
    },
    { highWaterMark: 0 },
  );
}

/**
 * Makes a `fetch` whose answers go on over any number of connections. Options, errors and what passes through: runwire.d.ts.
 *
 * @type {typeof import("./runwire.d.ts").resumableFetch}
 */
export function resumableFetch(options = {}) {
  const {
    fetch = globalThis.fetch.bind(globalThis),
    backoff = {},
    idleMs = IDLE_MS,
    maxEventBytes = MAX_EVENT_BYTES,
    onStatus,
  } = options;
  void new Retries(backoff);

  return async function (input, init = {}) {
    const exchange = exchangeOf(input, init);
    if (exchange === undefined) return fetch(input, init);
    // What is wrong with the request itself is told at once, and not taken for a lost connection.
    void new Request(input, { ...init, signal: undefined });
    const tell = (status) => onStatus?.({ ...status, ...exchange });
    const leaving = new AbortController();
    const unlinkCaller = follow(init.signal, leaving);
    leaving.signal.throwIfAborted();

    const request = async (cursor, signal) => {
      const headers = new Headers(init.headers);
      if (cursor !== undefined) headers.set("Last-Event-ID", cursor);
      try {
        return await fetch(input, { ...init, headers, signal });
      } catch (cause) {
        throw new Cut(`cannot reach the server: ${why(cause)}`, { cause });
      }
    };
    const maxElapsedMs = Math.min(FIRST_ANSWER_MS, backoff.maxElapsedMs ?? Infinity);
    const firstRetries = new Retries({ ...backoff, maxElapsedMs });
    let first;
    try {
      first = await firstAnswer(request, { idleMs, retries: firstRetries, tell, signal: leaving.signal });
    } catch (error) {
      unlinkCaller();
      throw error;
    }
    const { response, unlink } = first;
    if (response.status !== 200 || !isEventStream(response) || response.body === null) return response;

    const isThread = isConnect(input, init);
    const reading = new ExchangeReading({ request, first: response, exchange, isThread, idleMs, maxEventBytes });
    const release = () => {
      unlink();
      unlinkCaller();
    };
    const body = bodyOf(reading, { retries: new Retries(backoff), tell, leaving, release });
    const { status, statusText, headers } = response;
    const whole = new Response(body, { status, statusText, headers });
    Object.defineProperty(whole, "url", { value: response.url });
    return whole;
  };
}
