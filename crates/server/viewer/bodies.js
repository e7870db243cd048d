// The texts of a log that may be longer than a page should hold: those that were used last are here, the others are read again.

import { wait } from "./pacing.js";

/** Rows that are kept, given up and read again together. */
export const PAGE_ROWS = 512;

/** So many characters of text are held, and the page that grows besides. */
const MOST_CHARACTERS = 48_000_000;

/** After a failure a page of texts is not asked for again for so long, in milliseconds. */
const AFTER_FAILURE_MS = 3000;

/** Pages that are waited for. Of what was scrolled past meanwhile, the newest count. */
const MOST_WANTED = 2;

/** A column of numbers that grows. It takes what its type takes, and nothing for each number. */
export class Column {
  #values;
  #length = 0;

  /** @param {Uint8ArrayConstructor | Uint32ArrayConstructor | Float64ArrayConstructor} Type */
  constructor(Type) {
    this.#values = new Type(1024);
  }

  get length() {
    return this.#length;
  }

  at(index) {
    return this.#values[index];
  }

  push(value) {
    if (this.#length === this.#values.length) {
      const larger = new this.#values.constructor(this.#length * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#length] = value;
    this.#length += 1;
  }

  clear() {
    this.#length = 0;
  }

  /** The first index whose value is at least this, in a column that only grows upwards. */
  lowerBound(value) {
    let low = 0;
    let high = this.#length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#values[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The texts of rows, from 0 on. */
export class Bodies {
  /** In the order of their use: the first is the one that was not used for the longest time. */
  #pages = new Map();
  #characters = 0;
  #count = 0;
  #most;
  #reload;
  #loaded;
  #signal;
  #wanted = [];
  #readings = new Map();

  /**
   * @param {object} options
   * @param {(first: number, count: number) => Promise<string[]>} options.reload reads the texts of so many rows again
   * @param {() => void} options.loaded texts are here that were asked for
   * @param {AbortSignal} options.signal
   * @param {number} [options.most] most characters that are held
   */
  constructor({ reload, loaded, signal, most = MOST_CHARACTERS }) {
    this.#reload = reload;
    this.#loaded = loaded;
    this.#signal = signal;
    this.#most = most;
  }

  get count() {
    return this.#count;
  }

  /** Adds the next row's text. */
  push(text) {
    const number = Math.floor(this.#count / PAGE_ROWS);
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = { texts: [], characters: 0 };
      this.#pages.set(number, page);
    }
    page.texts.push(text);
    page.characters += text.length;
    this.#characters += text.length;
    this.#count += 1;
    if (this.#characters > this.#most) this.#giveUp();
  }

  /** The text of a row. Where it is not here, `undefined`, and it is read; `loaded` is called then. */
  get(row) {
    const number = Math.floor(row / PAGE_ROWS);
    const page = this.#use(number);
    if (page !== undefined) return page.texts[row % PAGE_ROWS];
    if (!this.#readings.has(number) && !this.#wanted.includes(number)) {
      this.#wanted.push(number);
      if (this.#wanted.length > MOST_WANTED) this.#wanted.shift();
      if (this.#readings.size === 0) void this.#readWanted();
    }
    return undefined;
  }

  /** The text of a row, read again where it has to be. */
  async textOf(row) {
    return this.get(row) ?? (await this.page(Math.floor(row / PAGE_ROWS)))[row % PAGE_ROWS];
  }

  /** The texts of all rows of a page that are here, without reading; `undefined` when they are not. */
  here(number) {
    return this.#pages.get(number)?.texts;
  }

  /** The texts of all rows of a page, read again where they have to be. */
  async page(number) {
    return this.here(number) ?? (await this.#read(number));
  }

  #use(number) {
    const page = this.#pages.get(number);
    if (page !== undefined) {
      this.#pages.delete(number);
      this.#pages.set(number, page);
    }
    return page;
  }

  async #readWanted() {
    while (this.#wanted.length > 0 && !this.#signal.aborted) {
      const number = this.#wanted.pop();
      // Somebody else may have read it meanwhile.
      if (this.#pages.has(number)) continue;
      await this.#read(number).then(
        () => this.#loaded(),
        () => wait(AFTER_FAILURE_MS, this.#signal),
      );
    }
  }

  #read(number) {
    const underWay = this.#readings.get(number);
    if (underWay !== undefined) return underWay;
    const first = number * PAGE_ROWS;
    const reading = this.#reload(first, Math.min(PAGE_ROWS, this.#count - first)).then((texts) => {
      const characters = texts.reduce((sum, text) => sum + text.length, 0);
      this.#pages.set(number, { texts, characters });
      this.#characters += characters;
      this.#giveUp();
      return texts;
    });
    this.#readings.set(number, reading);
    const done = () => this.#readings.delete(number);
    reading.then(done, done);
    return reading;
  }

  /** Gives up what was not used for the longest time. The page that grows stays, and so does the one that was used last. */
  #giveUp() {
    const growing = Math.floor((this.#count - 1) / PAGE_ROWS);
    const newest = [...this.#pages.keys()].at(-1);
    for (const [number, page] of this.#pages) {
      if (this.#characters <= this.#most) return;
      if (number === growing || number === newest) continue;
      this.#pages.delete(number);
      this.#characters -= page.characters;
    }
  }
}
