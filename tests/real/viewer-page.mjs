// Opens pages of the viewer in Chromium, and notes whatever must not happen there.

import { readFileSync } from "node:fs";
import { launchBrowser } from "./launch-browser.mjs";

const axeSource = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/**
 * A browser and what its pages did wrong, over all of them.
 *
 * @param {string} server
 */
export async function openBrowser(server) {
  const browser = await launchBrowser();
  const origin = new URL(server).origin;
  /** Messages of errors and warnings, exceptions, breaches of the pages' policy, requests to somewhere else. */
  const wrong = { console: [], exceptions: [], policy: [], elsewhere: [] };

  /** A page in a profile of its own, at this address of the viewer. */
  async function open(path, { width = 1280, height = 800, scheme = "dark", permissions = [] } = {}) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, permissions });
    context.setDefaultTimeout(0);
    const page = await context.newPage();
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) wrong.console.push(message.text());
    });
    page.on("pageerror", (error) => wrong.exceptions.push(String(error.stack ?? error)));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.origin !== origin && !["data:", "about:"].includes(url.protocol)) wrong.elsewhere.push(url.href);
    });
    await page.exposeFunction("noteBreach", (what) => void wrong.policy.push(what));
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => {
        globalThis.noteBreach(`${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`);
      });
    });
    await page.goto(new URL(path, server).href);
    return page;
  }

  return { browser, open, wrong };
}

/** What axe-core finds wrong with a page as it is now, each with the elements that it is about. */
export async function axe(page) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" | ")}`);
}

/** How many pixels a page is wider than its window. */
export const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Waits until the page's connection to its run is in this state, and what the page made of that is to be seen. */
export async function connection(page, state) {
  await page.locator(`.connection[data-state="${state}"]`).waitFor();
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

/** Waits until the run page says this status. */
export const status = (page, word) => page.locator(`.run-line .status[data-status="${word}"]`).waitFor();
