/** Memories by kind over time, as stacked bars and as a table. */

import { el, svg, unique } from "./dom.js";
import { KINDS } from "./scope.js";
import { number } from "./times.js";

const HEIGHT = 240;
const EDGE = { top: 12, right: 8, bottom: 28, left: 44 };
const WIDEST_BAR = 40;
const LABEL_WIDTH = { day: 56, month: 64, year: 48 };
const TICKS = 4;

/** Every step from the first to the last, with those that have no memories. @param {object} timeline */
export function steps({ by, buckets }) {
  if (!buckets.length) return [];
  const known = new Map(buckets.map((bucket) => [bucket.start, bucket]));
  const all = [];
  const last = buckets.at(-1).start;
  for (let start = buckets[0].start; start <= last; start = after(start, by)) {
    all.push(known.get(start) ?? { start, memories: 0, byKind: {} });
  }
  return all;
}

function after(start, by) {
  const date = new Date(`${start}T00:00:00Z`);
  if (by === "day") date.setUTCDate(date.getUTCDate() + 1);
  else if (by === "month") date.setUTCMonth(date.getUTCMonth() + 1);
  else date.setUTCFullYear(date.getUTCFullYear() + 1);
  return date.toISOString().slice(0, 10);
}

const WRITTEN = {
  day: { day: "numeric", month: "short" },
  month: { month: "short" },
  year: { year: "numeric" },
};
const WRITTEN_OUT = {
  day: { day: "numeric", month: "long", year: "numeric" },
  month: { month: "long", year: "numeric" },
  year: { year: "numeric" },
};

function written(start, how) {
  return new Intl.DateTimeFormat(undefined, { ...how, timeZone: "UTC" }).format(new Date(`${start}T00:00:00Z`));
}

/** A year is named once, where it begins. */
function label(start, by, isFirst) {
  const withYear = by === "month" && (isFirst || start.slice(5, 7) === "01");
  return written(start, withYear ? { month: "short", year: "numeric" } : WRITTEN[by]);
}

/** The bars, for a width in pixels. */
export function timelineChart(timeline, width) {
  const all = steps(timeline);
  const lines = scaleLines(Math.max(1, ...all.map((step) => step.memories)));
  const top = lines.at(-1);
  const inside = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const slot = inside.width / all.length;
  const bar = Math.max(1, Math.min(WIDEST_BAR, slot * 0.72));
  const y = (value) => EDGE.top + inside.height * (1 - value / top);
  const every = Math.ceil(LABEL_WIDTH[timeline.by] / slot);
  const names = unique("kinds");
  return svg("svg", { class: "timeline", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img",
    "aria-label": described(timeline, all) },
  patterns(names),
  lines.map((value) => [
    svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
    svg("text", { class: "axis", x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)),
  ]),
  all.map((step, at) => {
    const x = EDGE.left + slot * at + (slot - bar) / 2;
    return [
      svg("g", {}, svg("title", {}, sentence(step, timeline.by)), stack(step, x, bar, y, names),
        svg("rect", { x: EDGE.left + slot * at, y: EDGE.top, width: slot, height: inside.height, class: "hover" })),
      at % every === 0 && svg("text", { class: "axis", x: x + bar / 2, y: HEIGHT - 8, "text-anchor": "middle" },
        label(step.start, timeline.by, at === 0)),
    ];
  }));
}

function stack(step, x, width, y, names) {
  let below = 0;
  return KINDS.map((kind) => {
    const count = step.byKind[kind] ?? 0;
    if (!count) return null;
    const [from, to] = [y(below), y(below + count)];
    below += count;
    const place = { x, y: to, width, height: Math.max(1, from - to - 1) };
    return [
      svg("rect", { ...place, class: `fill-${kind}` }),
      svg("rect", { ...place, fill: `url(#${names}-${kind})` }),
    ];
  });
}

/** Kinds differ by pattern too, for those who do not tell the colours apart. */
function patterns(names) {
  const line = (d) => svg("path", { d, class: "pattern-line" });
  return svg("defs", {},
    svg("pattern", { id: `${names}-episodic`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }),
    svg("pattern", { id: `${names}-semantic`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, line("M-1,7 L7,-1")),
    svg("pattern", { id: `${names}-identity`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, line("M0,3 H6")));
}

/** The name of a kind with its colour and pattern. */
export function kindMark(kind) {
  const names = unique("mark");
  return svg("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, patterns(names),
    svg("rect", { width: 14, height: 14, rx: 3, class: `fill-${kind}` }),
    svg("rect", { width: 14, height: 14, rx: 3, fill: `url(#${names}-${kind})` }));
}

/** The lines of the scale: whole numbers, about four, the last not below the highest bar. */
function scaleLines(most) {
  const wished = Math.max(1, most / TICKS);
  const size = 10 ** Math.floor(Math.log10(wished));
  const step = [1, 2, 5, 10].map((part) => part * size).find((value) => value >= wished);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, at) => at * step);
}

function sentence(step, by) {
  const kinds = KINDS.filter((kind) => step.byKind[kind]).map((kind) => `${number(step.byKind[kind])} ${kind}`);
  return `${written(step.start, WRITTEN_OUT[by])}: ${kinds.join(", ") || "none"}`;
}

function described({ by }, all) {
  const most = all.reduce((best, step) => (step.memories > best.memories ? step : best), all[0]);
  return `Memories a ${by} from ${written(all[0].start, WRITTEN_OUT[by])} to ${written(all.at(-1).start, WRITTEN_OUT[by])}; `
    + `most in ${written(most.start, WRITTEN_OUT[by])}, ${number(most.memories)}. The table below has every figure.`;
}

/** The same in figures. */
export function timelineTable(timeline) {
  const head = [timeline.by, ...KINDS, "all"];
  return el("table", { class: "figures" },
    el("caption", { class: "visually-hidden" }, `Memories by kind and ${timeline.by}`),
    el("thead", {}, el("tr", {}, head.map((name, at) => el("th", { scope: "col", class: at ? "number" : "" }, name)))),
    el("tbody", {}, [...timeline.buckets].reverse().map((bucket) => el("tr", {},
      el("th", { scope: "row", class: "timeline-step" }, written(bucket.start, { ...WRITTEN[timeline.by], year: "numeric" })),
      KINDS.map((kind) => el("td", { class: "number" }, number(bucket.byKind[kind] ?? 0))),
      el("td", { class: "number" }, number(bucket.memories))))));
}
