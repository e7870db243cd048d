// The Durable Streams server of its authors, with its streams in files in the folder that is named. It says where it
// listens; its records come by HTTP. Ends when its input does.

import { DurableStreamTestServer } from "@durable-streams/server";

// The server tells its news on the standard output, which is for what the benchmark hears.
console.log = console.info = console.error;

const server = new DurableStreamTestServer({ port: 0, host: "127.0.0.1", dataDir: process.argv[2] });
const url = await server.start();
const { host } = new URL(url);
process.stdout.write(`${JSON.stringify({ address: host, sse: "/live?offset=-1&live=sse", ws: "" })}\n`);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
