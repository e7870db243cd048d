// An agent for the viewer's tests: it reads a run input and writes AG-UI events, one a line, as `driver = "exec"` wants it.
//
// Its first argument says what it does: `rich` is nested, parallel and has state; `hostile` says what must not become live;
// `form` asks with a schema of every kind and tells what it was answered; `flaky` fails at its first attempt; `many` says as
// many words as its second argument; `steady` says one every few milliseconds, as its second argument has it, until it is stopped.

import { existsSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

let source = "";
for await (const chunk of process.stdin) source += chunk;
const input = JSON.parse(source);
const { threadId, runId } = input;

const say = (type, more) => process.stdout.write(`${JSON.stringify({ type, ...more })}\n`);
const finish = (more = {}) => say("RUN_FINISHED", { threadId, runId, ...more });

function message(messageId, pieces, more = {}) {
  say("TEXT_MESSAGE_START", { messageId, role: "assistant", ...more });
  for (const delta of pieces) say("TEXT_MESSAGE_CONTENT", { messageId, delta, ...more });
  say("TEXT_MESSAGE_END", { messageId, ...more });
}

function call(toolCallId, toolCallName, args, content, more = {}) {
  say("TOOL_CALL_START", { toolCallId, toolCallName, ...more });
  say("TOOL_CALL_ARGS", { toolCallId, delta: JSON.stringify(args), ...more });
  say("TOOL_CALL_END", { toolCallId, ...more });
  if (content !== undefined) say("TOOL_CALL_RESULT", { messageId: `${toolCallId}.result`, toolCallId, content, ...more });
}

const kinds = {
  async rich() {
    say("STATE_SNAPSHOT", { snapshot: { phase: "reading", sources: [] } });
    say("STEP_STARTED", { stepName: "research" });
    say("REASONING_START", { messageId: "r1" });
    say("REASONING_MESSAGE_START", { messageId: "r1", role: "reasoning" });
    for (const delta of ["I look at ", "two sources ", "at the same time."]) {
      say("REASONING_MESSAGE_CONTENT", { messageId: "r1", delta });
      await sleep(60);
    }
    say("REASONING_MESSAGE_END", { messageId: "r1" });
    say("REASONING_END", { messageId: "r1" });
    say("TOOL_CALL_START", { toolCallId: "c1", toolCallName: "search" });
    say("TOOL_CALL_START", { toolCallId: "c2", toolCallName: "fetch_page" });
    say("TOOL_CALL_ARGS", { toolCallId: "c1", delta: '{"query":"durable ' });
    say("TOOL_CALL_ARGS", { toolCallId: "c2", delta: '{"url":"https://example.org/report","depth":2}' });
    await sleep(80);
    say("TOOL_CALL_ARGS", { toolCallId: "c1", delta: 'logs","limit":3}' });
    say("TOOL_CALL_END", { toolCallId: "c1" });
    say("TOOL_CALL_END", { toolCallId: "c2" });
    say("STATE_DELTA", { delta: [{ op: "replace", path: "/phase", value: "searching" }] });
    await sleep(150);
    say("TOOL_CALL_RESULT", { messageId: "t2", toolCallId: "c2", content: `A page. ${"word ".repeat(1200)}the end of the page` });
    await sleep(120);
    say("TOOL_CALL_RESULT", { messageId: "t1", toolCallId: "c1", content: '[{"title":"Logs","rank":1},{"title":"More logs","rank":2}]' });
    say("STATE_DELTA", { delta: [{ op: "add", path: "/sources/-", value: "example.org" }] });
    for (const name of ["critic", "writer"]) {
      const more = { subagentRunId: name };
      say("SUBAGENT_STARTED", { ...more, name });
      message(`m.${name}`, [`The ${name} `, "has an opinion."], more);
      call(`c.${name}`, "note", { by: name }, "noted", more);
      await sleep(70);
    }
    say("SUBAGENT_FINISHED", { subagentRunId: "critic" });
    say("SUBAGENT_FINISHED", { subagentRunId: "writer" });
    say("STEP_FINISHED", { stepName: "research" });
    say("CUSTOM", { name: "progress", value: { percent: 80 } });
    message("m1", ["Here is ", "what came ", "of it."]);
    say("STATE_DELTA", { delta: [{ op: "replace", path: "/phase", value: "done" }] });
    finish({ usage: [{ provider: "acme", model: "large-2", inputTokens: 1200, outputTokens: 340, totalTokens: 1540, cachedInputTokens: 800, reasoningTokens: 90 }] });
  },

  async hostile() {
    const markup = '<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script><a href="javascript:globalThis.hacked=1">here</a>';
    const override = "access granted \u202Etxt.exe\u202C \u2066isolated\u2069 \u0007bell \u001b[31mred\u001b[0m \u{e0041}tag";
    say("STATE_SNAPSHOT", { snapshot: { [markup]: override, __proto__: "x" } });
    say("STEP_STARTED", { stepName: markup });
    say("CUSTOM", { name: override, value: { markup } });
    message("m1", [markup, "\n", override, "\n", "שלום \u202E drow", "\n", "W".repeat(200_000), "\nthe last line"]);
    call("c1", markup, { [override]: markup }, markup);
    call("c2", "W".repeat(5000), { long: "W".repeat(50_000) }, "W".repeat(100_000));
    say("STEP_FINISHED", { stepName: markup });
    finish({ result: { markup, override } });
  },

  async form() {
    const answer = input.resume?.[0];
    if (answer !== undefined) {
      message("m2", [`answered ${answer.status}: ${JSON.stringify(answer.payload ?? null)}`]);
      finish();
      return;
    }
    const responseSchema = {
      type: "object",
      properties: {
        title: { type: "string", description: "What it is called", minLength: 3 },
        copies: { type: "integer", minimum: 1 },
        price: { type: "number" },
        urgent: { type: "boolean" },
        colour: { enum: ["red", "green"] },
        tags: { type: "array", items: { type: "string" } },
        extra: { type: "object" },
      },
      required: ["title", "copies", "colour"],
    };
    message("m1", ["Some things are needed."]);
    finish({ outcome: { type: "interrupt", interrupts: [{ id: "order", reason: "input", message: "What shall be printed?", responseSchema }] } });
  },

  async flaky() {
    const mark = `flaky-${runId}`;
    if (!existsSync(mark)) {
      writeFileSync(mark, "");
      message("m1", ["This was ", "the first try."]);
      say("RUN_ERROR", { message: "too much at once", code: "rate_limit_exceeded" });
      return;
    }
    message("m1", ["This is ", "the second try."]);
    finish();
  },

  async many(words) {
    for (let i = 0; i < words; i += 5) {
      message(`m${i}`, [`word ${i} `, "and "]);
      // A frame each: what is not text is not joined.
      say("CUSTOM", { name: "tick", value: i });
    }
    finish();
  },

  async steady(ms) {
    say("TEXT_MESSAGE_START", { messageId: "m1", role: "assistant" });
    for (let i = 0; ; i += 1) {
      say("TEXT_MESSAGE_CONTENT", { messageId: "m1", delta: `word ${i} ` });
      await sleep(ms);
    }
  },
};

say("RUN_STARTED", { threadId, runId });
await kinds[process.argv[2]](Number(process.argv[3]));
