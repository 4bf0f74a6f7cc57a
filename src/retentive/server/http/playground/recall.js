/** The view Recall: a query, its hits and why, and what other parameters would make of it. */

import { scalesOf } from "./bars.js";
import { bumpChart, hitColour } from "./bump.js";
import { el, replace } from "./dom.js";
import { flip } from "./flip.js";
import { count, duration } from "./format.js";
import { goneRow, hitCard, walkByArrows } from "./hits.js";
import { createJudge } from "./judge.js";
import { createParameters } from "./parameters.js";
import { createMeasure } from "./measure.js";
import { queryForm } from "./query.js";
import { emptyState, errorState, introState, loadingState } from "./recall_states.js";
import { hatchings, legend } from "./steps.js";
import { took } from "./took.js";
import { openWhyNot } from "./whynot.js";

export const title = "Recall";
const PAUSE = 150;

export function mount(root, app) {
  const form = queryForm(app, { onAsk: () => ask() });
  const parameters = createParameters(app, { onTurn: turned, onKept: () => (measure.refresh(), ask()), query: form.query });
  const judge = createJudge(app, () => ({ query: form.query().query, project: app.scope.value.project }), () => measure.refresh());
  const measure = createMeasure(app, { turned: () => parameters.turned(), take: (found) => parameters.take(found),
    onKept: () => parameters.load().then(ask), ask: form.ask });
  const results = el("section", { class: "results", "aria-label": "Hits" });
  const chart = el("section", { class: "panel chart-panel", "aria-label": "Fusion", hidden: true });
  let given = null;
  let beside = false;
  let asking = new AbortController();
  let timer = 0;

  function turned() {
    clearTimeout(timer);
    timer = setTimeout(() => (measure.refresh(), ask({ again: true })), PAUSE);
  }

  async function ask({ again = false } = {}) {
    const query = form.query();
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    if (!query.query) return showIntro();
    const parametersNow = parameters.turned();
    const wasAsked = JSON.stringify(query);
    const any = Object.keys(parametersNow).length > 0;
    if (!any && again && given?.asked === wasAsked && given.base) {
      return showGiven({ ...given, shown: given.base, base: null, moved: null });
    }
    busy(true);
    try {
      const answer = any
        ? compared(await app.api.post("v1/recall/compare", { ...query, a: null, b: parametersNow, dropped: true }, { signal }))
        : { shown: await app.api.post("v1/recall", { ...query, explain: true, dropped: true }, { signal }), base: null, moved: null };
      if (signal.aborted) return undefined;
      showGiven({ ...answer, asked: wasAsked });
      if (!again) form.remember(query.query);
      return judge.load();
    } catch (problem) {
      if (problem.name === "AbortError") return undefined;
      return showError(problem);
    }
  }

  function busy(is) {
    results.setAttribute("aria-busy", String(is));
    if (is && !results.firstChild) replace(results, loadingState());
  }

  function showIntro() {
    given = null;
    chart.hidden = true;
    busy(false);
    replace(results, introState(app, form.ask));
  }

  function showError(problem) {
    given = null;
    chart.hidden = true;
    busy(false);
    replace(results, errorState(problem, () => ask()));
  }

  function showGiven(answer) {
    given = answer;
    const { shown, moved } = answer;
    busy(false);
    const movedCount = moved?.filter(({ change }) => change !== 0).length;
    const found = `${count(shown.hits.length, "memory", "memories")} in ${duration(shown.elapsedMs)}`;
    app.announce(moved ? `${found}, ${movedCount} moved` : found);
    if (!shown.hits.length && !moved?.length) {
      chart.hidden = true;
      return replace(results, took(shown), emptyState(app, openWhy));
    }
    drawResults(answer);
    chart.hidden = shown.hits.length === 0;
    return replace(chart, el("div", { class: "panel-top" }, el("h2", {}, "Fusion")), bumpChart(shown, { highlight, open: openCard }));
  }

  function drawResults(answer) {
    const list = results.querySelector(".hits.now") ?? hitList("now", "Hits");
    flip(list, () => replace(results, resultsTop(answer), bothLists(answer, list)));
  }

  function bothLists({ shown, base, moved }, list) {
    const [scale, baseScale] = scalesOf(shown.hits, base?.hits ?? shown.hits);
    const both = base && beside;
    const gone = base ? base.hits.filter(({ id }) => !shown.hits.some((hit) => hit.id === id)) : [];
    replace(list, cards(shown, scale, moved));
    return el("div", { class: both ? "lists beside" : "lists" },
      both && el("div", {}, el("h3", { class: "list-title" }, "In force"),
        replace(hitList("before", "Hits as in force"), cards(base, baseScale, null))),
      el("div", {}, both && el("h3", { class: "list-title" }, "With the turned parameters"), list,
        gone.length > 0 && el("div", { class: "gone-block" }, el("h3", { class: "list-title" }, "Fell out"),
          el("ul", {}, gone.map((hit) => goneRow(hit, `was ${hit.rank}`))))));
  }

  function resultsTop({ shown, base }) {
    const toggle = base && el("button", {
      type: "button", class: "button", "aria-pressed": String(beside),
      onclick: () => {
        beside = !beside;
        drawResults(given);
        results.querySelector(".results-tools [aria-pressed]")?.focus();
      },
    }, "Side by side");
    const why = el("button", { type: "button", class: "button", onclick: openWhy }, "Why not?");
    return el("div", { class: "results-top" }, took(shown),
      el("div", { class: "results-tools" }, legend(shown.hits), el("div", { class: "results-buttons" }, toggle, why)));
  }

  function cards(recall, scale, moved) {
    const moves = new Map(moved?.map((move) => [move.id, move]));
    const retrievers = recall.retrievers.map(({ name }) => name).sort().reverse();
    return recall.hits.map((hit, place) => hitCard(hit, {
      scale, retrievers, highlight, move: moved ? moves.get(hit.id) : null, tabbable: place === 0,
      colour: hitColour(place, recall.hits.length), thumbs: judge.thumbs(hit),
    }));
  }

  function highlight(id) {
    for (const each of root.querySelectorAll("[data-id]")) each.classList.toggle("on", each.dataset.id === id);
    chart.classList.toggle("has-on", id !== null);
  }

  function openCard(id) {
    const card = [...results.querySelectorAll(".now .hit")].find((each) => each.dataset.id === id)?.querySelector(".hit-card");
    card?.focus();
    card?.scrollIntoView({ block: "nearest" });
  }

  function openWhy() {
    const tuning = Object.keys(parameters.turned()).length ? parameters.turned() : null;
    const { hits = [], dropped = [] } = given?.shown ?? {};
    return openWhyNot(app, { query: form.query(), tuning, hits, dropped });
  }

  replace(root, hatchings(),
    el("div", { class: "recall-grid" }, el("div", { class: "left" }, form.element, parameters.element),
      results, el("div", { class: "right" }, chart, measure.element)));
  parameters.load().catch((problem) => app.toast(problem.detail ?? String(problem), { kind: "error" }));
  measure.refresh();
  ask();
  const ends = [form.listen(), app.scope.onChange(() => (measure.refresh(), ask()))];
  return () => {
    asking.abort();
    clearTimeout(timer);
    measure.stop();
    for (const end of ends) end();
  };
}

function compared({ a, b, moved }) {
  return { shown: b, base: a, moved };
}

function hitList(name, label) {
  const list = el("ol", { class: `hits ${name}`, "aria-label": label });
  walkByArrows(list);
  return list;
}
