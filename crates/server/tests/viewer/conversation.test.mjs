// What a session looks like as a chat, frame by frame: `node --test` runs these. The frames are those of docs/protocol.md.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation, RUN, isLive } from "../../viewer/conversation.js";

/** The frames of one run, numbered by themselves. */
function log(run_id) {
  let seq = 0;
  return (type, data, segment_id = null) => {
    seq += 1;
    return { protocol: 2, seq, run_id, ts: "2026-11-30T10:00:00.000Z", type, segment_id, data };
  };
}

const started = (messages, more = {}) => ({
  agent_id: "demo",
  agent_revision_id: null,
  session_id: "s",
  lane: "default",
  trigger_kind: "api",
  attempt: 1,
  agui: { runId: "r", input: { messages } },
  ...more,
});
const user = (id, content) => ({ id, role: "user", content });
const ended = (status, more = {}) => ({ status, usage: null, cost: null, duration_ms: 5, ...more });

/** A run that is asked something and says `text`, in two pieces. */
function answer(runId, messages, text) {
  const of = log(runId);
  const middle = Math.ceil(text.length / 2);
  return [
    of("run.start", started(messages)),
    of("run.status", { status: "running", previous: "queued" }),
    of("segment.start", { kind: "model", name: "m" }, "seg_1"),
    of("segment.start", { kind: "reasoning", name: null, parent_segment_id: "seg_1" }, "seg_2"),
    of("thinking.delta", { text: "Hm." }, "seg_2"),
    of("segment.end", { status: "completed", duration_ms: 1 }, "seg_2"),
    of("segment.start", { kind: "message", name: null, parent_segment_id: "seg_1" }, "seg_3"),
    of("text.delta", { text: text.slice(0, middle) }, "seg_3"),
    of("text.delta", { text: text.slice(middle) }, "seg_3"),
    of("segment.end", { status: "completed", duration_ms: 1 }, "seg_3"),
    of("segment.end", { status: "completed", duration_ms: 1 }, "seg_1"),
    of("run.status", { status: "completed", previous: "running" }),
    of("run.end", ended("completed")),
  ];
}

function taken(frames, conversation = new Conversation()) {
  for (const frame of frames) conversation.take(frame);
  return conversation;
}

/** What is shown, in words. */
const shown = (conversation) =>
  conversation.runs.flatMap(({ items }) =>
    items
      .filter(({ hidden }) => !hidden)
      .map((item) => {
        const gone = item.abandoned ? "abandoned " : "";
        if (item.pieces !== undefined) return `${gone}${item.role ?? ""} ${item.kind} ${item.pieces.join("")} (${item.status})`;
        if (item.kind === "tool") return `${gone}tool ${item.name} ${item.arguments} ${item.result?.preview ?? "-"} (${item.status})`;
        return `${gone}${item.kind} ${JSON.stringify(item.content ?? item.message ?? item.attempt ?? item.prompt)}`;
      }),
  );

test("a run is what was asked, what was thought and what was said, in the order in which it came", () => {
  const conversation = taken(answer("a", [user("u1", "Hi")], "Good morning"));
  assert.deepEqual(shown(conversation), [
    "user message Hi (completed)",
    "assistant thinking Hm. (completed)",
    "assistant message Good morning (completed)",
  ]);
  const [run] = conversation.runs;
  assert.deepEqual([run.status, run.head, isLive(run), run.end.duration_ms], ["completed", 13, false, 5]);
});

test("a message of several inputs is shown once, and what an agent said is not shown again as what it was given", () => {
  const first = answer("a", [user("u1", "Hi")], "Good morning");
  const given = [
    user("u1", "Hi"),
    { id: "a.seg_2", role: "reasoning", content: "Hm." },
    { id: "a.seg_3", role: "assistant", content: "Good" },
    user("u2", "And now?"),
  ];
  const conversation = taken([...first, ...answer("b", given, "Noon")]);
  assert.deepEqual(shown(conversation), [
    "user message Hi (completed)",
    "assistant thinking Hm. (completed)",
    "assistant message Good morning (completed)",
    "user message And now? (completed)",
    "assistant thinking Hm. (completed)",
    "assistant message Noon (completed)",
  ]);
});

test("a history that only the input knows is shown in front of the run: messages, calls and their results", () => {
  const call = { id: "c", type: "function", function: { name: "look", arguments: '{"at":1}' } };
  const messages = [
    { id: "s1", role: "system", content: "Be brief." },
    user("u1", [{ type: "text", text: "See " }, { type: "image", source: {} }]),
    { id: "m1", role: "assistant", content: "", toolCalls: [call] },
    { id: "t1", role: "tool", toolCallId: "c", content: "a cat" },
    { id: "m2", role: "assistant", content: "A cat." },
  ];
  const conversation = taken([log("a")("run.start", started(messages))]);
  assert.deepEqual(shown(conversation), [
    "system message Be brief. (completed)",
    "user message See [image] (completed)",
    'tool look {"at":1} a cat (completed)',
    "assistant message A cat. (completed)",
  ]);
});

test("a call fills in, has a result, and keeps what its frame said of it when a message restates it", () => {
  const of = log("a");
  const conversation = taken([
    of("run.start", started([])),
    of("segment.start", { kind: "tool", name: "look", tool_slug: "look", agui: { toolCallId: "c" } }, "seg_1"),
    of("tool.call", { tool_call_id: "c", tool_slug: "look", arguments_delta: '{"at"' }, "seg_1"),
  ]);
  const [item] = conversation.runs[0].items;
  assert.deepEqual([item.arguments, item.is_complete, item.status], ['{"at"', false, "open"]);
  taken(
    [
      of("tool.call", { tool_call_id: "c", tool_slug: "look", arguments: '{"at":1}' }, "seg_1"),
      of("tool.result", { tool_call_id: "c", ok: false, output_preview: "no c", truncated: true, bytes: 9000 }, "seg_1"),
      of("segment.end", { status: "failed", duration_ms: 1 }, "seg_1"),
      log("b")("run.start", started([{ id: "t", role: "tool", toolCallId: "c", content: "no cat" }])),
    ],
    conversation,
  );
  assert.deepEqual([item.arguments, item.is_complete, item.status], ['{"at":1}', true, "failed"]);
  assert.deepEqual(item.result, { ok: false, preview: "no c", bytes: 9000, run_id: "a", segment_id: "seg_1" });
});

test("a result that comes in another run than its call belongs to the call", () => {
  const first = log("a");
  const second = log("b");
  const result = { type: "TOOL_CALL_RESULT", toolCallId: "c" };
  const conversation = taken([
    first("run.start", started([])),
    first("segment.start", { kind: "tool", name: "ask", agui: { toolCallId: "c" } }, "seg_1"),
    first("run.end", ended("completed")),
    second("run.start", started([])),
    second("segment.start", { kind: "tool", name: "ask", agui: result }, "seg_1"),
    second("tool.result", { tool_call_id: "c", ok: true, output_preview: "42", truncated: false, bytes: 2 }, "seg_1"),
  ]);
  assert.deepEqual(shown(conversation), ["tool ask  42 (open)"]);
});

test("what a run was given in place of a result that nobody gave is no result", () => {
  const first = log("a");
  const second = log("b");
  const called = { id: "m", role: "assistant", toolCalls: [{ id: "c", function: { name: "ask", arguments: "{}" } }] };
  const unanswered = { id: "c.unanswered", role: "tool", toolCallId: "c", content: "There is none.", error: "not answered" };
  const conversation = taken([
    first("run.start", started([])),
    first("segment.start", { kind: "tool", name: "ask", agui: { toolCallId: "c" } }, "seg_1"),
    second("run.start", started([called, unanswered, user("q", "And?")])),
  ]);
  assert.deepEqual(shown(conversation), ["tool ask  - (open)", "user message And? (completed)"]);
});

test("a further attempt marks what its predecessors said, and nothing that was asked", () => {
  const of = log("a");
  const conversation = taken([
    of("run.start", started([user("u1", "Hi")])),
    of("segment.start", { kind: "message", name: null }, "seg_1"),
    of("text.delta", { text: "Goo" }, "seg_1"),
    of("error", { code: "CHANNEL_ERROR", message: "lost", retryable: true }),
    of("segment.end", { status: "abandoned", duration_ms: 1 }, "seg_1"),
    of("run.status", { status: "retrying", previous: "running" }),
    of("run.start", started([user("u1", "Hi")], { attempt: 2 })),
    of("segment.start", { kind: "message", name: null }, "seg_2"),
    of("text.delta", { text: "Good day" }, "seg_2"),
  ]);
  assert.deepEqual(shown(conversation), [
    "user message Hi (completed)",
    "abandoned assistant message Goo (abandoned)",
    'error "lost"',
    "attempt 2",
    "assistant message Good day (open)",
  ]);
  assert.equal(conversation.runs[0].attempt, 2);
});

test("a question waits until it is answered; the same question again takes the place of the one before", () => {
  const of = log("a");
  const ask = { kind: "approval", resume_contract: { interrupts: [{ id: "i" }] }, prompt: "May I?" };
  const conversation = taken([of("run.start", started([])), of("suspend", ask)]);
  assert.equal(conversation.waiting("demo")?.run_id, "a");
  assert.equal(conversation.waiting("another"), undefined);
  taken([of("resume", { kind: "approval", resolved_by: null, agui: { input: { messages: [] } } })], conversation);
  assert.equal(conversation.waiting("demo"), undefined);
  taken([of("suspend", ask)], conversation);
  assert.deepEqual(shown(conversation), ['question "May I?"']);
  const resume = [{ interruptId: "i", status: "resolved", payload: { approved: true } }];
  taken([of("resume", { kind: "approval", resolved_by: "ada", agui: { input: { messages: [], resume } } })], conversation);
  const item = conversation.runs[0].items.findLast(({ kind }) => kind === "question");
  assert.deepEqual(item.answer, { resolved_by: "ada", entries: resume });
  assert.equal(conversation.waiting("demo"), undefined);
});

test("a question is none any more when its run has ended", () => {
  const of = log("a");
  const ask = { kind: "input", resume_contract: { interrupts: [{ id: "i" }] }, prompt: null };
  const conversation = taken([of("run.start", started([])), of("suspend", ask), of("run.end", ended("cancelled"))]);
  assert.equal(conversation.waiting("demo"), undefined);
});

test("an activity is one item that changes; a patch that does not apply changes nothing and says so", () => {
  const of = log("a");
  const notice = (type, attributes) => of("notice", { level: "info", code: `agui.${type}`, message: "", attributes });
  const conversation = taken([
    of("run.start", started([])),
    notice("ACTIVITY_SNAPSHOT", { messageId: "p", activityType: "PLAN", content: { steps: ["one"] } }),
    notice("ACTIVITY_DELTA", { messageId: "p", patch: [{ op: "add", path: "/steps/-", value: "two" }] }),
    notice("ACTIVITY_DELTA", { messageId: "p", patch: [{ op: "remove", path: "/none" }] }),
    notice("ACTIVITY_SNAPSHOT", { messageId: "p", activityType: "PLAN", content: {}, replace: false }),
  ]);
  const [item, ...others] = conversation.runs[0].items;
  assert.deepEqual([item.content, others], [{ steps: ["one", "two"] }, []]);
  assert.match(item.problem, /operation 0/);
});

test("notices are shown in their place; those of state are not, and neither are those for debugging", () => {
  const of = log("a");
  const notice = (level, code, attributes) => of("notice", { level, code, message: code, attributes });
  const conversation = taken([
    of("run.start", started([])),
    notice("debug", "cache_skipped"),
    notice("info", "agui.STATE_SNAPSHOT", { snapshot: {} }),
    notice("warning", "model_fallback"),
    notice("info", "agui.CUSTOM", { name: "ping", value: { n: 1 } }),
    notice("info", "agui.MESSAGES_SNAPSHOT", { messages: [user("u9", "Earlier")] }),
  ]);
  assert.deepEqual(shown(conversation), ['notice "model_fallback"', 'notice "ping"', "user message Earlier (completed)"]);
});

test("text that a message list restates differently is replaced, but never what frames said", () => {
  const conversation = taken(answer("a", [user("u1", "Hi")], "Good morning"));
  const of = log("b");
  const messages = [user("u1", "Hi there"), { id: "a.seg_3", role: "assistant", content: "Bye" }];
  taken([of("run.start", started(messages))], conversation);
  const [asked, , said] = conversation.runs[0].items;
  assert.deepEqual([asked.pieces, asked.restated], [["Hi there"], 1]);
  assert.equal(said.pieces.join(""), "Good morning");
});

test("runs of a session side by side do not mix, and content of a child agent says whose it is", () => {
  const first = log("a");
  const second = log("b");
  const conversation = taken([
    first("run.start", started([user("u1", "One")])),
    second("run.start", started([user("u2", "Two")])),
    first("segment.start", { kind: "agent", name: "scout" }, "seg_1"),
    second("segment.start", { kind: "message", name: null }, "seg_1"),
    first("segment.start", { kind: "step", name: "look", parent_segment_id: "seg_1" }, "seg_2"),
    first("segment.start", { kind: "message", name: null, parent_segment_id: "seg_2" }, "seg_3"),
    second("text.delta", { text: "two" }, "seg_1"),
    first("text.delta", { text: "one" }, "seg_3"),
  ]);
  assert.deepEqual(
    conversation.runs.map(({ run_id, items }) => [run_id, items.at(-1).pieces.join(""), items.at(-1).by]),
    [
      ["a", "one", "scout"],
      ["b", "two", undefined],
    ],
  );
  assert.equal(conversation.live.length, 2);
});

test("a run that is only expected shows what was said, once, and takes over from its first frame", () => {
  const conversation = new Conversation();
  conversation.expect("a", "demo", user("u1", "Hi"));
  assert.deepEqual([conversation.live.length, shown(conversation)], [1, ["user message Hi (completed)"]]);
  taken(answer("a", [user("u1", "Hi")], "Good morning"), conversation);
  assert.equal(shown(conversation).filter((line) => line.includes("Hi")).length, 1);
  conversation.expect("a", "demo", user("u1", "Hi"));
  assert.equal(conversation.runs.length, 1);
});

test("what a live run has said so far is no part of a history", () => {
  const frames = answer("a", [user("u1", "Hi")], "Good morning");
  const conversation = taken(frames.slice(0, 8));
  assert.deepEqual([...conversation.unfinished().messages], ["a.seg_2", "a.seg_3"]);
  taken(frames.slice(8), conversation);
  assert.deepEqual([...conversation.unfinished().messages], []);
});

test("only what changed is touched", () => {
  const frames = answer("a", [user("u1", "Hi")], "Good morning");
  const conversation = taken(frames.slice(0, 7));
  const [run] = conversation.runs;
  assert.deepEqual([...conversation.takeTouched()], [[run, new Set([RUN, 0, 1, 2])]]);
  taken(frames.slice(7, 8), conversation);
  assert.deepEqual([...conversation.takeTouched()], [[run, new Set([2])]]);
  assert.deepEqual([...conversation.takeTouched()], []);
});

test("kept at any frame and taken up again, a conversation comes to the same", () => {
  const ask = { kind: "input", resume_contract: { interrupts: [{ id: "i" }] }, prompt: "Which?" };
  const second = log("b");
  const frames = [
    ...answer("a", [user("u1", "Hi")], "Good morning"),
    second("run.start", started([user("u1", "Hi"), user("u2", "More")])),
    second("segment.start", { kind: "tool", name: "look", agui: { toolCallId: "c" } }, "seg_1"),
    second("tool.call", { tool_call_id: "c", tool_slug: "look", arguments_delta: "{" }, "seg_1"),
    second("suspend", ask),
    second("resume", { kind: "input", resolved_by: null, agui: { input: { resume: [{ interruptId: "i" }] } } }),
    second("tool.result", { tool_call_id: "c", ok: true, output_preview: "x", truncated: false, bytes: 1 }, "seg_1"),
    second("segment.end", { status: "completed", duration_ms: 1 }, "seg_1"),
    second("run.end", ended("completed")),
  ];
  const whole = shown(taken(frames));
  for (let at = 0; at <= frames.length; at += 1) {
    const kept = JSON.parse(JSON.stringify(taken(frames.slice(0, at))));
    assert.deepEqual(shown(taken(frames.slice(at), Conversation.from(kept))), whole, `kept behind ${at} frames`);
  }
});

test("what is no kept conversation of this version is not taken for one", () => {
  for (const other of [null, undefined, {}, { format: 0, runs: [] }, "text"]) assert.equal(Conversation.from(other), undefined);
});
