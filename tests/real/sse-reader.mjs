// Follows a run over server-sent events with a plain HTTP request, keeping the exact bytes of every frame's body.

import http from "node:http";
import https from "node:https";
import { count, headers, readFlags, report } from "./command-line.mjs";
import { EventStreamDecoder } from "./event-stream-decoder.mjs";

const flags = readFlags(
  {
    url: { type: "string" },
    token: { type: "string" },
    "last-event-id": { type: "string" },
    "stop-after": { type: "string" },
    raw: { type: "boolean" },
    header: { type: "string", multiple: true },
  },
  ["url"],
);
const stopAfter = count("stop-after", flags["stop-after"]);

const decoder = new EventStreamDecoder();
const received = [];
const answer = { status: null, headers: {}, text: null, stopped: false, ended: false, error: null };
let finished = false;

function finish({ failure, timedOut = false } = {}) {
  if (finished) return;
  finished = true;
  const frames = decoder.events.map(({ id, data }) => ({ id, body: data }));
  const raw = flags.raw ? { rawBase64: Buffer.concat(received).toString("base64") } : {};
  report(
    {
      ...answer,
      frames,
      comments: decoder.comments,
      retry: decoder.retry,
      partial: decoder.partial,
      timedOut,
      ...raw,
    },
    failure,
  );
}

setTimeout(
  () => finish({ failure: `the stream had not ended after ${flags.timeoutMs / 1000} s`, timedOut: true }),
  flags.timeoutMs,
);

const request = (flags.url.startsWith("https:") ? https : http).get(flags.url, {
  headers: {
    Accept: "text/event-stream",
    ...(flags.token === undefined ? {} : { Authorization: `Bearer ${flags.token}` }),
    ...(flags["last-event-id"] === undefined ? {} : { "Last-Event-ID": flags["last-event-id"] }),
    ...headers(flags.header),
  },
});
request.on("error", (error) => {
  answer.error = String(error.message || error.code);
  finish({ failure: `no answer from ${flags.url}: ${answer.error}` });
});
request.on("response", (response) => {
  answer.status = response.statusCode;
  answer.headers = response.headers;
  const isEventStream = (response.headers["content-type"] ?? "").startsWith("text/event-stream");
  response.on("data", (bytes) => {
    received.push(bytes);
    if (!isEventStream) return;
    try {
      decoder.push(bytes, (seen) => seen === stopAfter);
    } catch (error) {
      if (error.code !== "ERR_ENCODING_INVALID_ENCODED_DATA") throw error;
      finish({ failure: "the stream holds bytes that are no UTF-8" });
    }
    if (decoder.events.length === stopAfter) {
      answer.stopped = true;
      request.destroy();
      finish();
    }
  });
  response.on("error", (error) => {
    // The connection broke: that is what happened, and the document says so.
    answer.error = String(error.message || error.code);
  });
  response.on("close", () => {
    answer.ended = response.complete;
    if (!isEventStream && received.length > 0) answer.text = Buffer.concat(received).toString("utf8");
    finish();
  });
});
