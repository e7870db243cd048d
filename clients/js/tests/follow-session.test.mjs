// `followSession()` against servers that do what a real one does rarely. The rules are those of docs/protocol.md.

import assert from "node:assert/strict";
import { test } from "node:test";
import { followSession } from "../runwire.js";
import { broken, frame, refusing, serve, silent, sse, whole } from "./scripted-server.mjs";

const quick = { firstMs: 1, capMs: 5, maxElapsedMs: 30_000 };

/** The event of one frame, whose cursor names this run and those behind it. */
const of = (run, seq, ...others) => sse([`${run}:${seq}`, ...others].join(","), frame(seq, "notice", { run_id: run }));

/** Follows until so many frames came, and notes what came, what was told and how it ended. */
async function followed(server, frames, options = {}) {
  const seen = { frames: [], states: [], error: undefined };
  const session = followSession({
    server: server.url,
    sessionId: "chat 7",
    backoff: quick,
    onStatus: ({ state }) => seen.states.push(state),
    ...options,
  });
  try {
    for await (const { run_id, seq } of session) {
      seen.frames.push(`${run_id} ${seq} at ${session.cursor}`);
      if (seen.frames.length === frames) break;
    }
  } catch (error) {
    seen.error = error;
  }
  seen.cursor = session.cursor;
  return seen;
}

const askedFor = (server) => server.requests.map(({ url }) => new URL(url, server.url).searchParams.get("after"));

test("runs side by side are given out as they come, and a cut resumes behind the last frame of all", async (t) => {
  const server = await serve(
    t,
    whole(`retry: 1\n\n${of("a", 1, "b:0")}${of("b", 1, "a:1")}`),
    broken(`${of("a", 2, "b:1")}id: a:3,b:1\ndata: {"proto`),
    silent(of("a", 3, "b:1")),
  );
  const seen = await followed(server, 4, { token: async () => "s3cret" });
  assert.deepEqual(seen.frames, ["a 1 at a:1,b:0", "b 1 at b:1,a:1", "a 2 at a:2,b:1", "a 3 at a:3,b:1"]);
  assert.deepEqual(seen.states, ["live", "resuming", "live", "resuming", "live"]);
  assert.deepEqual(askedFor(server), [null, "b:1,a:1", "a:2,b:1"]);
  assert.match(server.requests[0].url, /^\/v2\/sessions\/chat%207\/stream/);
  for (const { headers } of server.requests) assert.equal(headers.authorization, "Bearer s3cret");
  await server.requests[2].closed;
});

test("a kept cursor is gone on from, and what it has is not given out again", async (t) => {
  const server = await serve(t, silent(of("a", 6, "b:2") + of("a", 7, "b:2") + of("b", 3, "a:7")));
  const seen = await followed(server, 2, { cursor: "a:6,b:2" });
  assert.deepEqual(seen.frames, ["a 7 at a:7,b:2", "b 3 at b:3,a:7"]);
  assert.deepEqual(askedFor(server), ["a:6,b:2"]);
});

test("a frame that is missing is asked for once again, and missing again it is a gap", async (t) => {
  const server = await serve(t, silent(of("a", 1) + of("a", 3)), silent(of("a", 2) + of("a", 3)));
  assert.deepEqual((await followed(server, 3)).frames, ["a 1 at a:1", "a 2 at a:2", "a 3 at a:3"]);
  const damaged = await serve(t, silent(of("a", 1) + of("a", 3)), silent(of("a", 3)));
  const seen = await followed(damaged, 3);
  assert.deepEqual([seen.error.code, seen.error.cursor, seen.cursor], ["GAP", "a:1", "a:1"]);
});

test("what does not say where it stands, and what is no frame, is refused", async (t) => {
  const nameless = await serve(t, silent(sse("b:1", frame(1, "notice", { run_id: "a" }))));
  assert.equal((await followed(nameless, 1)).error.code, "BAD_EVENT");
  const other = await serve(t, silent(sse("a:1", `{"protocol":2}`)));
  assert.equal((await followed(other, 1)).error.code, "BAD_FRAME");
});

test("what coming back cannot help with is told by its code", async (t) => {
  for (const [status, code] of [
    [204, "REFUSED"],
    [400, "REFUSED"],
    [401, "UNAUTHORIZED"],
    [404, "RUN_NOT_FOUND"],
    [410, "GONE"],
    [416, "PAST_HEAD"],
  ]) {
    const server = await serve(t, refusing(status));
    assert.equal((await followed(server, 1, { cursor: "a:1" })).error.code, code);
    assert.equal(server.requests.length, 1);
  }
});

test("an option that is wrong is told at once", () => {
  for (const wrong of [{ sessionId: "" }, { cursor: "" }, { cursor: 7 }, { server: "ftp://x" }]) {
    assert.throws(() => followSession({ server: "http://127.0.0.1:1", sessionId: "s", ...wrong }), TypeError);
  }
});
