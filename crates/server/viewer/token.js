// The token that a person entered. It is kept for this tab alone, until it is closed.

import { fill, h } from "./dom.js";

const KEY = "runwire.token";

/** The key of what was read of a conversation, which goes with the token that let it be read. */
export const CONVERSATION = "runwire.conversation";

/** Where no storage is allowed, it lasts until the page is loaded again. */
let inMemory;

/** The token, or `undefined` when none was entered. */
export function token() {
  try {
    return sessionStorage.getItem(KEY) ?? inMemory;
  } catch {
    return inMemory;
  }
}

/** Told whenever a token was entered or forgotten. */
export const tokenChanges = new EventTarget();

function keep(text) {
  inMemory = text;
  try {
    // What one token let be read is not left behind for whoever has another.
    sessionStorage.removeItem(CONVERSATION);
    if (text === undefined) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, text);
  } catch {
    // It is in memory.
  }
  tokenChanges.dispatchEvent(new Event("change"));
}

/** Forgets it. */
export function forgetToken() {
  keep(undefined);
}

/** The question that is being asked: several requests that are refused at once ask it once. */
let asking;

/**
 * Asks for a token because the server did not accept `used`. Answers whether there is another one now.
 *
 * @param {string | undefined} used
 * @param {AbortSignal} [signal] of whoever wants it: they stop waiting, the question stays
 */
export async function askForToken(used, signal) {
  if (token() !== used) return true;
  asking ??= question(used !== undefined).finally(() => {
    asking = undefined;
  });
  const left = new Promise((resolve) => {
    signal?.addEventListener("abort", () => resolve(false));
  });
  const given = await Promise.race([asking, left]);
  signal?.throwIfAborted();
  return given && token() !== used;
}

function question(wasRefused) {
  return new Promise((resolve) => {
    const input = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
    const why = wasRefused
      ? "The server does not know the token that was used until now."
      : "This server shows its runs to those who have one of its tokens.";
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "token-title" }, "A token is needed"),
      h("p", {}, why),
      h("label", { for: "token" }, "Token"),
      input,
      h("p", { class: "dim" }, "It is kept in this tab until the tab is closed, and sent to this server only."),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", on: { click: () => dialog.close() } }, "Not now"),
        h("button", { type: "submit", class: "primary" }, "Use it"),
      ),
    );
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": "token-title" });
    let given = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      // A header can carry nothing else, and pasted text often ends in a line break.
      const entered = input.value.trim();
      if (!/^[\x21-\x7e]+$/.test(entered)) {
        input.setCustomValidity("A token has visible ASCII characters only.");
        input.reportValidity();
        return;
      }
      given = true;
      keep(entered);
      dialog.close();
    });
    input.addEventListener("input", () => input.setCustomValidity(""));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
    fill(dialog, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}
