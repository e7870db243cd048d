// Where on a line a moment is. A wait of hours for a person takes a little of the line, so that what worked stays to be seen.

/** A wait takes at most this share of the time that was worked. */
const WAIT_SHARE = 0.08;

const STEPS = [1, 2, 5];

/** The least of 1, 2 and 5 times a power of ten that is not below. */
function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, number)));
  return (STEPS.find((step) => step * power >= number) ?? 10) * power;
}

export class TimeScale {
  #stretches = [];
  #start;
  #units;

  /**
   * @param {number} start milliseconds since 1970
   * @param {number} end of what is shown; a run that goes on is given room in front of it, so that its bars do not shrink with
   *   every picture
   * @param {Array<{start: number, end: number | null}>} waits in order, without overlap
   * @param {boolean} goesOn
   */
  constructor(start, end, waits, goesOn) {
    this.#start = start;
    const last = Math.max(end, start + 1);
    const bounded = waits.map((wait) => ({ from: wait.start, to: Math.min(last, wait.end ?? last) })).filter(({ from, to }) => to > from);
    const worked = Math.max(1, last - start - bounded.reduce((sum, { from, to }) => sum + to - from, 0));
    const room = goesOn ? roomFor(worked) : worked;
    const most = Math.max(200, room * WAIT_SHARE);
    let at = start;
    let units = 0;
    const add = (to, most) => {
      if (to <= at) return;
      const length = Math.min(to - at, most);
      this.#stretches.push({ from: at, to, units, length, isWait: most !== Infinity });
      units += length;
      at = to;
    };
    for (const { from, to } of bounded) {
      add(from, Infinity);
      add(to, most);
    }
    add(last, Infinity);
    this.#units = units + (room - worked);
  }

  /** A moment's place, from 0 to 1. */
  place(ms) {
    if (ms <= this.#start) return 0;
    // From the end: what is looked up is mostly late, and there are few stretches.
    for (let i = this.#stretches.length - 1; i >= 0; i -= 1) {
      const { from, to, units, length } = this.#stretches[i];
      if (ms >= from) return Math.min(1, (units + (Math.min(ms, to) - from) * (length / (to - from))) / this.#units);
    }
    return 0;
  }

  /** Marks for the axis: about `wanted` of them, at round times since the start. */
  marks(wanted) {
    const step = roundUp(this.#units / wanted);
    const marks = [];
    for (const { from, to, isWait } of this.#stretches) {
      if (isWait) continue;
      for (let t = Math.ceil((from - this.#start) / step) * step; this.#start + t < to; t += step) {
        marks.push({ elapsed: t, place: this.place(this.#start + t) });
      }
    }
    return marks;
  }
}

/** The time that a run which has worked for so long is given on the line: a quarter more, in steps. */
function roomFor(worked) {
  let room = 2000;
  while (room < worked * 1.05) room *= 1.5;
  return room;
}
