/** A hit's score as a stacked bar: what each step gave to the right of zero, what it took to the left, hatched. */

import { el, svg } from "./dom.js";
import { change, score } from "./format.js";
import { inOrder, stepColour, stepName, swatch } from "./steps.js";

const ALIKE = 3;

/** The scale that all bars of some hits share: how far they reach to the left and to the right of zero. */
export function scaleOf(hits) {
  let left = 0;
  let right = 0;
  for (const { why } of hits) {
    const [minus, plus] = reach(why);
    left = Math.max(left, minus);
    right = Math.max(right, plus);
  }
  return { left, right, whole: left + right || 1 };
}

/** Scales for two lists: one for both where it fits both, else one each. Fusions differ in what a score is. */
export function scalesOf(hits, others) {
  const [own, other, both] = [scaleOf(hits), scaleOf(others), scaleOf([...hits, ...others])];
  const alike = Math.min(own.whole, other.whole) * ALIKE >= both.whole;
  return alike ? [both, both] : [own, other];
}

function reach(why) {
  let minus = 0;
  let plus = 0;
  for (const { change: by } of why) {
    if (by < 0) minus -= by;
    else plus += by;
  }
  return [minus, plus];
}

/** The bar as a picture; `scale` as from `scaleOf`. */
export function bar(why, scale) {
  const percent = (share) => `${((share / scale.whole) * 100).toFixed(3)}%`;
  let right = scale.left;
  let left = scale.left;
  const parts = inOrder(why).filter(({ change: by }) => by !== 0).map(({ step, change: by }) => {
    const from = by < 0 ? (left += by) : right;
    if (by > 0) right += by;
    const part = svg("rect", { x: percent(from), y: 0, width: percent(Math.abs(by)), height: "100%", class: "bar-part",
      "data-step": step });
    part.style.fill = by < 0 ? `url(#hatch-${step})` : stepColour(step);
    return part;
  });
  const zero = svg("line", { x1: percent(scale.left), x2: percent(scale.left), y1: -3, y2: 19, class: "bar-zero" });
  return svg("svg", { class: "bar", width: "100%", height: 16, "aria-hidden": "true", focusable: "false" }, parts, zero);
}

/** The same in words, for those who do not see it. */
export function barInWords({ score: total, why }) {
  return `Score ${score(total)}: ${inOrder(why).map(({ step, change: by }) => `${stepName(step)} ${change(by)}`).join(", ")}`;
}

/** The same as a table, with the arithmetic. */
export function barTable(hit) {
  return el(
    "table",
    { class: "figures why-table" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Step"), el("th", { scope: "col", class: "number" }, "Gives"),
      el("th", { scope: "col" }, "Because"))),
    el("tbody", {}, inOrder(hit.why).map(({ step, change: by, note }) =>
      el("tr", { "data-step": step }, el("th", { scope: "row" }, swatch(step, { negative: by < 0 }), stepName(step)),
        el("td", { class: "number" }, change(by)), el("td", {}, note || "–"))),
    el("tr", { class: "sum" }, el("th", { scope: "row" }, "Score"), el("td", { class: "number" }, score(hit.score)),
      el("td", {}))),
  );
}
