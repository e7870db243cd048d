// An application that streams through `resumable-stream` on Redis, whose address is named. Its producer is in this process,
// as that library wants it; readers come by way of Redis, as those of another process or after a cut do. Hears words and
// says JSON; ends when its input does.

import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import { createResumableStreamContext } from "resumable-stream/generic";

const publisher = createClient({ url: process.argv[2] });
const subscriber = createClient({ url: process.argv[2] });
await Promise.all([publisher.connect(), subscriber.connect()]);
const context = createResumableStreamContext({ waitUntil: () => {}, publisher, subscriber });

const PADDING = "x".repeat(150);

/** A record of about 200 bytes that holds the text. */
function record(text) {
  return `data: {"text":"${text}","padding":"${PADDING}"}\n\n`;
}

/** A new stream: `push` appends to it; its first reader is this process, which only drains it. */
async function open(id) {
  let controller;
  const source = () => new ReadableStream({ start: (c) => void (controller = c) });
  const drained = await context.createNewResumableStream(id, source);
  const done = (async () => {
    for await (const _ of drained);
  })();
  return { push: (text) => controller.enqueue(text), close: () => controller.close(), done };
}

const live = await open("live");
let characters = 0;
function push(text) {
  const event = record(text);
  characters += event.length;
  live.push(event);
}
push("hello");

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://peer.invalid");
  const at = Number(url.searchParams.get("resumeAt") ?? 0);
  const stream = await context.resumeExistingStream(url.pathname.slice(1), at);
  if (!stream) {
    response.writeHead(422).end();
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  response.on("close", () => {});
  try {
    for await (const chunk of stream) {
      if (response.destroyed) break;
      response.write(chunk);
    }
  } finally {
    response.end();
  }
});
await new Promise((listening) => server.listen(0, "127.0.0.1", 2048, listening));
const say = (what) => console.log(JSON.stringify(what));
say({ address: `127.0.0.1:${server.address().port}`, sse: "/live", ws: "" });

for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...numbers] = line.split(" ");
  const [first, second] = numbers.map(Number);
  if (word === "live") {
    for (let i = 0; i < first; i++) {
      await sleep(second);
      push(`@d${process.hrtime.bigint()}@`);
    }
    live.close();
  } else if (word === "fill") {
    let middle = 0;
    for (let i = 0; i < first; i++) {
      if (i === first / 2) middle = characters;
      push(`record ${i}.`);
    }
    await sleep(500);
    say({ path: `/live?resumeAt=${middle}`, last: `record ${first - 1}.` });
  } else if (word === "append") {
    const streams = await Promise.all(Array.from({ length: first }, (_, i) => open(`append-${i}`)));
    const started = process.hrtime.bigint();
    await Promise.all(
      streams.map(async (stream) => {
        for (let i = 0; i < second; i++) {
          stream.push(record("and so the answer is near, "));
          // Lets the others have their turn, as a producer that waits for a model does.
          if (i % 64 === 63) await sleep(0);
        }
        stream.close();
        await stream.done;
      }),
    );
    say({ seconds: Number(process.hrtime.bigint() - started) / 1e9 });
  }
}
process.exit(0);
