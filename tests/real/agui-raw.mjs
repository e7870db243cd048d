// Reads an AG-UI stream with the platform's `fetch` and nothing else, and can leave in the middle as a lost
// connection would.

import { count, headers, json, readFlags, report } from "./command-line.mjs";
import { EventStreamDecoder } from "./event-stream-decoder.mjs";

const flags = readFlags(
  {
    url: { type: "string" },
    method: { type: "string" },
    body: { type: "string" },
    header: { type: "string", multiple: true },
    "last-event-id": { type: "string" },
    "cut-after-events": { type: "string" },
  },
  ["url"],
);
const cutAfter = count("cut-after-events", flags["cut-after-events"]);
json("body", flags.body);

const decoder = new EventStreamDecoder();
const connection = new AbortController();
const answer = { status: null, headers: {}, text: null, cut: false, ended: false, error: null };

function finish({ failure, timedOut = false } = {}) {
  const events = decoder.events.map(({ id, data }) => ({ id, data }));
  report(
    { ...answer, events, comments: decoder.comments, retry: decoder.retry, partial: decoder.partial, timedOut },
    failure,
  );
}

setTimeout(
  () => finish({ failure: `the stream had not ended after ${flags.timeoutMs / 1000} s`, timedOut: true }),
  flags.timeoutMs,
);

let response;
try {
  response = await fetch(flags.url, {
    method: flags.method ?? (flags.body === undefined ? "GET" : "POST"),
    body: flags.body,
    headers: {
      Accept: "text/event-stream",
      ...(flags.body === undefined ? {} : { "Content-Type": "application/json" }),
      ...(flags["last-event-id"] === undefined ? {} : { "Last-Event-ID": flags["last-event-id"] }),
      ...headers(flags.header),
    },
    signal: connection.signal,
  });
} catch (error) {
  answer.error = String(error.cause?.message ?? error.message);
  finish({ failure: `no answer from ${flags.url}: ${answer.error}` });
}

answer.status = response.status;
answer.headers = Object.fromEntries(response.headers);
try {
  if (!(response.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
    answer.text = (await response.text()) || null;
    answer.ended = true;
    finish();
  }
  for await (const bytes of response.body) {
    decoder.push(bytes, (seen) => seen === cutAfter);
    if (decoder.events.length === cutAfter) {
      answer.cut = true;
      connection.abort();
      break;
    }
  }
  answer.ended = !answer.cut;
} catch (error) {
  if (answer.cut) {
    // Our own cut, reported by the reader that it cut.
  } else if (error.code === "ERR_ENCODING_INVALID_ENCODED_DATA") {
    finish({ failure: "the stream holds bytes that are no UTF-8" });
  } else {
    // The connection broke: that is what happened, and the document says so.
    answer.error = String(error.cause?.message ?? error.message);
  }
}
finish();
