// What went wrong, where it went wrong, with what to do about it.

import { h } from "./dom.js";
import { said } from "./said.js";

/**
 * A box that says it.
 *
 * @param {Error} error of the API, of following, or of a page
 * @param {{again?: () => void}} [more] `again` puts a button there that tries once more
 */
export function problemBox(error, { again } = {}) {
  const title = error.title ?? (error.name === "FollowError" ? "The run cannot be followed" : "This did not work");
  const detail = error.detail ?? error.message ?? "";
  return h(
    "div",
    { class: "notice-box bad", role: "alert" },
    h("strong", {}, title),
    detail !== "" && detail !== title && said(detail, {}, "p"),
    again && h("button", { type: "button", on: { click: again } }, "Try again"),
  );
}
