// Consumes a file of Server-Sent Events with the released `@ag-ui/client`, as an application does: an agent over HTTP,
// whose `fetch` answers from memory. Tells the median of the processor time of a run, in seconds, and what the agent holds
// after it.

import { readFile } from "node:fs/promises";
import { HttpAgent } from "@ag-ui/client";

const PIECE = 16 * 1024;
const bytes = new Uint8Array(await readFile(process.argv[2]));

function body() {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) {
        controller.close();
        return;
      }
      controller.enqueue(bytes.subarray(at, at + PIECE));
      at += PIECE;
    },
  });
}

async function run() {
  const agent = new HttpAgent({
    url: "http://agent.invalid/",
    threadId: "thread-1",
    fetch: async () => new Response(body(), { headers: { "content-type": "text/event-stream" } }),
  });
  const started = process.cpuUsage();
  await agent.runAgent({ runId: "run-1" });
  const { user, system } = process.cpuUsage(started);
  return [(user + system) / 1e6, agent.messages];
}

// Several runs let the compiler warm up; a slow stream has warmed it within the first.
const seconds = [];
let messages;
const begun = performance.now();
do {
  const [taken, held] = await run();
  seconds.push(taken);
  messages = held;
} while (seconds.length < 5 && performance.now() - begun < 4000);
seconds.sort((a, b) => a - b);

let characters = 0;
for (const message of messages) {
  const texts = [message.content, ...(message.toolCalls ?? []).map((call) => call.function.arguments)];
  for (const text of texts) {
    characters += typeof text === "string" ? [...text].length : 0;
  }
}
console.log(JSON.stringify({ seconds: seconds[(seconds.length - 1) >> 1], messages: messages.length, characters }));
