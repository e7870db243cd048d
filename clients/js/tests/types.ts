// What the types promise, for the compiler. Nothing of this is run.

import {
  FollowError,
  type Frame,
  followRun,
  followSession,
  resumableFetch,
  type RunFollower,
  type SessionFollower,
  type Status,
} from "../runwire.js";

export async function frames(signal: AbortSignal): Promise<string> {
  const run: RunFollower = followRun({
    server: "https://runs.example",
    runId: "run_1",
    cursor: 7,
    transport: "websocket",
    token: async () => "s3cret",
    signal,
    backoff: { maxElapsedMs: Infinity },
    onStatus(status: Status<number>) {
      if (status.state === "resuming") console.log(status.reason.length, status.retryInMs + status.cursor);
      // @ts-expect-error: only a resumption has a reason
      else console.log(status.reason);
    },
  });
  let text = "";
  for await (const frame of run) {
    // `type` tells what `data` holds.
    switch (frame.type) {
      case "text.delta": {
        const segment: string = frame.segment_id;
        text += frame.data.text + segment;
        break;
      }
      case "run.end":
        text += frame.data.usage?.[0]?.output_tokens ?? 0;
        break;
      // @ts-expect-error: the types are a closed set
      case "text":
        break;
    }
    const known: Frame = frame;
    console.log(known.seq, known.body, known.data.agui?.["runId"]);
    // @ts-expect-error: not every frame has it
    console.log(frame.data.text);
  }
  console.log(run.cursor.toFixed());
  return text;
}

export async function session(kept: string | undefined): Promise<string | undefined> {
  const runs: SessionFollower = followSession({ server: "/", sessionId: "chat_7", cursor: kept });
  for await (const frame of runs) if (frame.type === "run.end") return runs.cursor?.split(",")[0];
  // @ts-expect-error: a session is no run
  followSession({ server: "/", runId: "run_1" });
  // @ts-expect-error: its cursor names runs
  followSession({ server: "/", sessionId: "chat_7", cursor: 7 });
  return undefined;
}

export function refusal(error: unknown): number | undefined {
  if (!(error instanceof FollowError)) return undefined;
  // @ts-expect-error: the codes are a closed set
  if (error.code === "NO_SUCH_CODE") return undefined;
  return error.code === "GONE" ? error.oldest : error.head;
}

/** What an AG-UI client takes as its `fetch`. */
export const ask: (url: string, init: RequestInit) => Promise<Response> = resumableFetch({
  fetch: globalThis.fetch,
  onStatus: ({ state, threadId, runId, cursor }) => console.log(state, threadId, runId, cursor?.split(".")),
});

// @ts-expect-error: a run is followed on a server
followRun({ runId: "run_1" });
// @ts-expect-error: there are two transports
followRun({ server: "/", runId: "run_1", transport: "ws" });

// Other classes than the browser's, such as that of the package `ws`, can be a WebSocket here.
declare class Ws {
  constructor(address: string | URL, options?: { headers: object });
  binaryType: "nodebuffer" | "arraybuffer" | "fragments";
  onopen: ((event: { type: string }) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: ((event: { message: string }) => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
  send(data: string | ArrayBuffer, callback?: () => void): void;
  close(code?: number, data?: string): void;
}
followRun({ server: "/", runId: "run_1", WebSocket: Ws });
if (typeof WebSocket !== "undefined") followRun({ server: "/", runId: "run_1", WebSocket });
