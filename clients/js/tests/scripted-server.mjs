// An HTTP server of which the test writes every answer, one for each request, in order.

import http from "node:http";

/** A frame's body. `more` replaces keys of the envelope. */
export function frame(seq, type = "notice", more = {}) {
  const data = { level: "info", code: "test", message: `frame ${seq}` };
  const ts = "2026-11-29T21:18:00.123Z";
  return JSON.stringify({ protocol: 2, seq, run_id: "run_1", ts, type, segment_id: null, data, ...more });
}

export const sse = (id, data) => `id: ${id}\ndata: ${data}\n\n`;

/** The events of frames `from` to `to`. */
export const frames = (from, to) =>
  Array.from({ length: to - from + 1 }, (_, i) => sse(from + i, frame(from + i))).join("");

export const end = (seq) =>
  sse(seq, frame(seq, "run.end", { data: { status: "completed", usage: null, cost: null, duration_ms: 1 } }));

/** Answers with a stream that is left open. */
export const open = (response, text, headers = {}) => {
  response.writeHead(200, { "Content-Type": "text/event-stream", ...headers });
  response.write(text);
};

/** Answers with a stream that ends in good order. */
export const whole = (text, headers) => (_request, response) => {
  open(response, text, headers);
  response.end();
};

/** Answers with a stream that breaks behind the text. */
export const broken = (text, headers) => (_request, response) => {
  open(response, text, headers);
  setTimeout(() => response.destroy(), 20);
};

/** Answers with a stream in which nothing follows the text. */
export const silent = (text, headers) => (_request, response) => open(response, text, headers);

export const refusing =
  (status, problem = {}, headers = {}) =>
  (_request, response) => {
    response.writeHead(status, { "Content-Type": "application/problem+json", ...headers });
    response.end(status === 204 ? undefined : JSON.stringify({ title: "Refused", status, ...problem }));
  };

/**
 * Answers the requests with `answers`, and all beyond them as the last. `requests` are those that came: `{method, url,
 * headers, body, closed}`, `closed` a promise of the end of the connection.
 *
 * @param {import("node:test").TestContext} test which ends the server
 * @param {((request: http.IncomingMessage, response: http.ServerResponse) => void)[]} answers
 */
export async function serve(test, ...answers) {
  const requests = [];
  const server = http.createServer(async (request, response) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)];
    const { method, url, headers } = request;
    const closed = new Promise((done) => response.on("close", done));
    const noted = { method, url, headers, body: "", closed };
    requests.push(noted);
    for await (const bytes of request) noted.body += bytes;
    answer(request, response);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}

/** Resolves a moment after so many requests have come: time in which their answers are read. */
export async function asked(server, requests) {
  const moment = () => new Promise((resolve) => setTimeout(resolve, 100));
  do await moment();
  while (server.requests.length < requests);
}
