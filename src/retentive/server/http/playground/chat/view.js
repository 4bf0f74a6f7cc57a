/** The Chat view: talk to the configured LLM with memory, and see what memory did for each message. */

import { errorText } from "../shared/api.js";
import { commandCode } from "../shared/commands.js";
import { el, labelled, replace } from "../shared/dom.js";
import { showMarkdown } from "../shared/markdown.js";
import { sampleQueries } from "../shared/samples.js";
import { complete, extractedFacts, storedOfTurn, turnKey } from "./completion.js";
import { contextSummary, createTurnPanel } from "./turn_panel.js";

export const title = "Chat";

const EXAMPLES = ["What do you know about me?", "What did we decide last time?", "What should I not forget?"];
const isNarrow = matchMedia("(max-width: 959px)");

/** The chat stays as it is while other views are open. */
let chat = null;

export function mount(root, app) {
  chat ??= createChat(app);
  root.append(chat.element);
  chat.show();
  const removeListener = app.scope.onChange(chat.show);
  isNarrow.addEventListener("change", chat.placePanel);
  return () => {
    removeListener();
    isNarrow.removeEventListener("change", chat.placePanel);
  };
}

function newSessionName() {
  const now = new Date();
  const pad = (value) => String(value).padStart(2, "0");
  return `chat ${now.getFullYear()}-${pad(now.getMonth() + 1)}-${pad(now.getDate())} ${pad(now.getHours())}:${pad(now.getMinutes())}:${pad(now.getSeconds())}`;
}

function createChat(app) {
  const log = el("ol", { class: "chat-log", "aria-label": "Conversation" });
  const note = el("div", {});
  const side = el("aside", { class: "chat-side panel", "aria-label": "Memory of the selected message", tabindex: "0" });
  const input = el("textarea", { rows: 1, dir: "auto", placeholder: "Write a message", onkeydown: sendOnKey, oninput: showButtons });
  const sendButton = el("button", { class: "button primary" }, "Send");
  const stopButton = el("button", { type: "button", class: "button", hidden: true, onclick: () => pending?.abort() }, "Stop");
  const form = el("form", { class: "chat-form", onsubmit: submit },
    el("label", { class: "chat-input" }, el("span", { class: "visually-hidden" }, "Message"), input), sendButton, stopButton);
  const session = el("input", { type: "text", autocomplete: "off", maxlength: 200 });
  const model = el("select", {});
  const modelField = labelled("Model", model);
  const store = el("input", { type: "checkbox", checked: true });
  const element = el("div", { class: "chat" },
    el("div", { class: "chat-main" },
      el("div", { class: "chat-top" }, el("h1", {}, "Chat"), labelled("Session", session), modelField,
        el("label", { class: "check" }, store, "Remember"),
        el("button", { type: "button", class: "button", onclick: startNew }, "New chat")),
      note, log, form),
    side);
  let turns = [];
  let selected = null;
  let pending = null;
  let llm = null; // null without an LLM
  let project = null;
  let profile = null;
  let examples = EXAMPLES;

  /** Show the scope and the state of the LLM; called when the view opens and when the scope changes. */
  async function show() {
    if (turns.length && app.scope.value.profile !== profile) clear();
    if (!turns.length) takeScope();
    drawIntro();
    try {
      examples = (await sampleQueries(app)) ?? EXAMPLES;
      drawIntro();
      llm = (await app.api.get("v1/status")).llm;
      replace(note, llm ? null : noLlm());
      for (const part of [modelField, store.parentElement]) part.hidden = !llm;
      sendButton.textContent = llm ? "Send" : "Show context";
      if (llm && !model.options.length) await loadModels();
    } catch (error) {
      replace(note, el("p", { class: "note error" }, error.message));
    }
    showButtons();
    if (!isNarrow.matches) input.focus({ preventScroll: true });
  }

  function takeScope() {
    const scope = app.scope.value;
    project = scope.project;
    profile = scope.profile;
    session.value = scope.session ?? newSessionName();
  }

  async function loadModels() {
    replace(model, llm.model && el("option", { value: "" }, llm.model));
    try {
      const { data = [] } = await app.api.get("v1/models");
      model.append(...data.map(({ id }) => id).filter((id) => id !== llm.model).map((id) => el("option", { value: id }, id)));
    } catch (error) {
      replace(note, el("p", { class: "note warn" }, `The LLM server does not list its models: ${error.message}`));
      if (!model.options.length) replace(model, el("option", { value: "" }, "default"));
    }
  }

  function drawIntro() {
    if (turns.length) return;
    replace(log, el("li", { class: "chat-intro" },
      el("p", {}, "Each message is sent with the memories that may help to answer it."),
      el("p", { class: "quiet small" }, project ? `They are recalled from project ${project}.` : "They are recalled from all memories of the profile; "
        + "the header limits them to a project."),
      el("ul", {}, examples.map((text) => el("li", {}, el("button", { type: "button", class: "button", onclick: () => send(text) }, text))))));
    replace(side, el("p", { class: "quiet" }, "What is recalled, left out and remembered appears here."));
  }

  function submit(event) {
    event.preventDefault();
    const text = input.value.trim();
    if (!text || pending) return;
    input.value = "";
    send(text);
  }

  function sendOnKey(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
    else if (event.key === "Escape" && pending) pending.abort();
  }

  function showButtons() {
    sendButton.hidden = Boolean(pending);
    stopButton.hidden = !pending;
    sendButton.disabled = !input.value.trim();
    session.readOnly = turns.length > 0;
  }

  function send(text) {
    if (pending) return;
    if (!turns.length) replace(log);
    const turn = createTurn(text);
    turns.push(turn);
    log.append(turn.element);
    run(turn);
  }

  function createTurn(text) {
    const turn = { text, key: turnKey(), answer: "", state: "", panel: createTurnPanel() };
    turn.body = el("div", { class: "chat-text chat-markdown", dir: "auto" });
    turn.error = el("div", {});
    turn.opener = el("button", { type: "button", class: "chat-memory", "aria-pressed": "false", onclick: () => select(turn) }, "Recalling…");
    turn.element = el("li", { class: "chat-turn" },
      el("div", { class: "chat-user" }, el("span", { class: "visually-hidden" }, "You: "), el("p", { class: "chat-text", dir: "auto" }, text)),
      el("div", { class: "chat-answer" }, turn.body, turn.error, turn.opener));
    return turn;
  }

  /** Recall for a message, send it with the memories, and show the answer as it arrives. */
  async function run(turn) {
    Object.assign(turn, { answer: "", state: "running" });
    replace(turn.error);
    turn.panel.showStored([], "Nothing yet.");
    showMarkdown(turn.body, "");
    turn.element.classList.add("running");
    pending = new AbortController();
    const { signal } = pending;
    showButtons();
    select(turn);
    try {
      const messages = [...history(turn), { role: "user", content: turn.text }];
      const scope = { session: session.value.trim() || null, ...(project && { project }), everywhere: !project };
      const context = await app.api.post("v1/context", { messages, ...scope }, { signal });
      turn.panel.showContext(context);
      turn.opener.textContent = `Memory: ${contextSummary(context)}`;
      if (llm) await answer(turn, [...messages.slice(0, -1), ...context.messages, messages.at(-1)], scope, signal);
      else showUnsent(turn, context);
      turn.state = "done";
    } catch (error) {
      turn.state = error.name === "AbortError" ? "stopped" : "failed";
      showFailure(turn, error);
    }
    turn.element.classList.remove("running");
    pending = null;
    showButtons();
    app.announce(turn.state === "done" ? "The answer is complete" : turn.error.textContent);
    if (llm) showStored(turn);
  }

  /** The messages before a turn; a turn without an answer is left out. */
  function history(turn) {
    return turns.slice(0, turns.indexOf(turn)).filter((each) => each.answer)
      .flatMap((each) => [{ role: "user", content: each.text }, { role: "assistant", content: each.answer }]);
  }

  /** The memories are in the messages already: what is shown is what is sent, and the service recalls only once. */
  async function answer(turn, messages, scope, signal) {
    const request = { messages, ...(model.value && { model: model.value }), retentive: { ...scope, recall: false, store: store.checked } };
    for await (const piece of complete(app.api, request, { key: turn.key, signal })) {
      turn.answer += piece;
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 48;
      showMarkdown(turn.body, turn.answer);
      if (atEnd) log.scrollTop = log.scrollHeight;
    }
    if (!turn.answer) replace(turn.error, el("p", { class: "quiet" }, "The answer is empty."));
  }

  function showUnsent(turn, { text }) {
    replace(turn.error, el("p", { class: "quiet small" }, text ? "Not sent: no LLM is configured. This text would be added to the prompt:"
      : "Not sent: no LLM is configured. No memory would be added to the prompt."), text && el("pre", { class: "chat-unsent", tabindex: "0" }, text));
    turn.panel.showStored([], "Nothing: the message was not sent.");
  }

  function showFailure(turn, error) {
    const text = turn.state === "stopped" ? "Stopped." : errorText(error, "chat");
    replace(turn.error, el("p", { class: turn.state === "stopped" ? "quiet small" : "note error" }, text),
      el("button", { type: "button", class: "button", onclick: () => pending || run(turn) }, "Try again"));
    if (turn.opener.textContent === "Recalling…") {
      turn.opener.textContent = "Memory";
      turn.panel.showMessage("No memories were recalled.");
    }
  }

  async function showStored(turn) {
    if (!store.checked) return turn.panel.showStored([], "Nothing: Remember is off.");
    turn.panel.showStored([], "Storing…");
    const scope = { session: session.value.trim(), project };
    try {
      const stored = await storedOfTurn(app.api, scope, turn.key, turn);
      turn.panel.showStored(stored, "Nothing was stored.");
      app.refreshScope();
      if (!llm.extractFacts || !stored.length) return undefined;
      const facts = await extractedFacts(app.api, project, stored.map(({ id }) => id));
      return turn.panel.showStored([...stored, ...facts], "");
    } catch (error) {
      return turn.panel.showStored([], error.message);
    }
  }

  function select(turn) {
    selected = turn;
    for (const each of turns) each.opener.setAttribute("aria-pressed", String(each === turn));
    placePanel();
    if (turn === turns.at(-1)) log.scrollTop = log.scrollHeight;
  }

  /** The panel of the selected message is beside the conversation, or below the message on narrow screens. */
  function placePanel() {
    if (!selected) return;
    const { element: panel } = selected.panel;
    for (const each of turns) if (each !== selected) each.panel.element.remove();
    if (isNarrow.matches) selected.element.append(panel);
    else replace(side, panel);
  }

  function clear() {
    pending?.abort();
    turns = [];
    selected = null;
    drawIntro();
  }

  function startNew() {
    clear();
    takeScope();
    session.value = newSessionName();
    drawIntro();
    showButtons();
    input.focus();
  }

  return { element, show, placePanel };
}

function noLlm() {
  return el("div", { class: "note chat-no-llm" },
    el("p", {}, el("strong", {}, "No LLM is configured. "), "Messages are not sent; the page shows the context that would be sent with them. "
      + "To chat, start the service with the address of a server with OpenAI's API:"),
    el("p", {}, el("code", {}, "RETENTIVE_LLM_URL=http://127.0.0.1:11434/v1 RETENTIVE_LLM_MODEL=llama3.2 "), commandCode("serve")),
    el("p", { class: "small" }, "or set ", el("code", {}, "url"), " and ", el("code", {}, "model"), " under ", el("code", {}, "[llm]"), " in retentive.toml."));
}
