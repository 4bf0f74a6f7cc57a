/** The ranking steps and their colours, and the score of a hit as a stacked bar, a sentence and a table. */

import { el, svg } from "../shared/dom.js";
import { score, signed } from "../shared/format.js";

const STEPS = ["semantic", "keyword", "context", "time", "speaker", "source", "decay", "quality", "judge", "diversity"];
/** Two lists share one scale unless the scale of one is more than this many times the other's. */
const MAX_SCALE_RATIO = 3;

/** Return the reasons of the score with the two retrievers first, the semantic one before the keyword one. */
function inOrder(why) {
  const order = ({ step }) => (step === "semantic" ? 0 : step === "keyword" ? 1 : 2);
  return why.filter(({ step }) => step !== "relevance").sort((a, b) => order(a) - order(b));
}

export function stepColour(step) {
  return STEPS.includes(step) ? `var(--step-${step})` : "var(--strong-line)";
}

/** A small square in the colour of a step; hatched for a negative change. */
function swatch(step, { negative = false } = {}) {
  const square = svg("rect", { width: 10, height: 10, rx: 2 });
  square.style.fill = negative ? `url(#hatch-${step})` : stepColour(step);
  return svg("svg", { class: "swatch", width: 10, height: 10, "aria-hidden": "true" }, square);
}

/** The hatch patterns that bars and swatches refer to; needed once in the page. */
export function hatchPatterns() {
  const patterns = STEPS.map((step) => {
    const background = svg("rect", { width: 6, height: 6 });
    const line = svg("path", { d: "M0 0V6", "stroke-width": 5 });
    background.style.fill = "var(--panel)";
    line.style.stroke = stepColour(step);
    return svg("pattern", { id: `hatch-${step}`, width: 6, height: 6, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)" }, background, line);
  });
  return svg("svg", { class: "visually-hidden", width: 0, height: 0, "aria-hidden": "true" }, svg("defs", {}, patterns));
}

/** The colours of the steps that occur in some hits. */
export function stepLegend(hits) {
  const used = new Set(hits.flatMap((hit) => hit.why.map(({ step }) => step)));
  const hasNegative = hits.some((hit) => hit.why.some(({ change }) => change < 0));
  return el("ul", { class: "legend", "aria-label": "Colours of the ranking steps" },
    STEPS.filter((step) => used.has(step)).map((step) => el("li", {}, swatch(step), step)),
    hasNegative && el("li", {}, swatch("decay", { negative: true }), "negative"));
}

/** The scale that the bars of some hits share: how far they extend to the left and to the right of zero. */
function scaleOf(hits) {
  let left = 0;
  let right = 0;
  for (const { why } of hits) {
    const sum = (changes) => changes.reduce((total, change) => total + Math.abs(change), 0);
    const changes = why.map(({ change }) => change);
    left = Math.max(left, sum(changes.filter((change) => change < 0)));
    right = Math.max(right, sum(changes.filter((change) => change > 0)));
  }
  return { left, right, whole: left + right || 1 };
}

/** Scales for two lists. Fusion methods differ in the range of their scores, so very different lists get their own. */
export function scalesOf(hits, others) {
  const [own, other, both] = [scaleOf(hits), scaleOf(others), scaleOf([...hits, ...others])];
  return Math.min(own.whole, other.whole) * MAX_SCALE_RATIO >= both.whole ? [both, both] : [own, other];
}

/** The bar: positive changes to the right of zero, negative ones hatched to the left. */
export function scoreBar(why, scale) {
  const percent = (value) => `${((value / scale.whole) * 100).toFixed(3)}%`;
  let right = scale.left;
  let left = scale.left;
  const segments = inOrder(why).filter(({ change }) => change !== 0).map(({ step, change }) => {
    const start = change < 0 ? (left += change) : right;
    if (change > 0) right += change;
    const segment = svg("rect", { x: percent(start), y: 0, width: percent(Math.abs(change)), height: "100%", class: "bar-segment",
      "data-step": step });
    segment.style.fill = change < 0 ? `url(#hatch-${step})` : stepColour(step);
    return segment;
  });
  const zero = svg("line", { x1: percent(scale.left), x2: percent(scale.left), y1: -3, y2: 19, class: "bar-zero" });
  return svg("svg", { class: "bar", width: "100%", height: 16, "aria-hidden": "true", focusable: "false" }, segments, zero);
}

/** The score and its changes in a sentence, for screen readers. */
export function scoreSentence({ score: total, why }) {
  return `Score ${score(total)}: ${inOrder(why).map(({ step, change }) => `${step} ${signed(change)}`).join(", ")}`;
}

/** The rank, the change and the reason of each step, and the sum. */
export function scoreTable(hit) {
  return el("table", { class: "figures score-table" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Step"), el("th", { scope: "col", class: "number" }, "Change"),
      el("th", { scope: "col" }, "Reason"))),
    el("tbody", {}, inOrder(hit.why).map(({ step, rank, change, note }) =>
      el("tr", { "data-step": step }, el("th", { scope: "row" }, swatch(step, { negative: change < 0 }), step, rank !== null && ` #${rank}`),
        el("td", { class: "number" }, signed(change)), el("td", {}, note || "–"))),
    el("tr", { class: "sum" }, el("th", { scope: "row" }, "Score"), el("td", { class: "number" }, score(hit.score)),
      el("td", {})),
    hit.why.filter(({ step }) => step === "relevance").map(({ value, note }) =>
      el("tr", {}, el("th", { scope: "row" }, "Relevance"),
        el("td", { class: "number" }, value === null ? "–" : `${Math.round(100 * value)} %`), el("td", {}, note)))));
}
