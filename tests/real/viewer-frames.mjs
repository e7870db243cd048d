// The viewer's page of a run's frames, used in Chromium as a person uses it. `--scenario` says what is done.

import { readFlags, refuse, report } from "./command-line.mjs";
import { axe, connection, openBrowser, overflow } from "./viewer-page.mjs";

const flags = readFlags(
  {
    url: { type: "string" },
    scenario: { type: "string" },
    run: { type: "string" },
  },
  ["url", "scenario", "run"],
);

const { browser, open, wrong } = await openBrowser(flags.url);
const address = `/runs/${flags.run}/frames`;

const text = (page, selector) => page.locator(selector).innerText();
const texts = (page, selector) => page.locator(selector).allInnerTexts();
const button = (page, name) => page.getByRole("button", { name, exact: true });
const frameList = (page) => page.getByRole("listbox", { name: "Frames" });
const eventList = (page) => page.getByRole("listbox", { name: "AG-UI events" });
const title = (page) => text(page, ".detail-name");
const nodes = (page) => page.evaluate(() => document.querySelectorAll("*").length);

/** Waits until the page's detail is of what is named so. */
const untilTitle = (page, begin) =>
  page.waitForFunction((begin) => document.querySelector(".detail-name")?.textContent.startsWith(begin), begin, { timeout: 0 });

/** The numbers of the frames whose rows are to be seen, in their order. */
const seen = (page) =>
  page.evaluate(() => {
    const list = document.querySelector('[role=listbox][aria-label="Frames"]');
    const { top, bottom } = list.getBoundingClientRect();
    const rows = [...list.querySelectorAll("[role=option]")].map((row) => [row.getBoundingClientRect(), Number(row.querySelector(".of-seq").textContent)]);
    return rows.filter(([box]) => box.top >= top - 1 && box.bottom <= bottom + 1).map(([, seq]) => seq).sort((a, b) => a - b);
  });

/** Waits until the list has been drawn. */
const drawn = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));

/** Scrolls the list from its beginning to its end, and tells the numbers that were seen on the way. */
async function scrollThrough(page) {
  const all = new Set();
  await frameList(page).evaluate((list) => list.scrollTo(0, 0));
  for (;;) {
    await drawn(page);
    for (const seq of await seen(page)) all.add(seq);
    const isAtEnd = await frameList(page).evaluate((list) => {
      const before = list.scrollTop;
      list.scrollBy(0, list.clientHeight - 44);
      return list.scrollTop === before;
    });
    if (isAtEnd) return [...all];
  }
}

/** Goes to a frame by its number. */
async function goTo(page, seq) {
  await page.getByRole("textbox", { name: "Go to frame" }).fill(String(seq));
  await page.keyboard.press("Enter");
}

/** Waits until the filter has looked at every frame, and tells how many it lets through. */
async function sifted(page) {
  await page.waitForFunction(() => /^[\d,]+ of [\d,]+ frames$/.test(document.querySelector(".shown").textContent), null, { timeout: 0 });
  return text(page, ".shown");
}

/** What the scenario is at, for whoever has to find out why it was not done. */
let at = "the beginning";
const step = (name) => {
  at = name;
};

const query = (page) => decodeURIComponent(new URL(page.url()).search.slice(1));

const scenarios = {
  /** Opens a long log, goes to places in it, filters it. */
  async long() {
    const page = await open(address);
    await page.evaluate(() => {
      globalThis.longest = 0;
      const noted = (list) => list.getEntries().forEach(({ duration }) => (globalThis.longest = Math.max(globalThis.longest, duration)));
      new PerformanceObserver(noted).observe({ type: "longtask", buffered: true });
    });
    await connection(page, "ended");
    const counts = [await nodes(page)];
    const visited = [];
    const visit = async (seq, act) => {
      step(`frame ${seq}`);
      await act();
      await untilTitle(page, `Frame ${seq.toLocaleString("en")} `);
      await drawn(page);
      const asSent = button(page, "As sent");
      if ((await asSent.getAttribute("aria-pressed")) !== "true") await asSent.click();
      await page.waitForFunction((seq) => document.querySelector(".as-sent")?.textContent.includes(`"seq":${seq},`), seq, { timeout: 0 });
      const isVisible = (await seen(page)).includes(seq);
      visited.push({ seq, title: await title(page), text: await page.locator(".as-sent").evaluate((box) => box.textContent), isVisible });
      counts.push(await nodes(page));
    };
    const last = Number((await text(page, ".shown")).replace(/\D/g, ""));
    await visit(last, () => frameList(page).press("End"));
    await visit(1, () => frameList(page).press("Home"));
    for (const seq of [50_000, 12_345, 99_999, 2, 77_777, 65_536]) await visit(seq, () => goTo(page, seq));

    step("notices");
    await page.getByRole("button", { name: /^notice/ }).click();
    await sifted(page);
    const filteredAddress = new URLSearchParams(query(page)).toString().replace(/&?(seq|event)=[\d.]+&?/, "");
    const notices = await scrollThrough(page);
    counts.push(await nodes(page));
    step("a search");
    await button(page, "All").click();
    await page.getByRole("searchbox", { name: "Search in frames" }).fill("piece 96 of seg_5");
    await sifted(page);
    const found = await scrollThrough(page);
    counts.push(await nodes(page));
    const [longestTaskMs, heapMb] = await page.evaluate(() => [globalThis.longest, Math.round(performance.memory.usedJSHeapSize / 1e6)]);
    return { visited, filteredAddress, notices, found, nodes: counts, longestTaskMs, heapMb };
  },

  /** Follows a run that goes on, looks back in it, follows again, and stops it. */
  async live() {
    const page = await open(address);
    const until = (seq) =>
      page.waitForFunction((seq) => Number(document.querySelector(".shown")?.textContent.replace(/\D/g, "") ?? 0) >= seq, seq, { timeout: 0 });
    const following = () => button(page, "Follow the end").getAttribute("aria-pressed");
    // The newest frame is seen as soon as it is there: what is at the end of the list is at the end of its box.
    const lastIsSeen = () =>
      page.evaluate(() => {
        const list = document.querySelector('[role=listbox][aria-label="Frames"]');
        return list.scrollTop + list.clientHeight >= list.scrollHeight - 23;
      });
    step("60 frames");
    await until(60);
    await drawn(page);
    const begins = { following: await following(), lastIsSeen: await lastIsSeen() };
    step("looking back");
    await frameList(page).hover();
    await page.mouse.wheel(0, -400);
    await page.waitForFunction(() => document.querySelector(".filters button[aria-pressed=false]:not(.chip)") !== null, null, { timeout: 0 });
    await drawn(page);
    const before = await seen(page);
    const now = Number((await text(page, ".shown")).replace(/\D/g, ""));
    await until(now + 100);
    await drawn(page);
    step("the check of a run that goes on");
    const looksBack = { before, after: await seen(page), following: await following() };
    await page.getByRole("tab", { name: /^Check/ }).click();
    await page.locator(".check-outcome").waitFor();
    const checkedLive = await text(page, ".check-outcome");
    step("following again");
    await button(page, "Follow the end").click();
    await until(now + 200);
    await drawn(page);
    const again = { following: await following(), lastIsSeen: await lastIsSeen() };
    step("the end");
    const cancelled = await page.request.post(new URL(`/v2/runs/${flags.run}/cancel`, flags.url).href);
    if (!cancelled.ok()) throw new Error(`cancel: ${cancelled.status()}`);
    await connection(page, "ended");
    await drawn(page);
    return {
      begins,
      looksBack,
      again,
      checkedLive,
      status: await text(page, ".run-line .status"),
      frames: Number((await text(page, ".shown")).replace(/\D/g, "")),
      last: await seen(page),
    };
  },

  /** Goes from findings to what they are about. */
  async findings() {
    const page = await open(`${address}?side=check`);
    await page.locator(".finding").first().waitFor();
    await connection(page, "ended");
    const told = {
      outcome: await text(page, ".check-outcome"),
      rules: await texts(page, ".finding .finding-head a"),
      pages: await page.locator(".finding .finding-head a").evaluateAll((links) => links.map((link) => link.href)),
      tab: await text(page, "[role=tab] >> nth=1"),
    };
    const chosen = () => text(page, '[role=tab][aria-selected="true"]');
    await button(page, "event 9.0").click();
    await untilTitle(page, "Event 9.0");
    await drawn(page);
    const linked = await texts(page, '[aria-label="Frames"] .row[data-linked="true"] .of-seq');
    const event = { title: await title(page), frames: linked, tab: (await chosen()).replace(/ [\d,]+$/, "") };
    const marks = Object.fromEntries(
      await page.locator('[aria-label="Frames"] .row').evaluateAll((rows) =>
        rows.filter((row) => row.dataset.mark !== "").map((row) => [row.querySelector(".of-seq").textContent, row.dataset.mark]),
      ),
    );
    await button(page, "frame 9").click();
    await untilTitle(page, "Frame 9");
    const frame = { title: await title(page), links: await texts(page, ".detail-links button") };
    await page.getByRole("tab", { name: /^Check/ }).click();
    await button(page, "frame 10").click();
    await untilTitle(page, "Frame 10");
    return { ...told, event, frame, leftOut: await title(page), marks };
  },

  /** Opens every frame of a log that means harm. */
  async hostile() {
    const page = await open(address);
    await connection(page, "ended");
    const strange = () => page.evaluate(() => document.querySelectorAll("main img, main script, main b, main iframe, main [style*=expression]").length);
    let strangeElements = 0;
    let opened = 0;
    let most = 0;
    const hidden = new Set();
    const rows = Number((await text(page, ".shown")).replace(/\D/g, ""));
    await frameList(page).press("Home");
    for (let seq = 1; seq <= rows; seq += 1) {
      step(`frame ${seq}`);
      await untilTitle(page, `Frame ${seq} `);
      await page.waitForFunction((seq) => document.querySelector(".json-tree")?.textContent.includes(`seq: ${seq}r`), seq, { timeout: 0 });
      strangeElements += await strange();
      for (const mark of await texts(page, ".detail-content .hidden-character")) hidden.add(mark);
      most = Math.max(most, await nodes(page));
      opened += 1;
      if (seq < rows) await frameList(page).press("ArrowDown");
    }
    const wide = await overflow(page);
    // The text that is longer than is sensible, whole.
    step("the whole text");
    await goTo(page, 5);
    await untilTitle(page, "Frame 5 ");
    await page.getByRole("button", { name: /^all of/ }).click();
    await page.waitForFunction(() => document.querySelector(".detail-content").textContent.length > 3_000_000, null, { timeout: 0 });
    const wholeText = await page.evaluate(() => document.querySelector(".detail-content").textContent.match(/x{100,}/)[0].length);
    step("the check");
    await page.getByRole("tab", { name: /^Check/ }).click();
    await page.locator(".check-outcome").waitFor();
    strangeElements += await strange();
    await page.setViewportSize({ width: 390, height: 800 });
    await drawn(page);
    return {
      harmed: await page.evaluate(() => globalThis.harmed ?? Object.prototype.harmed ?? null),
      strangeElements,
      overflow: [wide, await overflow(page)],
      hidden: [...hidden],
      opened,
      nodes: most,
      wholeText,
    };
  },

  /** Does everything without a mouse, and looks at every state with axe-core. */
  async keyboard() {
    const violations = [];
    const look = async (page) => violations.push(...(await axe(page)));
    const page = await open(address);
    await connection(page, "ended");
    await look(page);
    const keys = {};
    const press = (key) => page.keyboard.press(key);
    const short = async () => (await title(page)).split(" · ")[0];
    const until = async (name, begin) => {
      await untilTitle(page, begin);
      keys[name] = await short();
    };
    const events = () => page.getByRole("tab", { name: /^AG-UI/ }).innerText();
    // By Tab to the list, whatever is in front of it.
    for (let tabs = 0; tabs < 60; tabs += 1) {
      await press("Tab");
      if (await page.evaluate(() => document.activeElement.getAttribute("aria-label") === "Frames")) break;
    }
    for (let times = 0; times < 3; times += 1) await press("ArrowDown");
    await until("down", "Frame 3 ");
    const all = Number((await text(page, ".shown")).replace(/\D/g, ""));
    await press("End");
    await until("end", `Frame ${all} `);
    await press("Home");
    await until("home", "Frame 1 ");
    await press("PageDown");
    await page.waitForFunction(() => !document.querySelector(".detail-name").textContent.startsWith("Frame 1 "), null, { timeout: 0 });
    keys.page = Number(/\d+/.exec(await title(page))[0]) > 5;
    await look(page);

    const tab = page.getByRole("tab", { name: /^AG-UI/ });
    await tab.focus();
    await press("Tab");
    await press("Home");
    await until("events", "Event 1.0");
    await tab.focus();
    await press("ArrowRight");
    await page.locator(".finding").first().waitFor();
    keys.check = await page.getByRole("tab", { name: /^Check/ }).evaluate((check) => check === document.activeElement);
    await look(page);
    await press("ArrowLeft");

    await page.getByRole("button", { name: /^segment\.start/ }).focus();
    await press("Space");
    keys.filtered = /^\d+ of/.exec(await sifted(page))[0];
    await page.getByRole("button", { name: "All", exact: true }).focus();
    await press("Space");
    await page.getByRole("textbox", { name: "Go to frame" }).focus();
    await page.keyboard.type("7");
    await press("Enter");
    await until("jumped", "Frame 7 ");
    keys.address = new URL(page.url()).search;
    // The last frame's events have come, so all have.
    await goTo(page, all);
    await page.locator(".detail-links button").first().waitFor();
    keys.told = (await events()).replace(/\D/g, "");
    await page.goBack();
    await sifted(page);
    keys.back = query(page).replace(/&?(seq|event)=[\d.]+&?/, "");

    const light = await open(`${address}?seq=4&side=check`, { scheme: "light", width: 390 });
    await connection(light, "ended");
    await light.locator(".finding").first().waitFor();
    await untilTitle(light, "Frame 4 ");
    await look(light);
    const overflows = [await overflow(page), await overflow(light)];
    await light.setViewportSize({ width: 320, height: 700 });
    await drawn(light);
    overflows.push(await overflow(light));
    return { keys, violations, overflow: overflows };
  },
};

const scenario = scenarios[flags.scenario];
if (scenario === undefined) refuse(`--scenario ${flags.scenario} is none of ${Object.keys(scenarios).join(", ")}`);
setTimeout(() => report({ wrong }, `${flags.scenario} was not done after ${flags.timeoutMs / 1000} s; it was at: ${at}`), flags.timeoutMs);
try {
  const told = await scenario();
  await browser.close();
  report({ ...told, wrong });
} catch (error) {
  report({ wrong }, `${flags.scenario}, at ${at}: ${error.stack ?? error}`);
}
