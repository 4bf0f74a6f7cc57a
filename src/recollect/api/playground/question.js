/** The question and how many memories are wanted. Both live in the address, so that a link opens them. */

import { el, replace } from "./dom.js";

const KEPT = "recollect-questions";
const MOST = 20;
const LIMITS = [3, 5, 10, 20, 50];

/** @param {{onAsk: () => void}} ways what to do when another question is asked */
export function questionForm(app, { onAsk }) {
  const field = el("input", { id: "question", type: "search", name: "q", autocomplete: "off", list: "questions", maxlength: 10_000,
    placeholder: "Ask your memories", enterkeyhint: "search", "aria-keyshortcuts": "/" });
  const limit = el("select", { id: "limit", onchange: submit }, LIMITS.map((number) => el("option", { value: number }, number)));
  const asked = el("datalist", { id: "questions" });
  const element = el("form", { class: "question", role: "search", onsubmit: (event) => (event.preventDefault(), submit()) },
    el("label", { for: "question", class: "label question-label" }, "Question", el("kbd", { title: "Press / to come here" }, "/")),
    field, asked,
    el("div", { class: "question-line" }, el("label", { class: "limit small quiet" }, "At most ", limit, " memories"),
      el("button", { class: "button primary" }, "Recall")));

  function read() {
    const { params } = app.route;
    field.value = params.get("q") ?? "";
    const number = Number(params.get("limit") ?? 10);
    if (!LIMITS.includes(number) && number >= 1 && number <= 200) limit.append(el("option", { value: number }, number));
    limit.value = number;
    if (!limit.value) limit.value = 10;
  }

  function state() {
    const { params } = app.route;
    return `${params.get("q") ?? ""}\n${params.get("limit") ?? ""}`;
  }

  let last = "";

  function submit() {
    const before = state();
    app.route.update({ q: field.value.trim(), limit: limit.value === "10" ? null : limit.value }, { push: true });
    if (state() === before) onAsk();
  }

  /** The question as a recall takes it. */
  function question() {
    return { query: (app.route.params.get("q") ?? "").trim(), limit: Number(limit.value), ...app.scope.asBody() };
  }

  function ask(text) {
    field.value = text;
    submit();
  }

  function remember(text) {
    const kept = [text, ...questions().filter((one) => one !== text)].slice(0, MOST);
    localStorage.setItem(KEPT, JSON.stringify(kept));
    replace(asked, kept.map((value) => el("option", { value })));
  }

  function toField(event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input:not([type=range], [type=checkbox]), textarea, select, dialog")) return;
    event.preventDefault();
    field.focus();
    field.select();
  }

  /** Follows the address and the key `/`; gives a function that ends this. */
  function listen() {
    last = state();
    addEventListener("keydown", toField);
    const end = app.route.onChange(() => {
      if (app.route.view !== "recall" || state() === last) return;
      last = state();
      read();
      onAsk();
    });
    return () => {
      removeEventListener("keydown", toField);
      end();
    };
  }

  read();
  replace(asked, questions().map((value) => el("option", { value })));
  return { element, question, ask, remember, listen };
}

function questions() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? [];
  } catch {
    return [];
  }
}
