// Follows a run for a page: in batches, one before each picture, so that neither a long log nor a fast run freezes it.

import { json, runApi } from "./api.js";
import { breathe, nextPicture, wait } from "./pacing.js";
import { followRun } from "./runwire.js";
import { token } from "./token.js";
import { whileShown } from "./while_shown.js";

/** So long may the reading and the taking of frames go on before everything else has its turn, in milliseconds. */
const TURN_MS = 8;

/** Most frames of one batch. */
const BATCH = 1000;

/** How often a page that is behind asks how far the run is. */
const HEAD_EVERY_MS = 1000;

/**
 * Hands over a run's frames behind `cursor`, each once and in order, until the run has ended. It comes back by itself; while
 * the tab is in the background nothing is followed, and then it goes on where it was.
 *
 * @param {object} what
 * @param {string} what.runId
 * @param {number} [what.cursor]
 * @param {AbortSignal} what.signal ends it, without an error
 * @param {import("./connection.js").Connection} what.connection is told how it stands
 * @param {(frames: object[]) => void} what.take is given each batch
 * @returns {Promise<number>} the `seq` of the last frame
 * @throws FollowError when coming back cannot help
 */
export async function followFrames({ runId, cursor = 0, signal, connection, take }) {
  let at = cursor;
  const progress = ({ seq }) => {
    at = seq;
    connection.progress({ cursor: seq });
  };
  const go = async (link) => {
    let ended;
    const run = followRun({
      server: "/",
      runId,
      cursor: at,
      token,
      signal: link,
      backoff: { maxElapsedMs: Infinity },
      onStatus: (status) => {
        // That is said when the page has the last frames too.
        if (status.state === "ended") ended = status;
        else connection.status(status);
      },
    });
    const heads = watchHead(runId, link, connection);
    await pump(run, { heads, signal: link, take, progress });
    // A tab that was left in the last moment has not been handed the last frames.
    if (link.aborted) return false;
    connection.status(ended);
    return true;
  };
  await whileShown({ signal, connection, go });
  return at;
}

/**
 * Reads as fast as the page takes, no faster: what is not read stays on the server. A batch is handed over before the next
 * picture; when more has come than fits, the page is behind, and says so.
 */
export async function pump(run, { heads, signal, take, progress }) {
  let batch = [];
  let turnBegan = performance.now();
  let handingOver;
  let failure;
  const handOver = async () => {
    await nextPicture();
    handingOver = undefined;
    if (signal.aborted) return;
    turnBegan = performance.now();
    const frames = batch;
    batch = [];
    try {
      take(frames);
    } catch (error) {
      failure = error;
      return;
    }
    progress(frames[frames.length - 1]);
  };
  for await (const frame of run) {
    batch.push(frame);
    handingOver ??= handOver();
    if (batch.length >= BATCH) {
      heads?.behind();
      await handingOver;
    } else if (performance.now() - turnBegan > TURN_MS) {
      await breathe();
      turnBegan = performance.now();
    }
    if (failure !== undefined) throw failure;
  }
  await handingOver;
  if (failure !== undefined) throw failure;
}

/** Asks how far the run is, while the page is behind and not otherwise. */
function watchHead(runId, signal, connection) {
  let isAsking = false;
  return {
    behind() {
      if (isAsking) return;
      isAsking = true;
      const ask = async () => {
        const record = await json(runApi(runId), { signal });
        connection.progress({ head: record.head });
        await wait(HEAD_EVERY_MS, signal);
      };
      // How far the run is, is only shown: following does not depend on it.
      ask()
        .catch(() => wait(HEAD_EVERY_MS, signal))
        .finally(() => {
          isAsking = false;
        });
    },
  };
}
