// A conversation and the place in its session up to which it was read, kept for a page that is loaded again. One is kept in a
// tab, the last; where it does not fit, the session is read from its beginning, and nothing is lost but time.

import { Conversation } from "./conversation.js";
import { CONVERSATION as KEY } from "./token.js";

/** What was kept of this session: `{conversation, cursor}`, or `undefined`. */
export function kept(sessionId) {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    if (found?.session !== sessionId) return undefined;
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
    sessionStorage.setItem(KEY, JSON.stringify({ session: sessionId, cursor, conversation }));
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
