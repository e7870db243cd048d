// Chromium uses the page of examples/plain as a person does.

import { launchBrowser } from "./launch-browser.mjs";
import { readFlags, refuse, report } from "./command-line.mjs";
import { startCuttingProxy } from "./cutting-proxy.mjs";

const flags = readFlags(
  {
    page: { type: "string" },
    url: { type: "string" },
    agent: { type: "string" },
    do: { type: "string" },
  },
  ["page", "url", "agent", "do"],
);

const result = { origins: [], complaints: [], loads: [], cuts: [], thread: null, shown: [], timedOut: false };
let page;

/** What the page shows of the conversation, in its order. */
const shown = () =>
  page.evaluate(() =>
    [...document.getElementById("messages").children].map((element) => ({
      kind: element.className,
      text: element.firstChild.data,
      calls: [...element.querySelectorAll(".call")].map((call) => call.textContent),
    })),
  );

setTimeout(async () => {
  result.timedOut = true;
  const failure = `the page was not done after ${flags.timeoutMs / 1000} s`;
  // A browser that hangs must not keep this from its end either.
  setTimeout(() => report(result, failure), 2000);
  result.shown = (await shown().catch(() => undefined)) ?? [];
  report(result, failure);
}, flags.timeoutMs);

const until = (what, argument) => page.waitForFunction(what, argument, { polling: 20, timeout: 0 });

const say = async (prompt) => {
  await page.getByRole("textbox", { name: "Message" }).fill(prompt);
  await page.keyboard.press("Enter");
};

/** Waits until the agent's last message has so many characters. */
const untilSaid = (characters) =>
  until((characters) => {
    const said = [...document.querySelectorAll("#messages > .assistant, #messages > .reasoning")].at(-1);
    return (said?.textContent.length ?? 0) >= characters;
  }, characters);

const untilOver = () => until(() => !document.getElementById("send").disabled);

const loadAgain = async () => {
  result.loads.push(await shown());
  await page.reload();
};

const button = (name) => page.getByRole("button", { name });

const SCENARIOS = {
  /** Cut while the answer comes, loaded again in mid-run, cut again, and asked once more behind that. */
  async survive() {
    await say("How long is this?");
    while (result.cuts.length < 1) await new Promise((later) => setTimeout(later, 20));
    await untilSaid(40);
    await loadAgain();
    await untilOver();
    await say("And this one?");
    await untilOver();
  },
  /** Asked for an approval, loaded again, and answered. */
  async approve() {
    await say("Let me approve this");
    await button("Approve").waitFor();
    await loadAgain();
    await button("Approve").click();
    await untilOver();
  },
  async stop() {
    await say("How long is this?");
    await untilSaid(400);
    await button("Stop").click();
    await untilOver();
  },
};

try {
  const scenario = SCENARIOS[flags.do];
  if (scenario === undefined) refuse(`--do ${flags.do} is not one of ${Object.keys(SCENARIOS).join(", ")}`);
  // In the answer to the message, then in that of `connect`, whose ids begin with the run.
  const marks = flags.do === "survive" ? ["\nid: 40.0\n", "/80.0\n"] : [];
  const proxy = await startCuttingProxy(new URL(flags.url), marks, () => Promise.resolve(), String);
  result.cuts = proxy.cuts;
  const browser = await launchBrowser();
  page = await browser.newPage();
  const origins = new Set();
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) result.complaints.push(message.text());
  });
  page.on("pageerror", (error) => result.complaints.push(String(error)));
  const server = marks.length > 0 ? proxy.url : new URL(flags.url).origin;
  await page.goto(`${flags.page}?${new URLSearchParams({ server, agent: flags.agent })}`);
  await scenario();
  result.thread = new URL(page.url()).searchParams.get("thread");
  result.shown = await shown();
  const expected = [new URL(flags.page).origin, server];
  result.origins = [...origins].filter((origin) => !expected.includes(origin));
  await browser.close();
  report(result);
} catch (error) {
  report(result, `the browser could not do it: ${error.stack ?? error}`);
}
