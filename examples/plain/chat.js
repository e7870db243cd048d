// A chat with an agent of a Runwire server, in one page: the released AG-UI client, and `resumableFetch()` under it.
//
// The address says what is talked to: `?server=http://127.0.0.1:7171&agent=demo&thread=…`. The thread is put there when a
// conversation begins, so loading the page again comes back to it.

import { HttpAgent } from "@ag-ui/client";
import { resumableFetch } from "runwire";

const query = new URLSearchParams(location.search);
const server = query.get("server") ?? "http://127.0.0.1:7171";
const agentName = query.get("agent") ?? "demo";
const isKnownThread = query.has("thread");
if (!isKnownThread) {
  query.set("thread", crypto.randomUUID());
  history.replaceState(null, "", `?${query}`);
}

const part = (id) => document.getElementById(id);
part("who").textContent = `A plain chat with ${agentName}`;

/** The run that goes on, by the name that the server has for it. Its answer's head says so. */
let runId;

async function noting(url, init) {
  const response = await fetch(url, init);
  runId = response.headers.get("Runwire-Run-Id") ?? undefined;
  showControls();
  return response;
}

const agent = new HttpAgent({
  url: server,
  threadId: query.get("thread"),
  fetch: resumableFetch({ fetch: noting, onStatus: showConnection }),
});

let isRunning = false;

/** Sends the thread to one of the agent's two routes, and shows what comes until the exchange has ended. */
async function exchange(route, parameters) {
  isRunning = true;
  showControls();
  agent.url = `${server}/agui/${encodeURIComponent(agentName)}${route}`;
  let failure;
  try {
    await agent.runAgent(parameters, {
      onRunErrorEvent({ event }) {
        failure = `The run failed: ${event.message}`;
      },
      onRunFinishedEvent({ outcome }) {
        if (outcome === "cancelled") failure = "The run was stopped.";
      },
      onMessagesChanged: showMessages,
    });
  } catch (error) {
    failure ??= String(error.message);
  }
  isRunning = false;
  runId = undefined;
  showMessages();
  if (failure !== undefined) note(failure);
  showQuestions();
  showControls();
}

// What is shown. Every text is set as text: an agent's words are never markup.

function showConnection({ state, reason, retryInMs }) {
  part("connection").textContent =
    state === "resuming" ? `resuming in ${Math.ceil(retryInMs / 1000)} s: ${reason}` : state;
}

function showControls() {
  part("send").disabled = isRunning || agent.pendingInterrupts.length > 0;
  part("stop").disabled = runId === undefined;
}

/** What a message says, as text: some have parts in place of a text, or an object. */
function textOf({ content }) {
  if (Array.isArray(content)) return content.map((part) => part.text ?? `[${part.type}]`).join("");
  return typeof content === "string" ? content : JSON.stringify(content ?? "");
}

/** One element for each message, found again by the message's id, so that what does not change is left alone. */
function showMessages() {
  const results = new Map();
  for (const message of agent.messages) if (message.role === "tool") results.set(message.toolCallId, message);
  for (const message of agent.messages) {
    if (message.role === "tool") continue;
    const element = elementOf(message);
    const text = message.content ? textOf(message) : "";
    if (element.firstChild.data !== text) element.firstChild.data = text;
    (message.toolCalls ?? []).forEach(({ id, function: { name, arguments: given } }, i) => {
      const result = results.get(id);
      const line = `${name} ${given}${result === undefined ? "" : ` → ${textOf(result)}`}`;
      const call = element.children[i] ?? element.appendChild(document.createElement("span"));
      call.className = "call";
      if (call.textContent !== line) call.textContent = line;
    });
  }
}

function elementOf({ id, role }) {
  const known = part(`message ${id}`);
  if (known !== null) return known;
  const element = document.createElement("div");
  element.id = `message ${id}`;
  element.className = role;
  element.dir = "auto";
  element.append("");
  part("messages").append(element);
  return element;
}

function note(text) {
  const element = document.createElement("div");
  element.className = "note";
  element.textContent = text;
  part("messages").append(element);
}

/** What the run waits for. All of its questions are answered at once, because AG-UI wants them together. */
function showQuestions() {
  const answers = new Map();
  const forms = agent.pendingInterrupts.map((interrupt) => {
    const form = document.createElement("form");
    const asked = document.createElement("p");
    asked.textContent = interrupt.message ?? interrupt.reason;
    form.append(asked);
    const answerWith = (label, answer) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.onclick = () => {
        const given = answer();
        if (given === undefined) return;
        answers.set(interrupt.id, { interruptId: interrupt.id, ...given });
        form.remove();
        if (answers.size === forms.length) void exchange("", { resume: [...answers.values()] });
      };
      form.append(button);
    };
    const resolved = (payload) => ({ status: "resolved", payload });
    if (interrupt.responseSchema?.properties?.approved?.type === "boolean") {
      answerWith("Approve", () => resolved({ approved: true }));
      answerWith("Deny", () => resolved({ approved: false }));
    } else {
      const value = document.createElement("textarea");
      value.setAttribute("aria-label", "Answer, as JSON");
      value.oninput = () => value.setCustomValidity("");
      form.append(value);
      answerWith("Answer", () => {
        try {
          return resolved(JSON.parse(value.value));
        } catch (error) {
          value.setCustomValidity(`This is no JSON: ${error.message}`);
          value.reportValidity();
          return undefined;
        }
      });
      answerWith("Give it up", () => ({ status: "cancelled" }));
    }
    return form;
  });
  part("questions").replaceChildren(...forms);
}

// What the person does.

part("composer").onsubmit = (event) => {
  event.preventDefault();
  const content = part("prompt").value.trim();
  if (content === "" || part("send").disabled) return;
  part("prompt").value = "";
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  showMessages();
  void exchange("", {});
};

part("prompt").onkeydown = (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  part("composer").requestSubmit();
};

part("stop").onclick = async () => {
  // To leave the answer would stop nothing: the run goes on without readers. Its end comes by the answer, as any other.
  part("stop").disabled = true;
  const response = await fetch(`${server}/v2/runs/${runId}/cancel`, { method: "POST" }).catch((error) => error);
  if (response.ok) return;
  note(`The run could not be stopped: ${response.message ?? `the server answered ${response.status}`}`);
  showControls();
};

// The thread as it is: its messages, the run that goes on, the question that waits.
if (isKnownThread) void exchange("/connect", {});
