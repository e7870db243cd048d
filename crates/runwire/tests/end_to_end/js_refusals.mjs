// What the JavaScript client says of requests that a server with tokens refuses, and what an abort does.

import WebSocket from "ws";
import { followRun } from "../../clients/js/runwire.js";
import { readFlags, report } from "./command-line.mjs";

const flags = readFlags({ url: { type: "string" }, token: { type: "string" } }, ["url", "token"]);
const { url: server, token } = flags;

async function api(path, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  return (await fetch(server + path, init)).json();
}

async function seen(options) {
  const states = [];
  let frames = 0;
  try {
    const onStatus = ({ state }) => states.push(state);
    for await (const { seq } of followRun({ server, token, WebSocket, onStatus, ...options })) frames += seq > 0 ? 1 : 0;
    return { frames, states };
  } catch ({ code, message, head }) {
    return { code, message, head };
  }
}

const document = {};
for (const transport of ["sse", "websocket"]) {
  const short = await api("/v2/runs", { agent_id: "demo", prompt: "How long?" });
  const { frames: head } = await seen({ transport, runId: short.run_id });
  const told = { head };
  told["wrong token"] = await seen({ transport, runId: short.run_id, token: "wrong" });
  told["no such run"] = await seen({ transport, runId: "run_that_is_none" });
  told["past the head"] = await seen({ transport, runId: short.run_id, cursor: head + 1 });
  told["at the head"] = await seen({ transport, runId: short.run_id, cursor: head });

  const long = await api("/v2/runs", { agent_id: "long", prompt: "How long?" });
  const stop = new AbortController();
  try {
    for await (const { seq } of followRun({ server, token, WebSocket, transport, runId: long.run_id, signal: stop.signal })) {
      if (seq === 12) stop.abort("enough");
    }
  } catch (reason) {
    told.aborted = { reason };
  }
  // What a server makes of a connection that is closed it would have made by now.
  await new Promise((resolve) => setTimeout(resolve, 300));
  told.aborted.status = (await api(`/v2/runs/${long.run_id}`)).status;
  document[transport] = told;
}
report(document);
