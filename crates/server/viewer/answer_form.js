// What a run waits for, to be answered where it is asked.

import { announce } from "./announce.js";
import { json, runApi } from "./api.js";
import { fill, h, icon, setAttribute } from "./dom.js";
import { dateTime } from "./format.js";
import { problemBox } from "./problem.js";
import { said } from "./said.js";
import { isApproval, schemaForm } from "./schema_form.js";

/**
 * A form for all interrupts of a suspended run: they are answered together. What becomes of the answer is told by the run's own
 * frames, so whoever made the form takes it away when `resume` comes.
 *
 * @param {object} what
 * @param {string} what.runId
 * @param {{interrupts: object[], prompt: string | null, deadline_at?: string}} what.question as the frame `suspend` has it
 * @param {AbortSignal} what.signal
 */
export function answerForm({ runId, question, signal }) {
  // The same answer sent twice is one.
  const exchangeId = crypto.randomUUID();
  const parts = question.interrupts.map((interrupt) => part(interrupt, question.interrupts.length > 1));
  const alone = parts.length === 1 ? parts[0] : undefined;
  const problem = h("div", { class: "answer-problem" });
  const buttons = h("div", { class: "answer-buttons" });
  const form = h(
    "form",
    { class: "answer-form" },
    parts.map(({ element }) => element),
    question.deadline_at && h("p", { class: "dim" }, `It waits until ${dateTime(Date.parse(question.deadline_at))}.`),
    problem,
    buttons,
  );

  // Nothing is disabled meanwhile: a control that is loses the focus.
  let isSending = false;
  const send = async (answers) => {
    if (isSending || answers.includes(undefined)) return;
    isSending = true;
    setAttribute(form, "aria-busy", "true");
    fill(problem);
    try {
      await json(runApi(runId, "/resume"), { method: "POST", body: { answers, exchange_id: exchangeId }, signal });
      announce("The answer was sent.");
    } catch (error) {
      if (signal.aborted) return;
      isSending = false;
      setAttribute(form, "aria-busy", undefined);
      const { interrupt_id, path, expected } = error.problem ?? {};
      const at = parts.find(({ interrupt }) => interrupt.id === interrupt_id);
      if (at !== undefined && typeof path === "string") at.fields.complain(path, expected ?? error.message);
      else fill(problem, problemBox(error));
    }
  };
  const answer = (fixed) => void send(parts.map((one) => one.answer(fixed)));
  const giveUp = () => void send(parts.map(({ interrupt }) => ({ interrupt_id: interrupt.id, status: "cancelled" })));

  const button = (label, name, act, props = {}) =>
    h("button", { type: "button", ...props, on: { click: act } }, name && icon(name), label);
  if (alone?.isApproval) {
    fill(
      buttons,
      button("Approve", undefined, () => answer({ approved: true }), { class: "primary" }),
      button("Deny", undefined, () => answer({ approved: false })),
    );
    form.addEventListener("submit", (event) => event.preventDefault());
  } else {
    fill(buttons, h("button", { type: "submit", class: "primary" }, "Answer"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer();
    });
  }
  buttons.append(button("Give it up", undefined, giveUp, { class: "quiet" }));
  return { element: form, focus: () => (alone?.isApproval ? buttons.firstChild.focus() : parts[0]?.fields.focus()) };
}

/** One interrupt: what is asked, and the fields of its answer. */
function part(interrupt, isOneOfSeveral) {
  const schema = interrupt.responseSchema;
  const asksApproval = !isOneOfSeveral && isApproval(schema);
  const fields = schemaForm(schema, { without: asksApproval ? ["approved"] : [] });
  const given = h("input", { type: "checkbox" });
  const element = h(
    "fieldset",
    {},
    h("legend", {}, said(interrupt.message ?? interrupt.reason ?? interrupt.id)),
    fields.element,
    isOneOfSeveral && h("label", { class: "choice" }, given, "give this one up"),
  );
  const answer = (fixed) => {
    if (given.checked) return { interrupt_id: interrupt.id, status: "cancelled" };
    const read = fields.read(fixed);
    return read && { interrupt_id: interrupt.id, status: "resolved", payload: read.value };
  };
  return { interrupt, fields, element, answer, isApproval: asksApproval };
}
