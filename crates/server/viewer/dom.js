// Elements, made without markup: children are text nodes or elements, so nothing that an agent says can become either.

/** Addresses that a link may have: of this server, within the page, or of the web. */
const LINK = /^(\/(?!\/)|#|https?:\/\/)/;

/**
 * Makes an element.
 *
 * @param {string} tag
 * @param {Record<string, unknown> | null} [props] `on` holds listeners by event, `dataset` data attributes, `vars` CSS custom
 *   properties; whatever else is an attribute, and is left out when it is `undefined`, `null` or `false`
 * @param {...(Node | string | number | null | undefined | false | Array)} children
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "vars") for (const [variable, text] of Object.entries(value)) element.style.setProperty(variable, text);
    else setAttribute(element, name, value);
  }
  add(element, children);
  return element;
}

/** Sets an attribute, or takes it away when the value is `undefined`, `null` or `false`. Writes only what is another value. */
export function setAttribute(element, name, value) {
  if (value === undefined || value === null || value === false) {
    element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  // Both would make live what they are given.
  if (/^on/i.test(name) || name === "srcdoc") throw new TypeError(`\`${name}\` is no attribute to set`);
  if ((name === "href" || name === "src") && !LINK.test(text)) throw new TypeError(`\`${text}\` is no address to link to`);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Appends children: nodes, texts, lists of them; nothing for what is absent. */
export function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(typeof child === "object" ? child : String(child));
  }
}

/** Replaces all children. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Sets an element's text, if it is another one: what does not change is neither laid out nor read aloud again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

/** Outlines on a field of 16 by 16. */
const ICONS = {
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.5 1.5M11.5 11.5 13 13M13 3l-1.5 1.5M4.5 11.5 3 13",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  auto: "M2 3h12v8H2zM6 14h4M8 11v3",
  key: "M6 10a3 3 0 1 1 2.8-4H14v3h-2v-1.5h-1.5V6M5.5 7h.01",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM10 10l4 4",
  copy: "M5 5V2h9v9h-3M2 5h9v9H2z",
  stop: "M4 4h8v8H4z",
  retry: "M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.5V6H9.5",
  play: "M4 3l9 5-9 5z",
  close: "M4 4l8 8M12 4l-8 8",
  down: "M8 3v10M4 9l4 4 4-4",
  chat: "M2 3h12v8H7l-3 3v-3H2z",
  frames: "M2 4h12M2 8h12M2 12h8",
};

/** A picture for a button that has a name of its own; readers of the screen are not told of it. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}
