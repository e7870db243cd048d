// A session as a chat, to try an agent by hand.
//
// What is shown are the frames of the session's runs, and nothing else: two tabs show the same because they read the same. What
// the next run is given is the session as the server has it. Loaded again, the page goes on at the frame behind the last that it
// had, and says which that is.

import { about, chatPage, json, runApi } from "../api.js";
import { Composer } from "../composer.js";
import { Connection } from "../connection.js";
import { Conversation, isLive } from "../conversation.js";
import { ConversationView } from "../conversation_view.js";
import { fill, h, icon, setText } from "../dom.js";
import { followSessionFrames } from "../follow_session.js";
import { forget, keep, kept } from "../kept_conversation.js";
import { shown, wait } from "../pacing.js";
import { problemBox } from "../problem.js";
import { oneLine, said } from "../said.js";
import { SessionList } from "../session_list.js";
import { token } from "../token.js";

/** So near to its end the reader of a conversation is taken to be there, in pixels. */
const AT_END = 40;

/** So many frames at once are a past that is read, and not a present that somebody watches. */
const PAST = 500;

/** How often a past that is read is shown, in milliseconds: most of it would be gone from the page again at once. */
const SHOW_PAST_MS = 300;

/** How often a session that does not exist yet is looked for: another tab may begin it. */
const LOOK_EVERY_MS = 2000;

export async function mount(root, { params, title, signal }) {
  const { agents } = await about(signal);
  const side = sideOf({ agents: agents ?? [], current: params.session, signal });
  if (params.session === undefined) {
    title("Conversations");
    fill(root, h("div", { class: "chat-page" }, side, chooser(agents ?? [])));
    return;
  }
  title(`Conversation with ${oneLine(params.agent, 60)}`);
  const agent = (agents ?? []).find(({ agent_id }) => agent_id === params.agent);
  const page = new ChatPage({ agentId: params.agent, agent, sessionId: params.session, signal });
  fill(root, h("div", { class: "chat-page" }, side, page.element));
  page.start();
}

const newSession = (agentId) => chatPage(agentId, crypto.randomUUID());

/** What there is beside a conversation: the others, and how to begin one. On a narrow window it is folded. */
function sideOf({ agents, current, signal }) {
  const links = agents.map(({ agent_id }) =>
    h("a", { class: "button", href: newSession(agent_id) }, icon("chat"), h("span", { dir: "auto" }, oneLine(agent_id, 60))),
  );
  const side = h(
    "details",
    { class: "chat-side" },
    h("summary", {}, "Conversations"),
    h("div", { class: "chat-side-body" }, h("h2", {}, "New conversation with"), h("div", { class: "chat-agents" }, links), h("h2", {}, "Conversations"), new SessionList({ current, signal }).element),
  );
  const wide = matchMedia("(min-width: 821px)");
  const fit = () => {
    side.open = wide.matches;
  };
  wide.addEventListener("change", fit, { signal });
  fit();
  return side;
}

/** The page of no conversation in particular. */
function chooser(agents) {
  return h(
    "div",
    { class: "chat-main chat-chooser" },
    h("h1", {}, "Talk to an agent"),
    agents.length === 0 && h("p", { class: "dim" }, "This server has no agent."),
    h(
      "ul",
      {},
      agents.map(({ agent_id, description }) =>
        h("li", {}, h("a", { href: newSession(agent_id) }, h("strong", { dir: "auto" }, oneLine(agent_id, 60))), description && said(description, { class: "dim" }, "p")),
      ),
    ),
  );
}

class ChatPage {
  #agentId;
  #sessionId;
  #signal;
  #conversation = new Conversation();
  #cursor;
  /** The place behind which the connection goes on that there is now: after a lost one, or an earlier load. */
  #resumingBehind;
  /** Frames of runs that have not ended were kept from an earlier load. */
  #follows = false;
  /** The timer of a past that is read. */
  #showing;
  #unsent;
  #connection = new Connection();
  #view;
  #composer;
  #problem = h("div", { class: "chat-problem" });
  #empty = h("p", { class: "dim chat-empty" }, "Nothing has been said yet.");
  #scroller;
  #toEnd = h("button", { type: "button", class: "chat-to-end", hidden: true }, icon("down"), "Newest");
  #isAtEnd = true;

  constructor({ agentId, agent, sessionId, signal }) {
    this.#agentId = agentId;
    this.#sessionId = sessionId;
    this.#signal = signal;
    this.#composer = new Composer({
      concurrency: agent?.concurrency,
      send: (text) => this.#send(text),
      stop: () => this.#stop(),
    });
    this.#scroller = h("div", { class: "chat-scroller", tabindex: "0", role: "region", "aria-label": "What was said" });
    this.#makeView();
    this.#scroller.addEventListener("scroll", () => this.#noteEnd(), { passive: true });
    this.#toEnd.addEventListener("click", () => {
      this.#isAtEnd = true;
      this.#stayAtEnd();
    });
    this.element = h(
      "div",
      { class: "chat-main" },
      h(
        "header",
        { class: "chat-head" },
        h("h1", { dir: "auto" }, oneLine(agentId, 60)),
        h("a", { class: "mono dim chat-session", href: `/?session_id=${encodeURIComponent(sessionId)}`, title: "The runs of this conversation", dir: "auto" }, oneLine(sessionId, 80)),
        h("span", { class: "grow" }),
        this.#connection.element,
      ),
      agent === undefined && h("div", { class: "notice-box warn" }, h("span", {}, "This server has no agent of this name. What was said can be read.")),
      h("div", { class: "chat-reading" }, this.#scroller, this.#toEnd),
      this.#problem,
      this.#composer.element,
    );
  }

  start() {
    const found = kept(this.#sessionId);
    if (found !== undefined) {
      this.#conversation = found.conversation;
      this.#cursor = found.cursor;
    }
    const used = token();
    const leave = () => {
      // Whoever has another token by now is another reader.
      if (token() === used) keep(this.#sessionId, this.#conversation, this.#cursor);
    };
    addEventListener("pagehide", leave, { signal: this.#signal });
    this.#signal.addEventListener("abort", leave);
    // A window that becomes smaller must not take the end out of sight.
    const resized = new ResizeObserver(() => this.#stayAtEnd());
    resized.observe(this.#scroller);
    this.#signal.addEventListener("abort", () => resized.disconnect());
    this.#show();
    this.#composer.focus();
    void this.#follow();
  }

  async #follow() {
    if (this.#follows) return;
    this.#follows = true;
    while (!this.#signal.aborted) {
      try {
        if (this.#cursor === undefined) await this.#untilThere();
        await followSessionFrames({
          sessionId: this.#sessionId,
          cursor: this.#cursor,
          signal: this.#signal,
          connection: this.#connection,
          onStatus: ({ state, cursor }) => {
            if (state === "live") this.#resumingBehind = cursor;
          },
          take: (frames) => this.#take(frames),
        });
        return;
      } catch (error) {
        if (this.#signal.aborted) return;
        if (["GONE", "RUN_NOT_FOUND"].includes(error.code) && this.#cursor !== undefined) {
          // Retention removed a run that the page has. What is left is told from its beginning.
          this.#begin();
        } else {
          fill(this.#problem, problemBox(error, { again: () => this.#again() }));
          this.#follows = false;
          return;
        }
      }
    }
  }

  #makeView() {
    this.#view = new ConversationView({ agentId: this.#agentId, signal: this.#signal });
    fill(this.#scroller, this.#empty, this.#view.element);
  }

  #again() {
    fill(this.#problem);
    void this.#follow();
  }

  #begin() {
    this.#conversation = new Conversation();
    this.#cursor = undefined;
    forget();
    this.#makeView();
    this.#show();
  }

  #looking;

  /**
   * Waits until the session exists. It comes into being with its first run, which may be this page's or another's. It is looked
   * for in the list of runs, where to find none is no error.
   */
  async #untilThere() {
    const looking = new AbortController();
    this.#looking = looking;
    const leave = () => looking.abort();
    this.#signal.addEventListener("abort", leave);
    while (!this.#signal.aborted && !(await this.#exists())) {
      this.#connection.waiting();
      await wait(LOOK_EVERY_MS, looking.signal);
      await shown(this.#signal);
    }
    this.#signal.removeEventListener("abort", leave);
  }

  async #exists() {
    const { runs } = await json(`/v2/runs?limit=1&session_id=${encodeURIComponent(this.#sessionId)}`, { signal: this.#signal });
    return runs.length > 0;
  }

  #take(frames) {
    for (const frame of frames) {
      // What came before a cut may be taken after it, so it is the place that tells where the connection went on.
      const isFirst = this.#cursor !== undefined && this.#cursor === this.#resumingBehind;
      if (isFirst && frame.seq > 1) this.#connection.resumedAt(frame.seq);
      this.#conversation.take(frame);
      this.#cursor = frame.cursor;
    }
    if (frames.length < PAST) this.#show();
    else this.#showing ??= setTimeout(() => this.#show(), SHOW_PAST_MS);
  }

  /** Shows what has changed. Whoever is at the end stays there; whoever is not, sees nothing move. */
  #show() {
    clearTimeout(this.#showing);
    this.#showing = undefined;
    if (this.#signal.aborted) return;
    const { runs, live } = this.#conversation;
    this.#view.show(runs, this.#conversation.takeTouched(), this.#isAtEnd);
    this.#empty.hidden = runs.length > 0;
    const waits = this.#conversation.waiting(this.#agentId) !== undefined;
    const mine = live.filter(({ agent_id }) => agent_id === this.#agentId);
    this.#composer.show({ isLive: mine.length > 0, waits });
    this.#stayAtEnd();
  }

  #stayAtEnd() {
    if (this.#isAtEnd) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#toEnd.hidden = this.#isAtEnd;
  }

  #noteEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#isAtEnd = scrollHeight - clientHeight - scrollTop <= AT_END;
    this.#toEnd.hidden = this.#isAtEnd;
  }

  /** Starts a run that is given the conversation and what was just said. Answers whether that was taken. */
  async #send(text) {
    fill(this.#problem);
    try {
      // Something that may have arrived although no answer came is sent again as it was: then it is one run.
      if (this.#unsent?.text !== text) this.#unsent = { text, body: await this.#bodyOf(text) };
      const { body } = this.#unsent;
      const record = await json("/v2/runs", { method: "POST", body, signal: this.#signal });
      this.#unsent = undefined;
      this.#conversation.expect(record.run_id, record.agent_id, body.input.messages.at(-1));
      this.#isAtEnd = true;
      this.#show();
      this.#looking?.abort();
      void this.#follow();
      return true;
    } catch (error) {
      if (this.#signal.aborted) return false;
      if (error.status >= 400 && error.status < 500) this.#unsent = undefined;
      fill(this.#problem, problemBox(error));
      return false;
    }
  }

  async #bodyOf(text) {
    const known = (await this.#exists())
      ? await json(`/v2/sessions/${encodeURIComponent(this.#sessionId)}`, { signal: this.#signal })
      : { messages: [], state: {} };
    const message = { id: crypto.randomUUID(), role: "user", content: text };
    return {
      agent_id: this.#agentId,
      input: {
        threadId: this.#sessionId,
        runId: crypto.randomUUID(),
        messages: [...this.#finished(known.messages), message],
        state: known.state ?? {},
        tools: [],
        context: [],
        forwardedProps: {},
      },
    };
  }

  /** The messages without those that a run is still making: half of an answer is none. */
  #finished(messages) {
    const unfinished = this.#conversation.unfinished();
    return messages.filter(({ id, role, toolCallId, toolCalls = [] }) => {
      if (role === "activity" || unfinished.messages.has(id)) return false;
      return !unfinished.calls.has(toolCallId) && !toolCalls.some((call) => unfinished.calls.has(call.id));
    });
  }

  /** Stops the run that goes on. Its end is told by its frames. */
  async #stop() {
    const run = this.#conversation.live.find(({ agent_id }) => agent_id === this.#agentId);
    if (run === undefined || !isLive(run)) return;
    fill(this.#problem);
    try {
      await json(runApi(run.run_id, "/cancel"), { method: "POST", signal: this.#signal });
    } catch (error) {
      if (!this.#signal.aborted) fill(this.#problem, problemBox(error));
    }
  }
}
