// The shell: what is around every page, and which page it is.
//
// A page module exports `mount(root, context)`; it fills `root`, an empty element, and may be async. `context` has
//
//   params     the parameters of its route, decoded
//   query      URLSearchParams of the address, as they are now
//   setQuery   ({name: value, …}, {push = false}): changes the query without loading the page again; null or "" takes a
//              name away
//   onQuery    (listener): called with `query` when a person goes back or forth between two queries of this page
//   title      (text): what the tab is called
//   navigate   (path): goes to another page, as a link does
//   signal     aborted when the page is left: everything that it began ends then
//
// A page has one `h1`. It is focused when the page was come to by a link, so that a reader of the screen begins there.

import { announce } from "./announce.js";
import { fill, h, icon, setAttribute } from "./dom.js";
import { problemBox } from "./problem.js";
import { NAV, routeOf } from "./routes.js";
import { askForToken, forgetToken, token, tokenChanges } from "./token.js";

const main = document.getElementById("main");
const bar = document.getElementById("bar");

/** What the page that is shown began, and how to end it. */
let leaving = new AbortController();
let shownPath;
let queryListener;

// The bar.

const links = NAV.map(({ id, label, href }) => h("a", { href, dataset: { nav: id } }, label));
const THEMES = ["auto", "dark", "light"];
const THEME_ICONS = { auto: "auto", dark: "moon", light: "sun" };
const theme = h("button", { type: "button", class: "quiet", on: { click: nextTheme } });
const tokenButton = h("button", { type: "button", class: "quiet", on: { click: changeToken } }, icon("key"), "Forget the token");
fill(
  bar,
  h("a", { class: "brand", href: "/" }, h("img", { src: "/viewer/icon.svg", alt: "", width: 18, height: 18 }), "runwire"),
  h("nav", { "aria-label": "Viewer" }, links),
  h("span", { class: "grow" }),
  tokenButton,
  theme,
);

function chosenTheme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "auto") localStorage.removeItem("runwire.theme");
    else localStorage.setItem("runwire.theme", next);
  } catch {
    // It lasts until the page is loaded again.
  }
  showTheme();
}

function showTheme() {
  const now = chosenTheme();
  fill(theme, icon(THEME_ICONS[now]));
  setAttribute(theme, "aria-label", `Colours: ${now === "auto" ? "as the system" : now}. Change`);
  setAttribute(theme, "title", `Colours: ${now === "auto" ? "as the system" : now}`);
}

function showToken() {
  tokenButton.hidden = token() === undefined;
}

function changeToken() {
  forgetToken();
  void askForToken(undefined).then(() => show({ focus: false }));
}

tokenChanges.addEventListener("change", showToken);
showTheme();
showToken();

// Pages.

function setTitle(text) {
  document.title = text === undefined ? "Runwire" : `${text} · Runwire`;
}

function setQuery(changes, { push = false } = {}) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  // Commas are allowed in a query, and are easier to read than %2C.
  address.search = address.search.replaceAll("%2C", ",");
  if (address.href === location.href) return;
  if (push) history.pushState(null, "", address);
  else history.replaceState(history.state, "", address);
}

/** Makes the page that the address names. */
async function show({ focus, scroll = 0 }) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { pathname } = location;
  shownPath = pathname;
  queryListener = undefined;
  const found = routeOf(pathname);
  for (const link of links) {
    setAttribute(link, "aria-current", link.dataset.nav === found?.route.nav && "page");
  }
  const root = h("div", { class: "page" });
  fill(main, root);
  setTitle(undefined);
  if (found === undefined) {
    setTitle("Not found");
    fill(root, h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "/" }, "All runs")));
  } else {
    const context = {
      params: found.params,
      get query() {
        return new URLSearchParams(location.search);
      },
      setQuery: (changes, how) => {
        if (!signal.aborted) setQuery(changes, how);
      },
      onQuery: (listener) => {
        if (!signal.aborted) queryListener = listener;
      },
      title: (text) => {
        if (!signal.aborted) setTitle(text);
      },
      navigate: (path) => {
        if (!signal.aborted) navigate(path);
      },
      signal,
    };
    try {
      const page = await found.route.load();
      if (signal.aborted) return;
      await page.mount(root, context);
    } catch (error) {
      if (signal.aborted) return;
      console.error(error);
      if (root.querySelector("h1") === null) root.prepend(h("h1", {}, "Runwire"));
      root.append(problemBox(error, { again: () => void show({ focus: true }) }));
    }
  }
  if (signal.aborted) return;
  window.scrollTo(0, scroll);
  if (focus) {
    const heading = root.querySelector("h1") ?? main;
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    announce(document.title);
  }
}

/** Goes to another page of the viewer. */
function navigate(path) {
  history.replaceState({ scroll: window.scrollY }, "");
  history.pushState(null, "", path);
  void show({ focus: true });
}

// Links are links: whatever is not a plain click on one of the viewer's own pages is the browser's business.
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (link === null || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.hasAttribute("download") || (link.target !== "" && link.target !== "_self")) return;
  const address = new URL(link.href);
  if (address.origin !== location.origin || routeOf(address.pathname) === undefined) return;
  if (address.hash !== "" && address.pathname === location.pathname && address.search === location.search) return;
  event.preventDefault();
  navigate(address.href);
});

history.scrollRestoration = "manual";
window.addEventListener("popstate", (event) => {
  if (location.pathname === shownPath && queryListener !== undefined) {
    queryListener(new URLSearchParams(location.search));
    return;
  }
  if (location.pathname === shownPath && location.hash !== "") return;
  void show({ focus: true, scroll: event.state?.scroll ?? 0 });
});

void show({ focus: false });
