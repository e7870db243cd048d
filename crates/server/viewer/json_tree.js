// A JSON value that unfolds: what is folded is not there yet, so a large one costs what is seen of it.

import { h } from "./dom.js";
import { count } from "./format.js";
import { Flow, oneLine, said } from "./said.js";

/** Members that are shown at once; the others on demand. */
const MOST_MEMBERS = 200;

/** A longer text is shown to here, and the rest on demand. */
const MOST_CHARACTERS = 5000;

/** A container of so few members is shown on its line when it is folded. */
const GIST_CHARACTERS = 80;

/**
 * The value as a tree.
 *
 * @param {unknown} value as `JSON.parse` gives it
 * @param {{open?: number}} [how] so many levels are open at first
 */
export function jsonTree(value, { open = 2 } = {}) {
  const tree = h("div", { class: "json-tree mono" });
  const entries = entriesOf(value);
  // What is around everything needs no folding.
  if (entries.length > 0) showMembers(tree, entries, 0, open - 1);
  else tree.append(memberOf(undefined, value, open));
  return tree;
}

/** The members of a container by their names; none of anything else. */
function entriesOf(value) {
  if (value === null || typeof value !== "object") return [];
  return Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
}

function memberOf(name, value, open) {
  const label = name === undefined ? null : [h("span", { class: "json-name" }, oneLine(String(name))), ": "];
  if (value === null || typeof value !== "object") return h("div", { class: "json-line" }, label, scalar(value));
  const entries = entriesOf(value);
  if (entries.length === 0) return h("div", { class: "json-line" }, label, Array.isArray(value) ? "[]" : "{}");
  const inside = h("div", { class: "json-inside" });
  const isOpen = open > 0;
  const element = h("details", { class: "json-member", open: isOpen }, h("summary", {}, label, gist(value, entries.length)), inside);
  let made = false;
  const make = () => {
    if (made || !element.open) return;
    made = true;
    showMembers(inside, entries, 0, open - 1);
  };
  element.addEventListener("toggle", make);
  make();
  return element;
}

function showMembers(inside, entries, from, open) {
  const end = Math.min(entries.length, from + MOST_MEMBERS);
  for (const [name, value] of entries.slice(from, end)) inside.append(memberOf(name, value, open));
  if (end === entries.length) return;
  const more = h("button", { type: "button", class: "json-more" }, `${count(entries.length - end)} more`);
  more.addEventListener("click", () => {
    more.remove();
    showMembers(inside, entries, end, open);
    inside.children[end]?.querySelector("summary")?.focus();
  });
  inside.append(more);
}

/** What a folded container holds, in few words. */
function gist(value, size) {
  const [begin, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const names = Array.isArray(value) ? `${count(size)} items` : oneLine(Object.keys(value).slice(0, 12).join(", "), GIST_CHARACTERS);
  return h("span", { class: "json-gist" }, `${begin} ${names} ${end}`);
}

function scalar(value) {
  if (typeof value !== "string") return h("span", { class: "json-value", dataset: { of: value === null ? "null" : typeof value } }, String(value));
  if (value.length <= MOST_CHARACTERS) return text(value);
  const place = h("span", {}, text(value.slice(0, MOST_CHARACTERS)));
  const more = h("button", { type: "button", class: "json-more" }, `all of ${count(value.length)} characters`);
  more.addEventListener("click", () => {
    // In blocks, which are laid out when they are scrolled to: a browser takes very long over one line of megabytes.
    const flow = new Flow({ class: "json-value json-long", dataset: { of: "string" } });
    flow.append(value);
    place.replaceChildren(flow.element);
  });
  place.append(" … ", more);
  return place;
}

function text(value) {
  return h("span", { class: "json-value", dataset: { of: "string" } }, '"', said(value), '"');
}
