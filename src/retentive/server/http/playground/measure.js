/** How well the tuning in force, and the turned one, find what was judged good: in the mean and for each query. */

import { el, replace } from "./dom.js";
import { change } from "./format.js";
import { createTune } from "./tune.js";

const PLACES = 3;
const PAUSE = 250;

/**
 * @param {object} app
 * @param {{turned: () => object, take: (parameters: object) => void, onKept: () => void, ask: (query: string) => void}} ways
 */
export function createMeasure(app, { turned, take, onKept, ask }) {
  const body = el("div", { class: "measure-body", "aria-live": "polite" });
  const tune = createTune(app, { take, onKept });
  const element = el("section", { class: "panel measure", "aria-label": "Measure" },
    el("div", { class: "panel-top" }, el("h2", {}, "Measure")), body, tune.element);
  let running = false;
  let again = false;
  let timer = 0;

  /** Measures anew in a moment. Every judged query is asked for it, so there is one measuring at a time. */
  function refresh() {
    clearTimeout(timer);
    timer = setTimeout(measure, PAUSE);
  }

  async function measure() {
    again = running;
    if (running) return;
    running = true;
    element.setAttribute("aria-busy", "true");
    await measureOnce();
    element.setAttribute("aria-busy", "false");
    running = false;
    if (again) measure();
  }

  async function measureOnce() {
    const parameters = turned();
    const isTurned = Object.keys(parameters).length > 0;
    const { project } = app.scope.value;
    try {
      const measured = await app.api.post("v1/measure", { a: null, b: isTurned ? parameters : null, ...(project && { project }) });
      replace(body, measured.n ? figures(measured, isTurned, ask) : nothing());
      tune.allow(measured.n > 0);
    } catch (problem) {
      replace(body, el("p", { class: "note error" }, problem.detail ?? String(problem)));
      tune.allow(false);
    }
  }

  return {
    element,
    refresh,
    stop() {
      clearTimeout(timer);
      tune.stop();
    },
  };
}

function nothing() {
  return el("p", { class: "quiet" }, "Judge some hits with the thumbs, and the figures of your own queries stand here: ",
    "before a parameter is kept, you see what it gains.");
}

function figures({ metrics, a, b, queries, sentence, degraded, degradedReason }, isTurned, ask) {
  const row = (name, values) => el("tr", {}, el("th", { scope: "row" }, name),
    metrics.map((metric) => el("td", { class: "number" }, values[metric].toFixed(PLACES))));
  return [
    el("table", { class: "figures measure-table" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Tuning"),
        metrics.map((name) => el("th", { scope: "col", class: "number" }, name)))),
      el("tbody", {}, row("In force", a), isTurned && row("Turned", b),
        isTurned && el("tr", { class: "difference" }, el("th", { scope: "row" }, "Difference"),
          metrics.map((metric) => difference(b[metric] - a[metric]))))),
    el("p", { class: "small quiet" }, `Mean over ${sentence}.`),
    degraded && el("p", { class: "note warn" }, `Degraded: ${degraded}. ${degradedReason ?? ""}`),
    el("details", { class: "per-query", open: queries.length <= 5 }, el("summary", { class: "small" }, "By query"),
      el("ul", {}, queries.map((each) => queryRow(each, metrics[0], isTurned, ask)))),
  ];
}

function difference(by) {
  const sign = by > 0.0005 ? "better" : by < -0.0005 ? "worse" : "";
  return el("td", { class: `number ${sign}` }, change(by, PLACES));
}

function queryRow({ query, relevant, a, b }, metric, isTurned, ask) {
  const by = b[metric] - a[metric];
  const sign = by > 0.0005 ? "better" : by < -0.0005 ? "worse" : "";
  return el("li", { class: "measured" },
    el("button", { type: "button", class: "measured-query", title: `Ask it; ${relevant} judged good`,
      onclick: () => ask(query) }, query),
    el("span", { class: "mono small" }, a[metric].toFixed(PLACES)),
    isTurned && el("span", { class: `mono small ${sign}`, title: `${metric} with the turned parameters` }, change(by, PLACES)));
}
