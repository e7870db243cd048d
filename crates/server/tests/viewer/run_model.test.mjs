// A run as the timeline shows it, frame by frame, and where its moments are on a line: `node --test` runs these.

import assert from "node:assert/strict";
import { test } from "node:test";
import { cost, costSum, duration, tokens } from "../../viewer/format.js";
import { RunModel, rowsOf } from "../../viewer/run_model.js";
import { TimeScale } from "../../viewer/time_scale.js";

const START = Date.parse("2026-11-30T10:00:00.000Z");

/** Makes frames that are numbered by themselves, each so many milliseconds behind the run's start. */
function log() {
  let seq = 0;
  return (at, type, data, segment_id = null) => {
    seq += 1;
    return { protocol: 2, seq, run_id: "run_1", ts: new Date(START + at).toISOString(), type, segment_id, data };
  };
}

const started = (attempt, more = {}) => ({ agent_id: "demo", agent_revision_id: null, session_id: "s", lane: "default", trigger_kind: "api", attempt, ...more });
const status = (status, previous = null) => ({ status, previous });
const closed = (status = "completed", more = {}) => ({ status, duration_ms: 1, ...more });

function modelOf(frames) {
  const model = new RunModel();
  model.take(frames);
  return model;
}

/** The rows as a person reads them: how far to the right, and what they are. */
const read = (model) => rowsOf(model).map(({ node, level }) => `${level} ${node.type === "segment" ? `${node.kind} ${node.name}` : node.type}`);

test("segments are inside of what their parent_segment_id names, in the order in which they came", () => {
  const of = log();
  const model = modelOf([
    of(0, "run.start", started(1)),
    of(0, "segment.start", { kind: "step", name: "plan" }, "seg_1"),
    of(1, "segment.start", { kind: "tool", name: "a", parent_segment_id: "seg_1" }, "seg_2"),
    of(1, "segment.start", { kind: "tool", name: "b", parent_segment_id: "seg_1" }, "seg_3"),
    of(2, "notice", { level: "info", code: "x", message: "in between" }),
    of(3, "segment.start", { kind: "message", name: null, parent_segment_id: "seg_3" }, "seg_4"),
  ]);
  assert.deepEqual(read(model), ["1 run", "2 step plan", "3 tool a", "3 tool b", "4 message null", "2 notice"]);
  const [, , a, b] = rowsOf(model);
  assert.deepEqual([a.position, a.siblings, b.position, b.hasChildren], [1, 2, 2, true]);
});

test("a run's only attempt has no row, and two attempts have one each, with the wait between them", () => {
  const of = log();
  const first = [
    of(0, "run.start", started(1)),
    of(0, "run.status", status("running", "queued")),
    of(1, "segment.start", { kind: "message", name: null }, "seg_1"),
    of(5, "text.delta", { text: "abandoned" }, "seg_1"),
    of(9, "error", { code: "RATE_LIMITED", message: "slow down", retryable: true }),
    of(9, "segment.end", closed("abandoned"), "seg_1"),
  ];
  const model = modelOf(first);
  assert.deepEqual(read(model), ["1 run", "2 message null", "2 error"]);
  model.take([
    of(10, "run.status", status("retrying", "running")),
    of(1010, "run.start", started(2)),
    of(1010, "run.status", status("running", "retrying")),
    of(1011, "segment.start", { kind: "message", name: null }, "seg_2"),
    of(1012, "text.delta", { text: "final" }, "seg_2"),
  ]);
  assert.deepEqual(read(model), ["1 run", "2 attempt", "3 message null", "3 error", "2 wait", "2 attempt", "3 message null"]);
  assert.deepEqual(model.attempts.map((attempt) => attempt.status), ["failed", null]);
  const [wait] = model.waits;
  assert.deepEqual([wait.start - START, wait.end - START], [10, 1010]);
  assert.deepEqual(model.output.map(({ text }) => text.join("")), ["final"], "what an attempt before said is no output");
  assert.equal(model.flow.gap, 2, "the wait for an attempt is no silence of the agent");
});

test("a suspended run waits until its answer, and a person's time is no silence of the agent", () => {
  const of = log();
  const interrupts = [{ id: "i", reason: "tool_call" }];
  const model = modelOf([
    of(0, "run.start", started(1)),
    of(1, "segment.start", { kind: "message", name: null }, "seg_1"),
    of(2, "text.delta", { text: "a" }, "seg_1"),
    of(5, "suspend", { kind: "approval", resume_contract: { interrupts }, prompt: "May I?" }),
    of(5, "run.status", status("suspended", "running")),
  ]);
  assert.equal(model.waiting.question.prompt, "May I?");
  assert.equal(model.waiting.end, null);
  const answer = [{ interruptId: "i", status: "resolved", payload: { approved: true } }];
  model.take([
    of(60_005, "resume", { kind: "approval", resolved_by: "ann", agui: { input: { resume: answer } } }),
    of(60_005, "run.status", status("running", "suspended")),
    of(60_008, "text.delta", { text: "b" }, "seg_1"),
  ]);
  assert.equal(model.waiting, null);
  assert.deepEqual(model.waits[0].answer, { resolvedBy: "ann", entries: answer });
  assert.equal(model.flow.gap, 3);
});

test("what waits when a run is stopped does not wait any more", () => {
  const of = log();
  const model = modelOf([
    of(0, "run.start", started(1)),
    of(1, "suspend", { kind: "input", resume_contract: { interrupts: [] }, prompt: null }),
    of(1, "run.status", status("suspended", "running")),
    of(9, "run.status", status("cancelling", "suspended")),
    of(9, "run.status", status("cancelled", "cancelling")),
    of(9, "run.end", { status: "cancelled", usage: null, cost: null, duration_ms: 9 }),
  ]);
  assert.deepEqual([model.waiting, model.waits[0].status, model.run.status], [null, "cancelled", "cancelled"]);
});

test("the first word of a model is that of the message inside of it, and its longest silence is known", () => {
  const of = log();
  const model = modelOf([
    of(0, "run.start", started(1)),
    of(10, "segment.start", { kind: "model", name: "m" }, "seg_1"),
    of(20, "segment.start", { kind: "message", name: null, parent_segment_id: "seg_1" }, "seg_2"),
    of(250, "text.delta", { text: "a" }, "seg_2"),
    of(260, "text.delta", { text: "b" }, "seg_2"),
    of(760, "text.delta", { text: "c" }, "seg_2"),
  ]);
  const { flow } = model.segments.get("seg_1");
  assert.deepEqual([flow.first - START, flow.gap, flow.gapAt - START, flow.gapSeq], [250, 500, 260, 6]);
});

test("tokens and cost are summed by model, and an absent count is not zero", () => {
  const of = log();
  const usage = (more) => ({ provider: "p", model: "m", input_tokens: 3, ...more });
  const price = (amount) => ({ currency: "USD", amount });
  const model = modelOf([
    of(0, "run.start", started(1)),
    of(1, "segment.start", { kind: "model", name: "m" }, "seg_1"),
    of(2, "segment.end", closed("completed", { usage: usage({ output_tokens: 5 }), cost: price("0.10") }), "seg_1"),
    of(3, "segment.start", { kind: "model", name: "m" }, "seg_2"),
    of(4, "segment.end", closed("completed", { usage: usage({}), cost: price("0.205") }), "seg_2"),
  ]);
  const [entry, ...others] = model.usage();
  assert.deepEqual(others, []);
  assert.deepEqual([entry.calls, entry.input_tokens, entry.output_tokens, entry.reasoning_tokens], [2, 6, 5, undefined]);
  assert.deepEqual(costSum(entry.costs), price("0.305"));
  model.take([of(5, "run.end", { status: "completed", usage: [usage({ input_tokens: 7 })], cost: price("0.305"), duration_ms: 5 })]);
  assert.equal(model.usage()[0].input_tokens, 7, "what the run's end says counts");
});

test("the changes of the state are one row, and the arguments of a call are known early", () => {
  const of = log();
  const notice = (event) => ({ level: "info", code: `agui.${event.type}`, message: "", attributes: event });
  const model = modelOf([
    of(0, "run.start", started(1)),
    of(1, "notice", notice({ type: "STATE_SNAPSHOT", snapshot: { a: 1 } })),
    of(2, "notice", notice({ type: "STATE_DELTA", delta: [{ op: "add", path: "/b", value: 2 }] })),
    of(3, "segment.start", { kind: "tool", name: "t", agui: { toolCallId: "c" } }, "seg_1"),
    of(4, "tool.call", { tool_call_id: "c", tool_slug: "t", arguments_delta: '{"a"' }, "seg_1"),
  ]);
  assert.deepEqual(read(model), ["1 run", "2 state", "2 tool t"]);
  assert.equal(rowsOf(model)[1].node.changes.length, 2);
  assert.equal(model.segments.get("seg_1").summary, '{"a"');
  model.take([of(5, "tool.call", { tool_call_id: "c", tool_slug: "t", arguments: '{"a":1}' }, "seg_1")]);
  assert.equal(model.segments.get("seg_1").arguments, '{"a":1}');
});

test("places on the line follow the time, and a wait of hours takes a little of it", () => {
  const hours = 3 * 3600 * 1000;
  const end = START + 1000 + hours + 1000;
  const scale = new TimeScale(START, end, [{ start: START + 1000, end: START + 1000 + hours }], false);
  const places = [0, 500, 1000, 1000 + hours / 2, 1000 + hours, 1000 + hours + 500, 2000 + hours].map((at) => scale.place(START + at));
  assert.deepEqual([...places].sort((a, b) => a - b), places);
  assert.equal(places.at(0), 0);
  assert.ok(Math.abs(places.at(-1) - 1) < 1e-9);
  const waited = places[4] - places[2];
  assert.ok(waited > 0 && waited < 0.15, String(waited));
  // The same time that was worked is as long on both sides of the wait.
  assert.ok(Math.abs(places[1] - (places[5] - places[4])) < 1e-9);
  const marks = scale.marks(6);
  assert.ok(marks.length >= 4 && marks.length <= 14, String(marks.length));
});

test("numbers are for people, and what is not known is no zero", () => {
  assert.deepEqual([7, 2811, 65_000, 7_380_000, 273_600_000, null].map(duration), ["7 ms", "2.81 s", "1 m 05 s", "2 h 03 m", "3 d 4 h", "–"]);
  assert.equal(cost({ currency: "USD", amount: "0.001240" }), "$0.00124");
  assert.equal(cost({ currency: "CHF", amount: "12.00" }), "12 CHF");
  assert.equal(cost(null), "–");
  assert.deepEqual(costSum([{ currency: "USD", amount: "9007199254740993.1" }, { currency: "USD", amount: "0.01" }]), { currency: "USD", amount: "9007199254740993.11" });
  assert.equal(costSum([{ currency: "USD", amount: "1" }, { currency: "EUR", amount: "1" }]), null);
  assert.deepEqual(tokens([{ input_tokens: 0 }]), { input: 0, output: undefined });
});
