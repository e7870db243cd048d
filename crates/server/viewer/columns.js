// The columns of a list whose rows are a line each: the names above them, and a row's cells.

import { h } from "./dom.js";

/**
 * @param {string} kind a class, by which the style sheet knows how wide the columns are
 * @param {[name: string, label: string][]} columns
 */
export function columnNames(kind, columns) {
  return h("div", { class: `log-head ${kind}`, "aria-hidden": "true" }, columns.map(([name, label]) => h("span", { class: `of-${name}` }, label)));
}

/** A row with an empty cell for each column. */
export function emptyRow(kind, columns) {
  return h("div", { class: kind }, columns.map(([name]) => h("span", { class: `of-${name}` })));
}
