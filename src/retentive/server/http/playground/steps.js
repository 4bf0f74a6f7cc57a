/** The steps of ranking: what they are called, in which order they are drawn, and the colour each has everywhere. */

import { el, svg } from "./dom.js";

export const STEPS = {
  semantic: "meaning",
  keyword: "words",
  context: "context",
  time: "time",
  source: "source",
  decay: "age",
  quality: "quality",
  rerank: "rerank",
  diversity: "diversity",
};

export function stepName(step) {
  return STEPS[step] ?? step;
}

/** Reasons with the searches by meaning and by words first, in that order everywhere. */
export function inOrder(why) {
  const place = ({ step }) => (step === "semantic" ? 0 : step === "keyword" ? 1 : 2);
  return [...why].sort((a, b) => place(a) - place(b));
}

export function stepColour(step) {
  return step in STEPS ? `var(--step-${step})` : "var(--strong-line)";
}

/** A little square in the colour of a step; hatched where it takes away. */
export function swatch(step, { negative = false } = {}) {
  const square = svg("rect", { width: 10, height: 10, rx: 2 });
  square.style.fill = negative ? `url(#hatch-${step})` : stepColour(step);
  return svg("svg", { class: "swatch", width: 10, height: 10, "aria-hidden": "true" }, square);
}

/** The hatchings that bars refer to; once in a page. */
export function hatchings() {
  const patterns = Object.keys(STEPS).map((step) => {
    const ground = svg("rect", { width: 6, height: 6 });
    const line = svg("path", { d: "M0 0V6", "stroke-width": 5 });
    ground.style.fill = "var(--panel)";
    line.style.stroke = stepColour(step);
    return svg("pattern", { id: `hatch-${step}`, width: 6, height: 6, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)" }, ground, line);
  });
  return svg("svg", { class: "visually-hidden", width: 0, height: 0, "aria-hidden": "true" }, svg("defs", {}, patterns));
}

/** Which colour is which, for the steps that hits have. */
export function legend(hits) {
  const used = new Set(hits.flatMap((hit) => hit.why.map(({ step }) => step)));
  const negative = hits.some((hit) => hit.why.some(({ change }) => change < 0));
  return el(
    "ul",
    { class: "legend", "aria-label": "Colours of the steps" },
    Object.keys(STEPS).filter((step) => used.has(step)).map((step) => el("li", {}, swatch(step), stepName(step))),
    negative && el("li", {}, swatch("decay", { negative: true }), "hatched takes away"),
  );
}
