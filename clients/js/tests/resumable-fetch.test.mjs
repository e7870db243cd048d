// `resumableFetch()` against servers that do what a real one does rarely. The rules are those of docs/protocol.md, *The AG-UI
// view*.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FollowError, resumableFetch } from "../runwire.js";
import { asked, broken, open, refusing, serve, silent, sse, whole } from "./scripted-server.mjs";

const RUNWIRE = { "Runwire-Run-Id": "run_1" };
const INPUT = JSON.stringify({ threadId: "t", runId: "r", messages: [] });
const quick = { firstMs: 1, capMs: 5, maxElapsedMs: 30_000 };
const brief = { ...quick, maxElapsedMs: 200 };

const started = sse("1.0", '{"type":"RUN_STARTED","threadId":"t","runId":"r"}');
const text = (id) => sse(id, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"${id} 🧑‍🚀"}`);
const finished = sse("9.0", '{"type":"RUN_FINISHED","threadId":"t","runId":"r"}');
const failed = sse("9.1", '{"type":"RUN_ERROR","message":"late"}');

/** Asks as an AG-UI client does, and reads the answer as far as it comes. */
async function asks(server, options = {}, init = {}) {
  const seen = { told: [], text: "", error: undefined, response: undefined };
  const onStatus = (status) => seen.told.push(status);
  const ask = resumableFetch({ backoff: quick, onStatus, ...options });
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream", Authorization: "Bearer s3cret" };
  try {
    seen.response = await ask(server.url, { method: "POST", headers, body: INPUT, ...init });
    const utf8 = new TextDecoder("utf-8", { fatal: true });
    for await (const bytes of seen.response.body) seen.text += utf8.decode(bytes, { stream: true });
  } catch (error) {
    seen.error = error;
  }
  return seen;
}

const states = (seen) => seen.told.map(({ state }) => state);
const lastEventIds = (server) => server.requests.map(({ headers }) => headers["last-event-id"]);

test("a body that breaks goes on at the next event: the same bytes as uncut, and the cut event once", async (t) => {
  const server = await serve(
    t,
    broken(`retry: 1\n\n${started}${text("2.0")}${text("2.1").slice(0, -9)}`, RUNWIRE),
    whole(`retry: 1\n\n${text("2.1")}: \n\n${text("3.0")}`, RUNWIRE),
    whole(`retry: 1\n\n${finished}`, RUNWIRE),
  );
  const seen = await asks(server);
  assert.equal(seen.error, undefined);
  assert.equal(seen.text, `retry: 1\n\n${started}${text("2.0")}${text("2.1")}: \n\n${text("3.0")}${finished}`);
  assert.deepEqual(lastEventIds(server), [undefined, "2.0", "3.0"]);
  for (const { method, body, headers } of server.requests) {
    assert.deepEqual([method, body, headers.authorization], ["POST", INPUT, "Bearer s3cret"]);
  }
  assert.deepEqual(states(seen), ["live", "resuming", "live", "resuming", "live", "ended"]);
  const { reason, retryInMs, ...last } = seen.told[3];
  assert.deepEqual(last, { state: "resuming", cursor: "3.0", threadId: "t", runId: "r" });
});

test("an exchange in CopilotKit's envelope goes on as any other, and what else it asks passes through", async (t) => {
  const server = await serve(t, broken(started + text("2.0"), RUNWIRE), whole(finished, RUNWIRE), whole("{}"));
  const body = JSON.stringify({ method: "agent/run", params: { agentId: "demo" }, body: JSON.parse(INPUT) });
  const seen = await asks(server, {}, { body });
  assert.deepEqual([seen.text, seen.error], [started + text("2.0") + finished, undefined]);
  assert.deepEqual(lastEventIds(server), [undefined, "2.0"]);
  assert.equal((await asks(server, {}, { body: JSON.stringify({ method: "info" }) })).text, "{}");
});

test("the answer is the first one's: status, headers, address", async (t) => {
  const server = await serve(t, whole(started + finished, RUNWIRE));
  const { response } = await asks(server);
  assert.deepEqual([response.status, response.ok, response.url], [200, true, `${server.url}/`]);
  assert.equal(response.headers.get("runwire-run-id"), "run_1");
  assert.equal(response.headers.get("content-type"), "text/event-stream");
});

test("a body that is cut before its first event begins again, where the answer says that it is Runwire's", async (t) => {
  const server = await serve(t, broken("retr", RUNWIRE), whole(`retry: 1\n\n${started}${finished}`, RUNWIRE));
  const seen = await asks(server);
  assert.equal(seen.text, `retry: 1\n\n${started}${finished}`);
  assert.deepEqual(lastEventIds(server), [undefined, undefined]);
});

test("truncation never looks like an ending: without one the body fails when the tries are used up", async (t) => {
  const server = await serve(t, whole(started, RUNWIRE), whole("retry: 1\n\n", RUNWIRE));
  const seen = await asks(server, { backoff: brief });
  assert.ok(seen.error instanceof FollowError);
  assert.deepEqual([seen.error.code, seen.error.cursor, seen.text], ["GAVE_UP", "1.0", `${started}retry: 1\n\n`]);
  assert.ok(!states(seen).includes("ended"));
});

test("a connection that breaks behind RUN_FINISHED may have lost a RUN_ERROR, so it is asked for", async (t) => {
  const late = await serve(t, broken(started + finished, RUNWIRE), whole(failed, RUNWIRE));
  assert.equal((await asks(late)).text, started + finished + failed);
  const none = await serve(t, broken(started + finished, RUNWIRE), whole("", RUNWIRE));
  const seen = await asks(none);
  assert.deepEqual([seen.text, seen.error], [started + finished, undefined]);
  assert.deepEqual(lastEventIds(none), [undefined, "9.0"]);
});

test("the ending of an earlier run on the stream is not the end", async (t) => {
  const earlier = sse("0.1", '{"type":"RUN_FINISHED","threadId":"t","runId":"before"}');
  const server = await serve(t, whole(earlier + started, RUNWIRE), whole(finished, RUNWIRE));
  assert.equal((await asks(server)).text, earlier + started + finished);
});

test("events that are known already are not given out again", async (t) => {
  const server = await serve(
    t,
    whole(started + text("2.0"), RUNWIRE),
    whole(started + text("2.0") + finished, RUNWIRE),
  );
  assert.equal((await asks(server)).text, started + text("2.0") + finished);
});

test("an event is whole behind its blank line, whatever the line ends, and however its bytes come", async (t) => {
  for (const lineEnd of ["\n", "\r", "\r\n"]) {
    const [before, after] = [`retry: 1\n\n${started}${text("2.0")}`, text("2.1") + finished].map((events) =>
      events.replaceAll("\n", lineEnd),
    );
    const inBytes = async (_request, response) => {
      open(response, "", RUNWIRE);
      for (const byte of Buffer.from(after)) {
        response.write(Buffer.from([byte]));
        await new Promise(setImmediate);
      }
      response.end();
    };
    const server = await serve(t, broken(before + after.slice(0, 30), RUNWIRE), inBytes);
    const seen = await asks(server);
    assert.equal(seen.error, undefined, JSON.stringify(lineEnd));
    // Of CRLF the CR ends the last line already, and nothing is waited for behind it.
    assert.equal(seen.text.trimEnd(), (before + after).trimEnd(), JSON.stringify(lineEnd));
    assert.deepEqual(lastEventIds(server), [undefined, "2.0"]);
  }
});

test("an event without an id of its own is an error, because nothing could be resumed behind it", async (t) => {
  for (const odd of ['data: {"type":"CUSTOM"}\n\n', sse("7", '{"type":"CUSTOM"}'), started]) {
    const seen = await asks(await serve(t, whole(started + odd + finished, RUNWIRE)));
    assert.deepEqual([seen.error?.code, seen.text], ["BAD_EVENT", started], odd);
  }
});

for (const [status, code] of [
  [401, "UNAUTHORIZED"],
  [404, "RUN_NOT_FOUND"],
  [409, "REFUSED"],
  [410, "GONE"],
  [416, "PAST_HEAD"],
]) {
  test(`a re-attach that is refused with ${status} fails the body as ${code}`, async (t) => {
    const server = await serve(
      t,
      broken(started, RUNWIRE),
      refusing(status, { detail: "so it is", head: 3, oldest: 2 }),
    );
    const { error, text: read } = await asks(server);
    assert.deepEqual([error.code, error.status, error.head, error.oldest, read], [code, status, 3, 2, started]);
    assert.equal(server.requests.length, 2);
  });
}

test("a re-attach that gets no event stream, or 204 without an ending, fails the body", async (t) => {
  const page = await serve(t, broken(started, RUNWIRE), whole("<html>", { "Content-Type": "text/html" }));
  assert.equal((await asks(page)).error.code, "NOT_AN_EVENT_STREAM");
  const nothing = await serve(t, broken(started, RUNWIRE), refusing(204));
  assert.equal((await asks(nothing)).error.code, "ENDED_UNREAD");
});

test("silence is a cut, and Retry-After the least wait", async (t) => {
  const server = await serve(
    t,
    silent(started, RUNWIRE),
    refusing(503, {}, { "Retry-After": "1" }),
    whole(finished, RUNWIRE),
  );
  const seen = await asks(server, { idleMs: 600 });
  assert.equal(seen.text, started + finished);
  assert.deepEqual(states(seen), ["live", "resuming", "resuming", "live", "ended"]);
  assert.match(seen.told[1].reason, /nothing came/);
  assert.equal(seen.told[2].retryInMs, 1000);
  await server.requests[0].closed;
});

test("a request without an answer is repeated, and told as fetch tells it when that does not help", async (t) => {
  const unanswered = (request) => request.socket.destroy();
  const server = await serve(t, unanswered, refusing(503), whole(started + finished, RUNWIRE));
  const seen = await asks(server);
  assert.equal(seen.text, started + finished);
  assert.deepEqual(states(seen), ["resuming", "resuming", "live", "ended"]);
  assert.deepEqual(lastEventIds(server), [undefined, undefined, undefined]);

  assert.ok((await asks({ url: "http://127.0.0.1:1" }, { backoff: brief })).error instanceof TypeError);
  const busy = await asks(await serve(t, refusing(503, { detail: "later" })), { backoff: brief });
  assert.equal(busy.response.status, 503);
  assert.match(busy.text, /later/);
});

test("a refusal of the request itself is handed on as it is, at once", async (t) => {
  for (const status of [400, 401, 404, 409, 422]) {
    const server = await serve(t, refusing(status, { detail: "no" }));
    const { response, text: read } = await asks(server);
    assert.deepEqual([response.status, server.requests.length], [status, 1]);
    assert.match(read, /"detail":"no"/);
  }
});

test("what is no Runwire exchange passes through, and is never asked twice", async (t) => {
  const plain = await serve(t, whole('data: {"type":"RUN_STARTED"}\n\n'));
  const ended = await asks(plain);
  assert.deepEqual([ended.text, ended.error], ['data: {"type":"RUN_STARTED"}\n\n', undefined]);
  const foreign = await serve(t, broken('data: {"type":"RUN_STARTED"}\n\n'));
  assert.ok((await asks(foreign)).error instanceof TypeError, "the break is told as fetch tells it");
  assert.equal(foreign.requests.length, 1);

  const protobuf = { ...RUNWIRE, "Content-Type": "application/vnd.ag-ui.event+proto" };
  assert.equal((await asks(await serve(t, whole("\0\0\0\0", protobuf)))).text, "\0\0\0\0");
  for (const init of [
    { method: "GET", body: undefined },
    { method: "PUT" },
    { body: "no JSON" },
    { body: '{"threadId":"t"}' },
    { body: Buffer.from(INPUT) },
  ]) {
    const server = await serve(t, broken(started, RUNWIRE), whole(finished, RUNWIRE));
    const seen = await asks(server, {}, init);
    assert.ok(seen.error instanceof TypeError, JSON.stringify(init));
    assert.deepEqual([server.requests.length, seen.told], [1, []], JSON.stringify(init));
  }
});

/** Two exchanges of a thread, and what then waits: each id says what is still to come. */
const thread = (() => {
  const event = (id, type, more = {}) => sse(id, JSON.stringify({ type, threadId: "t", runId: "r", ...more }));
  return [
    event("run_a/1.0~run_b/0", "RUN_STARTED"),
    event("run_a/1.0+1~run_b/0", "MESSAGES_SNAPSHOT", { messages: [] }),
    event("run_a/9.0~run_b/4", "RUN_FINISHED"),
    event("run_b/1.0", "RUN_STARTED"),
    event("run_b/7.1", "RUN_ERROR", { message: "so it is" }),
  ];
})();

test("a thread that is got back goes on at the next event wherever it breaks, to the end of its last run", async (t) => {
  const envelope = { body: JSON.stringify({ method: "agent/connect", params: { agentId: "demo" }, body: JSON.parse(INPUT) }) };
  for (const [path, init] of [
    ["/agui/demo/connect"],
    ["/behind/a/proxy/agui/demo/connect?x=1"],
    ["/copilotkit/agent/demo/connect"],
    ["/copilotkit", envelope],
  ]) {
    for (let n = 0; n < thread.length; n += 1) {
      const [before, after] = [thread.slice(0, n), thread.slice(n)];
      const server = await serve(
        t,
        broken(`retry: 1\n\n${before.join("")}${thread[n].slice(0, -4)}`),
        whole(`retry: 1\n\n${after.join("")}`),
      );
      const seen = await asks({ url: `${server.url}${path}` }, {}, init);
      assert.deepEqual([seen.text, seen.error], [`retry: 1\n\n${thread.join("")}`, undefined], `${path} ${n}`);
      assert.deepEqual(lastEventIds(server), [undefined, n === 0 ? undefined : /id: (.*)/.exec(thread[n - 1])[1]]);
      assert.deepEqual(states(seen), ["live", "resuming", "live", "ended"]);
    }
  }
});

test("a thread whose body ends in good order goes on where its last id says that exchanges follow", async (t) => {
  const url = (server) => ({ url: `${server.url}/agui/demo/connect` });
  for (const n of [1, 2, 3, 4]) {
    const server = await serve(t, whole(thread.slice(0, n).join("")), whole(thread.slice(n).join("")));
    const seen = await asks(url(server));
    assert.deepEqual([seen.text, server.requests.length], [thread.join(""), 2], String(n));
  }
  // One in which nothing goes on ends behind its one run, and so does one that another connection begins with what is known.
  const still = sse("thread/0", '{"type":"RUN_STARTED"}') + sse("thread/3", '{"type":"RUN_FINISHED"}');
  const quiet = await serve(t, whole(still));
  assert.deepEqual([(await asks(url(quiet))).text, quiet.requests.length], [still, 1]);
  const again = await serve(t, broken(thread[0]), whole(thread.join("")));
  assert.equal((await asks(url(again))).text, thread.join(""));
});

test("a thread of a server that is none of Runwire's passes through, and is never asked twice behind an event", async (t) => {
  for (const event of ['data: {"type":"RUN_STARTED"}\n\n', sse("17", '{"type":"RUN_STARTED"}')]) {
    const server = await serve(t, broken(event), whole(event));
    const seen = await asks({ url: `${server.url}/agui/demo/connect` });
    assert.ok(seen.error instanceof TypeError, event);
    assert.deepEqual([seen.text, server.requests.length], [event, 1]);
  }
  // An agent may be called so.
  const agent = await serve(t, broken(started, RUNWIRE), whole(finished, RUNWIRE));
  assert.equal((await asks({ url: `${agent.url}/agui/connect` })).text, started + finished);
});

test("a request that can never be sent is told at once", async () => {
  for (const init of [{ headers: { "no header": "x" } }, { mode: "navigate" }]) {
    const { error, told } = await asks({ url: "http://127.0.0.1:1" }, {}, init);
    assert.ok(error instanceof TypeError, String(error));
    assert.deepEqual(told, [], "it is no lost connection");
  }
});

test("an abort fails the body with its reason at any point, closes the connection and asks nothing more (G9)", async (t) => {
  const reason = new Error("enough");
  const gone = new AbortController();
  gone.abort(reason);
  const never = await serve(t, whole(started + finished, RUNWIRE));
  assert.equal((await asks(never, {}, { signal: gone.signal })).error, reason);
  assert.equal(never.requests.length, 0);

  const later = refusing(503, {}, { "Retry-After": "600" });
  const forever = { firstMs: 1, maxElapsedMs: Infinity };
  for (const [when, backoff, ...answers] of [
    ["while connecting", quick, () => {}],
    ["while reading", quick, silent(started, RUNWIRE)],
    ["between two connections", forever, whole(started, RUNWIRE), later],
  ]) {
    const server = await serve(t, ...answers);
    const stop = new AbortController();
    void asked(server, answers.length).then(() => stop.abort(reason));
    const seen = await asks(server, { backoff }, { signal: stop.signal });
    assert.equal(seen.error, reason, when);
    await server.requests.at(-1).closed;
    assert.equal(server.requests.length, answers.length, when);
    assert.ok(!states(seen).includes("ended"), when);
  }

  // Also while nobody reads, and as the AbortError that an AG-UI client knows.
  const server = await serve(t, silent(started, RUNWIRE));
  const stop = new AbortController();
  const response = await resumableFetch()(server.url, { method: "POST", body: INPUT, signal: stop.signal });
  stop.abort();
  await server.requests[0].closed;
  await assert.rejects(response.text(), { name: "AbortError" });
});

test("a body that is cancelled closes its connection and asks nothing more", async (t) => {
  const server = await serve(t, silent(started, RUNWIRE));
  const response = await resumableFetch()(server.url, { method: "POST", body: INPUT });
  const reader = response.body.getReader();
  await reader.read();
  const waiting = reader.read();
  await reader.cancel();
  assert.equal((await waiting).done, true);
  await server.requests[0].closed;
  assert.equal(server.requests.length, 1);
});

test("a body is pulled: who does not read it does not make the server write", async (t) => {
  const event = sse("2.0", JSON.stringify({ type: "CUSTOM", name: "large", value: "x".repeat(1024 * 1024) }));
  let waited = false;
  const server = await serve(t, async (_request, response) => {
    open(response, started, RUNWIRE);
    for (let n = 0; n < 64; n += 1) {
      if (response.write(event.replace("2.0", `2.${n}`))) continue;
      waited = true;
      const drained = await Promise.race([
        new Promise((resolve) => response.once("drain", () => resolve(true))),
        new Promise((resolve) => setTimeout(resolve, 300, false)),
      ]);
      if (!drained) return;
    }
    assert.fail("64 MiB were taken by nobody");
  });
  const response = await resumableFetch()(server.url, { method: "POST", body: INPUT });
  const reader = response.body.getReader();
  await reader.read();
  await new Promise((resolve) => setTimeout(resolve, 600));
  assert.ok(waited);
  await reader.cancel();
});
