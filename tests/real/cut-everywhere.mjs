// Reads a run, or an exchange, with the JavaScript client through a proxy that breaks the connection, once for each byte of
// what the server sends, and says of each reader whether it got what an uncut one gets.

import WebSocket from "ws";
import { followRun, resumableFetch } from "../../clients/js/runwire.js";
import { count, readFlags, refuse, report } from "./command-line.mjs";
import { startByteCuttingProxy } from "./cutting-proxy.mjs";

const HOW = ["end", "reset", "silence"];

/** Each waits a second before it comes back, because the server asks for that, so many of them wait together. */
const READERS_AT_ONCE = 300;

const flags = readFlags(
  {
    url: { type: "string" },
    "run-id": { type: "string" },
    transport: { type: "string" },
    agent: { type: "string" },
    body: { type: "string" },
    how: { type: "string" },
    step: { type: "string" },
    first: { type: "string" },
  },
  ["url", "how"],
);
if (!HOW.includes(flags.how)) refuse(`--how ${flags.how} is not one of ${HOW.join(", ")}`);
if ((flags["run-id"] === undefined) === (flags.agent === undefined))
  refuse("either --run-id or --agent has to be given");
const step = count("step", flags.step) ?? 1;
const first = count("first", flags.first) ?? 0;
const target = new URL(flags.url);

const options = { idleMs: flags.how === "silence" ? 2000 : 20_000, backoff: { firstMs: 50 } };

/** The frames of the run, as they came. */
async function frames(server, onStatus) {
  const run = followRun({
    ...options,
    server,
    runId: flags["run-id"],
    transport: flags.transport,
    WebSocket,
    onStatus,
  });
  const bodies = [];
  for await (const { body } of run) bodies.push(body);
  return bodies;
}

/** The events of the exchange, as they came. */
async function events(server, onStatus) {
  const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: flags.body };
  const response = await resumableFetch({ ...options, onStatus })(`${server}/agui/${flags.agent}`, init);
  return (await response.text()).split(/(?<=\n\n)/);
}

/** Reads through a proxy that breaks the connection behind so many bytes. */
async function read(afterBytes) {
  const proxy = await startByteCuttingProxy(target, afterBytes, flags.how);
  const states = [];
  const onStatus = ({ state }) => states.push(state);
  try {
    const items = await (flags.agent === undefined ? frames : events)(proxy.url, onStatus);
    return { afterBytes, items, states, ...proxy.firstConnection };
  } catch (error) {
    return {
      afterBytes,
      items: [],
      states,
      error: `${error.code ?? error.name}: ${error.message}`,
      ...proxy.firstConnection,
    };
  } finally {
    proxy.close();
  }
}

const result = { items: [], bytes: 0, readers: 0, cut: 0, resumed: 0, wrong: [], timedOut: false };

setTimeout(() => {
  result.timedOut = true;
  report(result, `not all had read it after ${flags.timeoutMs / 1000} s`);
}, flags.timeoutMs);

const uncut = await read(Infinity);
if (uncut.error !== undefined) report(result, `the uncut reader failed: ${uncut.error}`);
result.items = uncut.items;
result.bytes = uncut.sentBytes;

let next = first;
async function reader() {
  while (next < result.bytes) {
    const afterBytes = next;
    next += step;
    const seen = await read(afterBytes);
    result.readers += 1;
    result.cut += seen.isCut ? 1 : 0;
    result.resumed += seen.states.includes("resuming") ? 1 : 0;
    const isSame = seen.items.length === uncut.items.length && seen.items.every((item, i) => item === uncut.items[i]);
    // Where many read at once, a silence may also be the machine's own.
    const isOnce = flags.how === "silence" || seen.states.filter((state) => state === "resuming").length <= 1;
    const isTold = seen.states.at(-1) === "ended" && isOnce;
    if (!(isSame && isTold)) result.wrong.push(seen);
  }
}
await Promise.all(Array.from({ length: READERS_AT_ONCE }, reader));
report(result);
