// Tabs: several things in one place, one of which is seen.

import { h, setAttribute } from "./dom.js";

let sets = 0;

/**
 * @param {object} options
 * @param {string} options.label what the tabs are about
 * @param {{id: string, label: Node | string, panel: HTMLElement}[]} options.tabs
 * @param {string} options.chosen the id of the first to be seen
 * @param {(id: string) => void} options.onChoose another one was chosen
 */
export function tabs({ label, tabs: all, chosen, onChoose }) {
  const set = `tabs-${(sets += 1)}`;
  let current = chosen;
  const buttons = all.map(({ id, label: name }) =>
    h("button", { type: "button", role: "tab", id: `${set}-${id}`, "aria-controls": `${set}-${id}-panel`, on: { click: () => choose(id) } }, name),
  );
  for (const { id, panel } of all) {
    panel.id = `${set}-${id}-panel`;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `${set}-${id}`);
  }
  const show = () => {
    all.forEach(({ id, panel }, i) => {
      setAttribute(buttons[i], "aria-selected", String(id === current));
      buttons[i].tabIndex = id === current ? 0 : -1;
      panel.hidden = id !== current;
    });
  };
  const choose = (id) => {
    if (id === current) return;
    current = id;
    show();
    onChoose(id);
  };
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons);
  list.addEventListener("keydown", (event) => {
    const from = all.findIndex(({ id }) => id === current);
    const to = { ArrowRight: from + 1, ArrowLeft: from - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + all.length) % all.length;
    choose(all[next].id);
    buttons[next].focus();
  });
  show();
  return { list, choose };
}
