// Follows a run over WebSocket with the `ws` package and prints every message exactly as it was received.

import WebSocket from "ws";
import { count, headers, readFlags, report } from "./command-line.mjs";

const flags = readFlags(
  {
    url: { type: "string" },
    token: { type: "string" },
    after: { type: "string" },
    protocol: { type: "string" },
    silent: { type: "boolean" },
    "first-message": { type: "string" },
    "stop-after": { type: "string" },
    header: { type: "string", multiple: true },
  },
  ["url"],
);
const stopAfter = count("stop-after", flags["stop-after"]);

function firstMessage() {
  if (flags.silent) return null;
  if (flags["first-message"] !== undefined) return flags["first-message"];
  // A protocol that is no number is sent as a string: a client that gets it wrong is what the flag is for.
  const protocol = flags.protocol ?? "2";
  return JSON.stringify({
    type: "auth",
    token: flags.token ?? "",
    protocol: /^\d+$/.test(protocol) ? Number(protocol) : protocol,
    after: count("after", flags.after) ?? 0,
  });
}

const message = firstMessage();
const result = {
  frames: [],
  binaryMessages: 0,
  pings: 0,
  opened: false,
  upgradeStatus: null,
  upgradeHeaders: {},
  upgradeBody: null,
  close: null,
  stopped: false,
  error: null,
  timedOut: false,
};
const finish = (failure) => report(result, failure);

setTimeout(() => {
  result.timedOut = true;
  finish(`the socket had not closed after ${flags.timeoutMs / 1000} s`);
}, flags.timeoutMs);

const socket = new WebSocket(flags.url, { headers: headers(flags.header) });

socket.on("upgrade", (response) => {
  result.upgradeStatus = response.statusCode;
  result.upgradeHeaders = response.headers;
});
// An upgrade that is refused is an answer too.
socket.on("unexpected-response", (_request, response) => {
  result.upgradeStatus = response.statusCode;
  result.upgradeHeaders = response.headers;
  const pieces = [];
  response.on("data", (piece) => pieces.push(piece));
  response.on("close", () => {
    result.upgradeBody = Buffer.concat(pieces).toString("utf8");
    finish();
  });
});
socket.on("open", () => {
  result.opened = true;
  if (message !== null) socket.send(message);
});
socket.on("ping", () => {
  result.pings += 1;
});
socket.on("message", (data, isBinary) => {
  if (isBinary) {
    result.binaryMessages += 1;
    return;
  }
  result.frames.push(data.toString("utf8"));
  if (result.frames.length === stopAfter) {
    // Without a closing handshake, as a client does whose network is gone.
    result.stopped = true;
    socket.terminate();
    finish();
  }
});
socket.on("error", (error) => {
  result.error = String(error.message || error.code);
  if (!result.opened) finish(`no WebSocket to ${flags.url}: ${result.error}`);
});
socket.on("close", (code, reason) => {
  result.close = { code, reason: reason.toString("utf8") };
  finish();
});
