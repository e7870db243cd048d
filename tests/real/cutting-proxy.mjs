// TCP proxies on this machine that break connections, as a lost network does: in the middle of a frame, or behind a number
// of bytes. They know nothing of HTTP: the first looks for the line `id: N` of the stream in what the server sends.

import net from "node:net";

/** How much of the frame gets through after what it is known by: the beginning of its body, never all of it. */
const BYTES_OF_THE_FRAME = 40;

/**
 * Starts a proxy to `target` that breaks one connection for each of `frames`, in this order, within that frame. Every
 * other break is a reset; the rest are an end of the connection. `cuts` says what was done: `{inFrame, how}`.
 *
 * @param {URL} target
 * @param {(number | string)[]} frames
 * @param {(frame: number) => Promise<void>} hasRead resolves when the browser has taken all that came before this frame: it
 *   throws away what it has not yet looked at when the connection breaks, and then where it resumes is chance
 * @param {(frame: number | string) => string} mark what the server sends near the beginning of a frame and nowhere else
 * @returns {Promise<{url: string, cuts: {inFrame: number, how: "end" | "reset"}[]}>}
 */
export async function startCuttingProxy(target, frames, hasRead, mark = (frame) => `\nid: ${frame}\n`) {
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
      const line = mark(ahead[0]);
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
  return { url: await listening(proxy), cuts };
}

/**
 * Starts a proxy to `target` that breaks its first connection behind `afterBytes` bytes of what the server sends, and lets all
 * later ones through. `end` sends FIN, `reset` RST; `silence` sends nothing any more and keeps the connection open.
 * `firstConnection.sentBytes` is how many bytes of it got through.
 *
 * @param {URL} target
 * @param {number} afterBytes `Infinity`: it is not broken
 * @param {"end" | "reset" | "silence"} how
 * @returns {Promise<{url: string, firstConnection: {sentBytes: number, isCut: boolean}, close: () => void}>}
 */
export async function startByteCuttingProxy(target, afterBytes, how) {
  const firstConnection = { sentBytes: 0, isCut: false };
  const sockets = new Set();
  let connections = 0;
  const proxy = net.createServer((client) => {
    const isFirst = (connections += 1) === 1;
    const server = net.connect(Number(target.port), target.hostname);
    const leave = () => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on("error", leave);
      socket.on("close", () => {
        sockets.delete(socket);
        // What is on its way to the other one still arrives there.
        if (socket === client || !firstConnection.isCut) leave();
      });
    }
    client.on("data", (bytes) => server.write(bytes));
    server.on("data", (bytes) => {
      const rest = isFirst ? afterBytes - firstConnection.sentBytes : Infinity;
      const part = bytes.subarray(0, Math.max(0, rest));
      if (isFirst) firstConnection.sentBytes += part.length;
      if (part.length === bytes.length && rest > bytes.length) {
        client.write(part);
        return;
      }
      firstConnection.isCut = true;
      server.removeAllListeners("data");
      server.destroy();
      if (how === "end") client.end(part);
      else client.write(part, () => how === "reset" && client.resetAndDestroy());
    });
  });
  const url = await listening(proxy);
  const close = () => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  };
  return { url, firstConnection, close };
}

/** The address of the proxy, once it has one. */
async function listening(proxy) {
  await new Promise((listening, failed) => {
    proxy.once("error", failed);
    proxy.listen(0, "127.0.0.1", listening);
  });
  return `http://127.0.0.1:${proxy.address().port}`;
}
