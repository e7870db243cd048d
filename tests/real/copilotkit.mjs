// The app of examples/copilotkit, as vite built it, in Chromium, with a Runwire server as its runtime: one scenario of a
// person who uses it. Prints what the page showed.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags, refuse, report } from "./command-line.mjs";
import { startCuttingProxy } from "./cutting-proxy.mjs";
import { launchBrowser } from "./launch-browser.mjs";

const APP = fileURLToPath(new URL("../../examples/copilotkit/dist", import.meta.url));

/** What the example's configuration allows. The browser is led from there to the port that is free. */
const ORIGIN = "http://localhost:5173";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2" };

/** Serves the app with this server as its runtime. */
async function serveApp(runtimeUrl) {
  const site = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, ORIGIN);
    const file = pathname === "/" ? "index.html" : normalize(pathname).slice(1);
    try {
      let content = await readFile(join(APP, file));
      if (file === "index.html") {
        content = String(content).replace(/(?<=name="runtime-url" content=")[^"]*/, runtimeUrl);
      }
      response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" }).end(content);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
  return site;
}

/** A tab of the app, and what a person does with it. */
class Tab {
  static async open(context, seen, { thread, setUp }) {
    const page = await context.newPage();
    page.setDefaultTimeout(seen.timeoutMs);
    const tab = new Tab(page, seen);
    page.on("request", (request) => tab.#requested(request));
    page.on("console", (message) => message.type() === "error" && seen.consoleErrors.push(message.text()));
    page.on("pageerror", (error) => seen.pageErrors.push(String(error)));
    await setUp?.(page);
    await page.goto(`${ORIGIN}/?thread=${thread}`);
    await tab.ready();
    return tab;
  }

  constructor(page, seen) {
    this.page = page;
    this.seen = seen;
  }

  #requested(request) {
    const url = new URL(request.url());
    if (url.protocol === "data:" || url.origin === ORIGIN) return;
    if (url.origin !== this.seen.runtime) {
      this.seen.elsewhere.push(request.url());
      return;
    }
    this.seen.requests.push(`${request.method()} ${url.pathname}`);
  }

  /** The chat is there and can be written into. */
  async ready() {
    await this.page.getByTestId("copilot-chat-textarea").waitFor();
  }

  async reload() {
    await this.page.reload();
    await this.ready();
  }

  async send(text) {
    await this.page.getByTestId("copilot-chat-textarea").fill(text);
    await this.page.locator("[data-testid=copilot-send-button]:not([disabled])").click();
    await this.page.getByTestId("copilot-user-message").filter({ hasText: text }).last().waitFor();
  }

  /** The last thing that the agent said has this in it. */
  async says(text) {
    const last = this.page.getByTestId("copilot-assistant-message").last();
    await last.filter({ hasText: text }).waitFor();
  }

  /** Nothing goes on in the chat. */
  async idle() {
    await this.page.locator("[data-testid=copilot-chat][data-copilot-running=false]").waitFor();
  }

  async stop() {
    await this.page.locator("[data-copilot-running=true] [data-testid=copilot-send-button]").click();
  }

  async press(name) {
    await this.page.getByRole("button", { name }).click();
  }

  async question() {
    const question = this.page.getByRole("group", { name: "Approval" });
    await question.waitFor();
    return question.locator("p").innerText();
  }

  /** What stands in the chat, in order. */
  async messages() {
    const of = "[data-testid=copilot-user-message], [data-testid=copilot-assistant-message]";
    return this.page.locator(of).evaluateAll((messages) =>
      messages
        .map((message) => ({
          of: message.dataset.testid === "copilot-user-message" ? "user" : "assistant",
          text: message.innerText.replace(/\s+/g, " ").trim(),
        }))
        .filter(({ text }) => text !== ""),
    );
  }

  async alert() {
    const alert = this.page.getByRole("alert");
    return (await alert.count()) === 0 ? null : (await alert.innerText()).replace(/\s*Dismiss$/, "").trim();
  }

  async background() {
    return this.page.locator("main").getAttribute("data-background");
  }

  async picture(name) {
    if (this.seen.pictures) await this.page.screenshot({ path: join(this.seen.pictures, `${name}.png`) });
  }
}

const SCENARIOS = {
  /** A conversation; the chat is taken away and put back; the page is loaded again. */
  async chat(open) {
    const tab = await open("chat");
    await tab.send("hello there");
    await tab.says("You said: hello there");
    await tab.idle();
    await tab.send("and again");
    await tab.says("You said: and again");
    await tab.idle();
    const before = await tab.messages();
    await tab.picture("chat");
    const mounted = [];
    for (let n = 0; n < 3; n += 1) {
      await tab.press("Hide the chat");
      await tab.press("Show the chat");
      await tab.says("You said: and again");
      mounted.push(await tab.messages());
    }
    await tab.reload();
    await tab.says("You said: and again");
    return { before, mounted, reloaded: await tab.messages(), alert: await tab.alert() };
  },

  /** A reload and a second tab in the middle of a run. */
  async reload(open) {
    const tab = await open("reload");
    await tab.send("count to 150");
    await tab.says("10 11 ");
    await tab.reload();
    await tab.says("10 11 ");
    const other = await open("reload");
    await other.says("10 11 ");
    const atSecond = (await other.messages()).at(-1).text;
    for (const each of [tab, other]) {
      await each.says("149 150");
      await each.idle();
    }
    await tab.picture("reload");
    return {
      messages: await tab.messages(),
      other: await other.messages(),
      openedInMidRun: !atSecond.endsWith("150"),
      alerts: [await tab.alert(), await other.alert()],
    };
  },

  /** Connections that break in the middle of a run. */
  async cut(open, seen, { proxy }) {
    const tab = await open("cut");
    const shown = proxy(tab);
    await tab.send("count to 60");
    await tab.says("59 60");
    await tab.idle();
    return { messages: await tab.messages(), cuts: shown.cuts, alert: await tab.alert() };
  },

  /** The same without `resumableFetch`: what CopilotKit's client does by itself. */
  async "cut-plain"(open, seen, { proxy }) {
    const setUp = (page) =>
      page.addInitScript(() => {
        const own = window.fetch;
        Object.defineProperty(window, "fetch", { get: () => own, set: () => {} });
      });
    const tab = await open("cut-plain", { setUp });
    const shown = proxy(tab);
    await tab.send("count to 60");
    await tab.page.getByRole("alert").waitFor();
    const alert = await tab.alert();
    const left = await tab.messages();
    await tab.picture("cut-plain");
    await tab.reload();
    await tab.says("59 60");
    return { left, cuts: shown.cuts, alert, reloaded: await tab.messages() };
  },

  /** A question answered yes; another one that is still there after a reload, answered no. */
  async answer(open) {
    const tab = await open("answer");
    await tab.send("refund 20");
    const first = await tab.question();
    await tab.picture("answer");
    await tab.press("Approve");
    await tab.says("Paid back: 20.");
    await tab.idle();
    await tab.send("refund 500");
    await tab.question();
    await tab.reload();
    const second = await tab.question();
    await tab.press("Deny");
    await tab.says("you did not approve");
    await tab.idle();
    const questions = await tab.page.getByRole("group", { name: "Approval" }).count();
    const messages = await tab.messages();
    await tab.reload();
    await tab.says("you did not approve");
    return { first, second, questions, messages, reloaded: await tab.messages(), alert: await tab.alert() };
  },

  /** A run that is stopped while another tab looks on, and the message after that. */
  async stop(open) {
    const tab = await open("stop");
    await tab.send("count to 1000");
    await tab.says("5 6 ");
    const other = await open("stop");
    await other.says("5 6 ");
    await tab.stop();
    await tab.idle();
    await other.idle();
    const stopped = (await tab.messages()).at(-1).text;
    const alerts = [await tab.alert(), await other.alert()];
    await tab.picture("stop");
    await tab.send("hello");
    await tab.says("You said: hello");
    await tab.idle();
    return { stopped, alerts, messages: await tab.messages(), alert: await tab.alert() };
  },

  /** A tool that the page executes. */
  async tool(open) {
    const tab = await open("tool");
    const before = await tab.background();
    await tab.send("paint it lavender");
    await tab.says("Painted. The background is lavender.");
    await tab.idle();
    const after = await tab.background();
    const messages = await tab.messages();
    await tab.picture("tool");
    await tab.reload();
    await tab.says("Painted. The background is lavender.");
    await tab.idle();
    return { before, after, messages, reloaded: await tab.messages(), again: await tab.background() };
  },

  /** All of it in the form of one route, which is what CopilotKit's client takes where the others are not to be had. */
  async single(open) {
    const setUp = (page) =>
      page.addInitScript(() => {
        const own = window.fetch.bind(window);
        window.fetch = (input, init) =>
          /\/info$/.test(input) ? Promise.reject(new TypeError("Failed to fetch")) : own(input, init);
      });
    const tab = await open("single", { setUp });
    await tab.send("refund 20");
    await tab.question();
    await tab.press("Approve");
    await tab.says("Paid back: 20.");
    await tab.idle();
    await tab.send("count to 1000");
    await tab.says("5 6 ");
    await tab.reload();
    await tab.says("5 6 ");
    await tab.stop();
    await tab.idle();
    await tab.send("paint it lavender");
    await tab.says("Painted. The background is lavender.");
    await tab.idle();
    return { messages: await tab.messages(), alert: await tab.alert() };
  },

  /** A run that fails between two that do not. */
  async failed(open) {
    const tab = await open("failed");
    await tab.send("hello");
    await tab.says("You said: hello");
    await tab.idle();
    await tab.send("fail");
    await tab.page.getByRole("alert").waitFor();
    const alert = await tab.alert();
    await tab.picture("failed");
    await tab.press("Dismiss");
    await tab.idle();
    await tab.send("hello again");
    await tab.says("You said: hello again");
    await tab.idle();
    const messages = await tab.messages();
    await tab.reload();
    await tab.says("You said: hello again");
    return { alert, messages, reloaded: await tab.messages(), after: await tab.alert() };
  },
};

/** A proxy in front of the server that breaks a connection within each of these events, once the page shows something. */
async function startProxy(target, events) {
  let tab;
  const { url, cuts } = await startCuttingProxy(new URL(target), events, () => tab.says("1"));
  const proxy = (of) => {
    tab = of;
    return { cuts };
  };
  return { url, proxy };
}

const flags = readFlags(
  {
    server: { type: "string" },
    scenario: { type: "string" },
    pictures: { type: "string" },
    "cut-in-event": { type: "string", multiple: true, default: [] },
  },
  ["server", "scenario"],
);
const play = SCENARIOS[flags.scenario] ?? refuse(`--scenario is one of ${Object.keys(SCENARIOS).join(" ")}`);

const { url, proxy } =
  flags["cut-in-event"].length === 0
    ? { url: flags.server, proxy: undefined }
    : await startProxy(flags.server, flags["cut-in-event"]);
const site = await serveApp(`${url}/copilotkit`);
const browser = await launchBrowser([
  `--host-resolver-rules=MAP localhost:5173 127.0.0.1:${site.address().port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`,
]);
const seen = {
  timeoutMs: flags.timeoutMs,
  pictures: flags.pictures,
  runtime: new URL(url).origin,
  requests: [],
  elsewhere: [],
  consoleErrors: [],
  pageErrors: [],
};
const context = await browser.newContext({ viewport: { width: 900, height: 700 } });
let showed;
let failure;
try {
  showed = await play((thread, more) => Tab.open(context, seen, { thread, ...more }), seen, { proxy });
} catch (error) {
  failure = `${error.stack ?? error}`;
  const [page] = context.pages();
  if (page !== undefined) seen.stood = await page.locator("body").innerText().catch(String);
  if (page !== undefined && flags.pictures) await page.screenshot({ path: join(flags.pictures, "failed-at.png") });
}
const { requests, elsewhere, consoleErrors, pageErrors, stood } = seen;
await browser.close();
report({ ...showed, requests: [...new Set(requests)].sort(), elsewhere, consoleErrors, pageErrors, stood }, failure);
