/** The Recall view: a query, its hits and their scores, and the effect of other tuning parameters. */

import { el, replace } from "../shared/dom.js";
import { duration, plural } from "../shared/format.js";
import { createEvaluationPanel, createRatings } from "./evaluation.js";
import { openExplainDialog } from "./explain_dialog.js";
import { animateReorder, hitCard, hitList, removedRow } from "./hits.js";
import { createQueryBox } from "./query_box.js";
import { hitColour, rankChart } from "./rank_chart.js";
import { hatchPatterns, scalesOf, stepLegend } from "./score_bar.js";
import { recallSummary } from "./timing.js";
import { createTuningPanel } from "./tuning_panel.js";

export const title = "Recall";

const DEBOUNCE_MS = 150;
const SAMPLE_QUERIES = ["what does the cat eat?", "why did the logins fail?", "when was the oven delivered?"];

export function mount(root, app) {
  const queryBox = createQueryBox(app, { onSubmit: () => recall() });
  const tuning = createTuningPanel(app, { onChange: onTuningChange, onSave: () => (evaluation.refresh(), recall()),
    request: queryBox.request });
  const ratings = createRatings(app, () => ({ query: queryBox.request().query, project: app.scope.value.project }),
    () => evaluation.refresh());
  const evaluation = createEvaluationPanel(app, { unsaved: tuning.unsaved, apply: tuning.apply,
    onSave: () => tuning.load().then(recall), run: queryBox.run });
  const results = el("section", { class: "results", "aria-label": "Hits" });
  const chart = el("section", { class: "panel", "aria-label": "Fusion", hidden: true });
  /** What is shown: `shown` and, with unsaved changes, `saved` (responses), `moved` (changes of rank), and the request. */
  let state = null;
  let sideBySide = false;
  let pending = new AbortController();
  let timer = 0;

  function onTuningChange() {
    clearTimeout(timer);
    timer = setTimeout(() => (evaluation.refresh(), recall({ retuned: true })), DEBOUNCE_MS);
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
    if (!request.query) return showMessage(introState(app, queryBox.run));
    if (!hasChanges && retuned && state?.requestKey === requestKey && state.saved) {
      return showResults({ ...state, shown: state.saved, saved: null, moved: null });
    }
    setBusy(true);
    try {
      const next = hasChanges
        ? fromComparison(await app.api.post("v1/recall/compare", { ...request, a: null, b: unsaved, dropped: true }, { signal }))
        : { shown: await app.api.post("v1/recall", { ...request, explain: true, dropped: true }, { signal }), saved: null, moved: null };
      if (signal.aborted) return undefined;
      showResults({ ...next, requestKey });
      if (!retuned) queryBox.addToHistory(request.query);
      return ratings.load();
    } catch (error) {
      return error.name === "AbortError" ? undefined : showMessage(errorState(error, () => recall()));
    }
  }

  function setBusy(isBusy) {
    results.setAttribute("aria-busy", String(isBusy));
    if (isBusy && !results.firstChild) replace(results, loadingState());
  }

  function showMessage(message) {
    state = null;
    chart.hidden = true;
    setBusy(false);
    replace(results, message);
  }

  function showResults(next) {
    state = next;
    const { shown, moved } = next;
    setBusy(false);
    const summary = `${plural(shown.hits.length, "hit")} in ${duration(shown.elapsedMs)}`;
    app.announce(moved ? `${summary}, ${moved.filter(({ change }) => change !== 0).length} moved` : summary);
    if (!shown.hits.length && !moved?.length) {
      chart.hidden = true;
      return replace(results, recallSummary(shown), emptyState(app, openExplain));
    }
    drawResults();
    chart.hidden = shown.hits.length === 0;
    return replace(chart, el("div", { class: "panel-top" }, el("h2", {}, "Fusion")), rankChart(shown, { highlight, open: focusCard }));
  }

  function drawResults() {
    const list = results.querySelector(".hits.shown") ?? hitList("shown", "Hits");
    animateReorder(list, () => replace(results, resultsHeader(), hitLists(list)));
  }

  function hitLists(list) {
    const { shown, saved, moved } = state;
    const [scale, savedScale] = scalesOf(shown.hits, saved?.hits ?? shown.hits);
    const showBoth = saved && sideBySide;
    const removed = saved ? saved.hits.filter(({ id }) => !shown.hits.some((hit) => hit.id === id)) : [];
    replace(list, hitCards(shown, scale, moved));
    return el("div", { class: showBoth ? "lists side-by-side" : "lists" },
      showBoth && el("div", {}, el("h3", { class: "list-title" }, "Saved tuning"),
        replace(hitList("saved", "Hits with the saved tuning"), hitCards(saved, savedScale, null))),
      el("div", {}, showBoth && el("h3", { class: "list-title" }, "Unsaved changes"), list,
        removed.length > 0 && el("div", { class: "removed-hits" }, el("h3", { class: "list-title" }, "No longer in the result"),
          el("ul", {}, removed.map(removedRow)))));
  }

  function resultsHeader() {
    const { shown, saved } = state;
    const toggle = saved && el("button", {
      type: "button", class: "button", "aria-pressed": String(sideBySide),
      onclick: () => {
        sideBySide = !sideBySide;
        drawResults();
        results.querySelector(".results-tools [aria-pressed]")?.focus();
      },
    }, "Side by side");
    const explain = el("button", { type: "button", class: "button", title: "Explain the rank of any memory", onclick: openExplain },
      "Explain…");
    return el("div", { class: "results-top" }, recallSummary(shown),
      el("div", { class: "results-tools" }, stepLegend(shown.hits), el("div", { class: "results-buttons" }, toggle, explain)));
  }

  function hitCards({ hits, retrievers }, scale, moved) {
    const moves = new Map(moved?.map((move) => [move.id, move]));
    const names = retrievers.map(({ name }) => name).sort().reverse();
    return hits.map((hit, index) => hitCard(hit, {
      scale, retrievers: names, highlight, move: moved ? moves.get(hit.id) : null, tabbable: index === 0,
      colour: hitColour(index, hits.length), rating: ratings.buttons(hit),
    }));
  }

  /** Highlight a hit in the list and in the chart. */
  function highlight(id) {
    for (const each of root.querySelectorAll("[data-id]")) each.classList.toggle("on", each.dataset.id === id);
    chart.classList.toggle("has-highlight", id !== null);
  }

  function focusCard(id) {
    const hit = [...results.querySelectorAll(".shown .hit")].find((each) => each.dataset.id === id);
    hit?.querySelector(".hit-card").focus();
    hit?.scrollIntoView({ block: "nearest" });
  }

  function openExplain() {
    const unsaved = tuning.unsaved();
    const { hits = [], dropped = [] } = state?.shown ?? {};
    return openExplainDialog(app, { request: queryBox.request(), tuning: Object.keys(unsaved).length ? unsaved : null, hits, dropped });
  }

  replace(root, hatchPatterns(),
    el("div", { class: "recall-grid" }, el("div", { class: "left" }, queryBox.element, tuning.element),
      results, el("div", { class: "right" }, chart, evaluation.element)));
  tuning.load().catch((error) => app.toast(error.message, { kind: "error" }));
  evaluation.refresh();
  recall();
  const removeListeners = [queryBox.listen(), app.scope.onChange(() => (evaluation.refresh(), recall()))];
  return () => {
    pending.abort();
    clearTimeout(timer);
    evaluation.stop();
    for (const remove of removeListeners) remove();
  };
}

function fromComparison({ a, b, moved }) {
  return { shown: b, saved: a, moved };
}

/** Shown before the first query. */
function introState(app, run) {
  const actions = el("div", { class: "intro-actions" });
  addIntroActions(app, actions, run).catch(() => {});
  return el("div", { class: "state intro" }, el("h2", {}, "Recall what your agent remembers"),
    el("p", {}, "Enter a query. Each hit shows how every ranking step changed its score. ",
      "Change a tuning parameter to see how the ranking changes."),
    actions);
}

/** Offer to add memories to an empty store, or queries for the sample memories. */
async function addIntroActions(app, actions, run) {
  const { memories } = await app.api.get("v1/memories", { limit: 1 });
  if (!memories.length) {
    actions.append(el("p", {}, "There are no memories yet."), el("button", { type: "button", class: "button primary",
      onclick: () => app.go("#/memories") }, "Add memories"));
    return;
  }
  const { projects } = await app.api.get("v1/projects");
  if (!projects.some(({ name }) => name.startsWith("sample-"))) return;
  actions.append(...SAMPLE_QUERIES.map((text) => el("button", { type: "button", class: "button", onclick: () => run(text) }, text)));
}

function emptyState(app, openExplain) {
  const { project, session, kinds } = app.scope.value;
  const isNarrow = project || session || kinds;
  return el("div", { class: "state" }, el("h2", {}, "No hits"),
    el("p", {}, isNarrow ? "No memory in this scope matches the query." : "No memory matches the query."),
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

function loadingState() {
  const card = () => el("div", { class: "panel loading-card" }, el("div", { class: "skeleton" }), el("div", { class: "skeleton short" }));
  return el("div", { class: "loading", role: "status", "aria-label": "Loading hits" }, card(), card(), card());
}
