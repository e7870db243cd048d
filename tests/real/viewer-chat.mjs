// Chromium uses the viewer's conversation page as a person does.

import { readFileSync } from "node:fs";
import { launchBrowser } from "./launch-browser.mjs";
import { readFlags, refuse, report } from "./command-line.mjs";
import { startCuttingProxy } from "./cutting-proxy.mjs";

const flags = readFlags(
  { url: { type: "string" }, do: { type: "string" }, screenshots: { type: "string" } },
  ["url", "do"],
);

const result = { complaints: [], strangers: [], dialogs: [], asked: [], cuts: [], looks: {}, session: null, timedOut: false };
let browser;
let context;
let page;

setTimeout(async () => {
  result.timedOut = true;
  const failure = `the page was not done after ${flags.timeoutMs / 1000} s`;
  // A browser that hangs must not keep this from its end either.
  setTimeout(() => report(result, failure), 2000);
  await look("when time was up").catch(() => {});
  report(result, failure);
}, flags.timeoutMs);

/** A tab whose errors, requests and dialogs are noted. */
async function tab() {
  const tab = await context.newPage();
  tab.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) result.complaints.push(message.text());
  });
  tab.on("pageerror", (error) => result.complaints.push(String(error.stack ?? error)));
  tab.on("dialog", (dialog) => {
    result.dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  tab.on("request", (request) => {
    const { origin, pathname, searchParams } = new URL(request.url());
    if (origin !== server && !request.url().startsWith("data:")) result.strangers.push(request.url());
    if (/^\/v2\/sessions\/.*\/stream$/.test(pathname)) result.asked.push(searchParams.get("after"));
  });
  return tab;
}

/** What a tab shows, in the order in which it shows it. */
const seen = (tab = page) =>
  tab.evaluate(() => {
    const said = (element) => element?.textContent ?? "";
    const items = [...document.querySelectorAll(".chat-run")].flatMap((run) =>
      [...run.querySelectorAll(".chat-newest > :not([hidden])")].map((element) => ({
        kind: element.classList.contains("of-person") ? "person" : element.className.split(" ")[0].replace("chat-", ""),
        text: said(element.querySelector(".chat-text") ?? element),
        isAbandoned: "abandoned" in element.dataset,
      })),
    );
    const runs = [...document.querySelectorAll(".chat-run")].map((run) => run.dataset.status);
    return {
      items,
      runs,
      connection: said(document.querySelector(".connection > [aria-hidden]:not(.dot)")),
      reason: said(document.querySelector("#chat-reason")),
      live: [...document.querySelectorAll(".conversation :is(script, img, iframe, u, h1, a[href^='javascript'])")].length,
      tooWide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    };
  });

async function look(name, tab = page) {
  result.looks[name] = await seen(tab);
}

async function picture(name) {
  if (flags.screenshots !== undefined) await page.screenshot({ path: `${flags.screenshots}/${name}.png` });
}

const until = (what, argument, tab = page) => tab.waitForFunction(what, argument, { polling: 20, timeout: 0 });

/** Waits until the agent has said so many characters in the run of this number, from 1. */
const untilSaid = (characters, run = 1) =>
  until(
    ([characters, run]) => {
      const said = document.querySelectorAll(".chat-run")[run - 1]?.querySelector(".of-agent .chat-text");
      return (said?.textContent.length ?? 0) >= characters;
    },
    [characters, run],
  );

/** Waits until there are so many runs and all of them have ended. */
const untilOver = (runs, tab = page) =>
  until(
    (runs) => {
      const all = [...document.querySelectorAll(".chat-run")];
      return all.length === runs && all.every(({ dataset }) => ["completed", "failed", "cancelled"].includes(dataset.status));
    },
    runs,
    tab,
  );

const box = (tab = page) => tab.getByRole("textbox", { name: "Message" });
const button = (name, tab = page) => tab.getByRole("button", { name, exact: true });

async function say(text, tab = page) {
  await box(tab).fill(text);
  await box(tab).press("Enter");
}

/** Opens a session with an agent; the session stays the same over several agents. */
async function open(agent, tab = page) {
  result.session ??= `talk ${process.pid}`;
  await tab.goto(`${server}/chat/${agent}/${encodeURIComponent(result.session)}`);
  await box(tab).waitFor();
}

/** What axe-core has against the page as it is. */
async function axe(name) {
  const source = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
  await page.evaluate(source);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document);
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(" | ")}`);
  });
  result.axe.push(...found.map((violation) => `${name}: ${violation}`));
}

const SCENARIOS = {
  /** From the page of all conversations; loaded again in mid-run; a second message; a second tab. */
  async talk() {
    await page.goto(`${server}/chat`);
    await page.getByRole("main").getByRole("link", { name: "steady" }).last().click();
    await box().waitFor();
    result.session = decodeURIComponent(new URL(page.url()).pathname.split("/")[3]);
    await say("How long is this?");
    await untilSaid(30);
    await look("before the reload");
    await page.reload();
    await until(() => document.querySelector(".connection")?.textContent.includes("resumed at frame"));
    await look("after the reload");
    const second = await tab();
    await open("steady", second);
    await untilOver(1);
    // What is said in one is to be seen in the other, while it is said.
    await say("And this one?", second);
    await untilOver(2);
    await untilOver(2, second);
    await look("the first tab");
    await look("the second tab", second);
    result.focus = await second.evaluate(() => document.activeElement.id);
  },
  /** Through a proxy that breaks the stream twice. */
  async cut() {
    await open("steady");
    await say("How long is this?");
    await untilOver(1);
    await look("at the end");
  },
  /** Asked for an approval, loaded again, approved; asked again, and denied. */
  async approve() {
    await open("demo");
    await say("Let me approve this");
    await button("Approve").waitFor();
    await look("asked");
    await page.reload();
    await button("Approve").waitFor();
    await button("Approve").press("Enter");
    await untilOver(1);
    result.focus = await page.evaluate(() => document.activeElement.textContent);
    await say("Let me approve that too");
    await button("Deny").click();
    await untilOver(2);
    await look("answered");
  },
  /** A question with a schema of its own: what does not fit is said at its field, by the server. */
  async form() {
    await open("asks");
    await say("Print it");
    const copies = page.getByRole("textbox", { name: "Copies" });
    await copies.waitFor();
    await picture("form");
    await button("Answer").click();
    result.missing = await copies.evaluate((field) => document.getElementById(field.getAttribute("aria-describedby").split(" ").at(-1)).textContent);
    await copies.fill("500");
    await page.getByRole("combobox", { name: "Colour" }).selectOption({ label: "red" });
    await page.getByRole("combobox", { name: "Both sides" }).selectOption({ label: "yes" });
    await page.getByRole("textbox", { name: "Pages" }).fill("1\n3");
    await button("Answer").click();
    await until(() => document.querySelector("[aria-invalid=true]") !== null);
    result.refused = await copies.evaluate((field) => document.getElementById(field.getAttribute("aria-describedby").split(" ").at(-1)).textContent);
    result.focus = await page.evaluate(() => document.activeElement.labels?.[0]?.textContent);
    await copies.fill("2");
    await button("Answer").click();
    await untilOver(1);
    await look("answered");
  },
  /** Stopped in mid-run; then again while another message waits for its turn; an agent that takes no second run. */
  async stop() {
    await open("long");
    await say("How long is this?");
    await untilSaid(300);
    await say("This one waits");
    await until(() => document.querySelectorAll(".chat-run[data-status=queued]").length === 1);
    await look("two runs");
    await button("Stop").click();
    await until(() => document.querySelector(".chat-run").dataset.status === "cancelled");
    await untilSaid(300, 2);
    await button("Stop").click();
    await untilOver(2);
    await look("stopped");
    await open("refuses");
    await untilOver(2);
    await say("Only one");
    await untilSaid(300, 3);
    await say("And another");
    await look("refused");
    result.draft = await box().inputValue();
    await button("Stop").click();
    await untilOver(3);
  },
  /** A run fails between two that do not. */
  async fail() {
    await open("demo");
    await say("First");
    await untilOver(1);
    await open("broken");
    await untilOver(1);
    await say("Second");
    await untilOver(2);
    await open("demo");
    await untilOver(2);
    await say("Third");
    await untilOver(3);
    await look("at the end");
  },
  /** An agent that says what a page must not take for its own; also in a narrow window. */
  async hostile() {
    await open("hostile");
    await say("<img src=x onerror=alert(0)> \u202emine");
    await untilOver(1);
    await page.locator(".chat-tool > summary").click();
    await button(/^The whole value/).click();
    await until(() => document.querySelector(".chat-tool-body .flow") !== null);
    await look("wide");
    await picture("hostile");
    await page.setViewportSize({ width: 320, height: 640 });
    await look("narrow");
    await picture("hostile-narrow");
  },
  /** Everything that a conversation can show, in both colours, wide and narrow. */
  async axe() {
    result.axe = [];
    await page.goto(`${server}/chat`);
    await page.getByRole("main").getByRole("link").first().waitFor();
    await axe("all conversations");
    await open("hostile");
    await say("Be nasty");
    await untilOver(1);
    await page.locator(".chat-tool > summary").click();
    await open("demo");
    await untilOver(1);
    await say("Let me approve this");
    await button("Approve").waitFor();
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      for (const [width, height] of [[1280, 800], [390, 760]]) {
        await page.setViewportSize({ width, height });
        await axe(`${colorScheme}, ${width} wide`);
        await look(`${colorScheme}, ${width} wide`);
        await picture(`chat-${colorScheme}-${width}`);
      }
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    await open("asks");
    await say("Print it");
    await page.getByRole("textbox", { name: "Copies" }).waitFor();
    await axe("a form");
  },
  /** One token, a reload, and then another one, which may not see the session. */
  async token() {
    const enter = async (token) => {
      await page.locator("#token").fill(token);
      await page.keyboard.press("Enter");
      await box().waitFor();
    };
    result.session = "of ada";
    await page.goto(`${server}/chat/demo/${encodeURIComponent(result.session)}`);
    await enter("ada's");
    await say("Keep this to yourself");
    await untilOver(1);
    await page.reload();
    await untilOver(1);
    await look("of ada");
    await page.getByRole("button", { name: "Forget the token" }).click();
    result.left = await page.evaluate(() => sessionStorage.getItem("runwire.conversation"));
    await enter("bob's");
    await until(() => document.querySelector(".connection")?.textContent.includes("waiting"));
    await look("of bob");
  },
  /** A run of more items than a page is made for: those that are shown stay few, and all can be had. */
  async many() {
    await open("many");
    await say("Look at everything");
    await untilOver(1);
    const counted = () =>
      page.evaluate(() => ({
        elements: document.querySelectorAll("*").length,
        tools: document.querySelectorAll(".chat-tool").length,
        last: [...document.querySelectorAll(".chat-tool")].at(-1).textContent,
        first: document.querySelector(".chat-tool").textContent,
      }));
    result.newest = await counted();
    const earlier = page.getByRole("button", { name: /earlier items/ });
    await page.locator(".chat-scroller").evaluate((scroller) => {
      scroller.scrollTop = 0;
    });
    result.moved = [];
    do {
      result.moved.push(
        await earlier.evaluate((button) => {
          const first = document.querySelector(".chat-tool");
          const before = first.getBoundingClientRect().top;
          button.click();
          return Math.round(first.getBoundingClientRect().top - before);
        }),
      );
    } while (await earlier.isVisible());
    result.all = await counted();
  },
  /** Whoever reads further up is not moved while text comes; whoever is at the end stays there. */
  async scroll() {
    await open("long");
    await page.setViewportSize({ width: 600, height: 420 });
    await say("How long is this?");
    await untilSaid(3000);
    const place = () => {
      const scroller = document.querySelector(".chat-scroller");
      const first = document.querySelector(".of-person");
      const { scrollTop, scrollHeight, clientHeight } = scroller;
      return { fromEnd: Math.round(scrollHeight - clientHeight - scrollTop), top: Math.round(first.getBoundingClientRect().top), scrollHeight };
    };
    result.following = await page.evaluate(place);
    await page.locator(".chat-scroller").evaluate((scroller) => {
      scroller.scrollTop = 0;
    });
    await button("Newest").waitFor();
    const before = await page.evaluate(place);
    await until((height) => document.querySelector(".chat-scroller").scrollHeight > height + 300, before.scrollHeight);
    result.reading = { before, after: await page.evaluate(place) };
    await button("Newest").click();
    result.back = await page.evaluate(place);
    await button("Stop").click();
    await untilOver(1);
  },
};

let server = new URL(flags.url).origin;
try {
  const scenario = SCENARIOS[flags.do];
  if (scenario === undefined) refuse(`--do ${flags.do} is not one of ${Object.keys(SCENARIOS).join(", ")}`);
  const marks = flags.do === "cut" ? [":40\ndata: ", ":75\ndata: "] : [];
  // What came before the cut has to be shown first: where a browser resumes that has not yet looked at it is chance.
  const isShown = (mark) =>
    until(
      (frame) => Number(/frame (\d+)/.exec(document.querySelector(".connection").textContent)?.[1]) >= frame,
      Number(/\d+/.exec(mark)[0]) - 1,
    );
  const proxy = await startCuttingProxy(new URL(flags.url), marks, isShown, String);
  result.cuts = proxy.cuts;
  if (marks.length > 0) server = proxy.url;
  browser = await launchBrowser();
  context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  page = await tab();
  await scenario();
  await browser.close();
  report(result);
} catch (error) {
  report(result, `the browser could not do it: ${error.stack ?? error}`);
}
