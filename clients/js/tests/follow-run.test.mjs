// `followRun()` against servers that do what a real one does rarely. The rules are those of docs/protocol.md.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FollowError, followRun } from "../runwire.js";
import { asked, broken, end, frame, frames, open, refusing, serve, silent, sse, whole } from "./scripted-server.mjs";

const quick = { firstMs: 1, capMs: 5, maxElapsedMs: 30_000 };

/** Follows to the end, and notes what came, what was told and how it ended. */
async function followed(server, options = {}) {
  const seen = { bodies: [], told: [], error: undefined, cursor: undefined };
  const onStatus = (status) => seen.told.push(status);
  const run = followRun({
    server: server?.url ?? "http://127.0.0.1:1",
    runId: "run_1",
    backoff: quick,
    onStatus,
    ...options,
  });
  try {
    for await (const frame of run) seen.bodies.push(frame.body);
  } catch (error) {
    seen.error = error;
  }
  seen.cursor = run.cursor;
  return seen;
}

const log = (from, to) =>
  [...Array(to - from).keys()]
    .map((i) => frame(from + i))
    .concat(JSON.parse(JSON.stringify(end(to).slice(end(to).indexOf("{"), -2))));
const states = (seen) => seen.told.map(({ state }) => state);

test("a run is read to run.end, and no further, also where the server leaves the connection open", async (t) => {
  const server = await serve(t, silent(`retry: 10\n\n${frames(1, 3)}${end(4)}${frames(5, 6)}`));
  const seen = await followed(server);
  assert.deepEqual(seen.bodies, log(1, 4));
  assert.deepEqual(states(seen), ["live", "ended"]);
  assert.equal(seen.cursor, 4);
  await server.requests[0].closed;
  assert.deepEqual([server.requests[0].url, server.requests[0].method], ["/v2/runs/run_1/stream", "GET"]);
});

test("a frame is the seven keys of its envelope, and its body the text that came", async (t) => {
  const odd = `{"protocol":2, "seq":1,"run_id":"run_1","ts":"x","type":"notice","segment_id":null,"data":{"n":1.0}}`;
  const server = await serve(t, whole(sse(1, odd) + end(2)));
  const run = followRun({ server: server.url, runId: "run_1" });
  const { value } = await run.next();
  assert.equal(value.body, odd);
  assert.deepEqual(Object.keys(value), ["protocol", "seq", "run_id", "ts", "type", "segment_id", "data"]);
  await run.return();
});

test("a stream that ends in good order before run.end is a cut, and goes on behind the cursor", async (t) => {
  const server = await serve(
    t,
    whole(frames(1, 3)),
    broken(`${frames(4, 5)}id: 6\ndata: {"proto`),
    whole(frames(6, 7) + end(8)),
  );
  const seen = await followed(server, { token: "s3cret" });
  assert.deepEqual(seen.bodies, log(1, 8));
  assert.deepEqual(states(seen), ["live", "resuming", "live", "resuming", "live", "ended"]);
  assert.deepEqual(
    server.requests.map(({ url }) => url.split("?")[1]),
    [undefined, "after=3", "after=5"],
  );
  for (const { headers } of server.requests) assert.equal(headers.authorization, "Bearer s3cret");
});

test("204 says that nothing follows; where nothing was ever read it is an error", async (t) => {
  const server = await serve(t, refusing(204));
  assert.deepEqual(states(await followed(server, { cursor: 7 })), ["ended"]);
  const unread = await followed(server);
  assert.equal(unread.error.code, "ENDED_UNREAD");
  assert.deepEqual(unread.told, []);
});

for (const [status, code, numbers] of [
  [400, "REFUSED"],
  [401, "UNAUTHORIZED"],
  [403, "UNAUTHORIZED"],
  [404, "RUN_NOT_FOUND"],
  [409, "REFUSED"],
  [410, "GONE", { oldest: 17 }],
  [416, "PAST_HEAD", { head: 9 }],
  [421, "REFUSED"],
]) {
  test(`${status} is ${code}, and coming back is not tried`, async (t) => {
    const server = await serve(t, refusing(status, { detail: "because of it", ...numbers }));
    const { error, told } = await followed(server, { cursor: 12 });
    assert.ok(error instanceof FollowError, String(error));
    assert.deepEqual([error.code, error.status, error.cursor], [code, status, 12]);
    assert.deepEqual([error.oldest, error.head], [numbers?.oldest, numbers?.head]);
    assert.match(error.message, /because of it/);
    assert.deepEqual(told, []);
    // A `fetch` repeats what was answered with 421 by itself, once, as its standard has it.
    assert.equal(server.requests.length, status === 421 ? 2 : 1);
  });
}

test("408, 425, 429 and 5xx may pass", async (t) => {
  const passing = [408, 425, 429, 500, 502, 503, 504].map((status) => refusing(status));
  const seen = await followed(await serve(t, ...passing, whole(end(1))));
  assert.deepEqual(states(seen), [...Array(7).fill("resuming"), "live", "ended"]);
});

test("Retry-After, in seconds or as a date, is the least wait", async (t) => {
  for (const value of ["7", new Date(Date.now() + 20_000).toUTCString()]) {
    const server = await serve(t, refusing(503, {}, { "Retry-After": value }));
    const stop = new AbortController();
    const onStatus = (status) => {
      assert.ok(status.retryInMs >= 7000 && status.retryInMs <= 20_000, `${value}: ${status.retryInMs}`);
      stop.abort();
    };
    const { error } = await followed(server, { onStatus, signal: stop.signal, backoff: { firstMs: 1 } });
    assert.equal(error, stop.signal.reason);
  }
});

test("retry: is the least wait of the first try after a cut, and of no further one", async (t) => {
  const server = await serve(t, whole(`retry: 60\n\n${frames(1, 1)}`), refusing(503), whole(end(2)));
  const seen = await followed(server);
  const waits = seen.told.filter(({ state }) => state === "resuming").map(({ retryInMs }) => retryInMs);
  assert.ok(waits[0] === 60 && waits[1] < 60, String(waits));
});

test("waits are drawn from a range that doubles up to the cap, and end in giving up", async () => {
  const backoff = { firstMs: 8, capMs: 32, maxElapsedMs: 400 };
  const { told, error } = await followed(undefined, { backoff });
  assert.equal(error.code, "GAVE_UP");
  const waits = told.map(({ retryInMs }) => retryInMs);
  waits.forEach((wait, i) => assert.ok(wait <= Math.min(32, 8 * 2 ** i), `${i}: ${wait}`));
  assert.ok(waits.some((wait) => wait > 8) && new Set(waits).size > 3, String(waits));
  assert.ok(waits.reduce((a, b) => a + b, 0) <= 400);
});

test("each received frame begins the tries anew", async (t) => {
  const cuts = [1, 2, 3, 4, 5, 6].map((seq) => whole(frames(seq, seq)));
  const seen = await followed(await serve(t, ...cuts, whole(end(7))), { backoff: { firstMs: 10, capMs: 1e6 } });
  for (const { retryInMs } of seen.told) assert.ok(retryInMs === undefined || retryInMs <= 10);
  assert.deepEqual(seen.bodies, log(1, 7));
});

test("a connection that outlived the longest wait counts as working, though it brought nothing", async (t) => {
  const recycled = (_request, response) => {
    open(response, "");
    setTimeout(() => response.end(), 80);
  };
  const server = await serve(t, ...Array(8).fill(recycled), whole(end(1)));
  const { told } = await followed(server, { backoff: { firstMs: 1, capMs: 40 } });
  const waits = told.flatMap(({ retryInMs }) => retryInMs ?? []);
  assert.equal(waits.length, 8);
  assert.ok(
    waits.every((wait) => wait <= 1),
    String(waits),
  );
});

test("silence is a cut, in reading as in connecting; a comment is no silence", async (t) => {
  const deaf = () => {};
  const server = await serve(t, deaf, silent(frames(1, 2)), (_request, response) => {
    open(response, frames(3, 3));
    let comments = 0;
    const ticking = setInterval(() => {
      comments += 1;
      response.write(comments < 6 ? ": \n\n" : end(4));
      if (comments === 6) clearInterval(ticking);
    }, 200);
  });
  const seen = await followed(server, { idleMs: 800 });
  assert.deepEqual(seen.bodies, log(1, 4));
  assert.deepEqual(states(seen), ["resuming", "live", "resuming", "live", "ended"]);
  assert.match(seen.told[2].reason, /nothing came from the server for 0.8 s/);
});

test("a browser that comes back online does not wait any longer, except as long as the server asked for", async (t) => {
  const window = new EventTarget();
  globalThis.addEventListener = window.addEventListener.bind(window);
  globalThis.removeEventListener = window.removeEventListener.bind(window);
  t.after(() => {
    delete globalThis.addEventListener;
    delete globalThis.removeEventListener;
  });
  const server = await serve(t, whole(frames(1, 1)), refusing(503, {}, { "Retry-After": "1" }), whole(end(2)));
  const waits = [];
  const onStatus = ({ state, retryInMs }) => {
    if (state !== "resuming") return;
    waits.push([retryInMs, performance.now()]);
    setTimeout(() => window.dispatchEvent(new Event("online")), 20);
  };
  const hours = { firstMs: 1e12, capMs: 1e12, maxElapsedMs: Infinity };
  const seen = await followed(server, { onStatus, backoff: hours });
  assert.deepEqual(seen.bodies, log(1, 2));
  assert.ok(
    waits.every(([wait]) => wait > 60_000),
    "without the event the test would not end",
  );
  assert.ok(performance.now() - waits[1][1] >= 990, "the server asked for a second");
});

test("a gap is never skipped: it is asked for again, and given up when it is there again (G2, G7)", async (t) => {
  const gap = whole(frames(1, 2) + frames(4, 5));
  const healed = await followed(await serve(t, gap, whole(frames(3, 5) + end(6))));
  assert.deepEqual(healed.bodies, log(1, 6));
  const lost = await followed(await serve(t, gap, whole(frames(4, 5))));
  assert.equal(lost.error.code, "GAP");
  assert.equal(lost.error.cursor, 2);
  assert.deepEqual(lost.bodies, [frame(1), frame(2)]);
});

test("a frame that comes twice on one connection is never delivered twice, and given up when it comes again (G1)", async (t) => {
  const twice = (from) => whole(frames(from, 2) + frames(2, 3));
  const seen = await followed(await serve(t, twice(1), twice(2)));
  assert.equal(seen.error.code, "DUPLICATE");
  assert.deepEqual(seen.bodies, [frame(1), frame(2)]);
});

test("a connection that begins before the cursor repeats what is known, and that is skipped", async (t) => {
  const seen = await followed(await serve(t, whole(frames(1, 3)), whole(frames(1, 5) + end(6))));
  assert.deepEqual(seen.bodies, log(1, 6));
});

const bad = (change) => JSON.stringify({ ...JSON.parse(frame(1)), ...change });
for (const [what, body, code] of [
  ["another protocol", bad({ protocol: 3 }), "PROTOCOL_UNSUPPORTED"],
  ["an unknown type", bad({ type: "text" }), "BAD_FRAME"],
  ["an additional key", bad({ agui: {} }), "BAD_FRAME"],
  ["a missing key", bad({ ts: undefined }), "BAD_FRAME"],
  ["a delta of no segment", bad({ type: "text.delta" }), "BAD_FRAME"],
  ["a seq that is no whole number", bad({ seq: 1.5 }), "BAD_FRAME"],
  ["data that is no object", bad({ data: [] }), "BAD_FRAME"],
  ["no JSON", "{", "BAD_FRAME"],
  ["no object", "[]", "BAD_FRAME"],
  ["another run's frame", bad({ run_id: "run_2" }), "WRONG_RUN"],
]) {
  test(`${what} is ${code}`, async (t) => {
    const server = await serve(t, whole(sse(1, body)));
    const { error, bodies } = await followed(server);
    assert.equal(error.code, code, error.message);
    assert.deepEqual([bodies, server.requests.length], [[], 1]);
  });
}

test("an unknown key in data is read over", async (t) => {
  const server = await serve(t, whole(sse(1, bad({ data: { later: true } })) + end(2)));
  assert.equal((await followed(server)).error, undefined);
});

test("line ends may be CR, LF or both, and bytes may be cut anywhere", async (t) => {
  const text = `\uFEFFretry: 1\n\n${frames(1, 2)}${sse(3, frame(3, "notice", { data: { text: "🧑‍🚀 é\u0000" } }))}${end(4)}`;
  const expected = (await followed(await serve(t, whole(text)))).bodies;
  assert.equal(expected.length, 4);
  for (const lineEnd of ["\n", "\r", "\r\n"]) {
    const bytes = Buffer.from(text.replaceAll("\n", lineEnd));
    const server = await serve(t, async (_request, response) => {
      open(response, "");
      for (const byte of bytes) {
        response.write(Buffer.from([byte]));
        await new Promise(setImmediate);
      }
      response.end();
    });
    const seen = await followed(server);
    assert.deepEqual(seen.bodies, expected, JSON.stringify(lineEnd));
    assert.deepEqual(states(seen), ["live", "ended"]);
  }
});

test("bytes that are no UTF-8, a frame beyond the limit and an answer of another kind are errors", async (t) => {
  const latin = await serve(t, (_request, response) => {
    open(response, frames(1, 1));
    response.end(Buffer.from([0x64, 0x3a, 0xe9, 0x0a, 0x0a]));
  });
  const seen = await followed(latin);
  assert.deepEqual([seen.error.code, seen.bodies], ["BAD_TRANSPORT", [frame(1)]]);
  for (const text of [end(1), end(1).slice(0, -2)]) {
    const large = await followed(await serve(t, silent(text)), { maxEventBytes: 100 });
    assert.equal(large.error.code, "TOO_LARGE");
  }
  const page = await serve(t, whole("<html>", { "Content-Type": "text/html" }));
  assert.equal((await followed(page)).error.code, "NOT_AN_EVENT_STREAM");
});

test("an abort ends the reading with its reason at any point, closes the connection and sends nothing (G9)", async (t) => {
  const reason = new Error("enough");
  const gone = new AbortController();
  gone.abort(reason);
  const never = await serve(t, whole(end(1)));
  assert.equal((await followed(never, { signal: gone.signal })).error, reason);
  assert.equal(never.requests.length, 0, "before the first connection");

  for (const [when, answer] of [
    ["while connecting", () => {}],
    ["while reading", silent(frames(1, 2))],
    ["between two connections", refusing(503, {}, { "Retry-After": "600" })],
  ]) {
    const server = await serve(t, answer);
    const stop = new AbortController();
    void asked(server, 1).then(() => stop.abort(reason));
    const seen = await followed(server, { signal: stop.signal, backoff: { firstMs: 1, maxElapsedMs: Infinity } });
    assert.equal(seen.error, reason, when);
    assert.ok(!states(seen).includes("ended"), when);
    await server.requests[0].closed;
    assert.equal(server.requests.length, 1, when);
  }

  const server = await serve(t, silent(frames(1, 9)));
  const stop = new AbortController();
  const run = followRun({ server: server.url, runId: "run_1", signal: stop.signal });
  await run.next();
  stop.abort(reason);
  await server.requests[0].closed;
  await assert.rejects(run.next(), reason, "what was read and not yet given out is not given out behind an abort");
  assert.equal(run.cursor, 1);
});

test("leaving the loop closes the connection, also while the next frame is waited for", async (t) => {
  const server = await serve(t, silent(frames(1, 2)), silent(frames(1, 2)));
  for await (const { seq } of followRun({ server: server.url, runId: "run_1" })) if (seq === 2) break;
  await server.requests[0].closed;

  const run = followRun({ server: server.url, runId: "run_1" });
  await run.next();
  await run.next();
  const waiting = run.next();
  assert.deepEqual(await run.return(), { done: true, value: undefined });
  assert.deepEqual(await waiting, { done: true, value: undefined });
  await server.requests[1].closed;
});

test("options that can never work are told at once", () => {
  const options = { server: "http://127.0.0.1:1", runId: "run_1" };
  for (const wrong of [
    { server: "ws://127.0.0.1" },
    { server: "nowhere" },
    { runId: "" },
    { cursor: -1 },
    { cursor: "7" },
    { transport: "ws" },
    { backoff: { firstMs: -1 } },
    { backoff: { capMs: Number.NaN } },
    { token: "a\nb" },
  ]) {
    assert.throws(() => followRun({ ...options, ...wrong }), TypeError, JSON.stringify(wrong));
  }
});

test("the server may stand behind a path, and the token be made anew for each connection", async (t) => {
  const server = await serve(t, whole(frames(1, 1)), whole(end(2)));
  let made = 0;
  const token = async () => `token ${(made += 1)}`;
  await followed({ url: `${server.url}/behind/it` }, { token });
  assert.deepEqual(
    server.requests.map(({ url }) => url),
    ["/behind/it/v2/runs/run_1/stream", "/behind/it/v2/runs/run_1/stream?after=1"],
  );
  assert.deepEqual(
    server.requests.map(({ headers }) => headers.authorization),
    ["Bearer token 1", "Bearer token 2"],
  );
});

// WebSocket.

/** A `WebSocket` that plays one scene a connection. The last scene is for all that follow. */
function sockets(...scenes) {
  const opened = [];
  return class {
    static opened = opened;
    constructor(url) {
      this.url = url;
      this.sent = [];
      this.isClosed = false;
      opened.push(this);
      setTimeout(() => scenes[Math.min(opened.length, scenes.length) - 1](this), 1);
    }
    send(text) {
      this.sent.push(JSON.parse(text));
    }
    close() {
      this.isClosed = true;
    }
  };
}

const bodies = (from, to) => [...Array(to - from + 1).keys()].map((i) => frame(from + i));
const endOf = (seq) => log(seq, seq)[0];
const scene = (messages, close) => (socket) => {
  socket.onopen({});
  for (const data of messages) socket.onmessage({ data });
  if (close) setTimeout(() => socket.onclose({ code: close, reason: "" }), 5);
};
const overWebSocket = (WebSocket, options) => followed(undefined, { transport: "websocket", WebSocket, ...options });

test("over a WebSocket the first message names token, protocol and cursor", async () => {
  const WebSocket = sockets(scene(bodies(1, 3), 1001), scene([...bodies(4, 4), endOf(5)]));
  const seen = await overWebSocket(WebSocket, { token: "s3cret" });
  assert.deepEqual(seen.bodies, log(1, 5));
  assert.deepEqual(states(seen), ["live", "resuming", "live", "ended"]);
  const [first, second] = WebSocket.opened;
  assert.equal(first.url, "ws://127.0.0.1:1/v2/runs/run_1/ws");
  assert.deepEqual(first.sent, [{ type: "auth", token: "s3cret", protocol: 2, after: 0 }]);
  assert.deepEqual(second.sent, [{ type: "auth", token: "s3cret", protocol: 2, after: 3 }]);
  assert.ok(second.isClosed);
});

test("what a close code means is decided by the table of the protocol", async () => {
  for (const [code, error] of [
    [4401, "UNAUTHORIZED"],
    [4404, "RUN_NOT_FOUND"],
    [4409, "PROTOCOL_UNSUPPORTED"],
  ]) {
    const seen = await overWebSocket(sockets(scene([], code)));
    assert.equal(seen.error.code, error);
  }
  for (const code of [1001, 1006, 1011, 4999]) {
    const seen = await overWebSocket(sockets(scene(bodies(1, 1), code), scene([endOf(2)])));
    assert.deepEqual(seen.bodies, log(1, 2), code);
  }
  // 1000 is the end only where the cursor was the last frame already.
  assert.deepEqual(states(await overWebSocket(sockets(scene([], 1000)), { cursor: 3 })), ["live", "ended"]);
  assert.equal((await overWebSocket(sockets(scene([], 1000)))).error.code, "ENDED_UNREAD");
  const early = await overWebSocket(sockets(scene(bodies(1, 2), 1000), scene([endOf(3)])));
  assert.deepEqual([early.bodies, states(early).includes("resuming")], [log(1, 3), true]);
});

test("an error frame of the connection says more than the close", async () => {
  for (const [data, code, numbers] of [
    [{ code: "AUTH_FAILED" }, "UNAUTHORIZED", {}],
    [{ code: "MALFORMED_FRAME" }, "UNAUTHORIZED", {}],
    [{ code: "MALFORMED_FRAME", head: 9 }, "PAST_HEAD", { head: 9 }],
    [{ code: "MALFORMED_FRAME", oldest: 5 }, "GONE", { oldest: 5 }],
    [{ code: "RUN_NOT_FOUND" }, "RUN_NOT_FOUND", {}],
    [{ code: "PROTOCOL_UNSUPPORTED" }, "PROTOCOL_UNSUPPORTED", {}],
    [{ code: "BUDGET_EXCEEDED" }, "REFUSED", {}],
  ]) {
    const said = frame(0, "error", { data: { message: "so it is", retryable: false, ...data } });
    const { error } = await overWebSocket(sockets(scene([said], 4401)));
    assert.deepEqual([error.code, error.oldest, error.head], [code, numbers.oldest, numbers.head]);
    assert.match(error.message, /so it is/);
  }
  const passing = frame(0, "error", { data: { code: "INTERNAL_ERROR", message: "a moment", retryable: true } });
  const seen = await overWebSocket(sockets(scene([passing], 1011), scene([endOf(1)])));
  assert.deepEqual(states(seen), ["live", "resuming", "live", "ended"]);
});

test("a first message that came too late is said again, though not for ever", async () => {
  const said = frame(0, "error", { data: { code: "AUTH_FAILED", message: "late", retryable: true } });
  const late = (times) => Array(times).fill(scene([said], 4401));
  const seen = await overWebSocket(sockets(...late(9), scene(bodies(1, 2), 1001), ...late(9), scene([endOf(3)])));
  assert.deepEqual([seen.error, seen.bodies], [undefined, log(1, 3)]);
  const always = sockets(...late(1));
  const { error } = await overWebSocket(always);
  assert.deepEqual([error.code, always.opened.length], ["AUTH_LATE", 10]);
});

test("a WebSocket that does not open, or is silent, is a cut; a binary message is an error", async () => {
  const refusing = (socket) => {
    socket.onerror({});
    socket.onclose({ code: 1006, reason: "" });
  };
  const seen = await overWebSocket(
    sockets(refusing, () => {}, scene(bodies(1, 1)), scene([endOf(2)])),
    { idleMs: 400 },
  );
  assert.deepEqual(seen.bodies, log(1, 2));
  assert.deepEqual(states(seen), ["resuming", "resuming", "live", "resuming", "live", "ended"]);
  assert.equal((await overWebSocket(sockets(scene([new ArrayBuffer(3)])))).error.code, "BAD_TRANSPORT");
});

test("frames that a slow reader leaves in the queue are bounded: it leaves, and comes back for the rest (G8)", async () => {
  const large = (seq) => frame(seq, "notice", { data: { text: "x".repeat(1024 * 1024) } });
  const all = [...[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].map(large), endOf(13)];
  const fast = (socket) => {
    socket.onopen({});
    const { after } = socket.sent[0];
    socket.offered = 0;
    for (const data of all.slice(after)) {
      if (socket.isClosed) break;
      socket.offered += 1;
      socket.onmessage({ data });
    }
  };
  const WebSocket = sockets(fast);
  const seen = await overWebSocket(WebSocket);
  assert.deepEqual(seen.bodies, all);
  assert.equal(WebSocket.opened.length, 2);
  assert.ok(WebSocket.opened[0].offered < 10, "it did not take everything");
});

test(
  "without a WebSocket in the environment the caller is told to pass one",
  { skip: globalThis.WebSocket !== undefined },
  () => {
    assert.throws(
      () => followRun({ server: "http://a.test", runId: "r", transport: "websocket" }),
      /pass one as `WebSocket`/,
    );
  },
);
