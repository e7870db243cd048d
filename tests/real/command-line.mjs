// What every script of this folder has in common with the test that runs it: flags in, one JSON document out,
// and an end that comes in bounded time.

import { writeSync } from "node:fs";
import { parseArgs } from "node:util";

/** Ends the script: a flag that is wrong is the fault of the test that passed it, and must not be ignored. */
export function refuse(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/**
 * Reads the flags. `--timeout SECONDS` (more than 0, default 30) is understood by every script and comes back
 * as `timeoutMs`.
 *
 * @param {Record<string, {type: "string" | "boolean", multiple?: boolean, default?: unknown}>} flags
 * @param {string[]} required names of the flags without which the script cannot do its job
 */
export function readFlags(flags, required) {
  let values;
  try {
    ({ values } = parseArgs({
      options: { timeout: { type: "string" }, ...flags },
      strict: true,
      allowPositionals: false,
    }));
  } catch (error) {
    refuse(`${error.message}. Flags: ${["timeout", ...Object.keys(flags)].map((name) => `--${name}`).join(" ")}`);
  }
  for (const name of required) {
    if (values[name] === undefined) refuse(`--${name} is missing: give it a value`);
  }
  const seconds = Number(values.timeout ?? "30");
  if (!(seconds > 0)) refuse(`--timeout ${values.timeout} is not a number of seconds greater than 0`);
  return { ...values, timeoutMs: seconds * 1000 };
}

/** A flag that counts something: a whole number, 0 or more; `undefined` when the flag was not given. */
export function count(name, text) {
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text)) refuse(`--${name} ${text} is not a whole number`);
  return Number(text);
}

/** A flag that holds JSON; `undefined` when the flag was not given. */
export function json(name, text) {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    return refuse(`--${name} is not JSON: ${error.message}`);
  }
}

/** `--header 'K: V'`, repeated, as one object. A later header of the same name replaces an earlier one. */
export function headers(lines = []) {
  const result = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) refuse(`--header ${line} is not of the form 'Name: value'`);
    result[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return result;
}

/**
 * Prints the document and ends the process. Sockets that are still open end with it, so a script reports the moment
 * it knows its answer, without waiting for the other side.
 *
 * `failure`, when given, says why the script could not do its job: it goes to stderr and makes the exit code 1. The
 * document is printed all the same, with what had arrived until then.
 */
export function report(document, failure) {
  const bytes = Buffer.from(`${JSON.stringify(document)}\n`);
  // Synchronous and by parts: process.exit drops what an asynchronous write has not flushed, and a pipe that is
  // full for a moment answers EAGAIN.
  let written = 0;
  while (written < bytes.length) {
    try {
      written += writeSync(1, bytes, written);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
  if (failure !== undefined) process.stderr.write(`${failure}\n`);
  process.exit(failure === undefined ? 0 : 1);
}
