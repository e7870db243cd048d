// Reads and writes AG-UI's binary binding with the released `@ag-ui/proto`: from a URL with the platform's `fetch` and
// nothing else, from a file, or the other way round from events in JSON.

import { readFileSync } from "node:fs";
import { format } from "node:util";
import { AGUIUnknownEventTypeError, AGUI_MEDIA_TYPE, decode, encode } from "@ag-ui/proto";
import { headers, json, readFlags, refuse, report } from "./command-line.mjs";

const flags = readFlags(
  {
    url: { type: "string" },
    body: { type: "string" },
    accept: { type: "string" },
    header: { type: "string", multiple: true },
    decode: { type: "string" },
    encode: { type: "string" },
  },
  [],
);
if ([flags.url, flags.decode, flags.encode].filter((given) => given !== undefined).length !== 1) {
  refuse("one of --url, --decode and --encode is wanted");
}
json("body", flags.body);

// What the package says about events that it does not like goes to the document: a test must see it.
const warnings = [];
console.warn = (...parts) => warnings.push(format(...parts));

/** Takes frames apart: four bytes of length, big-endian, then so many bytes of one message. */
class FrameReader {
  events = [];
  unknown = 0;
  #rest = Buffer.alloc(0);

  push(bytes) {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    while (this.#rest.length >= 4) {
      const end = 4 + this.#rest.readUInt32BE(0);
      if (this.#rest.length < end) return;
      try {
        this.events.push(decode(new Uint8Array(this.#rest.subarray(4, end))));
      } catch (error) {
        if (!(error instanceof AGUIUnknownEventTypeError)) throw error;
        this.unknown += 1;
      }
      this.#rest = this.#rest.subarray(end);
    }
  }

  get partial() {
    return this.#rest.length > 0;
  }
}

if (flags.encode !== undefined) {
  const events = JSON.parse(readFileSync(flags.encode, "utf8"));
  const messages = events.map((event) => Buffer.from(encode(event)).toString("hex"));
  report({ messages, warnings });
}

const reader = new FrameReader();
const read = () => ({ events: reader.events, unknown: reader.unknown, partial: reader.partial, warnings });

if (flags.decode !== undefined) {
  reader.push(readFileSync(flags.decode));
  report(read());
}

const answer = { status: null, headers: {}, text: null, ended: false, error: null };
const finish = (failure) => report({ ...answer, ...read() }, failure);
setTimeout(() => finish(`the stream had not ended after ${flags.timeoutMs / 1000} s`), flags.timeoutMs);

let response;
try {
  response = await fetch(flags.url, {
    method: flags.body === undefined ? "GET" : "POST",
    body: flags.body,
    headers: {
      Accept: flags.accept ?? `text/event-stream, ${AGUI_MEDIA_TYPE}`,
      ...(flags.body === undefined ? {} : { "Content-Type": "application/json" }),
      ...headers(flags.header),
    },
  });
} catch (error) {
  answer.error = String(error.cause?.message ?? error.message);
  finish(`no answer from ${flags.url}: ${answer.error}`);
}
answer.status = response.status;
answer.headers = Object.fromEntries(response.headers);
if (response.headers.get("content-type") !== AGUI_MEDIA_TYPE) {
  answer.text = await response.text();
  answer.ended = true;
  finish();
}
try {
  for await (const bytes of response.body) reader.push(bytes);
  answer.ended = true;
} catch (error) {
  // The connection broke, or a frame is no event: that is what happened, and the document says so.
  answer.error = String(error.cause?.message ?? error.message);
}
finish();
