// Runs one agent with a released `@ag-ui/client` and prints what an application built on it would have got.

import { randomUUID } from "node:crypto";
import { format } from "node:util";
import { resumableFetch } from "../../clients/js/runwire.js";
import { headers, json, readFlags, refuse, report } from "./command-line.mjs";
import { startCuttingProxy } from "./cutting-proxy.mjs";

const PACKAGES = { "1.0.0": "@ag-ui/client", "0.0.59": "agui-client-0-0-59" };

const flags = readFlags(
  {
    url: { type: "string" },
    client: { type: "string" },
    prompt: { type: "string" },
    thread: { type: "string" },
    run: { type: "string" },
    "message-id": { type: "string" },
    state: { type: "string" },
    resume: { type: "string" },
    answer: { type: "string" },
    accept: { type: "string" },
    resumable: { type: "boolean" },
    "cut-in-event": { type: "string", multiple: true, default: [] },
    header: { type: "string", multiple: true },
  },
  ["url", "client"],
);
const packageName = PACKAGES[flags.client];
if (packageName === undefined) {
  refuse(`--client ${flags.client} is not one of ${Object.keys(PACKAGES).join(", ")}`);
}

const warnings = [];
console.warn = (...parts) => {
  warnings.push(format(...parts));
  process.stderr.write(`warning: ${format(...parts)}\n`);
};
// The client logs failures by itself; stdout belongs to the document.
for (const level of ["error", "log", "info", "debug"]) {
  console[level] = (...parts) => process.stderr.write(`${level}: ${format(...parts)}\n`);
}

// Failures that the client lets escape to the host: an application would see them as crashes, so a test must too.
const unhandled = [];
for (const kind of ["uncaughtException", "unhandledRejection"]) {
  process.on(kind, (error) => {
    unhandled.push(String(error?.message ?? error));
    process.stderr.write(`${kind}: ${format(error)}\n`);
  });
}

const { HttpAgent } = await import(packageName);

// The message's id follows from the run's, so that the same command line sends the same input twice.
const messageId = flags["message-id"] ?? `${flags.run ?? randomUUID()}-user`;
let contentType = null;
const url = new URL(flags.url);
// It breaks the connections at once: a client that has not yet read what came before is what a lost network leaves.
const proxy = await startCuttingProxy(new URL(url.origin), flags["cut-in-event"], () => Promise.resolve());
// The client asks for Server-Sent Events alone, but reads whichever binding it is answered in.
async function noting(url, init) {
  if (flags.accept !== undefined) init.headers = { ...init.headers, Accept: flags.accept };
  const response = await fetch(url, init);
  contentType = response.headers.get("content-type");
  return response;
}
const states = [];
const onStatus = ({ state }) => states.push(state);
const agent = new HttpAgent({
  url: flags["cut-in-event"].length > 0 ? proxy.url + url.pathname : flags.url,
  fetch: flags.resumable ? resumableFetch({ fetch: noting, onStatus }) : noting,
  headers: headers(flags.header),
  threadId: flags.thread,
  initialState: json("state", flags.state),
  initialMessages: [{ id: messageId, role: "user", content: flags.prompt ?? "Hello" }],
});

const events = [];
const subscriber = {
  // Copied at once: the client goes on using the object it delivers.
  onEvent({ event }) {
    events.push(JSON.parse(JSON.stringify(event)));
  },
};

// `fetch` says only that it failed; why is in the cause.
function describe(error) {
  return {
    name: error.name ?? "Error",
    message: String(error.message ?? error),
    cause: error.cause === undefined ? null : String(error.cause?.message ?? error.cause),
    status: error.status ?? null,
  };
}

function finish(outcome, { error = null, result = null, timedOut = false } = {}) {
  report(
    {
      client: flags.client,
      contentType,
      outcome,
      error: error === null ? null : describe(error),
      threadId: agent.threadId,
      events,
      messages: agent.messages,
      state: agent.state,
      result,
      pendingInterrupts: agent.pendingInterrupts ?? [],
      warnings,
      unhandled,
      states,
      cuts: proxy.cuts,
      timedOut,
    },
    timedOut ? `the run had not ended after ${flags.timeoutMs / 1000} s` : undefined,
  );
}

setTimeout(() => finish("rejected", { error: new Error("timed out"), timedOut: true }), flags.timeoutMs);

let ending;
try {
  const { result } = await agent.runAgent({ runId: flags.run, resume: json("resume", flags.resume) }, subscriber);
  ending = ["resolved", { result: result ?? null }];
  // The same client goes on with the thread: what it holds of it, and what waits, is its own.
  if (flags.answer !== undefined) {
    const payload = json("answer", flags.answer);
    const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
    const { result } = await agent.runAgent({ resume }, subscriber);
    ending = ["resolved", { result: result ?? null }];
  }
} catch (error) {
  ending = ["rejected", { error }];
}
// What the client throws past its own promise arrives on a later turn of the event loop.
setTimeout(() => finish(...ending), 20);
