// A log that is longer than a page holds: what is given up, what is read again, what a filter lets through: `node --test`
// runs these.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Bodies, Column, PAGE_ROWS } from "../../viewer/bodies.js";
import { Sieve, searchFor } from "../../viewer/sieve.js";

const signal = new AbortController().signal;

/** The text of a row: fifty characters, whatever its number. */
const textOf = (row) => `{"seq":${row + 1},"text":"row ${row}"}`.padEnd(50, ".");

/** So many rows of which so many pages are held, and what was read again of them. */
function log(rows, { pages = 2 } = {}) {
  const reloads = [];
  const loaded = { times: 0 };
  const bodies = new Bodies({
    reload: (first, count) => {
      reloads.push([first, count]);
      return Promise.resolve(Array.from({ length: count }, (_, i) => textOf(first + i)));
    },
    loaded: () => (loaded.times += 1),
    signal,
    most: pages * PAGE_ROWS * 50,
  });
  for (let row = 0; row < rows; row += 1) bodies.push(textOf(row));
  return { bodies, reloads, loaded };
}

/** The rows that pass, once every row was looked at. */
async function sifted(bodies, row, text) {
  const done = new Promise((resolve, reject) => {
    const sieve = new Sieve({ bodies, changed: () => sieve.isDone && resolve(sieve), failed: reject, signal });
    sieve.set({ row, text });
  });
  const sieve = await done;
  return Array.from({ length: sieve.size }, (_, i) => sieve.rowAt(i));
}

test("of a log of any length so much is held, and what is looked at is read again", async () => {
  const { bodies, reloads, loaded } = log(10 * PAGE_ROWS);
  const held = Array.from({ length: 10 }, (_, page) => page).filter((page) => bodies.here(page) !== undefined);
  assert.deepEqual(held, [8, 9]);
  assert.equal(bodies.get(10 * PAGE_ROWS - 1), textOf(10 * PAGE_ROWS - 1));
  assert.equal(bodies.get(700), undefined, "it is not here");
  assert.equal(await bodies.textOf(700), textOf(700));
  assert.deepEqual(reloads, [[PAGE_ROWS, PAGE_ROWS]], "once, and as a page");
  assert.equal(loaded.times, 1);
  assert.equal(bodies.get(701), textOf(701), "and is here from then on");
});

test("of what was scrolled past the newest is read, and nothing twice", async () => {
  const { bodies, reloads } = log(10 * PAGE_ROWS);
  for (const page of [0, 1, 2, 3, 4, 3, 4]) bodies.get(page * PAGE_ROWS);
  await bodies.textOf(4 * PAGE_ROWS);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(reloads.map(([first]) => first / PAGE_ROWS), [0, 4, 3]);
});

test("the page that grows is never given up, however much is read beside it", async () => {
  const { bodies } = log(5 * PAGE_ROWS + 3, { pages: 1 });
  for (let page = 0; page < 5; page += 1) await bodies.page(page);
  bodies.push(textOf(5 * PAGE_ROWS + 3));
  assert.equal(bodies.here(5).length, 4);
  assert.equal(bodies.get(5 * PAGE_ROWS + 3), textOf(5 * PAGE_ROWS + 3));
});

test("a search finds what is not held any more, and reads only where a row may pass", async () => {
  const { bodies, reloads } = log(10 * PAGE_ROWS);
  assert.deepEqual(await sifted(bodies, () => true, searchFor("row 70")), [70, ...Array.from({ length: 10 }, (_, i) => 700 + i)]);
  assert.equal(reloads.length, 9, "all but the page that grows, which is never given up");
  reloads.length = 0;
  assert.deepEqual(await sifted(bodies, (row) => row === 1030, searchFor("ROW 1030")), [1030]);
  assert.deepEqual(reloads.map(([first]) => first / PAGE_ROWS), [2]);
});

test("rows that come are sifted as they come, and a place is found by its row", async () => {
  const { bodies } = log(10, { pages: 50 });
  const sieve = new Sieve({ bodies, changed: () => {}, failed: assert.fail, signal });
  assert.deepEqual([sieve.size, sieve.rowAt(7), sieve.placeOf(7), sieve.placeOf(99)], [10, 7, 7, 10]);
  sieve.set({ row: (row) => row % 3 === 0, text: null });
  assert.deepEqual([sieve.size, sieve.rowAt(3), sieve.placeOf(7), sieve.has(7), sieve.has(9)], [4, 9, 3, false, true]);
  for (let row = 10; row < 14; row += 1) bodies.push(textOf(row));
  sieve.took();
  assert.deepEqual([sieve.size, sieve.rowAt(4), sieve.isDone], [5, 12, true]);
  sieve.set(null);
  assert.equal(sieve.size, 14);
});

test("another filter in the middle of a search takes its place", async () => {
  const { bodies } = log(10 * PAGE_ROWS);
  let done;
  const whole = new Promise((resolve) => (done = resolve));
  const sieve = new Sieve({ bodies, changed: () => sieve.isDone && sieve.size > 0 && done(), failed: assert.fail, signal });
  sieve.set({ row: () => true, text: searchFor("no such text") });
  sieve.set({ row: (row) => row === 4321, text: null });
  await whole;
  assert.deepEqual([sieve.size, sieve.rowAt(0)], [1, 4321]);
});

test("a text is found as it was said, and as JSON writes it", () => {
  const body = '{"text":"say \\"hi\\"\\n(or not)","type":"text.delta"}';
  for (const text of ['say "hi"', "\n(or", '"type":"text', "HI\\\"", "(OR NOT)", "delta\"}"]) assert.match(body, searchFor(text), text);
  for (const text of [".*", "hi (", "[a-z]", "text-delta"]) assert.doesNotMatch(body, searchFor(text), text);
  assert.equal(searchFor(""), null);
});

test("a column grows, and finds its place", () => {
  const column = new Column(Uint32Array);
  for (let i = 0; i < 5000; i += 1) column.push(i * 2);
  assert.deepEqual([column.length, column.at(4999), column.lowerBound(7000), column.lowerBound(7001), column.lowerBound(1e9)], [5000, 9998, 3500, 3501, 5000]);
});
