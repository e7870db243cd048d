// Model APIs with answers that are written down (`@copilotkit/aimock`), and a tool behind an address. The first line on stdout
// is `listening MODEL_URL TOOL_URL`; it ends by itself when its standard input is closed.

import { createServer } from "node:http";
import { LLMock } from "@copilotkit/aimock";

const mock = new LLMock({ port: 0, chunkSize: 8 });
const usage = {
  prompt_tokens: 120,
  completion_tokens: 30,
  total_tokens: 150,
};
const call = (name, args) => ({ name, arguments: JSON.stringify(args) });
const once = (userMessage) => ({ userMessage, hasToolResult: false });
const then = (userMessage) => ({ userMessage, hasToolResult: true });

mock.on({ userMessage: "say hello" }, { content: "Hello from the model, in several pieces.", reasoning: "I shall greet.", usage });
mock.on(once("look twice"), { toolCalls: [call("look", { q: "one" }), call("look", { q: "two" })] });
mock.on(then("look twice"), { content: "I have looked twice." });
mock.on({ userMessage: "show it" }, { toolCalls: [call("show", { what: "map" })] });
mock.on(once("pay it"), { toolCalls: [call("pay", { sum: 5 })] });
mock.on(then("pay it"), { content: "That is settled." });
mock.on(once("echo it"), { toolCalls: [call("echo", { message: "hi there" }), call("get-tiny-image", {})] });
mock.on(then("echo it"), { content: "It was echoed." });
mock.on(once("ask around"), { toolCalls: [call("research", { prompt: "say hello" })], usage });
mock.on(then("ask around"), { content: "I have asked.", usage });
mock.on(once("sum it"), { toolCalls: [call("get-sum", { a: 2, b: 3 }), call("echo", { message: "hi there" })] });
mock.on(then("sum it"), { content: "It was summed." });
mock.on({ userMessage: "be busy" }, {
  error: { message: "Slow down", type: "rate_limit_error" },
  status: 429,
  retryAfter: 7,
});
mock.on({ userMessage: "be broken" }, { error: { message: "Oops", type: "server_error" }, status: 500 });
mock.on({ userMessage: "be cut" }, { content: "This sentence is never said to its end by anybody." }, { truncateAfterChunks: 3 });

await mock.start();

const tool = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => response.end(JSON.stringify({ called: JSON.parse(body), secret: request.headers["x-secret"] })));
});
await new Promise((listening) => tool.listen(0, "127.0.0.1", listening));

console.log(`listening ${mock.url} http://127.0.0.1:${tool.address().port}/`);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
