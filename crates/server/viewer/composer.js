// Where a person says something to an agent, and stops it.

import { h, icon, setAttribute, setText } from "./dom.js";

/** What becomes of something that is said while a run of the agent goes on, by the agent's `concurrency`. */
const MEANWHILE = {
  queue: "A run goes on. What you say waits for its end.",
  supersede: "A run goes on. What you say stops it.",
  parallel: "A run goes on. What you say is answered beside it.",
};

export class Composer {
  #concurrency;
  #send;
  #stop;
  #isLive = false;
  #waits = false;
  #isSending = false;
  #text = h("textarea", { id: "chat-text", rows: 1, dir: "auto", "aria-describedby": "chat-reason", placeholder: "Say something" });
  #sendButton = h("button", { type: "submit", class: "primary" }, "Send");
  #stopButton = h("button", { type: "button", hidden: true }, icon("stop"), "Stop");
  #reason = h("p", { id: "chat-reason", class: "dim" });

  /**
   * @param {object} what
   * @param {string | undefined} what.concurrency of the agent; `undefined` where there is no such agent
   * @param {(text: string) => Promise<boolean>} what.send answers whether it was taken
   * @param {() => Promise<void>} what.stop
   */
  constructor({ concurrency, send, stop }) {
    this.#concurrency = concurrency;
    this.#send = send;
    this.#stop = stop;
    this.element = h(
      "form",
      { class: "composer", "aria-label": "Say something" },
      h("label", { for: "chat-text", class: "visually-hidden" }, "Message"),
      this.#text,
      h("div", { class: "composer-buttons" }, this.#stopButton, this.#sendButton),
      this.#reason,
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#text.addEventListener("keydown", (event) => {
      // An Enter that ends the composition of a character is not one.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      void this.#submit();
    });
    this.#stopButton.addEventListener("click", async () => {
      this.#stopButton.disabled = true;
      await this.#stop();
      this.#stopButton.disabled = false;
    });
    this.#write();
  }

  focus() {
    this.#text.focus({ preventScroll: true });
  }

  /** @param {{isLive: boolean, waits: boolean}} now whether a run of the agent goes on, and whether it waits for an answer */
  show({ isLive, waits }) {
    if (isLive === this.#isLive && waits === this.#waits) return;
    this.#isLive = isLive;
    this.#waits = waits;
    this.#write();
  }

  /** Why nothing can be said now, if nothing can. */
  #refusal() {
    if (this.#concurrency === undefined) return "This server has no such agent.";
    if (this.#waits) return "The agent waits for your answer above.";
    if (this.#isLive && this.#concurrency === "refuse") return "A run goes on, and the agent takes nothing else before its end.";
    return undefined;
  }

  #write() {
    const refusal = this.#refusal();
    // The text can be written on meanwhile, and keeps the focus: only that it is sent has to wait.
    setAttribute(this.#sendButton, "aria-disabled", (refusal !== undefined || this.#isSending) && "true");
    this.#stopButton.hidden = !this.#isLive;
    const meanwhile = this.#isLive ? MEANWHILE[this.#concurrency] : "Enter sends, Shift and Enter begin a new line.";
    setText(this.#reason, refusal ?? meanwhile);
  }

  async #submit() {
    const text = this.#text.value.trim();
    if (text === "" || this.#isSending || this.#refusal() !== undefined) return;
    this.#isSending = true;
    this.#write();
    const value = this.#text.value;
    const isTaken = await this.#send(text);
    this.#isSending = false;
    // What was written in the meantime stays.
    if (isTaken && this.#text.value === value) this.#text.value = "";
    this.#write();
  }
}
