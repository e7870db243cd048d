// Chromium opens a page and reads a run in it, with the browser's own `EventSource`, `WebSocket` and `fetch`.

import { setTimeout as sleep } from "node:timers/promises";
import { launchBrowser } from "./launch-browser.mjs";
import { count, readFlags, refuse, report } from "./command-line.mjs";
import { startCuttingProxy } from "./cutting-proxy.mjs";

const flags = readFlags(
  {
    url: { type: "string" },
    page: { type: "string" },
    "event-source": { type: "string" },
    "web-socket": { type: "string", multiple: true, default: [] },
    "first-message": { type: "string", multiple: true, default: [] },
    post: { type: "string" },
    body: { type: "string" },
    "content-type": { type: "string" },
    "cut-in-frame": { type: "string", multiple: true, default: [] },
    "reload-after": { type: "string", multiple: true, default: [] },
    "cancel-after": { type: "string" },
  },
  ["url"],
);
const cutInFrames = flags["cut-in-frame"].map((text) => count("cut-in-frame", text));
const reloads = flags["reload-after"].map((text) => count("reload-after", text));
const cancelAfter = count("cancel-after", flags["cancel-after"]);
if ((reloads.length > 0 || cancelAfter !== undefined) && flags["event-source"] === undefined) {
  refuse("--reload-after and --cancel-after count the frames of an --event-source, which is missing");
}
if (cutInFrames.length > 0 && flags["event-source"] === undefined) {
  refuse("--cut-in-frame waits for the frames of an --event-source, which is missing");
}
if (flags["first-message"].length > flags["web-socket"].length) refuse("a --first-message has no --web-socket");

const USUAL_FIRST_MESSAGE = JSON.stringify({ type: "auth", token: "", protocol: 2, after: 0 });

/**
 * The readers, as they are in the page. Each tells of itself under `reading`, from where they are read when all are over
 * or when time is up. It is sent to the browser as source, so it uses nothing from outside of it.
 */
function readersOfThePage() {
  const reading = {};
  globalThis.reading = reading;

  // What an EventSource was given is kept in the tab's sessionStorage together with the cursor, so that a page that is
  // loaded again goes on from there.
  const kept = () => Number(sessionStorage.getItem("kept") ?? "0");
  globalThis.keptFrames = () =>
    Array.from({ length: kept() }, (_, i) => JSON.parse(sessionStorage.getItem(`kept.${i}`)));

  globalThis.readByEventSource = (address) => {
    const cursor = sessionStorage.getItem("cursor");
    const source = new EventSource(cursor === null ? address : `${address}?after=${cursor}`);
    const told = { cursor, opens: 0, errors: [], readyState: source.readyState, over: false };
    reading.eventSource = told;
    source.onopen = () => {
      told.opens += 1;
    };
    source.onmessage = ({ lastEventId, data }) => {
      const index = kept();
      sessionStorage.setItem(`kept.${index}`, JSON.stringify({ id: lastEventId, body: data }));
      sessionStorage.setItem("kept", index + 1);
      sessionStorage.setItem("cursor", lastEventId);
    };
    source.onerror = () => {
      told.errors.push(source.readyState);
      told.readyState = source.readyState;
      told.over = source.readyState === EventSource.CLOSED;
    };
  };

  globalThis.readByWebSocket = (address, firstMessage) => {
    const told = { opened: false, frames: [], binaryMessages: 0, close: null, over: false };
    (reading.webSockets ??= []).push(told);
    const socket = new WebSocket(address);
    socket.onopen = () => {
      told.opened = true;
      socket.send(firstMessage);
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") told.frames.push(data);
      else told.binaryMessages += 1;
    };
    socket.onclose = ({ code, reason, wasClean }) => {
      told.close = { code, reason, wasClean };
      told.over = true;
    };
  };

  globalThis.readByFetch = async (address, contentType, body) => {
    const told = { status: null, contentType: null, reads: [], ended: false, error: null, over: false };
    reading.post = told;
    try {
      const headers = { Accept: "text/event-stream", "Content-Type": contentType };
      const response = await fetch(address, { method: "POST", headers, body });
      told.status = response.status;
      told.contentType = response.headers.get("content-type");
      const reader = response.body.getReader();
      const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        told.reads.push(utf8.decode(read.value, { stream: true }));
      }
      utf8.decode();
      told.ended = true;
    } catch (error) {
      told.error = String(error);
    }
    told.over = true;
  };
}

const result = { browser: null, origin: null, requests: [], cuts: [], cursors: [], timedOut: false };
let page;

/** What the readers tell, also of those that have not come to their end. */
async function told() {
  const { reading, frames } = await page.evaluate(() => ({ reading: globalThis.reading, frames: globalThis.keptFrames() }));
  if (reading.eventSource !== undefined) reading.eventSource.frames = frames;
  for (const reader of [reading.eventSource, reading.post, ...(reading.webSockets ?? [])]) delete reader?.over;
  return reading;
}

setTimeout(async () => {
  result.timedOut = true;
  const failure = `the page's readers had not come to an end after ${flags.timeoutMs / 1000} s`;
  // A browser that hangs must not keep this from its end either.
  setTimeout(() => report(result, failure), 2000);
  report({ ...result, ...(await told().catch(() => ({}))) }, failure);
}, flags.timeoutMs);

/**
 * Notes every request of an EventSource: the header and the status are not to be seen from within the page. Answers with
 * what waits until all of them are noted in full, as the browser tells of them apart from the page.
 */
function noteRequests() {
  const notes = new Map();
  const headers = [];
  page.on("request", (request) => {
    if (request.resourceType() !== "eventsource") return;
    const note = { lastEventId: null, status: null, failed: null };
    notes.set(request, note);
    result.requests.push(note);
  });
  page.on("response", (response) => {
    const note = notes.get(response.request());
    if (note === undefined) return;
    note.status = response.status();
    headers.push(
      response
        .request()
        .headerValue("last-event-id")
        .then((value) => {
          note.lastEventId = value;
        }),
    );
  });
  page.on("requestfailed", (request) => {
    const note = notes.get(request);
    if (note !== undefined) note.failed = request.failure()?.errorText ?? "failed";
  });
  return async () => {
    while (result.requests.some(({ status, failed }) => status === null && failed === null)) await sleep(20);
    await Promise.all(headers);
  };
}

/** Starts what the flags ask for, in the page that is loaded. */
async function startReaders(server) {
  const address = (path) => new URL(path, server).href;
  const sockets = flags["web-socket"].map((path, i) => ({
    address: address(path).replace(/^http/, "ws"),
    firstMessage: flags["first-message"][i] ?? USUAL_FIRST_MESSAGE,
  }));
  const post = flags.post === undefined ? null : address(flags.post);
  const contentType = flags["content-type"] ?? "application/json";
  const eventSource = flags["event-source"] === undefined ? null : address(flags["event-source"]);
  await page.evaluate(
    ({ eventSource, sockets, post, contentType, body }) => {
      if (eventSource !== null) globalThis.readByEventSource(eventSource);
      for (const { address, firstMessage } of sockets) globalThis.readByWebSocket(address, firstMessage);
      if (post !== null) void globalThis.readByFetch(post, contentType, body);
    },
    { eventSource, sockets, post, contentType, body: flags.body ?? "" },
  );
  if (eventSource !== null) {
    result.cursors.push(await page.evaluate(() => globalThis.reading.eventSource.cursor));
  }
}

/** Waits for something in the page. What bounds it is the time that the whole script has. */
const until = (what, argument) => page.waitForFunction(what, argument, { polling: 20, timeout: 0 });

/** Waits until the EventSource has been given so many frames, over all loads of the page. */
const untilKept = (frames) => until((frames) => Number(sessionStorage.getItem("kept")) >= frames, frames);

/** Stops the run that the EventSource reads, from within the page. */
async function cancel(server) {
  const path = flags["event-source"].replace(/\/stream$/, "/cancel");
  const status = await page.evaluate(
    async (address) => (await fetch(address, { method: "POST" })).status,
    new URL(path, server).href,
  );
  if (status >= 300) throw new Error(`the run could not be cancelled: ${status}`);
}

try {
  let server = flags.url;
  if (cutInFrames.length > 0) {
    const proxy = await startCuttingProxy(new URL(flags.url), cutInFrames, (frame) => untilKept(frame - 1));
    result.cuts = proxy.cuts;
    server = proxy.url;
  }
  const browser = await launchBrowser();
  result.browser = browser.version();
  page = await browser.newPage();
  const allAreNoted = noteRequests();
  await page.addInitScript(readersOfThePage);
  // Any address of the server will do for its origin; the viewer at `/` would read runs of its own accord.
  await page.goto(flags.page ?? `${server}/healthz`);
  result.origin = await page.evaluate(() => globalThis.origin);
  await startReaders(server);
  for (const frames of reloads) {
    await untilKept(frames);
    await page.reload();
    await startReaders(server);
  }
  if (cancelAfter !== undefined) {
    await untilKept(cancelAfter);
    await cancel(server);
  }
  await until(() => Object.values(globalThis.reading).flat().every((reader) => reader.over));
  await allAreNoted();
  const document = { ...result, ...(await told()) };
  await browser.close();
  report(document);
} catch (error) {
  report(result, `the browser could not do it: ${error.stack ?? error}`);
}
