// Follows all runs of a session for a page, over one connection.

import { pump } from "./follow.js";
import { followSession } from "./runwire.js";
import { token } from "./token.js";
import { whileShown } from "./while_shown.js";

/** The frames of a session, each with the place behind it as `cursor`: more than one is read before a page takes them. */
async function* withCursors(session) {
  for await (const frame of session) yield Object.defineProperty(frame, "cursor", { value: session.cursor });
}

/**
 * Hands over the frames of a session's runs behind `cursor`, of each run each once and in order, until `signal` is aborted. It
 * comes back by itself; while the tab is in the background nothing is followed, and then it goes on where it was.
 *
 * @param {object} what
 * @param {string} what.sessionId
 * @param {string | undefined} what.cursor
 * @param {AbortSignal} what.signal ends it, without an error
 * @param {import("./connection.js").Connection} what.connection is told how it stands
 * @param {(status: object) => void} what.onStatus is told the same
 * @param {(frames: object[]) => void} what.take is given each batch; a frame's `cursor` is the place behind it
 * @throws FollowError when coming back cannot help
 */
export async function followSessionFrames({ sessionId, cursor, signal, connection, onStatus, take }) {
  let at = cursor;
  const go = async (link) => {
    const session = followSession({
      server: "/",
      sessionId,
      cursor: at,
      token,
      signal: link,
      backoff: { maxElapsedMs: Infinity },
      onStatus: (status) => {
        connection.status(status);
        onStatus(status);
      },
    });
    const progress = (frame) => {
      at = frame.cursor;
      // How far one run is says nothing of how far another is.
      connection.progress({ cursor: frame.seq, head: frame.seq });
    };
    await pump(withCursors(session), { signal: link, take, progress });
    // A session has no end: another run may always follow.
    return false;
  };
  await whileShown({ signal, connection, go });
}
