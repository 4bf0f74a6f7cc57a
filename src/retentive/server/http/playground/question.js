/** The query and how many memories are wanted. Both live in the address, so that a link opens them. */

import { el, replace } from "./dom.js";

const KEPT = "retentive-queries";
const MOST = 20;
const LIMITS = [3, 5, 10, 20, 50];

/** @param {{onAsk: () => void}} ways what to do when another query is asked */
export function queryForm(app, { onAsk }) {
  const field = el("input", { id: "query", type: "search", name: "q", autocomplete: "off", list: "queries", maxlength: 10_000,
    placeholder: "Ask your memories", enterkeyhint: "search", "aria-keyshortcuts": "/" });
  const limit = el("select", { id: "limit", onchange: submit }, LIMITS.map((number) => el("option", { value: number }, number)));
  const asked = el("datalist", { id: "queries" });
  const element = el("form", { class: "query", role: "search", onsubmit: (event) => (event.preventDefault(), submit()) },
    el("label", { for: "query", class: "label query-label" }, "Query", el("kbd", { title: "Press / to come here" }, "/")),
    field, asked,
    el("div", { class: "query-line" }, el("label", { class: "limit small quiet" }, "At most ", limit, " memories"),
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

  /** The query as a recall takes it. */
  function query() {
    return { query: (app.route.params.get("q") ?? "").trim(), limit: Number(limit.value), ...app.scope.asBody() };
  }

  function ask(text) {
    field.value = text;
    submit();
  }

  function remember(text) {
    const kept = [text, ...queries().filter((one) => one !== text)].slice(0, MOST);
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
  replace(asked, queries().map((value) => el("option", { value })));
  return { element, query, ask, remember, listen };
}

function queries() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? [];
  } catch {
    return [];
  }
}
