// An agent that needs no model: a run input on standard input, AG-UI events on standard output, one a line.
//
//   "count to 30"         counts, a number at a time
//   "paint it lavender"   calls `set_background`, a tool of the page
//   "refund 20"           asks before it pays
//   "fail"                fails in the middle of a sentence
//   anything else         is repeated

import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";

const input = JSON.parse(await text(process.stdin));
const { threadId, runId, messages } = input;

const write = (type, members) => process.stdout.write(`${JSON.stringify({ type, ...members })}\n`);

/** One message, piece by piece. Its id is the conversation's, so it must not repeat from one run to the next. */
async function say(pieces) {
  const messageId = `${runId}-says`;
  write("TEXT_MESSAGE_START", { messageId, role: "assistant" });
  for (const delta of pieces) {
    write("TEXT_MESSAGE_CONTENT", { messageId, delta });
    await pause(50);
  }
  write("TEXT_MESSAGE_END", { messageId });
}

const words = (sentence) => sentence.split(/(?<= )/);
const finish = (outcome = { type: "success" }) => write("RUN_FINISHED", { threadId, runId, outcome });

/** What the user said last. */
function asked() {
  const content = messages.findLast((message) => message.role === "user")?.content ?? "";
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join(" ");
}

/** The result of a tool of the page, where that is what came back. */
const result = messages.at(-1)?.role === "tool" ? messages.at(-1).content : undefined;
const answer = input.resume?.[0];
const prompt = asked();
const number = Number(prompt.match(/\d+/)?.[0] ?? 10);
const colour = prompt.match(/paint it (\w+)/i)?.[1];

write("RUN_STARTED", { threadId, runId });
if (answer !== undefined) {
  const yes = answer.status === "resolved" && answer.payload?.approved === true;
  await say(words(yes ? `Paid back: ${number}.` : `Not paid back, because you did not approve.`));
  finish();
} else if (result !== undefined) {
  await say(words(`Painted. ${result}`));
  finish();
} else if (/refund/i.test(prompt)) {
  const responseSchema = {
    type: "object",
    properties: { approved: { type: "boolean" } },
    required: ["approved"],
  };
  const interrupt = { id: `${runId}-pay`, reason: "confirmation", message: `Pay back ${number}?`, responseSchema };
  finish({ type: "interrupt", interrupts: [interrupt] });
} else if (colour !== undefined) {
  const toolCallId = `${runId}-paint`;
  write("TOOL_CALL_START", { toolCallId, toolCallName: "set_background" });
  write("TOOL_CALL_ARGS", { toolCallId, delta: JSON.stringify({ colour }) });
  write("TOOL_CALL_END", { toolCallId });
  finish({ type: "success", pendingToolCallIds: [toolCallId] });
} else if (/fail/i.test(prompt)) {
  const messageId = `${runId}-says`;
  write("TEXT_MESSAGE_START", { messageId, role: "assistant" });
  write("TEXT_MESSAGE_CONTENT", { messageId, delta: "This sentence has no" });
  write("RUN_ERROR", { message: "the agent was asked to fail", code: "MODEL_ERROR" });
} else if (/count/i.test(prompt)) {
  await say(Array.from({ length: Math.min(number, 1000) }, (_, n) => `${n + 1} `));
  finish();
} else {
  await say(words(`You said: ${prompt}`));
  finish();
}
