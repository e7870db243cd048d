// Numbers and times for people. What is not known is an en dash, never a zero.

export const UNKNOWN = "–";

const pad = (number, digits = 2) => String(Math.trunc(number)).padStart(digits, "0");

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** `14:03:27.041`, of this browser's time zone. */
export function clock(ms) {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
}

/** `2026-11-29 14:03:27`, of this browser's time zone. */
export function dateTime(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  const at = new Date(ms);
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day} ${clock(ms).slice(0, 8)}`;
}

/** How long: `7 ms`, `2.81 s`, `1 m 05 s`, `2 h 03 m`, `3 d 4 h`. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return UNKNOWN;
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.trunc(seconds / 60)} m ${pad(seconds % 60)} s`;
  const hours = Math.trunc(seconds / 3600);
  if (hours < 24) return `${hours} h ${pad((seconds % 3600) / 60)} m`;
  return `${Math.trunc(hours / 24)} d ${hours % 24} h`;
}

/** How long ago: `now`, `12 s`, `3 m`, `5 h`, `2 d`. */
export function age(ms, now = Date.now()) {
  const seconds = Math.max(0, Math.trunc((now - ms) / 1000));
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.trunc(seconds / 60)} m`;
  if (seconds < 86_400) return `${Math.trunc(seconds / 3600)} h`;
  return `${Math.trunc(seconds / 86_400)} d`;
}

/** `812 B`, `2.1 KiB`, `3.4 MiB`. */
export function bytes(count) {
  if (count === null || count === undefined) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB"];
  let size = count;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** A count with its thousands apart. An absent one is unknown, and not zero. */
export function count(number) {
  return number === null || number === undefined ? UNKNOWN : whole.format(number);
}

const SIGNS = { USD: "$", EUR: "€", GBP: "£" };

/** A cost as the server says it: a decimal number as text, which never goes through a binary one. */
export function cost(value) {
  if (value === null || value === undefined) return UNKNOWN;
  const sign = SIGNS[value.currency];
  const amount = value.amount.includes(".") ? value.amount.replace(/0+$/, "").replace(/\.$/, "") : value.amount;
  return sign === undefined ? `${amount} ${value.currency}` : `${sign}${amount}`;
}

/**
 * The sum of costs of one currency, exactly. `null` when there are none, or of several currencies.
 *
 * @param {Array<{currency: string, amount: string} | null | undefined>} costs
 */
export function costSum(costs) {
  const known = costs.filter((one) => one);
  if (known.length === 0 || new Set(known.map((one) => one.currency)).size > 1) return null;
  const decimals = Math.max(...known.map((one) => (one.amount.split(".")[1] ?? "").length));
  const sum = known.reduce((total, { amount }) => {
    const [units, fraction = ""] = amount.split(".");
    return total + BigInt(units + fraction.padEnd(decimals, "0"));
  }, 0n);
  const digits = String(sum < 0n ? -sum : sum).padStart(decimals + 1, "0");
  const text = decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
  return { currency: known[0].currency, amount: (sum < 0n ? "-" : "") + text };
}

/** The tokens of all entries of a usage: `{input, output}`, each `undefined` when no entry has it. */
export function tokens(usage) {
  const sum = (key) => {
    const given = (usage ?? []).map((entry) => entry[key]).filter((number) => number !== undefined);
    return given.length === 0 ? undefined : given.reduce((total, number) => total + number, 0);
  };
  return { input: sum("input_tokens"), output: sum("output_tokens") };
}
