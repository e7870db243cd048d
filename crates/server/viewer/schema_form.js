// A form made from a JSON Schema: objects of texts, numbers, yes and no, choices, and lists of these. Whatever else a schema says
// becomes a field for JSON. The server judges an answer; the form only makes sure that there is one to be judged.

import { fill, h, setAttribute } from "./dom.js";
import { oneLine, said, say } from "./said.js";

/** Texts that are longer than this get more than one line to be written in. */
const LONG_TEXT = 120;

let ids = 0;

/** The values that a schema allows one by one, if it does. */
function choicesOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum;
  return Object.hasOwn(schema, "const") ? [schema.const] : undefined;
}

const isPlain = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

const labelOf = (value) => oneLine(typeof value === "string" ? value : JSON.stringify(value), 80);

/**
 * One value of an answer. `read()` gives `{value}`, `{absent: true}` where nothing was entered and nothing has to be, or
 * `{problem}`; a problem is shown at the field by `complain()`.
 *
 * @param {unknown} schema
 * @param {{label?: string, required?: boolean}} how `label` where it is one of several
 */
function field(schema, { label, required = true }) {
  const known = isPlain(schema) ? schema : {};
  const { control, input, read } = controlOf(known, required);
  const id = `field-${(ids += 1)}`;
  input.id = id;
  const problem = said("", { id: `${id}-problem`, class: "field-problem", hidden: true });
  const title = typeof known.title === "string" ? known.title : (label ?? "Answer");
  const hint = typeof known.description === "string" ? said(known.description, { id: `${id}-hint`, class: "field-hint" }) : null;
  setAttribute(input, "aria-describedby", `${hint === null ? "" : `${id}-hint `}${id}-problem`);
  setAttribute(input, "aria-required", required && "true");
  const element = h(
    "div",
    { class: "schema-field" },
    h("label", { for: id, class: "said", dir: "auto" }, oneLine(title), required ? null : h("span", { class: "dim" }, " (optional)")),
    control,
    hint,
    problem,
  );
  const complain = (text) => {
    say(problem, text ?? "");
    problem.hidden = text === undefined;
    setAttribute(input, "aria-invalid", text !== undefined && "true");
  };
  input.addEventListener("input", () => complain(undefined));
  return { element, read, complain, focus: () => input.focus() };
}

/** What a value of this schema is entered by. */
function controlOf(schema, required) {
  const choices = choicesOf(schema);
  if (choices !== undefined) return choice(choices, schema.default, required);
  switch (schema.type) {
    case "string":
      return text(schema, required);
    case "boolean":
      return choice([true, false], schema.default, required, ["yes", "no"]);
    case "number":
    case "integer":
      return number(schema, required);
    case "array":
      return list(schema, required) ?? json(schema, required);
    default:
      return json(schema, required);
  }
}

function choice(values, preset, required, labels = values.map(labelOf)) {
  const chosen = values.findIndex((value) => JSON.stringify(value) === JSON.stringify(preset));
  const options = values.map((_, i) => h("option", { value: i, selected: i === chosen }, labels[i]));
  const input = h("select", {}, h("option", { value: "" }, required ? "choose" : "–"), options);
  const read = () => {
    if (input.value !== "") return { value: values[Number(input.value)] };
    return required ? { problem: "One of these has to be chosen." } : { absent: true };
  };
  return { control: input, input, read };
}

function text(schema, required) {
  const isLong = schema.maxLength === undefined ? schema.format === undefined : schema.maxLength > LONG_TEXT;
  const input = isLong ? h("textarea", { rows: 1, dir: "auto" }) : h("input", { type: "text", dir: "auto", autocomplete: "off" });
  if (typeof schema.default === "string") input.value = schema.default;
  // An empty text is a text, so where one has to be there it is one.
  const read = () => (input.value === "" && !required ? { absent: true } : { value: input.value });
  return { control: input, input, read };
}

function number(schema, required) {
  const whole = schema.type === "integer";
  const input = h("input", { type: "text", inputmode: whole ? "numeric" : "decimal", autocomplete: "off" });
  if (typeof schema.default === "number") input.value = String(schema.default);
  const read = () => {
    const entered = input.value.trim();
    if (entered === "") return required ? { problem: "A number is needed here." } : { absent: true };
    return numberOf(entered, whole);
  };
  return { control: input, input, read };
}

function numberOf(entered, whole) {
  const value = /^[+-]?(\d|\.\d)[\d.eE+-]*$/.test(entered) ? Number(entered) : NaN;
  if (!Number.isFinite(value)) return { problem: `\`${entered}\` is no number.` };
  if (whole && !Number.isSafeInteger(value)) return { problem: `\`${entered}\` is no whole number.` };
  return { value };
}

/** A list of texts or numbers has one a line, a list of choices a box for each. Others are left to JSON. */
function list(schema, required) {
  const items = isPlain(schema.items) ? schema.items : {};
  const choices = choicesOf(items);
  if (choices !== undefined) {
    const boxes = choices.map((value) => {
      const box = h("input", { type: "checkbox" });
      return { value, box, line: h("label", { class: "choice" }, box, labelOf(value)) };
    });
    const input = h("div", { role: "group", tabindex: "-1", class: "choices" }, boxes.map(({ line }) => line));
    const read = () => ({ value: boxes.filter(({ box }) => box.checked).map(({ value }) => value) });
    return { control: input, input, read };
  }
  if (!["string", "number", "integer"].includes(items.type)) return undefined;
  const input = h("textarea", { rows: 2, dir: "auto", placeholder: "one a line" });
  if (Array.isArray(schema.default)) input.value = schema.default.map(String).join("\n");
  const read = () => {
    const lines = input.value.split("\n").filter((line) => line.trim() !== "");
    if (lines.length === 0 && !required) return { absent: true };
    if (items.type === "string") return { value: lines };
    const numbers = lines.map((line) => numberOf(line.trim(), items.type === "integer"));
    return numbers.find(({ problem }) => problem !== undefined) ?? { value: numbers.map(({ value }) => value) };
  };
  return { control: input, input, read };
}

function json(schema, required) {
  const input = h("textarea", { rows: 3, class: "mono", spellcheck: "false", placeholder: "JSON" });
  if (schema.default !== undefined) input.value = JSON.stringify(schema.default, null, 2);
  const read = () => {
    if (input.value.trim() === "") return required ? { problem: "An answer in JSON is needed here." } : { absent: true };
    try {
      return { value: JSON.parse(input.value) };
    } catch (error) {
      return { problem: `This is no JSON: ${error.message}` };
    }
  };
  return { control: input, input, read };
}

/** The members of an object that a form has a field for each of; `undefined` where a schema is no plain object. */
function membersOf(schema) {
  if (!isPlain(schema) || schema.type !== "object" || !isPlain(schema.properties)) return undefined;
  const names = Object.keys(schema.properties);
  const isClosed = ["allOf", "anyOf", "oneOf", "if", "$ref", "patternProperties"].every((key) => schema[key] === undefined);
  return names.length > 0 && isClosed ? names : undefined;
}

/** Whether the answer is a yes or a no: an object with `approved`, that needs nothing else. */
export function isApproval(schema) {
  const members = membersOf(schema);
  return (
    members?.includes("approved") === true &&
    schema.properties.approved?.type === "boolean" &&
    (Array.isArray(schema.required) ? schema.required : []).every((name) => name === "approved")
  );
}

/**
 * A form for an answer.
 *
 * `read(fixed)` gives `{value}`, or `undefined` when something is missing; then the field says so and has the focus. Members of
 * an object that `fixed` names are those, and have no field when they were in `without`.
 * `complain(path, text)` shows what a server says of the place that a JSON Pointer names.
 *
 * @param {unknown} schema
 * @param {{without?: string[]}} [how]
 */
export function schemaForm(schema, { without = [] } = {}) {
  const members = membersOf(schema)?.filter((name) => !without.includes(name));
  if (members === undefined) {
    const only = field(schema, {});
    const read = () => {
      const { value, problem } = only.read();
      // An answer may be any JSON but null.
      if (problem === undefined && value !== null) return { value };
      only.complain(problem ?? "An answer cannot be null.");
      only.focus();
      return undefined;
    };
    return { element: only.element, read, complain: (_, text) => only.complain(text), focus: only.focus };
  }
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = new Map(
    members.map((name) => [name, field(schema.properties[name], { label: name, required: required.has(name) })]),
  );
  const rest = h("p", { class: "field-problem", hidden: true });
  const element = h("div", { class: "schema-form" }, [...fields.values()].map((one) => one.element), rest);
  const read = (fixed = {}) => {
    rest.hidden = true;
    const value = { ...fixed };
    for (const [name, one] of fields) {
      const { value: entered, absent, problem } = one.read();
      one.complain(problem);
      if (problem !== undefined) {
        one.focus();
        return undefined;
      }
      // By definition and not by assignment: a member may be called `__proto__`.
      const member = { value: entered, enumerable: true, configurable: true, writable: true };
      if (!absent) Object.defineProperty(value, name, member);
    }
    return { value };
  };
  const complain = (path, text) => {
    const name = path.split("/")[1]?.replaceAll("~1", "/").replaceAll("~0", "~");
    const one = fields.get(name);
    if (one !== undefined) {
      one.complain(text);
      one.focus();
      return;
    }
    rest.hidden = false;
    fill(rest, said(path === "" ? text : `${path}: ${text}`));
  };
  return { element, read, complain, focus: () => fields.values().next().value?.focus() };
}
