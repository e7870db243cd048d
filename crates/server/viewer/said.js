// What agents, models, tools and callers said: always text, never in a direction that it chose for its surroundings, and with
// the characters to be seen that would hide or reorder it.

import { h } from "./dom.js";

/**
 * Characters that are not to be seen, or reorder what is around them: control characters but for tab and line break, soft
 * hyphen, zero width space, directional marks, embeddings, overrides and isolates, invisible operators, interlinear annotation,
 * the byte order mark, tags. The joiners U+200C and U+200D stay: scripts and emoji are written with them.
 */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** A block of a flow is begun anew behind so many characters, at the next line break. */
const BLOCK = 2000;

/** So long may a block become that has no line break. */
const LONGEST_BLOCK = 32_000;

const codePoint = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** The text as nodes, each hidden character as a mark with its number. A carriage return in front of a line feed is left out. */
function nodesOf(text) {
  const plain = text.replaceAll("\r\n", "\n");
  const nodes = [];
  let from = 0;
  for (const found of plain.matchAll(HIDDEN)) {
    if (found.index > from) nodes.push(document.createTextNode(plain.slice(from, found.index)));
    nodes.push(h("span", { class: "hidden-character" }, codePoint(found[0])));
    from = found.index + found[0].length;
  }
  if (from < plain.length) nodes.push(document.createTextNode(plain.slice(from)));
  return nodes;
}

/** Where to cut a text so that at most so many code units are in front, and no character is cut in two. */
function wholeCharacters(text, most) {
  if (text.length <= most) return text.length;
  const at = Math.max(0, most);
  return at > 0 && /[\ud800-\udbff]/.test(text[at - 1]) ? at - 1 : at;
}

/** An element that shows a text as it was said. */
export function said(text, props = {}, tag = "span") {
  const element = h(tag, { ...props, dir: "auto", class: `said ${props.class ?? ""}` });
  element.append(...nodesOf(String(text)));
  return element;
}

/** Puts another text into an element of `said()`. */
export function say(element, text) {
  element.replaceChildren(...nodesOf(String(text)));
}

/** The text on one line, with its hidden characters as marks in plain text: for titles, labels and rows. */
export function oneLine(text, most = 300) {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.replace(/\s+/g, " ").replace(HIDDEN, (character) => `⟨${codePoint(character)}⟩`);
}

/**
 * A text that grows. What is added costs the same however long the text is already: it goes into the last of many blocks, and
 * only that one is laid out again.
 */
export class Flow {
  #block;
  #length = 0;
  /** Whether the last character was a carriage return, whose line feed may follow. */
  #held = "";

  constructor(props = {}) {
    this.element = h("div", { ...props, class: `flow said ${props.class ?? ""}` });
  }

  /** Adds to the end. */
  append(text) {
    let rest = this.#held + text;
    this.#held = "";
    if (rest.endsWith("\r")) {
      this.#held = "\r";
      rest = rest.slice(0, -1);
    }
    while (rest !== "") {
      if (this.#block === undefined) {
        this.#block = h("div", { class: "flow-block", dir: "auto" });
        this.#length = 0;
        this.element.append(this.#block);
      }
      const room = BLOCK - this.#length;
      const lineEnd = rest.indexOf("\n", Math.max(0, room));
      const end = lineEnd < 0 ? wholeCharacters(rest, LONGEST_BLOCK - this.#length) : lineEnd;
      this.#add(rest.slice(0, end));
      this.#length += end;
      if (lineEnd >= 0 && end === lineEnd) {
        // The break itself is the edge between two blocks.
        rest = rest.slice(end + 1);
        this.#block = undefined;
        if (rest === "") this.#pending();
      } else {
        rest = rest.slice(end);
        if (rest !== "") this.#block = undefined;
      }
    }
  }

  /** A block for the line that begins, so that a break at the end is to be seen. */
  #pending() {
    this.#block = h("div", { class: "flow-block", dir: "auto" });
    this.#length = 0;
    this.element.append(this.#block);
  }

  #add(text) {
    const nodes = nodesOf(text);
    const last = this.#block.lastChild;
    if (nodes[0]?.nodeType === Node.TEXT_NODE && last?.nodeType === Node.TEXT_NODE) {
      last.appendData(nodes.shift().data);
    }
    this.#block.append(...nodes);
  }
}
