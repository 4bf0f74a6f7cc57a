/** The metrics of two tunings on the judged queries, and a paired test of the difference. */

import { el, replace } from "../shared/dom.js";
import { score, sentence, signed } from "../shared/format.js";

const MAX_QUERIES = 200;
const MAX_ROWS = 12;
const SIGNIFICANT = 0.05;

/** @param {App} app @param {(query: string) => void} run  called with a query to compare */
export function createJudged(app, run) {
  const content = el("div", {});
  const element = el("section", { class: "panel compare-judged", "aria-labelledby": "compare-judged" },
    el("div", { class: "panel-top" }, el("h2", { id: "compare-judged" }, "On your judgements")), content);
  let pending = new AbortController();

  /** Measure two sides, given as the fields of the request; `same` says that they do not differ. */
  async function measure(sides, same) {
    pending.abort();
    pending = new AbortController();
    const { signal } = pending;
    element.setAttribute("aria-busy", "true");
    if (!content.firstChild) replace(content, el("p", { class: "quiet" }, "Measuring…"));
    try {
      const { project } = app.scope.value;
      const measured = await app.api.post("v1/measure", { ...sides, ...(project && { project }), limit: MAX_QUERIES }, { signal });
      if (!signal.aborted) replace(content, parts(measured, same));
    } catch (error) {
      if (error.name === "AbortError") return;
      replace(content, el("p", { class: "note error" }, error.message));
    }
    element.setAttribute("aria-busy", "false");
  }

  function parts(measured, same) {
    if (!measured.n) {
      return el("p", { class: "quiet" }, "No query has a memory that was judged good. Judge hits with the thumbs in ",
        el("a", { href: "#/recall" }, "Recall"), ", and the metrics of A and B appear here.");
    }
    return [
      measured.degraded && el("p", { class: "note warn" }, sentence(measured.degradedReason ?? measured.degraded)),
      el("p", { class: "compare-verdict" }, same ? "A and B are the same." : verdict(measured)),
      el("div", { class: "compare-judged-columns" },
        el("div", {},
          el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Metrics of A and B" }, metricsTable(measured)),
          el("p", { class: "quiet small" }, `Means over ${measured.sentence}. p: two-sided paired randomisation test.`)),
        queriesTable(measured)),
    ];
  }

  function queriesTable({ queries, metrics: [metric] }) {
    const differing = queries.map((query) => ({ ...query, change: query.b[metric] - query.a[metric] }))
      .filter(({ change }) => change !== 0).sort((x, y) => Math.abs(y.change) - Math.abs(x.change));
    if (!differing.length) return el("p", { class: "quiet small" }, `No query has another ${metric} in B.`);
    const better = differing.filter(({ change }) => change > 0).length;
    return el("details", { class: "compare-queries", open: true },
      el("summary", { class: "small" }, `${metric} by query: ${better} better in B, ${differing.length - better} worse`),
      el("table", { class: "figures" },
        el("thead", {}, el("tr", {}, ["Query", "A", "B", "B − A"].map((name, index) => el("th", { scope: "col", class: index ? "number" : null }, name)))),
        el("tbody", {}, differing.slice(0, MAX_ROWS).map(({ query, a, b, change }) => el("tr", {},
          el("td", {}, el("button", { type: "button", class: "link", onclick: () => run(query) }, query)),
          el("td", { class: "number" }, score(a[metric])), el("td", { class: "number" }, score(b[metric])),
          el("td", { class: `number ${change > 0 ? "better" : "worse"}` }, signed(change)))))),
      differing.length > MAX_ROWS && el("p", { class: "quiet small" }, `and ${differing.length - MAX_ROWS} more`));
  }

  return { element, measure };
}

function verdict({ n, a, b, p, metrics: [metric] }) {
  const change = b[metric] - a[metric];
  const chance = p[metric] < 0.001 ? "p < 0.001" : `p = ${p[metric].toFixed(3)}`;
  if (Number(change.toFixed(3)) === 0) return `${metric} does not differ (${chance}).`;
  const which = `B is ${change > 0 ? "better" : "worse"} than A by ${Math.abs(change).toFixed(3)} in ${metric} (${chance})`;
  if (p[metric] < SIGNIFICANT) return `${which}.`;
  return `${which}, which may be chance${n < 20 ? `: ${n === 1 ? "one query is" : `${n} queries are`} few` : ""}.`;
}

function metricsTable({ metrics, a, b, p }) {
  return el("table", { class: "figures compare-metrics" },
    el("thead", {}, el("tr", {}, ["Metric", "A", "B", "B − A", "p"].map((name, index) => el("th", { scope: "col", class: index ? "number" : null }, name)))),
    el("tbody", {}, metrics.map((metric) => {
      const change = b[metric] - a[metric];
      return el("tr", {}, el("th", { scope: "row" }, metric), el("td", { class: "number" }, score(a[metric])), el("td", { class: "number" }, score(b[metric])),
        el("td", { class: `number ${change > 0 ? "better" : change < 0 ? "worse" : ""}` }, signed(change)), el("td", { class: "number" }, p[metric].toFixed(3)));
    })));
}
