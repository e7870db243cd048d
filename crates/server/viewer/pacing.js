// When work is done: in step with what is painted, and never so much at once that a key press has to wait.

/** Resolves before the next picture is painted; in a tab that is not shown, where none is, after 250 ms. */
export function nextPicture() {
  return new Promise((resolve) => {
    const done = () => {
      cancelAnimationFrame(request);
      clearTimeout(timer);
      resolve();
    };
    const request = requestAnimationFrame(done);
    const timer = setTimeout(done, 250);
  });
}

/** Lets everything else that waits have its turn. */
export function breathe() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/**
 * Makes of a function one that runs once before the next picture, however often it is asked for.
 *
 * @param {() => void} work
 * @param {AbortSignal} signal not any more when this is aborted
 */
export function oncePerPicture(work, signal) {
  let asked = false;
  return () => {
    if (asked || signal.aborted) return;
    asked = true;
    void nextPicture().then(() => {
      asked = false;
      if (!signal.aborted) work();
    });
  };
}

/** Waits, or until the signal says to leave. */
export function wait(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
  });
}

/** Resolves when the tab is shown, at once when it is. */
export function shown(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}
