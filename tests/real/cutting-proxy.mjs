// A TCP proxy on this machine that breaks connections in the middle of a frame, as a lost network does. It knows nothing
// of HTTP: it looks for the line `id: N` of the stream in what the server sends.

import net from "node:net";

/** How much of the frame's event gets through after its `id:` line: the beginning of its body, never all of it. */
const BYTES_OF_THE_FRAME = 40;

/**
 * Starts a proxy to `target` that breaks one connection for each of `frames`, in this order, within that frame. Every
 * other break is a reset; the rest are an end of the connection. `cuts` says what was done: `{inFrame, how}`.
 *
 * @param {URL} target
 * @param {number[]} frames
 * @param {(frame: number) => Promise<void>} hasRead resolves when the browser has taken all that came before this frame: it
 *   throws away what it has not yet looked at when the connection breaks, and then where it resumes is chance
 * @returns {Promise<{url: string, cuts: {inFrame: number, how: "end" | "reset"}[]}>}
 */
export async function startCuttingProxy(target, frames, hasRead) {
  const ahead = [...frames];
  const cuts = [];
  const proxy = net.createServer((browser) => {
    const server = net.connect(Number(target.port), target.hostname);
    let sent = "";
    const leave = () => {
      browser.destroy();
      server.destroy();
    };
    for (const socket of [browser, server]) {
      socket.on("error", leave);
      socket.on("close", leave);
    }
    browser.on("data", (bytes) => server.write(bytes));
    server.on("data", (bytes) => {
      if (browser.destroyed) return;
      const before = sent.length;
      sent += bytes.toString("latin1");
      const line = `\nid: ${ahead[0]}\n`;
      const found = ahead.length === 0 ? -1 : sent.indexOf(line, Math.max(0, before - BYTES_OF_THE_FRAME - line.length));
      const end = found + line.length + BYTES_OF_THE_FRAME;
      if (found < 0 || end > sent.length) {
        browser.write(bytes);
        return;
      }
      const frame = ahead.shift();
      server.removeAllListeners("data");
      server.pause();
      browser.write(bytes.subarray(0, end - before));
      const breakIt = () => {
        const how = cuts.length % 2 === 0 ? "end" : "reset";
        cuts.push({ inFrame: frame, how });
        if (how === "reset") browser.resetAndDestroy();
        leave();
      };
      hasRead(frame).then(breakIt, leave);
    });
  });
  await new Promise((listening, failed) => {
    proxy.once("error", failed);
    proxy.listen(0, "127.0.0.1", listening);
  });
  return { url: `http://127.0.0.1:${proxy.address().port}`, cuts };
}
