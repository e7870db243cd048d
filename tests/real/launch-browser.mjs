// The browser that setup.sh found, for the scripts whose readers run in a page.

import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

/**
 * Starts it with a new profile, and no traffic but that of its pages.
 *
 * @param {string[]} more further flags of the browser
 */
export function launchBrowser(more = []) {
  return chromium.launch({
    executablePath: readFileSync(new URL("node_modules/.runwire-browser", import.meta.url), "utf8"),
    chromiumSandbox: false,
    args: [
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      ...more,
    ],
  });
}
