// The viewer's list of runs and its page of a run, used in Chromium as a person uses them. `--scenario` says what is done.

import { count, readFlags, refuse, report } from "./command-line.mjs";
import { axe, connection, openBrowser, overflow, status } from "./viewer-page.mjs";

const flags = readFlags(
  {
    url: { type: "string" },
    scenario: { type: "string" },
    run: { type: "string", multiple: true, default: [] },
    token: { type: "string", multiple: true, default: [] },
    frames: { type: "string" },
  },
  ["url", "scenario"],
);
const [run] = flags.run;
const frames = count("frames", flags.frames);

const { browser, open, wrong } = await openBrowser(flags.url);

const text = (page, selector) => page.locator(selector).innerText();
const texts = (page, selector) => page.locator(selector).allInnerTexts();
const rows = (page) => texts(page, "[role=treeitem] .timeline-name");
const button = (page, name) => page.getByRole("button", { name, exact: true });

/** Waits until the page has been given so many frames. */
const until = (page, seq) =>
  page.waitForFunction(
    (seq) => Number(/frame ([\d,]+)/.exec(document.querySelector(".connection")?.textContent)?.[1].replaceAll(",", "") ?? 0) >= seq,
    seq,
  );

const scenarios = {
  /** Starts a run from the list and reads it to its end. */
  async start() {
    const page = await open("/");
    await page.getByLabel("Agent").first().selectOption("demo");
    await page.getByLabel("Prompt").fill("What are logs good for?");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/runs\/run_/);
    await connection(page, "ended");
    const told = {
      path: new URL(page.url()).pathname,
      title: await page.title(),
      focus: await page.evaluate(() => document.activeElement.tagName),
      status: await text(page, ".run-line .status"),
      rows: await rows(page),
      output: await text(page, "[aria-label=Output]"),
      asked: await text(page, ".asked"),
    };
    await page.goBack();
    await page.locator("tbody tr").first().waitFor();
    return { ...told, listed: await texts(page, "tbody tr .run-link"), links: await page.locator("tbody a").evaluateAll((links) => links.map((link) => link.pathname)), statuses: await texts(page, "tbody .status") };
  },

  /** Leaves and comes back in the middle of a run, and stops it in the end. */
  async reload() {
    const page = await open(`/runs/${run}`);
    await until(page, frames);
    const before = await text(page, ".connection-more");
    await page.reload();
    await connection(page, "live");
    await until(page, 2 * frames);
    await button(page, "Cancel").click();
    await status(page, "cancelled");
    await connection(page, "ended");
    // The output is all there, in its box.
    const output = await page.locator("[aria-label=Output]").evaluate((box) => box.textContent);
    return { before, output, cancelIsShown: await button(page, "Cancel").isVisible(), rows: await rows(page) };
  },

  /** Answers an approval: `--token approve` or `--token deny`. */
  async approval() {
    const page = await open(`/runs/${run}`);
    await status(page, "suspended");
    const question = await text(page, ".question legend");
    const violations = await axe(page);
    await page.reload();
    await status(page, "suspended");
    await button(page, flags.token[0]).focus();
    await page.keyboard.press("Enter");
    await connection(page, "ended");
    return {
      question,
      violations,
      status: await text(page, ".run-line .status"),
      questionIsShown: await page.locator(".question").isVisible(),
      focusIsLost: await page.evaluate(() => document.activeElement === document.body),
      waits: await texts(page, "[role=treeitem][data-kind=wait]"),
      tools: await texts(page, "[role=treeitem][data-kind=tool]"),
    };
  },

  /** Answers by a form that is made from a schema: first wrongly, then rightly. */
  async form() {
    const page = await open(`/runs/${run}`);
    await status(page, "suspended");
    // The record says that it waits; what for, the frames do.
    await page.locator(".schema-field").first().waitFor();
    const kinds = await page.locator(".schema-field").evaluateAll((fields) =>
      fields.map((field) => {
        const { tagName, type } = field.querySelector("input, select, textarea");
        return `${field.querySelector("label").textContent}: ${tagName.toLowerCase()} ${type}`;
      }),
    );
    await page.getByLabel(/^title/).fill("ab");
    await page.getByLabel(/^copies/).fill("2");
    await page.getByLabel(/^colour$/).selectOption("green");
    await page.getByLabel(/^tags/).fill("one\ntwo");
    await page.getByLabel(/^urgent/).selectOption("yes");
    await button(page, "Answer").click();
    await page.locator(".field-problem:not([hidden])").waitFor();
    const problem = {
      said: await text(page, ".field-problem:not([hidden])"),
      at: await page.evaluate(() => document.querySelector("[aria-invalid=true]").closest(".schema-field").querySelector("label").textContent),
      violations: await axe(page),
    };
    await page.getByLabel(/^title/).fill("a poster");
    await button(page, "Answer").click();
    await connection(page, "ended");
    return { kinds, problem, output: await text(page, "[aria-label=Output]") };
  },

  /** The filters are in the address: they survive loading again, and going back takes them back. */
  async filters() {
    const page = await open("/?status=failed,cancelled");
    await page.locator("tbody tr").first().waitFor();
    const by = async () => ({
      search: new URL(page.url()).search,
      agents: [...new Set(await texts(page, "tbody .of-agent"))],
      statuses: [...new Set(await texts(page, "tbody .status"))],
      pressed: await texts(page, ".chip[aria-pressed=true]"),
      rows: await page.locator("tbody tr").count(),
    });
    const listed = page.waitForResponse((response) => response.url().includes("status=completed"));
    await button(page, "Completed").click();
    await listed;
    await page.locator("tbody .status[data-status=completed]").first().waitFor();
    const completed = await by();
    await page.getByLabel("Agent").last().selectOption("demo");
    await page.waitForFunction(() => [...document.querySelectorAll("tbody .of-agent")].every((cell) => cell.textContent === "demo") && document.querySelector("tbody tr") !== null);
    const ofDemo = await by();
    await page.reload();
    await page.locator("tbody tr").first().waitFor();
    const loadedAgain = await by();
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length > 1);
    const wentBack = await by();
    await page.goto(new URL("/?session_id=nobody%27s", flags.url).href);
    await page.locator(".nothing").waitFor();
    const nothing = await text(page, ".nothing");
    await page.goto(new URL("/", flags.url).href);
    await page.locator("tbody tr").first().waitFor();
    const found = [];
    for (const search of [run.slice(0, -1), "THREE"]) {
      await page.getByLabel("Search", { exact: true }).fill(search);
      await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
      found.push({ hrefs: await page.locator("tbody a").evaluateAll((links) => links.map((link) => link.pathname)), search: new URL(page.url()).search });
      await page.getByLabel("Search", { exact: true }).fill("");
      await page.waitForFunction(() => document.querySelectorAll("tbody tr").length > 1);
    }
    return { completed, ofDemo, loadedAgain, wentBack, nothing, found };
  },

  /** The list is up to date by itself, without losing what has the focus. */
  async list() {
    const page = await open("/");
    await page.locator("tbody tr").first().waitFor();
    const link = page.locator(`a[href="/runs/${run}"]`);
    await link.focus();
    await page.locator("tbody tr").first().evaluate((row) => {
      globalThis.firstRow = row;
    });
    await page.evaluate(async (agent) => {
      const body = JSON.stringify({ agent_id: agent, prompt: "One more" });
      await fetch("/v2/runs", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    }, "demo");
    await page.waitForFunction((before) => document.querySelectorAll("tbody tr").length > before, await page.locator("tbody tr").count());
    await page.locator("tbody tr").first().locator(".status[data-status=completed]").waitFor();
    return {
      hasFocus: await link.evaluate((link) => link === document.activeElement),
      rowIsSame: await page.evaluate(() => globalThis.firstRow === document.querySelectorAll("tbody tr")[1]),
      rows: await page.locator("tbody tr").count(),
    };
  },

  /** Looks at everything of a run that tries to be live, also in a window of 320 pixels. */
  async hostile() {
    const seen = [];
    for (const width of [1280, 320]) {
      const page = await open(`/runs/${run}`, { width });
      await connection(page, "ended");
      const names = await rows(page);
      for (let i = 0; i < names.length; i += 1) {
        await page.locator("[role=treeitem]").nth(i).click();
        const whole = button(page, /^Show all/);
        if (await whole.isVisible()) {
          await whole.click();
          await whole.waitFor({ state: "detached" });
        }
        seen.push(
          await page.evaluate(() => ({
            row: document.querySelector("[aria-selected=true] .timeline-name").textContent.slice(0, 40),
            hacked: globalThis.hacked ?? null,
            live: [...document.querySelectorAll("main img, main script, main iframe, main a[href^=javascript]")].map((one) => one.outerHTML),
            // Nothing that would reorder or hide is in a text of the page, but for the marks that name it.
            hidden: /[\u202a-\u202e\u2066-\u2069\u0007\u001b\u{e0000}-\u{e007f}]/u.test(document.body.textContent),
            overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            undirected: [...document.querySelectorAll(".flow-block")].filter((block) => block.dir !== "auto").length,
          })),
        );
      }
      await page.goto(new URL("/", flags.url).href);
      await page.locator("tbody tr").first().waitFor();
      await page.context().close();
    }
    return { seen };
  },

  /** The keys of a tree, and what a reader of the screen is told of it. */
  async keyboard() {
    const page = await open(`/runs/${run}`);
    await connection(page, "ended");
    const tree = page.getByRole("tree");
    const active = () =>
      page.evaluate(() => {
        const row = document.getElementById(document.querySelector("[role=tree]").getAttribute("aria-activedescendant"));
        return [row.querySelector(".timeline-name").textContent, row.getAttribute("aria-level"), row.getAttribute("aria-expanded")].join(" ");
      });
    await tree.focus();
    const path = [await active()];
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home", "ArrowLeft"]) {
      await page.keyboard.press(key);
      await page.waitForTimeout(0);
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      path.push(`${key}: ${await active()}`);
    }
    const folded = await page.locator("[role=treeitem]").count();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.waitForURL(/row=state/);
    await page.reload();
    await connection(page, "ended");
    await page.locator("[aria-selected=true][data-kind=state]").waitFor();
    return { path, folded, changes: await texts(page, ".change-what"), state: await text(page, ".details-of .details-of .detail:last-child .text-box") };
  },

  /** A log of many frames: what is there of it, and that its end can be reached. */
  async large() {
    const page = await open(`/runs/${run}`);
    await connection(page, "ended");
    const tree = page.getByRole("tree");
    await tree.focus();
    await page.keyboard.press("End");
    await page.waitForFunction(() => {
      const last = document.querySelector("[role=treeitem][aria-selected=true]");
      return last !== null && last.dataset.index !== "0";
    });
    const last = await page.evaluate(() => {
      const row = document.querySelector("[role=treeitem][aria-selected=true]");
      return { index: Number(row.dataset.index), of: row.parentElement.clientHeight / row.offsetHeight, name: row.querySelector(".timeline-more").textContent };
    });
    const elements = await page.evaluate(() => document.querySelectorAll("*").length);
    return { last, elements, connection: await text(page, ".connection-more"), details: await text(page, ".run-details") };
  },

  /** The same once more, and the same as a command. */
  async again() {
    const page = await open(`/runs/${run}`, { permissions: ["clipboard-read", "clipboard-write"] });
    await connection(page, "ended");
    await button(page, "Copy as curl").click();
    await button(page, "Copied").waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    await button(page, "Retry as a new run").click();
    await page.waitForURL((url) => url.pathname.startsWith("/runs/") && !url.pathname.endsWith(run));
    await connection(page, "ended");
    return { command, run: new URL(page.url()).pathname.split("/").pop(), asked: await text(page, ".asked") };
  },

  /** A server with tokens: a wrong one, then a right one; where it is kept. */
  async token() {
    const page = await open(`/runs/${run}`);
    const field = page.getByLabel("Token", { exact: true });
    await field.waitFor();
    const shownWithout = await texts(page, ".asked");
    const violations = await axe(page);
    await field.fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("does not know the token").waitFor();
    await field.fill(` ${flags.token[0]}\n`);
    await page.keyboard.press("Enter");
    await connection(page, "ended");
    const kept = await page.evaluate(() => ({ local: JSON.stringify({ ...localStorage }), session: { ...sessionStorage }, address: location.href, cookie: document.cookie }));
    await page.reload();
    await connection(page, "ended");
    const asked = await text(page, ".asked");
    await button(page, "Forget the token").click();
    await field.waitFor();
    return { shownWithout, violations, kept, asked, left: await page.evaluate(() => sessionStorage.length) };
  },

  /** Every page that is given, in light and dark, in a wide and in narrow windows. */
  async looks() {
    const found = [];
    for (const path of ["/", "/?status=failed", ...flags.run.map((run) => `/runs/${run}`)]) {
      const page = await open(path);
      // What the page shows in the end.
      await page.locator(path.startsWith("/runs/") ? "[role=treeitem]" : "tbody tr, .nothing").first().waitFor();
      for (const [scheme, width] of [["dark", 1280], ["light", 1280], ["light", 390], ["dark", 320]]) {
        await page.emulateMedia({ colorScheme: scheme });
        await page.setViewportSize({ width, height: 800 });
        for (const violation of await axe(page)) found.push(`${path} ${scheme} ${width}: ${violation}`);
        const wider = await overflow(page);
        if (wider > 0) found.push(`${path} ${scheme} ${width}: ${wider} pixels wider than the window`);
      }
      await page.context().close();
    }
    return { found };
  },
};

const scenario = scenarios[flags.scenario];
if (scenario === undefined) refuse(`--scenario ${flags.scenario} is none of ${Object.keys(scenarios).join(", ")}`);
setTimeout(() => {
  setTimeout(() => report({ wrong }, "the browser hangs"), 2000);
  const pages = browser.contexts().flatMap((context) => context.pages());
  const shown = Promise.all(pages.map((page) => page.locator("body").innerText().catch(() => "")));
  void shown.then((shown) => report({ wrong, shown }, `the scenario had not come to its end after ${flags.timeoutMs / 1000} s`));
}, flags.timeoutMs);
try {
  const told = await scenario();
  await browser.close();
  report({ ...told, wrong });
} catch (error) {
  report({ wrong }, `the scenario could not be done: ${error.stack ?? error}`);
}
