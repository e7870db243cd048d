// What a frame says, on one line: the part of it that tells it from its neighbours.

/** A longer body is not read for one line of it. */
const MOST_CHARACTERS = 8000;

const words = (...parts) => parts.filter((part) => part !== null && part !== undefined && part !== "").join(" ");

/** Without the type, which for these is in the code of the frame. */
function withoutType({ type: _, ...rest }) {
  return JSON.stringify(rest);
}

const GISTS = {
  "run.start": ({ agent_id: agent, attempt, trigger_kind: trigger }) => words(agent, `attempt ${attempt}`, trigger && `by ${trigger}`),
  "run.status": ({ status, previous }) => words(previous, previous && "→", status),
  "run.end": ({ status, failure_class: failure, failure_detail: detail }) => words(status, failure, detail),
  "segment.start": ({ kind, name, parent_segment_id: parent }) => words(kind, name, parent && `in ${parent}`),
  "segment.end": ({ status, finish_reason: reason, error }) => words(status, reason, error?.code, error?.message),
  // As JSON writes it, so that white space at its edges is to be seen.
  "text.delta": ({ text }) => JSON.stringify(text),
  "thinking.delta": ({ text }) => JSON.stringify(text),
  "tool.call": ({ tool_slug: tool, arguments_delta: delta, arguments: whole }) => words(tool, whole === undefined ? delta : `complete ${whole}`),
  "tool.result": ({ ok, output_preview: preview }) => words(ok ? "ok" : "failed", preview),
  suspend: ({ kind, prompt }) => words(kind, prompt),
  resume: ({ kind, resolved_by: by }) => words(kind, by && `by ${by}`),
  notice: ({ level, code, message, attributes }) =>
    code.startsWith("agui.") ? words(code, withoutType(attributes ?? {})) : words(level, code, message),
  error: ({ code, message }) => words(code, message),
};

/** What a body says in `data`, as it says it. `data` is the envelope's last key. */
function dataOf(body) {
  const at = body.indexOf(',"data":');
  return at < 0 ? body : body.slice(at + 8, at + 8 + 600).replace(/\}$/, "");
}

/**
 * The line, of any length.
 *
 * @param {string} type
 * @param {string} body
 */
export function gistOf(type, body) {
  if (body.length > MOST_CHARACTERS) return dataOf(body);
  try {
    return GISTS[type](JSON.parse(body).data);
  } catch {
    // Whatever it is, it is shown.
    return dataOf(body);
  }
}
