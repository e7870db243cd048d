// Which module makes which page. `nav` names the entry of the navigation that a page belongs to.
//
// A page module exports `mount(root, context)`, see app.js. It is loaded when it is first needed.

export const ROUTES = [
  { path: "/", nav: "runs", load: () => import("./pages/runs.js") },
  { path: "/runs/:id", nav: "runs", load: () => import("./pages/run.js") },
  { path: "/runs/:id/frames", nav: "runs", load: () => import("./pages/frames.js") },
  { path: "/chat", nav: "chat", load: () => import("./pages/chat.js") },
  { path: "/chat/:agent/:session", nav: "chat", load: () => import("./pages/chat.js") },
];

/** The navigation, in order. */
export const NAV = [
  { id: "runs", label: "Runs", href: "/" },
  { id: "chat", label: "Conversations", href: "/chat" },
];

/** The parameters of the first route that an address belongs to, and the route; `undefined` for a strange address. */
export function routeOf(pathname) {
  const parts = pathname.split("/").filter((part) => part !== "");
  for (const route of ROUTES) {
    const wanted = route.path.split("/").filter((part) => part !== "");
    if (wanted.length !== parts.length) continue;
    const params = {};
    const fits = wanted.every((want, i) => {
      if (!want.startsWith(":")) return want === parts[i];
      try {
        params[want.slice(1)] = decodeURIComponent(parts[i]);
      } catch {
        return false;
      }
      return true;
    });
    if (fits) return { route, params };
  }
  return undefined;
}
