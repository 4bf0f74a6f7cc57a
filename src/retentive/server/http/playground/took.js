/** How a recall went: how long, in which stages, how much each search brought, and what was missing. */

import { el, svg } from "./dom.js";
import { count, duration } from "./format.js";
import { stepColour, stepName } from "./steps.js";
import { tipOn } from "./tip.js";

const STAGE_COLOURS = { embed: "semantic", semantic: "semantic", keyword: "keyword", rerank: "rerank", score: "context" };
const RETRIEVERS = { semantic: "by meaning", keyword: "by words" };

export function took(recall) {
  const { hits, retrievers, stages, elapsedMs, degraded, degradedReason } = recall;
  return el(
    "div",
    { class: "took" },
    el("p", { class: "took-line" }, el("strong", {}, count(hits.length, "memory", "memories")), " in ",
      el("span", { class: "mono" }, duration(elapsedMs)),
      el("span", { class: "quiet" }, " from ", retrievers.map((retriever, place) => [place > 0 && " and ", candidates(retriever)]))),
    stageBar(stages),
    degraded && el("p", { class: "note warn", role: "note" }, el("strong", {}, `Degraded: ${degraded}. `), degradedReason ?? ""),
    retrievers.filter(({ note, ran, weight }) => note && weight > 0 && (ran || !degraded)).map(({ name, note }) =>
      el("p", { class: "quiet small" }, `${RETRIEVERS[name] ?? name}: ${note}`)),
  );
}

function candidates({ name, ran, found, weight }) {
  const by = RETRIEVERS[name] ?? name;
  return ran ? `${found.toLocaleString("en")} ${by}` : `none ${by} (${weight === 0 ? "weight 0" : "did not run"})`;
}

function stageBar(stages) {
  const names = Object.keys(stages);
  const whole = Object.values(stages).reduce((sum, ms) => sum + ms, 0) || 1;
  let from = 0;
  const parts = names.map((name) => {
    const part = svg("rect", { x: `${(from / whole) * 100}%`, width: `${(stages[name] / whole) * 100}%`, y: 0, height: "100%",
      class: "stage-part" });
    part.style.fill = STAGE_COLOURS[name] ? stepColour(STAGE_COLOURS[name]) : "var(--step-decay)";
    if (name === "embed") part.style.opacity = "0.55";
    from += stages[name];
    return part;
  });
  const words = names.map((name) => `${name} ${duration(stages[name])}`).join(", ");
  const picture = svg("svg", { width: "100%", height: 4, "aria-hidden": "true" }, parts);
  return tipOn(el("div", { class: "stages", role: "img", tabindex: 0, "aria-label": `Stages: ${words}` }, picture), () =>
    el("table", { class: "figures" }, el("tbody", {}, names.map((name) => el("tr", {},
      el("th", { scope: "row" }, name === "semantic" || name === "keyword" ? `search by ${stepName(name)}` : name),
      el("td", { class: "number" }, duration(stages[name])))))));
}
