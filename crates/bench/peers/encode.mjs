// Encodes the events of a file of JSON lines with the released `@ag-ui/encoder`, as Server-Sent Events. Tells the median
// of the processor time of a pass, in seconds.

import { readFile } from "node:fs/promises";
import { EventEncoder } from "@ag-ui/encoder";

const lines = (await readFile(process.argv[2], "utf8")).split("\n");
const events = lines.filter((line) => line !== "").map((line) => JSON.parse(line));
const encoder = new EventEncoder();

// Several passes let the compiler warm up.
const seconds = [];
let length = 0;
const begun = performance.now();
do {
  const started = process.cpuUsage();
  for (const event of events) {
    length += encoder.encodeSSE(event).length;
  }
  const { user, system } = process.cpuUsage(started);
  seconds.push((user + system) / 1e6);
} while (seconds.length < 7 && performance.now() - begun < 4000);
seconds.sort((a, b) => a - b);
console.log(JSON.stringify({ seconds: seconds[(seconds.length - 1) >> 1], length }));
