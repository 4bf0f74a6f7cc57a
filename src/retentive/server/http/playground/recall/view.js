/** The Recall view: a query, its hits and their scores, and the effect of other tuning parameters. */

import { el, replace } from "../shared/dom.js";
import { duration, plural } from "../shared/format.js";
import { createEvaluationPanel, createRatings } from "./evaluation.js";
import { openExplainDialog } from "./explain_dialog.js";
import { createIntro } from "./intro.js";
import { createQueryBox } from "./query_box.js";
import { rankChart } from "./rank_chart.js";
import { createResults } from "./results.js";
import { hatchPatterns } from "./score_bar.js";
import { createTuningPanel } from "./tuning_panel.js";

export const title = "Recall";

const RETUNE_MS = 120;

/**
 * @param {HTMLElement} root
 * @param {App} app
 */
export function mount(root, app) {
  const queryBox = createQueryBox(app, { onSubmit: () => recall() });
  const tuning = createTuningPanel(app, { onChange: onTuningChange, onSave: () => (evaluation.refresh(), recall()),
    onOpen: () => results.showFirst(), request: queryBox.request });
  const ratings = createRatings(app, () => ({ query: queryBox.request().query, project: app.scope.value.project }),
    () => evaluation.refresh());
  const evaluation = createEvaluationPanel(app, { unsaved: tuning.unsaved, apply: tuning.apply,
    onSave: () => tuning.load().then(() => recall()), run: queryBox.run });
  const results = createResults(app, { rating: ratings.buttons, highlight, openExplain });
  const chart = el("section", { class: "panel", "aria-label": "Fusion", hidden: true });
  const intro = createIntro(app, { run: queryBox.run, onEmpty: (isEmpty) => grid.classList.toggle("is-empty", isEmpty) });
  const grid = el("div", { class: "recall-grid" }, intro.head, el("div", { class: "query-place" }, queryBox.element), intro.body,
    tuning.element, results.element, el("div", { class: "right" }, chart, evaluation.element));
  /** What is shown: `shown` and, with unsaved changes, `saved` (responses), `moved` (changes of rank), and the request. */
  let state = null;
  let pending = new AbortController();
  let timer = 0;
  let isRetuning = false;
  let retuneAgain = false;

  function onTuningChange() {
    evaluation.refresh();
    timer ||= setTimeout(retune, RETUNE_MS);
  }

  /** Recall with the changed tuning: one recall at a time, so that the hits follow a slider while it is moved. */
  async function retune() {
    timer = 0;
    retuneAgain = isRetuning;
    if (isRetuning) return;
    isRetuning = true;
    await recall({ retuned: true });
    isRetuning = false;
    if (retuneAgain) retune();
  }

  /** Recall with the saved tuning or, if there are unsaved changes, with both tunings. */
  async function recall({ retuned = false } = {}) {
    const request = queryBox.request();
    const requestKey = JSON.stringify(request);
    const unsaved = tuning.unsaved();
    const hasChanges = Object.keys(unsaved).length > 0;
    pending.abort();
    pending = new AbortController();
    const { signal } = pending;
    showIntro(!request.query);
    if (!request.query) return;
    if (!hasChanges && retuned && state?.requestKey === requestKey && state.saved) {
      showResults({ ...state, shown: state.saved, saved: null, moved: null });
      return;
    }
    results.setBusy(true);
    try {
      const next = hasChanges
        ? fromComparison(await app.api.post("v1/recall/compare", { ...request, a: null, b: unsaved, dropped: true }, { signal }))
        : { shown: await app.api.post("v1/recall", { ...request, explain: true, dropped: true }, { signal }), saved: null, moved: null };
      if (signal.aborted) return;
      if (!retuned) results.forgetCards();
      showResults({ ...next, requestKey });
      if (retuned) return;
      queryBox.addToHistory(request.query);
      ratings.load().catch((error) => app.toast(error.message, { kind: "error" }));
    } catch (error) {
      if (error.name !== "AbortError") showMessage(errorState(error, () => recall()));
    }
  }

  function showIntro(isIntro) {
    grid.classList.toggle("is-intro", isIntro);
    grid.classList.remove("is-empty");
    intro.stop();
    if (!isIntro) return;
    state = null;
    results.clear();
    intro.load();
  }

  function showMessage(message) {
    state = null;
    chart.hidden = true;
    results.setBusy(false);
    replace(results.element, message);
  }

  function showResults(next) {
    state = next;
    const { shown, moved } = next;
    results.setBusy(false);
    const summary = `${plural(shown.hits.length, "hit")} in ${duration(shown.elapsedMs)}`;
    app.announce(moved ? `${summary}, ${moved.filter(({ change }) => change !== 0).length} moved` : summary);
    chart.hidden = shown.hits.length === 0;
    if (!shown.hits.length && !moved?.length) {
      results.showNone(shown, emptyState(app, openExplain, shown));
      showEmptyStore();
      return;
    }
    results.draw(state);
    replace(chart, el("div", { class: "panel-top" }, el("h2", {}, "Fusion")), rankChart(shown, { highlight, open: results.focusCard }));
  }

  /** Show the ways to add memories if there are none. */
  async function showEmptyStore() {
    const { memories } = await app.api.get("v1/memories", { limit: 1, includeRetired: true }).catch(() => ({ memories: [null] }));
    if (!memories.length && grid.isConnected) showIntro(true);
  }

  /** Highlight a hit in the list and in the chart. */
  function highlight(id) {
    for (const each of root.querySelectorAll("[data-id]")) each.classList.toggle("on", each.getAttribute("data-id") === id);
    chart.classList.toggle("has-highlight", id !== null);
  }

  function openExplain() {
    const unsaved = tuning.unsaved();
    const { hits, dropped } = state?.shown ?? { hits: [], dropped: [] };
    return openExplainDialog(app, { request: queryBox.request(), tuning: Object.keys(unsaved).length ? unsaved : null, hits, dropped });
  }

  function explainOnKey(event) {
    if (event.key !== "?" || !queryBox.request().query || event.target.closest?.("input, textarea, select, dialog")) return;
    event.preventDefault();
    openExplain();
  }

  replace(root, hatchPatterns(), grid);
  tuning.load().catch((error) => app.toast(error.message, { kind: "error" }));
  evaluation.refresh();
  recall();
  addEventListener("keydown", explainOnKey);
  const removeListeners = [queryBox.listen(), app.scope.onChange(() => (evaluation.refresh(), recall()))];
  return () => {
    pending.abort();
    clearTimeout(timer);
    evaluation.stop();
    intro.stop();
    removeEventListener("keydown", explainOnKey);
    for (const remove of removeListeners) remove();
  };
}

function fromComparison({ a, b, moved }) {
  return { shown: b, saved: a, moved };
}

function emptyState(app, openExplain, { dropped }) {
  const { project, session, kinds } = app.scope.value;
  const isNarrow = project || session || kinds;
  return el("div", { class: "state" }, el("h2", {}, "No hits"),
    el("p", {}, dropped?.length ? "What was found was left out: see the explanation of a memory." : isNarrow ? "No memory in this scope matches the query." : "No memory matches the query."),
    isNarrow && el("button", { type: "button", class: "button",
      onclick: () => app.scope.set({ project: null, session: null, kinds: null }) }, "Search all memories"),
    " ", el("button", { type: "button", class: "button", onclick: openExplain }, "Explain a memory…"));
}

function errorState(error, retry) {
  const needsToken = error.status === 401;
  return el("div", { class: "state", role: "alert" },
    el("h2", {}, needsToken ? "Token required" : "The recall failed"),
    el("p", {}, error.message),
    error.errors?.map(({ field, message }) => el("p", { class: "small" }, `${field}: ${message}`)),
    el("button", { type: "button", class: "button", onclick: retry }, needsToken ? "Enter a token" : "Try again"));
}
