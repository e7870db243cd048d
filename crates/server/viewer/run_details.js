// Everything about one row of a run's timeline. What grows while it is shown is added to, not made anew.

import { runApi, runPage, text } from "./api.js";
import { copyButton } from "./copy.js";
import { add, fill, h, setText } from "./dom.js";
import { UNKNOWN, bytes, cost, costSum, count, duration } from "./format.js";
import { applyPatch } from "./json_patch.js";
import { problemBox } from "./problem.js";
import { Flow, oneLine, said } from "./said.js";
import { lookOf, moment } from "./timeline.js";

/** A longer JSON text is shown as it came: to put it in order takes as long as reading it. */
const PRETTY = 500_000;

/** Most changes of the state that are listed; the earlier ones are in the frames. */
const CHANGES = 300;

/** Most texts of a run that its output shows one below the other. */
const TEXTS = 40;

/** The text as JSON with a line for each member, if it is JSON. */
function pretty(source) {
  if (source.length > PRETTY) return source;
  try {
    return JSON.stringify(JSON.parse(source), null, 2);
  } catch {
    return source;
  }
}

/** Names and values side by side. What is `undefined` is left out. */
export function facts(entries) {
  const shown = entries.filter(([, value]) => value !== undefined && value !== null);
  return h("dl", { class: "facts" }, shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** A text in a box of its own that scrolls by itself. */
function textBox(source, props = {}) {
  const flow = new Flow({ class: "mono" });
  flow.append(source);
  return h("div", { class: "text-box", tabindex: 0, role: "region", ...props }, flow.element);
}

function section(title, ...content) {
  return h("section", { class: "detail" }, h("h3", {}, title), content);
}

function jsonSection(title, value) {
  const source = typeof value === "string" ? pretty(value) : JSON.stringify(value, null, 2);
  const head = h("div", { class: "detail-head" }, h("h3", {}, title), copyButton("Copy", title, () => source));
  return h("section", { class: "detail" }, head, textBox(source, { "aria-label": title }));
}

/** A box of a text that grows stays at its end, by its style alone: to scroll it would lay out the page for each batch. */
const boxClass = (isLive) => (isLive ? "text-box at-end" : "text-box");

/** A text that is still being written: each call of the second of the pair adds what has come since. */
function growing(title, pieces, { isLive, ...props }) {
  const flow = new Flow(props);
  const box = h("div", { class: boxClass(isLive), tabindex: 0, role: "region", "aria-label": title }, flow.element);
  const element = section(title, box);
  let shown = 0;
  const update = () => {
    const all = pieces();
    element.hidden = all.length === 0;
    if (all.length === shown) return;
    flow.append(all.slice(shown).join(""));
    shown = all.length;
  };
  update();
  return { element, update };
}

/**
 * What is to be said of a node: the element, and how to bring it up to date when the node changed.
 *
 * @param {object} node of the model
 * @param {object} around `model`, `record` of the run, `signal`
 */
export function detailsOf(node, around) {
  const make = { run: runDetails, attempt: attemptDetails, wait: waitDetails, notice: noticeDetails, error: errorDetails, state: stateDetails }[node.type] ?? segmentDetails;
  return make(node, around);
}

const titleOf = (node) => h("h2", { class: "detail-title", dataset: { kind: lookOf(node).kind } }, said(lookOf(node).name));

function spent(usage) {
  if (!usage) return undefined;
  const { input_tokens: input, output_tokens: output, cached_input_tokens: cached, cache_write_input_tokens: written, reasoning_tokens: reasoning } = usage;
  const parts = [`${count(input)} in`, `${count(output)} out`];
  if (cached !== undefined) parts.push(`${count(cached)} cached`);
  if (written !== undefined) parts.push(`${count(written)} written to the cache`);
  if (reasoning !== undefined) parts.push(`${count(reasoning)} reasoning`);
  return parts.join(", ");
}

const status = (word) => h("span", { class: "status", dataset: { status: word } }, word);

/** A value that is made anew when its text is another one, in a place of its own. */
function live(make) {
  const element = h("div", {});
  let shown;
  const update = () => {
    const { key, content } = make();
    if (key === shown) return;
    shown = key;
    fill(element, content());
  };
  update();
  return { element, update };
}

function together(parts, ...content) {
  const element = h("div", { class: "details-of" }, content);
  return { element, update: () => parts.forEach((part) => part.update()) };
}

// A segment.

function segmentDetails(node, { model, signal, runId }) {
  const isLive = node.end === null;
  const head = live(() => ({
    key: `${node.status}/${node.flow.frames === 0}/${node.flow.gap}`,
    content: () => facts(segmentFacts(node, model)),
  }));
  const thinking = growing("Reasoning", () => node.thinking, { isLive, class: "reasoning" });
  const spoken = growing("Text", () => node.text, { isLive });
  const parts = [head, thinking, spoken];
  if (node.kind === "tool") parts.push(argumentsOf(node), resultOf(node, runId, signal));
  const failure = live(() => ({
    key: node.ended?.error?.code ?? "",
    content: () => node.ended?.error && errorBox(node.ended.error),
  }));
  parts.splice(1, 0, failure);
  return together(parts, titleOf(node), parts.map(({ element }) => element));
}

function segmentFacts(node, model) {
  const { started, ended, flow, start } = node;
  const run = model.run.start;
  const child = started.child_run_id;
  return [
    ["Status", status(node.status ?? "running")],
    ["Segment", h("span", { class: "mono" }, node.id)],
    ["Model", started.model_ref && said(started.model_ref)],
    ["Child run", child && h("a", { href: runPage(child), class: "mono" }, oneLine(child))],
    ["Tool", started.tool_slug && said(started.tool_slug)],
    ["Call", node.toolCallId && said(node.toolCallId, { class: "mono" })],
    ["Group", started.group_key && said(started.group_key)],
    ["Began", moment(start, run)],
    ["Took", node.end === null ? undefined : duration(node.end - start)],
    ["First word after", flow.first === null || node.kind === "tool" ? undefined : duration(flow.first - start)],
    ["Longest silence", flow.gap === 0 ? undefined : `${duration(flow.gap)}, before frame ${flow.gapSeq}`],
    ["Tokens", spent(ended?.usage)],
    ["Cost", ended?.cost ? cost(ended.cost) : undefined],
    ["Finished because", ended?.finish_reason && said(ended.finish_reason)],
    ["Frame", String(node.seq)],
  ];
}

function argumentsOf(node) {
  const whole = live(() => ({
    key: node.arguments === null ? "" : "whole",
    content: () => node.arguments !== null && jsonSection("Arguments", node.arguments),
  }));
  const streamed = growing("Arguments, so far", () => node.argumentPieces, { isLive: true, class: "mono" });
  const update = () => {
    whole.update();
    if (node.arguments === null) streamed.update();
    else streamed.element.hidden = true;
  };
  update();
  return { element: h("div", {}, whole.element, streamed.element), update };
}

function resultOf(node, runId, signal) {
  return live(() => ({
    key: node.result === null ? "" : String(node.result.at),
    content: () => node.result !== null && resultSection(node, runId, signal),
  }));
}

function resultSection(node, runId, signal) {
  const { ok, output_preview: preview, truncated, bytes: size } = node.result;
  const place = h("div", {}, textBox(truncated ? (preview ?? "") : pretty(preview ?? ""), { "aria-label": "Result" }));
  const problem = h("div", {});
  const load = h("button", { type: "button" }, `Show all ${bytes(size)}`);
  load.addEventListener("click", async () => {
    load.disabled = true;
    fill(problem);
    try {
      const path = runApi(runId, `/segments/${encodeURIComponent(node.id)}/payload`);
      const whole = await text(path, { signal });
      fill(place, textBox(pretty(whole.text), { "aria-label": "Result" }));
      load.remove();
    } catch (error) {
      if (!signal.aborted) fill(problem, problemBox(error));
      load.disabled = false;
    }
  });
  const head = h("div", { class: "detail-head" }, h("h3", {}, ok ? "Result" : "Result: the tool failed"), truncated && h("span", { class: "dim" }, "the beginning"), truncated && load);
  return h("section", { class: "detail", dataset: { ok: String(ok) } }, head, problem, place);
}

// What is not a segment.

function errorBox({ code, message, retryable }) {
  const again = retryable === undefined ? "" : retryable ? " Trying again can help." : " Trying again cannot help.";
  return h("div", { class: "notice-box bad" }, h("strong", {}, oneLine(code)), said(message, {}, "p"), again !== "" && h("span", { class: "dim" }, again));
}

function errorDetails(node, { model }) {
  const { agui } = node.error;
  return together(
    [],
    titleOf(node),
    facts([["At", moment(node.start, model.run.start)], ["Frame", String(node.seq)]]),
    errorBox(node.error),
    agui && Object.keys(agui).length > 0 && jsonSection("As AG-UI", agui),
  );
}

function noticeDetails(node, { model }) {
  const { level, code, message, attributes } = node.notice;
  return together(
    [],
    titleOf(node),
    facts([["Level", level], ["Code", said(code, { class: "mono" })], ["At", moment(node.start, model.run.start)], ["Frame", String(node.seq)]]),
    h("div", { class: `notice-box${level === "warning" ? " warn" : ""}` }, said(message, {}, "p")),
    attributes !== undefined && jsonSection("Attributes", attributes),
  );
}

function attemptDetails(node, { model }) {
  const head = live(() => ({
    key: String(node.status),
    content: () =>
      facts([
        ["Status", status(node.status ?? "running")],
        ["Began", moment(node.start, model.run.start)],
        ["Took", node.end === null ? undefined : duration(node.end - node.start)],
        ["Revision", node.started.agent_revision_id ?? undefined],
        ["Frame", String(node.seq)],
      ]),
  }));
  return together([head], titleOf(node), head.element);
}

function waitDetails(node, { model }) {
  const { question } = node;
  const head = live(() => ({
    key: String(node.status),
    content: () =>
      facts([
        ["Began", moment(node.start, model.run.start)],
        ["Took", node.end === null ? undefined : duration(node.end - node.start)],
        ["Until", question?.deadline_at && moment(Date.parse(question.deadline_at), model.run.start)],
        ["Answered by", node.answer === null ? undefined : said(node.answer.resolvedBy ?? "somebody without a token")],
        ["Frame", String(node.seq)],
      ]),
  }));
  const answer = live(() => ({
    key: node.answer === null ? "" : "answered",
    content: () => node.answer?.entries && jsonSection("Answer", node.answer.entries),
  }));
  return together(
    [head, answer],
    titleOf(node),
    head.element,
    question?.prompt && section("Question", said(question.prompt, {}, "p")),
    answer.element,
    question !== null && jsonSection("What it waits for", question.resume_contract),
  );
}

// The state.

function stateDetails(node, { model }) {
  const list = h("ol", { class: "changes" });
  const value = h("div", { class: "details-of" });
  const earlier = h("p", { class: "dim", hidden: true });
  let shown = 0;
  let chosen = null;
  const buttons = new Map();
  const choose = (index) => {
    chosen = index;
    for (const [i, button] of buttons) button.setAttribute("aria-pressed", String(i === index));
    showValue(index);
  };
  const showValue = (index) => {
    const change = node.changes[index];
    const { result, problem } = stateAt(node, index, model.input?.state);
    fill(
      value,
      change.patch === undefined ? null : jsonSection(`Change at frame ${change.seq}`, change.patch),
      problem === undefined ? jsonSection(`State after frame ${change.seq}`, result) : problemBox(problem),
    );
  };
  const update = () => {
    const wasLast = chosen === null || chosen === shown - 1;
    for (; shown < node.changes.length; shown += 1) {
      const index = shown;
      const change = node.changes[index];
      const button = h(
        "button",
        { type: "button", class: "change", on: { click: () => choose(index) } },
        h("span", { class: "dim" }, `+${duration(change.at - model.run.start)}`),
        h("span", { class: "mono change-what" }, changeWords(change)),
      );
      buttons.set(index, button);
      list.append(h("li", {}, button));
      if (list.childElementCount > CHANGES) {
        list.firstElementChild.remove();
        buttons.delete(index - CHANGES);
        earlier.hidden = false;
        setText(earlier, `The last ${CHANGES} of ${count(node.changes.length)} changes. All of them are among the frames.`);
      }
    }
    // Whoever looks at an earlier change is left there.
    if (wasLast && chosen !== shown - 1) choose(shown - 1);
  };
  update();
  const element = h("div", { class: "details-of" }, titleOf(node), section("Changes", earlier, h("div", { class: "text-box", tabindex: 0, role: "region", "aria-label": "Changes" }, list)), value);
  return { element, update };
}

function changeWords({ patch }) {
  if (patch === undefined) return "the state as a whole";
  const words = patch.map((operation) => `${operation?.op} ${operation?.path}${Object.hasOwn(Object(operation), "value") ? ` = ${JSON.stringify(operation.value)}` : ""}`);
  return oneLine(words.join("; "), 160);
}

/** The state behind a change: the last one as a whole, and the patches since. */
function stateAt(node, index, initial) {
  let from = index;
  while (from > 0 && node.changes[from].patch !== undefined) from -= 1;
  try {
    let result = initial ?? {};
    for (let i = from; i <= index; i += 1) {
      const { patch, snapshot } = node.changes[i];
      result = patch === undefined ? snapshot : applyPatch(result, patch);
    }
    return { result };
  } catch (problem) {
    return { problem };
  }
}

// The run.

function runDetails(node, around) {
  const { model } = around;
  const prompt = promptOf(model.input);
  const failure = live(() => ({
    key: `${model.ended?.failure_class}`,
    content: () => model.ended?.failure_class && errorBox({ code: model.ended.failure_class, message: model.ended.failure_detail ?? "" }),
  }));
  const output = outputOf(model, around.record().ended_at === null);
  const used = live(() => ({
    key: String(model.usageVersion),
    content: () => {
      const usage = model.usage();
      return usage.length > 0 && usageTable(usage, model.ended?.cost);
    },
  }));
  const result = live(() => ({
    key: String(model.ended !== null),
    content: () => model.ended?.agui?.result !== undefined && jsonSection("Result", model.ended.agui.result),
  }));
  const metadata = around.record().metadata;
  const element = h(
    "div",
    { class: "details-of" },
    h("h2", { class: "visually-hidden" }, "The run as a whole"),
    failure.element,
    prompt !== undefined && section("Asked", said(prompt, { class: "asked" }, "p")),
    output.element,
    used.element,
    result.element,
    metadata && jsonSection("Metadata", metadata),
    model.input !== null && folded("Input", () => jsonSection("RunAgentInput", model.input)),
  );
  return { element, update: () => [failure, output, used, result].forEach((part) => part.update()) };
}

/** What is made only when somebody wants to see it. */
function folded(title, make) {
  const place = h("div", {});
  const element = h("details", {}, h("summary", {}, title), place);
  element.addEventListener("toggle", () => {
    if (element.open && place.childElementCount === 0) add(place, [make()]);
  });
  return element;
}

/** The last thing that a user said in an input. */
export function promptOf(input) {
  const message = input?.messages?.findLast?.((one) => one?.role === "user");
  if (message === undefined) return undefined;
  if (typeof message.content === "string") return message.content;
  if (!Array.isArray(message.content)) return undefined;
  return message.content.map((part) => (part?.type === "text" ? String(part.text) : `[${part?.type ?? "part"}]`)).join("\n");
}

/** What the run says, of the attempt that counts: its last texts one below the other. */
function outputOf(model, isLive) {
  const flows = new Map();
  const earlier = h("p", { class: "dim", hidden: true });
  const texts = h("div", {});
  const box = h("div", { class: boxClass(isLive), tabindex: 0, role: "region", "aria-label": "Output" }, texts);
  const element = section("Output", earlier, box);
  let attempt;
  const update = () => {
    const current = model.attempts.at(-1);
    if (current !== attempt) {
      // What an attempt before said is no part of the result.
      attempt = current;
      flows.clear();
      fill(texts);
    }
    const all = model.output;
    for (const segment of all.slice(-TEXTS)) {
      let one = flows.get(segment);
      if (one === undefined) {
        one = { flow: new Flow({ class: "output" }), shown: 0 };
        flows.set(segment, one);
        texts.append(one.flow.element);
      }
      if (segment.text.length === one.shown) continue;
      one.flow.append(segment.text.slice(one.shown).join(""));
      one.shown = segment.text.length;
    }
    for (const [segment, { flow }] of flows) {
      if (flows.size <= TEXTS) break;
      flow.element.remove();
      flows.delete(segment);
    }
    earlier.hidden = all.length <= TEXTS;
    if (!earlier.hidden) setText(earlier, `The last ${TEXTS} of ${count(all.length)} texts. The others are in the timeline.`);
    element.hidden = flows.size === 0;
  };
  update();
  return { element, update };
}

function usageTable(usage, total) {
  const columns = [
    ["Model", (entry) => said([entry.provider, entry.model].filter(Boolean).join("/") || UNKNOWN)],
    ["Calls", (entry) => count(entry.calls)],
    ["In", (entry) => count(entry.input_tokens)],
    ["Cached", (entry) => count(entry.cached_input_tokens)],
    ["Out", (entry) => count(entry.output_tokens)],
    ["Reasoning", (entry) => count(entry.reasoning_tokens)],
    ["Cost", (entry) => cost(costSum(entry.costs))],
  ];
  const row = (entry) => h("tr", {}, columns.map(([, of], i) => h(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : { class: "number" }, of(entry))));
  const table = h(
    "table",
    { class: "usage" },
    h("thead", {}, h("tr", {}, columns.map(([name], i) => h("th", { scope: "col", class: i > 0 && "number" }, name)))),
    h("tbody", {}, usage.map(row)),
    total && h("tfoot", {}, h("tr", {}, h("th", { scope: "row", colspan: columns.length - 1 }, "Together"), h("td", { class: "number" }, cost(total)))),
  );
  return section("Tokens by model", h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Tokens by model" }, table));
}
