// Chromium opens a page that reads a run, and an exchange, with the JavaScript client.

import { readFileSync } from "node:fs";
import { launchBrowser } from "./launch-browser.mjs";
import { count, readFlags, report } from "./command-line.mjs";
import { startCuttingProxy } from "./cutting-proxy.mjs";

const flags = readFlags(
  {
    url: { type: "string" },
    "run-id": { type: "string" },
    transport: { type: "string", default: "sse" },
    agent: { type: "string" },
    body: { type: "string" },
    "cut-in": { type: "string", multiple: true, default: [] },
    "reload-after": { type: "string", multiple: true, default: [] },
    offline: { type: "boolean" },
  },
  ["url"],
);
const reloads = flags["reload-after"].map((text) => count("reload-after", text));
const readsFrames = flags["run-id"] !== undefined;

/**
 * The readers, as they are in the page. It is sent to the browser as source, so it uses nothing from outside of it. What was
 * read is kept in the tab's sessionStorage together with the cursor, so that a page that is loaded again goes on from there.
 */
function readersOfThePage() {
  const told = { states: [], error: null, over: false };
  globalThis.told = told;
  const onStatus = ({ state }) => told.states.push(state);
  const kept = () => Number(sessionStorage.getItem("kept") ?? "0");
  globalThis.keptItems = () => Array.from({ length: kept() }, (_, i) => sessionStorage.getItem(`kept.${i}`));
  const keep = (item) => {
    const index = kept();
    sessionStorage.setItem(`kept.${index}`, item);
    sessionStorage.setItem("kept", index + 1);
  };

  globalThis.readFrames = async ({ followRun }, options) => {
    try {
      const cursor = Number(sessionStorage.getItem("cursor") ?? "0");
      told.cursor = cursor;
      for await (const { seq, body } of followRun({ server: "/", ...options, cursor, onStatus })) {
        keep(body);
        sessionStorage.setItem("cursor", seq);
      }
    } catch (error) {
      told.error = String(error);
    }
    told.over = true;
  };

  globalThis.readEvents = async ({ resumableFetch }, agent, body) => {
    // An exchange is asked for from its start by each load, as an AG-UI client does.
    sessionStorage.clear();
    told.cursor = 0;
    try {
      const headers = { Accept: "text/event-stream", "Content-Type": "application/json" };
      const response = await resumableFetch({ onStatus })(`/agui/${agent}`, { method: "POST", headers, body });
      const reader = response.body.getReader();
      const utf8 = new TextDecoder("utf-8", { fatal: true });
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        const block = utf8.decode(read.value);
        if (!block.startsWith(":")) keep(block);
      }
    } catch (error) {
      told.error = String(error);
    }
    told.over = true;
  };
}

const result = { browser: null, loads: [], items: [], cuts: [], timedOut: false };
let context;
let page;

async function collect() {
  result.loads.push(await page.evaluate(() => globalThis.told));
  result.items = await page.evaluate(() => globalThis.keptItems());
}

setTimeout(async () => {
  result.timedOut = true;
  const failure = `the page's reader had not come to an end after ${flags.timeoutMs / 1000} s`;
  // A browser that hangs must not keep this from its end either.
  setTimeout(() => report(result, failure), 2000);
  await collect().catch(() => {});
  report(result, failure);
}, flags.timeoutMs);

const until = (what, argument) => page.waitForFunction(what, argument, { polling: 20, timeout: 0 });

async function startReader() {
  await page.evaluate(
    async ({ options, agent, body }) => {
      const client = await import("/runwire.js");
      void (agent === undefined ? globalThis.readFrames(client, options) : globalThis.readEvents(client, agent, body));
    },
    {
      // A reader that goes offline is to come back because it is online again, and not because its wait is over.
      options: {
        runId: flags["run-id"],
        transport: flags.transport,
        backoff: flags.offline ? { firstMs: 1e12, capMs: 1e12, maxElapsedMs: Infinity } : {},
      },
      agent: readsFrames ? undefined : flags.agent,
      body: flags.body,
    },
  );
}

try {
  const mark = readsFrames ? (frame) => `"seq":${frame},"run_id":` : undefined;
  const beforeBreak = () => (flags.offline ? context.setOffline(true) : Promise.resolve());
  const proxy = await startCuttingProxy(new URL(flags.url), flags["cut-in"], beforeBreak, mark);
  result.cuts = proxy.cuts;
  const browser = await launchBrowser();
  result.browser = browser.version();
  context = await browser.newContext();
  page = await context.newPage();
  const module = readFileSync(new URL("../../clients/js/runwire.js", import.meta.url), "utf8");
  await page.route("**/runwire.js", (route) => route.fulfill({ contentType: "text/javascript", body: module }));
  await page.addInitScript(readersOfThePage);
  // Any address of the server will do for its origin; the viewer at `/` would read runs of its own accord.
  await page.goto(`${proxy.url}/healthz`);
  await startReader();
  const untilKept = (items) => until((items) => Number(sessionStorage.getItem("kept")) >= items, items);
  if (flags.offline) {
    await until(() => globalThis.told.states.at(-1) === "resuming");
    await context.setOffline(false);
  }
  for (const items of reloads) {
    await untilKept(items);
    result.loads.push(await page.evaluate(() => globalThis.told));
    await page.reload();
    await startReader();
  }
  await until(() => globalThis.told.over);
  await collect();
  await browser.close();
  report(result);
} catch (error) {
  report(result, `the browser could not do it: ${error.stack ?? error}`);
}
