/** The query field, the limit and whether to search retired memories. The address stores them, so that a link restores them. */

import { el, replace } from "../shared/dom.js";
import { browserStorage } from "../shared/storage.js";

const HISTORY_KEY = "retentive-queries";
const HISTORY_SIZE = 20;
const LIMITS = [3, 5, 10, 20, 50];

/**
 * @param {App} app
 * @param {{onSubmit: () => void}} handlers  `onSubmit` is called when the query or an option is submitted
 */
export function createQueryBox(app, { onSubmit }) {
  const field = el("input", { id: "query", type: "search", name: "q", dir: "auto", autocomplete: "off", list: "queries", maxlength: 10_000,
    placeholder: "Search your memories", enterkeyhint: "search", "aria-keyshortcuts": "/" });
  const limit = el("select", { id: "limit", onchange: submit }, LIMITS.map((number) => el("option", { value: number }, number)));
  const retired = el("input", { type: "checkbox", onchange: submit });
  const suggestions = el("datalist", { id: "queries" });
  const element = el("form", { class: "query-box", role: "search", onsubmit: (event) => (event.preventDefault(), submit()) },
    el("label", { for: "query", class: "label query-label" }, "Query", el("kbd", { title: "Press / to focus the query" }, "/")),
    field, suggestions,
    el("div", { class: "query-line" },
      el("label", { class: "limit small quiet" }, "Limit", limit),
      el("label", { class: "limit small quiet", title: "Search superseded, retracted and expired memories, too" }, retired, "Retired too"),
      el("button", { class: "button primary" }, "Recall")));

  function readRoute() {
    const { params } = app.route;
    field.value = params.get("q") ?? "";
    const number = Number(params.get("limit") ?? 10);
    if (!LIMITS.includes(number) && number >= 1 && number <= 200) limit.append(el("option", { value: number }, number));
    limit.value = String(number);
    if (!limit.value) limit.value = "10";
    retired.checked = params.has("retired");
  }

  function routeState() {
    const { params } = app.route;
    return JSON.stringify(["q", "limit", "retired"].map((name) => params.get(name)));
  }

  let lastState = "";

  function submit() {
    const before = routeState();
    const options = { limit: limit.value === "10" ? null : limit.value, retired: retired.checked ? "1" : null };
    app.route.update({ q: field.value.trim(), ...options }, { push: true });
    if (routeState() === before) onSubmit();
  }

  /** Return the body of a recall request: query, limit, scope and, if it is set, `includeRetired`. */
  function request() {
    const query = (app.route.params.get("q") ?? "").trim();
    return { query, limit: Number(limit.value), ...app.scope.asRequest(), ...(retired.checked && { includeRetired: true }) };
  }

  /** Enter a query and submit it. */
  function run(text) {
    field.value = text;
    submit();
  }

  /** Add a query to the history that the field suggests. */
  function addToHistory(text) {
    const history = [text, ...readHistory().filter((one) => one !== text)].slice(0, HISTORY_SIZE);
    browserStorage.set(HISTORY_KEY, JSON.stringify(history));
    replace(suggestions, history.map((value) => el("option", { value })));
  }

  function focusOnSlash(event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input:not([type=range], [type=checkbox]), textarea, select, dialog")) return;
    event.preventDefault();
    field.focus();
    field.select();
  }

  /** Follow the address and the `/` key; return a function that stops this. */
  function listen() {
    lastState = routeState();
    addEventListener("keydown", focusOnSlash);
    const removeListener = app.route.onChange(() => {
      if (app.route.view !== "recall" || routeState() === lastState) return;
      lastState = routeState();
      readRoute();
      onSubmit();
    });
    return () => {
      removeEventListener("keydown", focusOnSlash);
      removeListener();
    };
  }

  readRoute();
  replace(suggestions, readHistory().map((value) => el("option", { value })));
  return { element, request, run, addToHistory, listen };
}

function readHistory() {
  try {
    return JSON.parse(browserStorage.get(HISTORY_KEY)) ?? [];
  } catch {
    return [];
  }
}
