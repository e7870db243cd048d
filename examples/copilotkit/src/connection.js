// What `resumableFetch` says of its connections, for the page to show.

let state = "idle";
const listeners = new Set();

export const connection = {
  /** Takes a status of `resumableFetch`. */
  tell: (status) => {
    state = status.state;
    for (const listener of listeners) listener();
  },
  subscribe: (listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  state: () => state,
};
