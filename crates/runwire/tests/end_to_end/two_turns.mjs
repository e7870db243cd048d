// A conversation of two turns by one client, which sends the whole history the second time, as an application does.

import { readFlags, report } from "./command-line.mjs";

const PACKAGES = { "1.0.0": "@ag-ui/client", "0.0.59": "agui-client-0-0-59" };
const names = ["url", "client", "thread"];
const flags = readFlags(Object.fromEntries(names.map((name) => [name, { type: "string" }])), names);

const warnings = [];
console.warn = (...parts) => warnings.push(parts.join(" "));
const { HttpAgent } = await import(PACKAGES[flags.client]);
const agent = new HttpAgent({ url: flags.url, threadId: flags.thread });

const turns = [];
for (const content of ["One two three", "Four"]) {
  const events = [];
  agent.addMessage({ id: `user-${turns.length}`, role: "user", content });
  await agent.runAgent(
    { runId: `turn-${turns.length}` },
    { onEvent: ({ event }) => void events.push(JSON.parse(JSON.stringify(event))) },
  );
  turns.push({ events, messages: structuredClone(agent.messages), state: structuredClone(agent.state) });
}
report({ turns, warnings });
