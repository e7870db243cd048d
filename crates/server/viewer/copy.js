// Text for the clipboard, and requests as a person types them.

import { announce } from "./announce.js";
import { h } from "./dom.js";
import { token } from "./token.js";

/** Puts a text into the clipboard; where a browser does not allow that, it is shown to be copied by hand. */
export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    announce(`${what} copied`);
    return true;
  } catch {
    const area = h("textarea", { rows: 8, class: "mono", readonly: true, "aria-label": what });
    area.value = text;
    const close = h("button", { type: "button", on: { click: () => dialog.close() } }, "Close");
    const dialog = h("dialog", { class: "dialog wide", "aria-label": what }, area, h("div", { class: "buttons" }, close));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    area.select();
    return false;
  }
}

/** A button that copies what `text()` gives, and says for a moment that it did. */
export function copyButton(label, what, text, content = []) {
  const word = h("span", {}, label);
  let timer;
  const act = async () => {
    if (!(await copyText(text(), what))) return;
    word.textContent = "Copied";
    clearTimeout(timer);
    timer = setTimeout(() => {
      word.textContent = label;
    }, 1500);
  };
  return h("button", { type: "button", on: { click: () => void act() } }, content, word);
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a command. A token is named by its variable and not written out: commands are kept in histories. */
export function curl(path, { method = "GET", body } = {}) {
  const parts = ["curl", "--no-buffer"];
  if (method !== "GET") parts.push("--request", method);
  parts.push(quoted(new URL(path, location.href).href));
  if (token() !== undefined) parts.push("--header", '"Authorization: Bearer $RUNWIRE_TOKEN"');
  if (body !== undefined) parts.push("--header", "'Content-Type: application/json'", "--data-raw", quoted(JSON.stringify(body)));
  return parts.join(" ");
}
