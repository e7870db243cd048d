// The viewer in Chromium, measured. It hears one JSON object a line and answers each with one, or with one for each slice:
//
//   {"do": "fetch", "server", "path"}                     reads a stream in an empty page, and does nothing with it
//   {"do": "open", "server", "run", "page"}               opens a page of a run that has ended
//   {"do": "animate", "server", "run", "page", "seconds"} counts pictures while a run goes on; no `run`: of an empty page
//   {"do": "memory", "server", "run", "page", "slices"}   the heap whenever so many frames were taken
//
// `page` is what is behind the run's address: nothing, or `/frames`.

import { createInterface } from "node:readline";
import { launchBrowser } from "../../../tests/real/launch-browser.mjs";

const browser = await launchBrowser();

/** An address of a server that is a page and does nothing. */
const EMPTY = "/healthz";

async function newPage() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(0);
  const page = await context.newPage();
  await page.addInitScript(() => {
    const seen = { tasks: [] };
    globalThis.measured = seen;
    const note = (list) => list.getEntries().forEach(({ startTime, duration }) => seen.tasks.push([startTime, duration]));
    new PerformanceObserver(note).observe({ type: "longtask", buffered: true });
    const look = () => {
      if (seen.rows === undefined && document.querySelector(".virtual-list .row") !== null) seen.rows = performance.now();
      if (document.querySelector('.connection[data-state="ended"]') !== null) seen.whole = performance.now();
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  return { context, page };
}

const address = ({ server, run, page }) => (run === undefined ? `${server}${EMPTY}` : `${server}/runs/${run}${page}`);

const commands = {
  async fetch({ server, path }) {
    const { context, page } = await newPage();
    await page.goto(`${server}${EMPTY}`);
    const told = await page.evaluate(async (path) => {
      const began = performance.now();
      const reader = (await fetch(path)).body.getReader();
      let bytes = 0;
      for (let part = await reader.read(); !part.done; part = await reader.read()) bytes += part.value.length;
      return { ms: performance.now() - began, bytes };
    }, path);
    await context.close();
    say(told);
  },

  async open(what) {
    const { context, page } = await newPage();
    await page.goto(address(what));
    await page.waitForFunction(() => globalThis.measured.whole !== undefined);
    const { rows, whole, tasks } = await page.evaluate(() => globalThis.measured);
    const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
    await context.close();
    const during = tasks.filter(([start]) => start < whole);
    say({
      rows,
      whole,
      // From here on no key press waits for longer than a twentieth of a second.
      interactive: Math.max(rows, ...during.map(([start, duration]) => start + duration)),
      longest: Math.max(0, ...during.map(([, duration]) => duration)),
      nodes,
    });
  },

  async animate(what) {
    const { context, page } = await newPage();
    await page.goto(address(what));
    if (what.run !== undefined) await page.locator('.connection:is([data-state="live"], [data-state="behind"])').waitFor();
    const told = await page.evaluate(
      async ({ seconds, run }) => {
        const head = async () => (run === undefined ? 0 : (await (await fetch(`/v2/runs/${run}`)).json()).head);
        const from = await head();
        const began = performance.now();
        const gaps = [];
        for (let before = began; before - began < seconds * 1000; ) {
          const now = await new Promise((resolve) => requestAnimationFrame(() => resolve(performance.now())));
          gaps.push(now - before);
          before = now;
        }
        const took = (performance.now() - began) / 1000;
        const frames = (await head()) - from;
        gaps.sort((a, b) => a - b);
        return {
          fps: gaps.length / took,
          slow: gaps[Math.ceil(gaps.length * 0.99) - 1],
          rate: frames / took,
          state: document.querySelector(".connection")?.dataset.state ?? "none",
        };
      },
      { seconds: what.seconds, run: what.run },
    );
    await context.close();
    say(told);
  },

  async memory(what) {
    const { context, page } = await newPage();
    const session = await context.newCDPSession(page);
    await session.send("HeapProfiler.enable");
    await page.goto(address(what));
    for (const slice of what.slices) {
      await page.waitForFunction(
        ({ slice, head }) => {
          const connection = document.querySelector(".connection");
          const told = connection?.textContent ?? "";
          const number = (found) => (found === null ? undefined : Number(found[1].replaceAll(",", "")));
          const behind = number(/behind by ([\d,]+)/.exec(told));
          const cursor = behind === undefined ? number(/frame ([\d,]+)/.exec(told)) : head - behind;
          return connection?.dataset.state === "ended" || cursor >= slice;
        },
        { slice, head: what.slices.at(-1) },
        { polling: "raf" },
      );
      await session.send("HeapProfiler.collectGarbage");
      const { usedSize, backingStorageSize = 0 } = await session.send("Runtime.getHeapUsage");
      const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
      say({ heap: usedSize + backingStorageSize, nodes });
    }
    await context.close();
  },
};

function say(told) {
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  await commands[command.do](command);
}
await browser.close();
