// Server-sent events from bytes, by the HTML standard's grammar: lines end with LF, CR or CRLF; a blank line ends an
// event; a line that begins with a colon is a comment. Written here, over bytes, so that a test sees exactly what the
// server sent and not what some client made of it.

const LF = 0x0a;
const CR = 0x0d;

export class EventStreamDecoder {
  /** Events that a blank line has ended: `{id, event, data}`; `id` and `event` are null where the event has none. */
  events = [];
  /** Comment lines seen so far. */
  comments = 0;
  /** The last `retry:` value, in milliseconds, or null. */
  retry = null;

  #line = [];
  #afterCarriageReturn = false;
  #current = null;
  // Fatal, because bytes that are no UTF-8 must not pass as a replacement character; and the byte order mark stays,
  // because nothing may be taken away from what was sent.
  #utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  /**
   * Takes the next bytes, cut anywhere. `onEvent` is called after each event that they complete; when it answers
   * true, the rest of the bytes is dropped.
   *
   * @param {Uint8Array} bytes
   * @param {(count: number) => boolean} onEvent given the number of events so far
   */
  push(bytes, onEvent = () => false) {
    let start = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at];
      const secondHalfOfCrlf = byte === LF && this.#afterCarriageReturn;
      this.#afterCarriageReturn = byte === CR;
      if (secondHalfOfCrlf) {
        start = at + 1;
        continue;
      }
      if (byte !== LF && byte !== CR) continue;
      this.#line.push(bytes.subarray(start, at));
      start = at + 1;
      const text = this.#utf8.decode(Buffer.concat(this.#line));
      this.#line = [];
      if (this.#takeLine(text) && onEvent(this.events.length)) return;
    }
    if (start < bytes.length) this.#line.push(bytes.subarray(start));
  }

  /** Whether bytes of an event have arrived that no blank line has ended. Such an event is not in `events`. */
  get partial() {
    return this.#current !== null || this.#line.some((piece) => piece.length > 0);
  }

  // Answers whether the line ended an event.
  #takeLine(line) {
    if (line === "") {
      const current = this.#current;
      this.#current = null;
      if (current === null || current.data === null) return false;
      this.events.push({ id: current.id, event: current.event, data: current.data.join("\n") });
      return true;
    }
    if (line.startsWith(":")) {
      this.comments += 1;
      return false;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    this.#current ??= { id: null, event: null, data: null };
    if (field === "id") this.#current.id = value;
    else if (field === "event") this.#current.event = value;
    else if (field === "data") (this.#current.data ??= []).push(value);
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
    return false;
  }
}
