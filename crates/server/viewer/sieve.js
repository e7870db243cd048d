// Which rows of a long log are shown: those of some types, that hold some text. It looks through the log in turns.

import { Column, PAGE_ROWS } from "./bodies.js";
import { breathe } from "./pacing.js";

/** So long may one turn take, in milliseconds. */
const TURN_MS = 8;

/** A text to look for, in what is JSON: as it was said, and as JSON writes it. */
export function searchFor(text) {
  if (text === "") return null;
  const escaped = (part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  const written = JSON.stringify(text).slice(1, -1);
  return new RegExp(written === text ? escaped(text) : `${escaped(text)}|${escaped(written)}`, "iu");
}

/** The rows that pass, in order. */
export class Sieve {
  #bodies;
  #changed;
  #failed;
  #signal;
  #rows = new Column(Uint32Array);
  #test = null;
  #scanned = 0;
  /** Grows with each test, so that what was begun for another is known as such. */
  #generation = 0;
  #isScanning = false;

  /**
   * @param {object} options
   * @param {import("./bodies.js").Bodies} options.bodies the log
   * @param {() => void} options.changed more rows pass, or others
   * @param {(error: Error) => void} options.failed the log cannot be read where it has to be
   * @param {AbortSignal} options.signal
   */
  constructor({ bodies, changed, failed, signal }) {
    this.#bodies = bodies;
    this.#changed = changed;
    this.#failed = failed;
    this.#signal = signal;
  }

  /** How many rows pass, as far as was looked. */
  get size() {
    return this.#test === null ? this.#bodies.count : this.#rows.length;
  }

  /** Whether every row was looked at. */
  get isDone() {
    return this.#test === null || this.#scanned === this.#bodies.count;
  }

  /** The row at a place of the list. */
  rowAt(index) {
    return this.#test === null ? index : this.#rows.at(index);
  }

  /** The place of a row, or of the next one that passes: `size` when none does. */
  placeOf(row) {
    return this.#test === null ? Math.min(row, this.size) : this.#rows.lowerBound(row);
  }

  /** Whether a row passes, as far as was looked. */
  has(row) {
    const place = this.placeOf(row);
    return place < this.size && this.rowAt(place) === row;
  }

  /**
   * Lets other rows pass; all of them with `null`.
   *
   * @param {{row: (row: number) => boolean, text: RegExp | null} | null} test
   */
  set(test) {
    this.#test = test;
    this.#generation += 1;
    this.#rows.clear();
    this.#scanned = 0;
    if (test === null) this.#changed();
    else void this.#scan();
  }

  /** More rows are there. */
  took() {
    if (this.#test === null) this.#changed();
    else void this.#scan();
  }

  async #scan() {
    if (this.#isScanning) return;
    this.#isScanning = true;
    let began = performance.now();
    try {
      while (this.#test !== null && this.#scanned < this.#bodies.count && !this.#signal.aborted) {
        const generation = this.#generation;
        const { row: passes, text } = this.#test;
        const number = Math.floor(this.#scanned / PAGE_ROWS);
        const end = Math.min(this.#bodies.count, (number + 1) * PAGE_ROWS);
        const candidates = [];
        for (let row = this.#scanned; row < end; row += 1) if (passes(row)) candidates.push(row);
        if (text !== null && candidates.length > 0) {
          const texts = this.#bodies.here(number) ?? (await this.#bodies.page(number));
          if (generation !== this.#generation) continue;
          for (const row of candidates) if (text.test(texts[row % PAGE_ROWS])) this.#rows.push(row);
        } else {
          for (const row of candidates) this.#rows.push(row);
        }
        this.#scanned = end;
        if (performance.now() - began > TURN_MS) {
          this.#changed();
          await breathe();
          began = performance.now();
        }
      }
    } catch (error) {
      if (!this.#signal.aborted) this.#failed(error);
    } finally {
      this.#isScanning = false;
    }
    this.#changed();
  }
}
