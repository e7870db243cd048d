// Requests to the server that the page came from, with the token that a person entered.

import { askForToken, token } from "./token.js";

/** The server refused: `title` and `detail` are its problem document's (RFC 9457), `problem` is the whole of it. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 when no answer came
   * @param {object} problem
   */
  constructor(status, problem) {
    super(problem.detail || problem.title);
    this.name = "ApiError";
    this.status = status;
    this.title = problem.title;
    this.detail = problem.detail ?? "";
    this.problem = problem;
  }
}

async function problemOf(response) {
  const text = await response.text().catch(() => "");
  try {
    const problem = JSON.parse(text);
    if (problem !== null && typeof problem === "object" && typeof problem.title === "string") return problem;
  } catch {
    // Something between here and the server answered in its own words.
  }
  return { title: `HTTP ${response.status}`, detail: text.slice(0, 300) };
}

/**
 * Asks, and answers with the response, whatever its status. A person is asked for a token when the server wants one; when they
 * give none, the answer is the 401.
 *
 * @param {string} path from the root of the server
 * @param {{method?: string, body?: unknown, accept?: string, signal?: AbortSignal}} [how] `body` goes as JSON
 */
export async function request(path, { method = "GET", body, accept = "application/json", signal } = {}) {
  for (;;) {
    const used = token();
    const headers = new Headers({ Accept: accept });
    if (used !== undefined) headers.set("Authorization", `Bearer ${used}`);
    if (body !== undefined) headers.set("Content-Type", "application/json");
    let response;
    try {
      response = await fetch(path, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        cache: "no-store",
        signal,
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw new ApiError(0, { title: "The server cannot be reached", detail: String(error.message ?? error) });
    }
    if (response.status !== 401 || !(await askForToken(used, signal))) return response;
  }
}

/** Asks, and answers with the JSON of the response. Throws an {@link ApiError} for any status but 2xx. */
export async function json(path, how) {
  const response = await request(path, how);
  if (!response.ok) throw new ApiError(response.status, await problemOf(response));
  return response.json();
}

/** Asks, and answers with the text of the response and its type. Throws as {@link json} does. */
export async function text(path, how) {
  const response = await request(path, { accept: "*/*", ...how });
  if (!response.ok) throw new ApiError(response.status, await problemOf(response));
  return { text: await response.text(), type: response.headers.get("content-type") ?? "" };
}

/** What the server says of itself: `name`, `version`, `agents`. Asks for a token when it does not tell which agents there are. */
export async function about(signal) {
  for (;;) {
    const used = token();
    const told = await json("/", { signal });
    if (told.agents !== null || !(await askForToken(used, signal))) return told;
  }
}

export const runApi = (runId, rest = "") => `/v2/runs/${encodeURIComponent(runId)}${rest}`;
export const runPage = (runId) => `/runs/${encodeURIComponent(runId)}`;
export const chatPage = (agentId, sessionId) => `/chat/${encodeURIComponent(agentId)}/${encodeURIComponent(sessionId)}`;
