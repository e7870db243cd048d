// A run's AG-UI events with their ids, read as they come and handed over in batches.

import { ApiError, request, runApi } from "./api.js";
import { breathe, nextPicture, shown, wait } from "./pacing.js";
import { linkOf } from "./while_shown.js";

/** So long may reading go on before everything else has its turn, in milliseconds. */
const TURN_MS = 8;

/** Most events of one batch. */
const BATCH = 1000;

/** The longest wait before the next try, in milliseconds. */
const MOST_WAIT_MS = 15_000;

/** Statuses behind which the same request may succeed. */
const MAY_PASS = new Set([408, 425, 429]);

const EVENT_TYPE = /^\{"type":"([A-Z0-9_]+)"/;

/** The type of an event, of which only the beginning is looked at where that is enough. */
function typeOf(body) {
  const found = EVENT_TYPE.exec(body);
  if (found !== null) return found[1];
  try {
    return String(JSON.parse(body).type);
  } catch {
    return "?";
  }
}

/** `id: 12.0` as numbers; a frame and its event's number. */
function placeOf(id) {
  const [seq, n] = id.split(".");
  return { seq: Number(seq), n: Number(n) };
}

/** The events of a response, in pieces as they come. */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const text = rest + value;
      const events = [];
      let from = 0;
      for (let end = text.indexOf("\n\n", from); end >= 0; end = text.indexOf("\n\n", from)) {
        if (text.startsWith("id: ", from)) {
          const lineEnd = text.indexOf("\n", from);
          const id = text.slice(from + 4, lineEnd);
          const body = text.slice(lineEnd + 1 + "data: ".length, end);
          events.push({ id, ...placeOf(id), type: typeOf(body), body });
        }
        from = end + 2;
      }
      rest = text.slice(from);
      if (events.length > 0) yield events;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * Hands over the events behind an id, each once and in order, until the run has ended. It comes back by itself, and is away
 * while the tab is in the background.
 *
 * @param {object} what
 * @param {string} what.runId
 * @param {string} [what.after] the id of the last event that was had
 * @param {AbortSignal} what.signal ends it, without an error
 * @param {(events: {id: string, seq: number, n: number, type: string, body: string}[]) => void} what.take
 * @throws ApiError when coming back cannot help
 */
export async function followEvents({ runId, after, signal, take }) {
  let at = after;
  let failures = 0;
  while (!signal.aborted) {
    await shown(signal);
    if (signal.aborted) return;
    const link = linkOf(signal);
    try {
      const query = at === undefined ? "" : `?after=${at}`;
      const response = await request(runApi(runId, `/agui${query}`), { accept: "text/event-stream", signal: link.signal });
      if (response.status === 204) return;
      if (response.status !== 200) await refuse(response);
      await pump(eventsOf(response), link.signal, (events) => {
        take(events);
        at = events[events.length - 1].id;
        failures = 0;
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status !== 0) throw error;
    } finally {
      link.close();
    }
    // A stream that ended is one that was cut, until the server says that nothing follows.
    if (failures > 0) await wait(Math.min(MOST_WAIT_MS, 250 * 2 ** failures), signal);
    failures += 1;
  }
}

async function refuse(response) {
  if (response.status >= 500 || MAY_PASS.has(response.status)) throw new Error(`HTTP ${response.status}`);
  const problem = await response.json().catch(() => ({ title: `HTTP ${response.status}` }));
  throw new ApiError(response.status, problem);
}

/** Hands over what comes, before the next picture, and reads no faster than that is taken. */
async function pump(pieces, signal, take) {
  let batch = [];
  let began = performance.now();
  let handingOver;
  const handOver = async () => {
    await nextPicture();
    handingOver = undefined;
    began = performance.now();
    const events = batch;
    batch = [];
    if (!signal.aborted && events.length > 0) take(events);
  };
  for await (const events of pieces) {
    batch.push(...events);
    handingOver ??= handOver();
    if (batch.length >= BATCH) await handingOver;
    else if (performance.now() - began > TURN_MS) {
      await breathe();
      began = performance.now();
    }
  }
  await handingOver;
}

/**
 * The bodies of so many events behind an id, read again.
 *
 * @returns {Promise<string[]>}
 */
export async function readEvents({ runId, after, count, signal }) {
  const query = after === undefined ? "" : `?after=${after}`;
  const response = await request(runApi(runId, `/agui${query}`), { accept: "text/event-stream", signal });
  if (response.status !== 200) await refuse(response);
  const bodies = [];
  for await (const events of eventsOf(response)) {
    for (const { body } of events) bodies.push(body);
    if (bodies.length >= count) break;
  }
  return bodies.slice(0, count);
}
