// Connections of a page: each is open while the tab is in sight, and gone when the page is left.

import { shown } from "./pacing.js";
import { askForToken, token } from "./token.js";

/** A tab that is in the background for so long leaves its connection: a browser has six of them to one server. */
const LEAVE_AFTER_MS = 20_000;

/**
 * What one connection goes by: a signal that is aborted with the page's, and when the tab has been in the background for a
 * while. `close` ends whatever still listens to it, and has to be called.
 *
 * @param {AbortSignal} pageSignal
 */
export function linkOf(pageSignal) {
  const link = new AbortController();
  const leave = () => link.abort();
  let timer;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(leave, LEAVE_AFTER_MS);
  };
  pageSignal.addEventListener("abort", leave);
  document.addEventListener("visibilitychange", look);
  return {
    signal: link.signal,
    close() {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
      pageSignal.removeEventListener("abort", leave);
      link.abort();
    },
  };
}

/**
 * Goes again whenever the tab is in sight, until `go` says that it is over or the page is left. Asks for another token where
 * the one that was used is not taken.
 *
 * @param {object} what
 * @param {AbortSignal} what.signal ends it, without an error
 * @param {import("./connection.js").Connection} what.connection is told how it stands
 * @param {(signal: AbortSignal) => Promise<boolean>} what.go says whether it is over; it is not where `signal` is aborted
 * @throws what `go` throws and coming back cannot help
 */
export async function whileShown({ signal, connection, go }) {
  while (!signal.aborted) {
    if (document.hidden) {
      connection.paused();
      await shown(signal);
      continue;
    }
    const used = token();
    const link = linkOf(signal);
    try {
      if (await go(link.signal)) return;
    } catch (error) {
      if (signal.aborted) return;
      if (link.signal.aborted) continue;
      if (error.code === "UNAUTHORIZED" && (await askForToken(used, signal).catch(() => false))) continue;
      if (signal.aborted) return;
      connection.failed(error.message);
      throw error;
    } finally {
      link.close();
    }
  }
}
