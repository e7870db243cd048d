// Runs many AG-UI streams through `HttpAgent` of a released `@ag-ui/client`, in this process and without a socket, and
// prints what an application built on it would have got of each.

import { readFileSync } from "node:fs";
import { readFlags, refuse, report } from "./command-line.mjs";

const PACKAGES = { "1.0.0": "@ag-ui/client", "0.0.59": "agui-client-0-0-59" };

const flags = readFlags({ streams: { type: "string" }, client: { type: "string", default: "1.0.0" } }, ["streams"]);
if (PACKAGES[flags.client] === undefined) {
  refuse(`--client ${flags.client} is not one of ${Object.keys(PACKAGES).join(", ")}`);
}

// The client warns and logs by itself; what it made of a stream is in the document.
for (const level of ["warn", "error", "log", "info", "debug"]) console[level] = () => {};

// What escapes the client's own promise belongs to the stream that was being run.
let unhandled = [];
for (const kind of ["uncaughtException", "unhandledRejection"]) {
  process.on(kind, (error) => unhandled.push(String(error?.message ?? error)));
}

const { HttpAgent } = await import(PACKAGES[flags.client]);

/** One line: `{input, events}`, or `{input, frames}` with the frames of the binary form in hexadecimal. */
async function run({ input, events, frames }) {
  unhandled = [];
  // One event a turn of the event loop: a rejection in the same chunk as earlier events loses those that the client has
  // read and not yet applied.
  const waiting =
    frames?.map((frame) => new Uint8Array(Buffer.from(frame, "hex"))) ??
    events.map((event) => new TextEncoder().encode(`data: ${JSON.stringify(event)}\n\n`));
  const contentType = frames === undefined ? "text/event-stream" : "application/vnd.ag-ui.event+proto";
  const body = new ReadableStream({
    async pull(controller) {
      await new Promise(setImmediate);
      const next = waiting.shift();
      if (next === undefined) controller.close();
      else controller.enqueue(next);
    },
  });
  const agent = new HttpAgent({
    url: "http://in-process.invalid/",
    threadId: input.threadId,
    initialState: input.state,
    initialMessages: input.messages,
    fetch: async () => new Response(body, { headers: { "content-type": contentType } }),
  });
  const types = [];
  let error = null;
  try {
    await agent.runAgent({ runId: input.runId }, { onEvent: ({ event }) => void types.push(event.type) });
  } catch (caught) {
    error = String(caught?.message ?? caught);
  }
  return { error, types, messages: agent.messages, state: agent.state ?? null, unhandled };
}

const verdicts = [];
setTimeout(() => report({ verdicts }, `not all streams were run after ${flags.timeoutMs / 1000} s`), flags.timeoutMs);
for (const line of readFileSync(flags.streams, "utf8").split("\n")) {
  if (line !== "") verdicts.push(await run(JSON.parse(line)));
}
report({ verdicts });
