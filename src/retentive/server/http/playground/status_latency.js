/** How long recalls take: for each stage a bar from the median to the 95th of a hundred, on a scale of powers of ten. */

import { el, svg } from "./dom.js";

const MEANING = {
  whole: "the whole recall",
  embed: "the query to a vector",
  semantic: "search by meaning",
  keyword: "search by words, beside embed and semantic",
  fetch: "read the memories",
  context: "neighbours in the session",
  score: "scores for all candidates",
  rerank: "read again by the reranker",
  rank: "fuse, boost, order",
};
const LENGTH = 1000;

/** @param {{whole: ?object, stages: object}} latency */
export function latencyTable(latency) {
  const rows = [["whole", latency.whole], ...Object.entries(latency.stages)];
  const scale = powers(rows.map(([, times]) => times));
  return el("table", { class: "figures latency" },
    el("caption", { class: "visually-hidden" }, "Milliseconds by stage: median and 95th percentile"),
    el("thead", {}, el("tr", {},
      el("th", { scope: "col" }, "stage"),
      el("th", { scope: "col", class: "number" }, "p50 ms"), el("th", { scope: "col", class: "number" }, "p95 ms"),
      el("th", { scope: "col", class: "latency-scale" }, el("span", { class: "visually-hidden" }, "drawn"), scaleMarks(scale)))),
    el("tbody", {}, rows.map(([name, times]) => el("tr", { class: name === "whole" ? "latency-whole" : "" },
      el("th", { scope: "row" }, name, MEANING[name] && el("span", { class: "latency-meaning" }, MEANING[name])),
      el("td", { class: "number" }, milliseconds(times.p50)), el("td", { class: "number" }, milliseconds(times.p95)),
      el("td", { class: "latency-cell" }, bar(times, scale))))));
}

export function milliseconds(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function powers(all) {
  const values = all.flatMap(({ p50, p95 }) => [p50, p95]).map((value) => Math.max(value, 0.01));
  const low = Math.floor(Math.log10(Math.min(...values)));
  return { low, high: Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)))) };
}

const at = (value, { low, high }) => ((Math.log10(Math.max(value, 0.01)) - low) / (high - low)) * LENGTH;

function bar({ p50, p95 }, scale) {
  const [from, to] = [at(p50, scale), at(p95, scale)];
  const grid = Array.from({ length: scale.high - scale.low + 1 }, (_, step) => (step / (scale.high - scale.low)) * LENGTH);
  return svg("svg", { viewBox: `0 0 ${LENGTH} 20`, preserveAspectRatio: "none", class: "latency-bar", "aria-hidden": "true" },
    grid.map((x) => svg("line", { x1: x, x2: x, y1: 0, y2: 20, class: "grid" })),
    svg("rect", { x: 0, y: 6, width: Math.max(from, 4), height: 8, class: "latency-p50" }),
    svg("rect", { x: from, y: 8, width: Math.max(0, to - from), height: 4, class: "latency-p95" }),
    svg("rect", { x: Math.max(0, to - 3), y: 4, width: 3, height: 12, class: "latency-end" }));
}

function scaleMarks({ low, high }) {
  return el("span", { class: "latency-marks", "aria-hidden": "true" },
    Array.from({ length: high - low + 1 }, (_, step) => {
      const mark = el("span", {}, `${Number(`1e${low + step}`)}`);
      mark.style.left = `${(step / (high - low)) * 100}%`;
      return mark;
    }));
}
