// Words for those who do not see the page change: said once, when nothing else is being said.

import { h } from "./dom.js";

const region = h("div", { class: "visually-hidden", role: "status", "aria-live": "polite" });
document.body.append(region);

/** Has something read aloud. Not for what changes many times a second. */
export function announce(text) {
  // The same text twice is only read twice when it was away in between.
  region.textContent = "";
  requestAnimationFrame(() => {
    region.textContent = text;
  });
}
