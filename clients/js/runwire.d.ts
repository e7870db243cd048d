// Types of runwire.js. The wire itself is described in docs/protocol.md.

/** How to wait before coming back: exponential backoff with full jitter, on top of what the server asks for. */
export interface Backoff {
  /** Upper bound of the first wait, in milliseconds. Default 250; it doubles with each further cut. */
  firstMs?: number;
  /** Upper bound of every wait that the server did not ask for, in milliseconds. Default 15 000. */
  capMs?: number;
  /**
   * Give up when there was no working connection for so long, in milliseconds, or would have been by the end of the next
   * wait. Default 600 000; `Infinity` for never. Time in which the machine slept does not count.
   */
  maxElapsedMs?: number;
}

/** Which case a {@link FollowError} is. */
export type FollowErrorCode =
  /** The token is missing or not accepted (HTTP 401, 403; WebSocket 4401). */
  | "UNAUTHORIZED"
  /** The first message of a WebSocket came too late (4401), ten times in a row. Nobody looked at the token. */
  | "AUTH_LATE"
  /** No such run or session, or not one that the token may see (HTTP 404; WebSocket 4404). */
  | "RUN_NOT_FOUND"
  /** What comes after the cursor is no longer kept (HTTP 410); `oldest` is what is left. */
  | "GONE"
  /** The cursor is past the last frame (HTTP 416); `head` is the last frame. */
  | "PAST_HEAD"
  /** The server does not speak protocol 2 (WebSocket 4409), or sent a frame of another. */
  | "PROTOCOL_UNSUPPORTED"
  /** The server refused for another reason. */
  | "REFUSED"
  /** Something else than a Runwire server answered. */
  | "NOT_AN_EVENT_STREAM"
  /** What came is no frame of protocol 2. */
  | "BAD_FRAME"
  /** What came is no event of a resumable AG-UI stream. */
  | "BAD_EVENT"
  /** What came breaks the rules of the transport. */
  | "BAD_TRANSPORT"
  /** A frame or event is larger than `maxEventBytes`. */
  | "TOO_LARGE"
  /** A frame of another run came. */
  | "WRONG_RUN"
  /** A frame is missing, also after asking for it again. */
  | "GAP"
  /** A connection brought a frame twice, and did so again after resuming. */
  | "DUPLICATE"
  /** The server says that nothing is left, and what must have come did not. */
  | "ENDED_UNREAD"
  /** No connection could be restored within `backoff.maxElapsedMs`. */
  | "GAVE_UP";

/** Following was given up. What was delivered before stays delivered, and the cursor says how far that is. */
export class FollowError extends Error {
  readonly name: "FollowError";
  readonly code: FollowErrorCode;
  /** The HTTP status, when it was HTTP that refused. */
  readonly status?: number;
  /** With `GONE`: the oldest `seq` that is left, if the server said. */
  readonly oldest?: number;
  /** With `PAST_HEAD`: the `seq` of the run's last frame, if the server said. */
  readonly head?: number;
  /** How far was read: a `seq`, or the id of an AG-UI event. */
  readonly cursor?: number | string;
}

/**
 * What is told of the connection. `ended` is told behind the run's ending and never otherwise: an error or an abort is not
 * an ending.
 */
export type Status<Cursor> =
  | { state: "live"; cursor: Cursor }
  | {
      state: "resuming";
      cursor: Cursor;
      /** Why the connection was lost or did not come about, for a person. */
      reason: string;
      /** Milliseconds until the next try. */
      retryInMs: number;
    }
  | { state: "ended"; cursor: Cursor };

interface Envelope<Type extends string, SegmentId, Data> {
  readonly protocol: 2;
  /** Position in the run's log, from 1 without holes. Keep it once the frame is processed: it is the cursor. */
  readonly seq: number;
  readonly run_id: string;
  /** RFC 3339, UTC, milliseconds. */
  readonly ts: string;
  readonly type: Type;
  readonly segment_id: SegmentId;
  /** May have keys beyond those that are described here. */
  readonly data: Data & { readonly agui?: Record<string, unknown> };
  /** The frame exactly as it came: the same text on both transports and in every replay. Not enumerable. */
  readonly body: string;
}

export type RunStatus =
  "queued" | "running" | "suspended" | "retrying" | "cancelling" | "completed" | "failed" | "cancelled";

export type SegmentKind = "model" | "tool" | "message" | "reasoning" | "step" | "agent";

export type ErrorCode =
  | "AUTH_FAILED"
  | "MALFORMED_FRAME"
  | "PROTOCOL_UNSUPPORTED"
  | "RUN_NOT_FOUND"
  | "BUDGET_EXCEEDED"
  | "RATE_LIMITED"
  | "MODEL_ERROR"
  | "TOOL_ERROR"
  | "GUARDRAIL_BLOCKED"
  | "CONTEXT_OVERFLOW"
  | "TIMEOUT"
  | "CANCELLED"
  | "SANDBOX_ERROR"
  | "CHANNEL_ERROR"
  | "INTERNAL_ERROR";

/** An absent count is unknown; it is not zero. */
export interface Usage {
  provider?: string;
  model?: string;
  input_tokens?: number;
  output_tokens?: number;
  total_tokens?: number;
  cached_input_tokens?: number;
  cache_write_input_tokens?: number;
  reasoning_tokens?: number;
}

export interface Cost {
  currency: string;
  /** A decimal number. */
  amount: string;
}

/** One frame of a run's log. `type` tells what `data` holds. */
export type Frame =
  | Envelope<
      "run.start",
      string | null,
      {
        agent_id: string;
        agent_revision_id: string | null;
        session_id: string | null;
        lane: string | null;
        trigger_kind: string | null;
        attempt: number;
      }
    >
  | Envelope<"run.status", string | null, { status: RunStatus; previous: RunStatus | null }>
  | Envelope<
      "run.end",
      string | null,
      {
        status: "completed" | "failed" | "cancelled";
        usage: Usage[] | null;
        cost: Cost | null;
        duration_ms: number | null;
        failure_class?: string;
        failure_detail?: string;
      }
    >
  | Envelope<
      "segment.start",
      string,
      {
        kind: SegmentKind;
        name: string | null;
        parent_segment_id?: string;
        group_key?: string;
        model_ref?: string;
        tool_slug?: string;
        child_run_id?: string;
      }
    >
  | Envelope<
      "segment.end",
      string,
      {
        status: "completed" | "failed" | "cancelled" | "abandoned";
        duration_ms: number | null;
        usage?: Usage;
        cost?: Cost;
        finish_reason?: string;
        error?: { code: ErrorCode; message: string };
      }
    >
  | Envelope<"text.delta", string, { text: string }>
  | Envelope<"thinking.delta", string, { text: string }>
  | Envelope<
      "tool.call",
      string,
      { tool_call_id: string; tool_slug: string; arguments_delta?: string; arguments?: string }
    >
  | Envelope<
      "tool.result",
      string,
      { tool_call_id: string; ok: boolean; output_preview: string | null; truncated: boolean; bytes: number }
    >
  | Envelope<
      "suspend",
      string | null,
      {
        kind: "approval" | "input";
        resume_contract: Record<string, unknown>;
        prompt: string | null;
        deadline_at?: string;
      }
    >
  | Envelope<"resume", string | null, { kind: "approval" | "input"; resolved_by: string | null }>
  | Envelope<
      "notice",
      string | null,
      { level: "debug" | "info" | "warning"; code: string; message: string; attributes?: Record<string, unknown> }
    >
  | Envelope<"error", string | null, { code: ErrorCode; message: string; retryable: boolean }>;

/** What `followRun` and `resumableFetch` have in common. */
interface Following {
  /** Used in place of the environment's `fetch`. */
  fetch?: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  backoff?: Backoff;
  /**
   * Longest silence, in milliseconds, before a connection counts as dead; in connecting as in reading. Default 45 000. The
   * server gives a sign of life every 15 s; less than that cuts healthy connections.
   */
  idleMs?: number;
  /** Most bytes of one frame or event (characters over a WebSocket). Default 64 MiB. */
  maxEventBytes?: number;
}

/** What a `WebSocket` must be able to do. The browser's, that of Node.js 22, and that of the package `ws` can. */
export type WebSocketClass = new (url: string) => {
  binaryType: string;
  onopen: any;
  onmessage: any;
  onerror: any;
  onclose: any;
  send(data: string): void;
  close(): void;
};

export interface FollowRunOptions extends Following {
  /** Address of the server; a path in front of its routes is kept. In a browser it may be relative to the page. */
  server: string | URL;
  runId: string;
  /** Begin after the frame with this `seq`. Default 0, the run's beginning. */
  cursor?: number;
  /** What carries the frames; both carry the same. Default `sse`. */
  transport?: "sse" | "websocket";
  /** Token, or what gives the token for each connection. */
  token?: string | (() => string | undefined | Promise<string | undefined>);
  /** Leaves the run alone and ends the iteration with the signal's reason, at any point, also between two connections. */
  signal?: AbortSignal;
  /** Used in place of the environment's `WebSocket`; needed in Node.js before version 22. */
  WebSocket?: WebSocketClass;
  onStatus?: (status: Status<number>) => void;
}

/**
 * A run's frames: in order, without gap or duplicate, across connections.
 *
 * It is over after `run.end`, or when the server says that nothing is left behind the cursor. It throws a
 * {@link FollowError} when coming back cannot help. Leaving the loop closes the connection and never cancels the run.
 */
export interface RunFollower extends AsyncIterableIterator<Frame> {
  /** The `seq` of the last frame that was given out, or the cursor it began at. */
  readonly cursor: number;
  return(): Promise<IteratorReturnResult<undefined>>;
}

/**
 * Follows a run over frame protocol v2. Nothing is sent before the first frame is asked for.
 *
 * @throws TypeError at once when an option is wrong
 */
export function followRun(options: FollowRunOptions): RunFollower;

export interface FollowSessionOptions extends Following {
  /** Address of the server; a path in front of its routes is kept. In a browser it may be relative to the page. */
  server: string | URL;
  sessionId: string;
  /** The {@link SessionFollower.cursor} of an earlier follower, to go on behind it. Default: from the session's first run. */
  cursor?: string;
  /** Token, or what gives the token for each connection. */
  token?: string | (() => string | undefined | Promise<string | undefined>);
  /** Leaves the runs alone and ends the iteration with the signal's reason, at any point, also between two connections. */
  signal?: AbortSignal;
  onStatus?: (status: Status<string | undefined>) => void;
}

/**
 * The frames of all runs of a session: of each run in order, without gap or duplicate, across connections. Runs come in the
 * order of their creation; those that go on at the same time interleave, and a new one comes by itself.
 *
 * It ends by an error, a `break` or an abort only: a session has no last run. It throws a {@link FollowError} when coming back
 * cannot help: `RUN_NOT_FOUND` when there is no such session, `GONE` when a run that the cursor names is there no more (start
 * over without a cursor).
 */
export interface SessionFollower extends AsyncIterableIterator<Frame> {
  /** The place behind the last frame that was given out, over all runs. Opaque; keep it once the frame is processed. */
  readonly cursor: string | undefined;
  return(): Promise<IteratorReturnResult<undefined>>;
}

/**
 * Follows a session over frame protocol v2, by Server-Sent Events. Nothing is sent before the first frame is asked for.
 *
 * @throws TypeError at once when an option is wrong
 */
export function followSession(options: FollowSessionOptions): SessionFollower;

export interface ResumableFetchOptions extends Following {
  /** Told for each exchange; `cursor` is the id of the last event. */
  onStatus?: (status: Status<string | undefined> & { threadId: string; runId: string }) => void;
}

/**
 * Makes a `fetch` for `new HttpAgent({ url, fetch })`, with `url` that of an agent on a Runwire server.
 *
 * The body of its answer goes on over any number of connections: when one breaks, the request is repeated with the id of
 * the last event, and the body continues at the next one, byte for byte. It ends when the server ended it behind
 * `RUN_FINISHED` or `RUN_ERROR`, and fails with a {@link FollowError} otherwise. A request that gets no answer, or one
 * that may pass (408, 425, 429, 5xx), is repeated for up to 30 s.
 *
 * The same holds for `/agui/{agent}/connect`, whose answer may hold several runs: it ends behind the last of them.
 *
 * Requests that are no `POST` of a `RunAgentInput`, and answers in protobuf, pass through unchanged. Use it for Runwire servers only: another server may take a repeated request for a second one.
 */
export function resumableFetch(
  options?: ResumableFetchOptions,
): (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
