// A conversation and the place in its session up to which it was read, kept for a page that is loaded again. One is kept in a
// tab, the last; where it does not fit, the session is read from its beginning, and nothing is lost but time.

import { Conversation } from "./conversation.js";
import { token, tokenChanges } from "./token.js";

const KEY = "runwire.conversation";

/** What was kept of this session: `{conversation, cursor}`, or `undefined`. */
export function kept(sessionId) {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    // What one token let be read is not shown to whoever has another.
    if (found?.session !== sessionId || found.token !== (token() ?? null)) return undefined;
    const conversation = Conversation.from(found.conversation);
    return conversation && { conversation, cursor: found.cursor };
  } catch {
    return undefined;
  }
}

export function keep(sessionId, conversation, cursor) {
  forget();
  if (cursor === undefined) return;
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ session: sessionId, token: token() ?? null, cursor, conversation }));
  } catch {
    // It does not fit, or nothing may be kept here.
  }
}

export function forget() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Then nothing was kept.
  }
}

// Whoever makes the viewer forget a token does not want to leave behind what it let be read.
tokenChanges.addEventListener("change", forget);
