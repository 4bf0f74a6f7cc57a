/** The Compare view: two tunings on one query, and on the judged queries. The address has all of it. */

import { el, replace } from "../shared/dom.js";
import { duration, sentence } from "../shared/format.js";
import { sampleQueries } from "../shared/samples.js";
import { createJudged } from "./judged.js";
import { comparisonLists, movesSentence } from "./lists.js";
import { asTuning, createTuningPicker, tuningName } from "./tuning_picker.js";

export const title = "Compare";

const DEBOUNCE_MS = 200;
const DEFAULT_B = "classic-rrf";
const LIMITS = [5, 10, 20, 50];

export function mount(root, app) {
  const query = el("input", { type: "search", placeholder: "A query, such as: where is the spare key?", autocomplete: "off" });
  const limit = el("select", { onchange: () => app.route.update({ limit: limit.value }) }, LIMITS.map((count) => el("option", { value: count }, `${count} hits`)));
  const pickers = Object.fromEntries(["a", "b"].map((side) => [side, createTuningPicker(side.toUpperCase(), (choice) => setChoice(side, choice))]));
  const swap = el("button", { type: "button", class: "button icon compare-swap", "aria-label": "Swap A and B", title: "Swap A and B", onclick: swapSides }, "⇄");
  const results = el("section", { class: "compare-results", "aria-label": "Hits of A and B" });
  const judged = createJudged(app, (text) => {
    app.route.update({ q: text }, { push: true });
    query.focus();
    scrollTo({ top: 0 });
  });
  const form = el("form", { class: "compare-form", role: "search", onsubmit: submit },
    el("label", { class: "compare-query" }, el("span", { class: "visually-hidden" }, "Query"), query),
    el("label", {}, el("span", { class: "visually-hidden" }, "Number of hits"), limit), el("button", { class: "button primary" }, "Compare"));
  const view = el("div", { class: "compare" }, el("h1", { class: "visually-hidden" }, "Compare two tunings"), form,
    el("div", { class: "compare-tunings" }, pickers.a.element, swap, pickers.b.element), results, judged.element);
  let pending = new AbortController();
  let timer = 0;
  let isLoaded = false;
  let recalled = "";
  let measured = "";
  let shownQuery = null;

  function submit(event) {
    event.preventDefault();
    recalled = "";
    app.route.update({ q: query.value.trim() }, { push: true });
    followRoute();
  }

  function choiceOf(side) {
    const { params } = app.route;
    const base = params.get(side) ?? (side === "b" ? DEFAULT_B : "");
    return { base: base === "saved" ? "" : base, changes: parseChanges(params.get(`${side}Set`)) };
  }

  function asParams(side, { base, changes }) {
    const set = Object.keys(changes).length ? JSON.stringify(changes) : null;
    return { [side]: base || "saved", [`${side}Set`]: set };
  }

  function setChoice(side, choice) {
    app.route.update(asParams(side, choice));
  }

  function swapSides() {
    app.route.update({ ...asParams("a", pickers.b.value()), ...asParams("b", pickers.a.value()) });
  }

  function followRoute() {
    if (!isLoaded) return;
    const { params } = app.route;
    if (shownQuery !== params.get("q")) query.value = params.get("q") ?? ""; // else what is typed stays
    shownQuery = params.get("q");
    limit.value = LIMITS.includes(Number(params.get("limit"))) ? params.get("limit") : "10";
    for (const side of ["a", "b"]) pickers[side].show(choiceOf(side));
    clearTimeout(timer);
    timer = setTimeout(compare, DEBOUNCE_MS);
  }

  async function compare() {
    const choices = { a: pickers.a.value(), b: pickers.b.value() };
    const sides = { a: asTuning(choices.a), b: asTuning(choices.b) };
    const text = (app.route.params.get("q") ?? "").trim();
    const same = JSON.stringify(sides.a) === JSON.stringify(sides.b);
    const measureKey = JSON.stringify([sides, app.scope.value]);
    const recallKey = JSON.stringify([text, sides, limit.value, app.scope.value]);
    if (recallKey === recalled && measureKey === measured) return;
    if (measureKey !== measured) judged.measure(sides, same);
    measured = measureKey;
    if (recallKey === recalled) return;
    recalled = recallKey;
    pending.abort();
    pending = new AbortController();
    if (text) await recall(text, sides, choices, pending.signal);
    else replace(results, intro());
  }

  async function recall(text, sides, choices, signal) {
    results.setAttribute("aria-busy", "true");
    try {
      const found = await app.api.post("v1/recall/compare", { query: text, ...sides, limit: Number(limit.value), ...app.scope.asRequest() }, { signal });
      if (signal.aborted) return;
      const moves = movesSentence(found.moved);
      const names = { a: tuningName(choices.a), b: tuningName(choices.b) };
      replace(results, el("p", { class: "compare-summary" }, el("strong", {}, `From A to B: ${moves}.`),
        el("span", { class: "quiet small" }, ` A took ${duration(found.a.elapsedMs)}, B ${duration(found.b.elapsedMs)}.`)),
      ["a", "b"].filter((side) => found[side].degraded).map((side) =>
        el("p", { class: "note warn" }, `${side.toUpperCase()} is ${found[side].degraded}: ${sentence(found[side].degradedReason ?? "")}`)),
      found.moved.length ? comparisonLists(found, names) : noHits());
      app.announce(`From A to B: ${moves}`);
    } catch (error) {
      if (error.name === "AbortError") return;
      recalled = "";
      replace(results, el("p", { class: "note error" }, error.message));
    }
    results.setAttribute("aria-busy", "false");
  }

  function noHits() {
    return el("div", { class: "state" }, el("p", {}, "No memory in this scope matches the query. ", el("a", { href: "#/memories" }, "Memories"), " shows what is stored, and adds more."));
  }

  function intro() {
    const examples = el("div", { class: "compare-examples" });
    sampleQueries(app).then((queries) => replace(examples, queries?.map((text) => el("button", { type: "button", class: "button",
      onclick: () => app.route.update({ q: text }, { push: true }) }, text)))).catch(() => {});
    return el("div", { class: "state" }, el("p", {}, "Enter a query to see its hits with A and B: which memories move up or down, enter or leave the result."), examples);
  }

  async function load() {
    try {
      const [schema, saved, presets] = await Promise.all(
        [app.api.get("settings/schema"), app.api.get("settings"), app.api.get("settings/presets")]);
      for (const picker of Object.values(pickers)) picker.load({ schema: schema.properties, saved, presets });
      isLoaded = true;
      followRoute();
    } catch (error) {
      replace(results, el("p", { class: "note error" }, error.message));
    }
  }

  const removeListener = app.route.onChange(() => app.route.view === "compare" && followRoute());
  root.append(view);
  load();
  query.focus({ preventScroll: true });
  return () => {
    removeListener();
    clearTimeout(timer);
    pending.abort();
  };
}

/** The changed parameters of an address; none if they are not valid JSON. */
function parseChanges(text) {
  try {
    const value = JSON.parse(text ?? "{}");
    return value && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}
