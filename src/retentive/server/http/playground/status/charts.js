/** The charts of the Status view: memories over time as stacked bars, and recall latency by stage. */

import { el, svg, unique } from "../shared/dom.js";
import { number } from "../shared/format.js";
import { KINDS } from "../shared/scope.js";
import { LONG_DATE, SHORT_DATE, axisLabel, formatDate, withoutGaps } from "../shared/timeline.js";

const HEIGHT = 240;
const MARGIN = { top: 12, right: 8, bottom: 28 };
const DIGIT_WIDTH = 8;
const MAX_BAR_WIDTH = 40;
const LABEL_WIDTH = { day: 56, month: 64, year: 48 };
const TICKS = 4;

/** Memories by kind over time, for a width in pixels. */
export function timelineChart(timeline, width) {
  const buckets = withoutGaps(timeline);
  const ticks = tickValues(Math.max(1, ...buckets.map((bucket) => bucket.memories)));
  const plotLeft = Math.max(44, 12 + DIGIT_WIDTH * number(ticks.at(-1)).length);
  const plot = { width: width - plotLeft - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
  const slot = plot.width / buckets.length;
  const barWidth = Math.max(1, Math.min(MAX_BAR_WIDTH, slot * 0.72));
  const y = (value) => MARGIN.top + plot.height * (1 - value / ticks.at(-1));
  const labelEvery = Math.ceil(LABEL_WIDTH[timeline.by] / slot);
  const prefix = unique("kinds");
  return svg("svg", { class: "timeline", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img",
    "aria-label": timelineSentence(timeline.by, buckets) },
  kindPatterns(prefix),
  ticks.map((value) => [
    svg("line", { class: "grid", x1: plotLeft, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
    svg("text", { class: "axis", x: plotLeft - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)),
  ]),
  buckets.map((bucket, index) => {
    const left = plotLeft + slot * index;
    const x = left + (slot - barWidth) / 2;
    return [
      svg("g", {}, svg("title", {}, bucketSentence(bucket, timeline.by)), stackedBar(bucket, x, barWidth, y, prefix),
        svg("rect", { x: left, y: MARGIN.top, width: slot, height: plot.height, class: "hover" })),
      index % labelEvery === 0 && svg("text", { class: "axis", x: x + barWidth / 2, y: HEIGHT - 8, "text-anchor": "middle" },
        axisLabel(bucket.start, timeline.by, index === 0)),
    ];
  }));
}

/** Return about four whole numbers for the axis, the last at least as high as the highest bar. */
function tickValues(most) {
  const target = Math.max(1, most / TICKS);
  const size = 10 ** Math.floor(Math.log10(target));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((value) => value >= target);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}

function stackedBar(bucket, x, width, y, prefix) {
  let below = 0;
  return KINDS.filter((kind) => bucket.byKind[kind]).map((kind) => {
    const [bottom, top] = [y(below), y(below + bucket.byKind[kind])];
    below += bucket.byKind[kind];
    const box = { x, y: top, width, height: Math.max(1, bottom - top - 1) };
    return [svg("rect", { ...box, class: `fill-${kind}` }), svg("rect", { ...box, fill: `url(#${prefix}-${kind})` })];
  });
}

/** Kinds differ by pattern as well as by colour, for readers who cannot distinguish the colours. */
function kindPatterns(prefix) {
  const line = (d) => svg("path", { d, class: "pattern-line" });
  const pattern = (kind, ...lines) =>
    svg("pattern", { id: `${prefix}-${kind}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, lines);
  return svg("defs", {}, pattern("episodic"), pattern("semantic", line("M-1,7 L7,-1")), pattern("identity", line("M0,3 H6")));
}

/** The kinds with their colours, patterns and totals. */
export function timelineLegend({ buckets }) {
  return KINDS.map((kind) => {
    const total = buckets.reduce((sum, bucket) => sum + (bucket.byKind[kind] ?? 0), 0);
    const prefix = unique("legend");
    const mark = svg("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, kindPatterns(prefix),
      svg("rect", { width: 14, height: 14, rx: 3, class: `fill-${kind}` }),
      svg("rect", { width: 14, height: 14, rx: 3, fill: `url(#${prefix}-${kind})` }));
    return el("li", {}, mark, kind, el("span", { class: "mono quiet" }, number(total)));
  });
}

function bucketSentence(bucket, by) {
  const kinds = KINDS.filter((kind) => bucket.byKind[kind]).map((kind) => `${number(bucket.byKind[kind])} ${kind}`);
  return `${formatDate(bucket.start, LONG_DATE[by])}: ${kinds.join(", ") || "none"}`;
}

function timelineSentence(by, buckets) {
  const date = (bucket) => formatDate(bucket.start, LONG_DATE[by]);
  const highest = buckets.reduce((best, bucket) => (bucket.memories > best.memories ? bucket : best), buckets[0]);
  return `Memories per ${by} from ${date(buckets[0])} to ${date(buckets.at(-1))}; maximum: ${number(highest.memories)} in `
    + `${date(highest)}. All values are in the table below.`;
}

/** The timeline as a table, newest first. */
export function timelineTable(timeline) {
  const columns = [timeline.by, ...KINDS, "all"];
  return el("table", { class: "figures" },
    el("caption", { class: "visually-hidden" }, `Memories by kind and ${timeline.by}`),
    el("thead", {}, el("tr", {}, columns.map((name, index) => el("th", { scope: "col", class: index ? "number" : "" }, name)))),
    el("tbody", {}, [...timeline.buckets].reverse().map((bucket) => el("tr", {},
      el("th", { scope: "row", class: "timeline-date" }, formatDate(bucket.start, { ...SHORT_DATE[timeline.by], year: "numeric" })),
      KINDS.map((kind) => el("td", { class: "number" }, number(bucket.byKind[kind] ?? 0))),
      el("td", { class: "number" }, number(bucket.memories))))));
}

const STAGES = {
  whole: "the entire recall",
  embed: "embed the query",
  semantic: "semantic retriever",
  keyword: "keyword retriever, parallel to embed",
  neighbours: "read the neighbours of the best candidates",
  context: "find neighbours in the session",
  score: "score all candidates",
  judge: "the judge reads the best hits",
  rank: "fuse, boost, sort",
};
const LENGTH = 1000;

/** Median and 95th percentile of each stage, as numbers and as bars on a logarithmic scale. */
export function latencyTable(latency) {
  const rows = [["whole", latency.whole], ...Object.entries(latency.stages)];
  const scale = logScale(rows.flatMap(([, { p50, p95 }]) => [p50, p95]));
  return el("table", { class: "figures latency" },
    el("caption", { class: "visually-hidden" }, "Milliseconds by stage: median and 95th percentile"),
    el("thead", {}, el("tr", {},
      el("th", { scope: "col" }, "stage"),
      el("th", { scope: "col", class: "number" }, "p50 ms"), el("th", { scope: "col", class: "number" }, "p95 ms"),
      el("th", { scope: "col", class: "latency-scale" }, el("span", { class: "visually-hidden" }, "bars"), scaleLabels(scale)))),
    el("tbody", {}, rows.map(([name, times]) => el("tr", { class: name === "whole" ? "latency-whole" : "" },
      el("th", { scope: "row" }, name, STAGES[name] && el("span", { class: "latency-about" }, STAGES[name])),
      el("td", { class: "number" }, milliseconds(times.p50)), el("td", { class: "number" }, milliseconds(times.p95)),
      el("td", { class: "latency-cell" }, latencyBar(times, scale))))));
}

function milliseconds(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Return the powers of ten that enclose some values: 10^low to 10^high. */
function logScale(values) {
  const positive = values.map((value) => Math.max(value, 0.01));
  const low = Math.floor(Math.log10(Math.min(...positive)));
  return { low, high: Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive)))) };
}

function latencyBar({ p50, p95 }, { low, high }) {
  const x = (value) => ((Math.log10(Math.max(value, 0.01)) - low) / (high - low)) * LENGTH;
  const [median, end] = [x(p50), x(p95)];
  const grid = Array.from({ length: high - low + 1 }, (_, step) => (step / (high - low)) * LENGTH);
  return svg("svg", { viewBox: `0 0 ${LENGTH} 20`, preserveAspectRatio: "none", class: "latency-bar", "aria-hidden": "true" },
    grid.map((position) => svg("line", { x1: position, x2: position, y1: 0, y2: 20, class: "grid" })),
    svg("rect", { x: 0, y: 6, width: Math.max(median, 4), height: 8, class: "latency-p50" }),
    svg("rect", { x: median, y: 8, width: Math.max(0, end - median), height: 4, class: "latency-p95" }),
    svg("rect", { x: Math.max(0, end - 3), y: 4, width: 3, height: 12, class: "latency-end" }));
}

function scaleLabels({ low, high }) {
  return el("span", { class: "latency-labels", "aria-hidden": "true" },
    Array.from({ length: high - low + 1 }, (_, step) =>
      el("span", { style: { left: `${(step / (high - low)) * 100}%` } }, `${Number(`1e${low + step}`)}`)));
}
