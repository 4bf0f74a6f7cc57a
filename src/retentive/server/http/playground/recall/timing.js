/** The summary of a recall: number of hits, time by stage, candidates of each retriever, and why it is degraded. */

import { el, svg } from "../shared/dom.js";
import { duration, number, plural, sentence } from "../shared/format.js";
import { addTooltip } from "../shared/overlays.js";
import { route } from "../shared/route.js";
import { formatPeriod } from "../shared/timeline.js";

/** The smallest relevance of an answer that probably answers, by the judge and without it, as in `models.py`. */
const LEAST_RELEVANCE = { judged: 0.06, other: 0.3 };

export function recallSummary(recall) {
  const { hits, retrievers, relevance, stages, elapsedMs, degraded, degradedReason, period } = recall;
  return el("div", { class: "timing" },
    el("p", { class: "timing-line" }, el("strong", {}, plural(hits.length, "hit")), " in ",
      el("span", { class: "mono" }, duration(elapsedMs)),
      el("span", { class: "quiet" }, " · candidates: ", retrievers.map(candidates).join(", "))),
    period && el("p", {}, el("span", { class: "tag", title: `“${period.words}” in the query` }, `Period: ${formatPeriod(period)}`)),
    stageBar(stages),
    relevance < ("judge" in stages ? LEAST_RELEVANCE.judged : LEAST_RELEVANCE.other) && el("p", { class: "note", role: "note" }, "Probably nothing stored answers this."),
    degraded && el("p", { class: "note warn", role: "note" }, el("strong", {}, `Degraded: ${degraded}. `),
      degradedReason && `${sentence(degradedReason)} `, el("a", { href: statusLink() }, "What to do")),
    retrievers.filter(({ note, ran, weight }) => note && weight > 0 && (ran || !degraded)).map(({ name, note }) =>
      el("p", { class: "quiet small" }, `${name}: ${note}`)));
}

function statusLink() {
  const profile = route.params.get("profile");
  return profile ? `#/status?${new URLSearchParams({ profile })}` : "#/status";
}

function candidates({ name, ran, found, weight }) {
  return ran ? `${number(found)} ${name}` : `no ${name} (${weight === 0 ? "weight 0" : "did not run"})`;
}

function stageBar(stages) {
  const names = Object.keys(stages);
  const total = Object.values(stages).reduce((sum, ms) => sum + ms, 0) || 1;
  let start = 0;
  const segments = names.map((name) => {
    const segment = svg("rect", { x: `${(start / total) * 100}%`, width: `${(stages[name] / total) * 100}%`, y: 0, height: "100%",
      class: "stage-segment" });
    if (name === "embed") segment.style.opacity = "0.55";
    start += stages[name];
    return segment;
  });
  const sentence = names.map((name) => `${name} ${duration(stages[name])}`).join(", ");
  const picture = svg("svg", { width: "100%", height: 4, "aria-hidden": "true" }, segments);
  const element = el("div", { class: "stages", role: "img", tabindex: 0, "aria-label": `Time by stage: ${sentence}` }, picture);
  return addTooltip(element, () => el("table", { class: "figures" }, el("tbody", {}, names.map((name) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, duration(stages[name])))))));
}
