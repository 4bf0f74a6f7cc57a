/** A bump chart of fusion: the rank of each memory in both retrievers, connected to its rank in the fused list. */

import { el, svg } from "../shared/dom.js";

const WIDTH = 380;
const ROW = 26;
const TOP = 40;
const COLUMNS = { semantic: 52, fused: 190, keyword: 328 };
const RETRIEVERS = ["semantic", "keyword"];
const DOT = 4;
const MAX_DROPPED = 6;
const MAX_HITS = 20;

/** The colour of the hit at an index, on its card and in the chart: the accent, which fades with the rank. */
export function hitColour(index, length) {
  const share = 100 - (index / Math.max(length - 1, 1)) * 85;
  return `color-mix(in oklab, var(--accent) ${share.toFixed(0)}%, var(--faded))`;
}

/**
 * The chart, and a table with the same ranks.
 * @param {Recall} recall  a response with `hits` and `dropped`
 * @param {{highlight: (id: ?string) => void, open: (id: string) => void}} handlers
 */
export function rankChart(recall, { highlight, open }) {
  const lines = chartLines(recall);
  const columns = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, columnRows(lines, name)]));
  const rows = Math.max(...Object.values(columns).map(({ size }) => size), 1);
  const unranked = TOP + rows * ROW + 8;
  const groups = lines.map((line) => drawLine(line, columns, unranked));
  const chart = svg("svg", { class: "rank-chart", viewBox: `0 0 ${WIDTH} ${unranked + 32}`, role: "group",
    "aria-label": "Rank of each memory in the semantic retriever, in the fused list and in the keyword retriever" },
  Object.entries(COLUMNS).map(([name, x]) => svg("text", { x, y: 16, class: "chart-head" }, name)),
  svg("line", { x1: 44, x2: WIDTH - 44, y1: unranked, y2: unranked, class: "chart-unranked" }),
  RETRIEVERS.map((name) => svg("text", { x: COLUMNS[name] + (name === "semantic" ? -16 : 16), y: unranked + 4,
    class: "chart-dash" }, "–")),
  svg("text", { x: WIDTH / 2, y: unranked + 24, class: "chart-note" }, "– not a candidate, or below the limit"),
  // Drawn last to first: dropped memories are at the back, and the first hit is on top.
  [...groups].reverse());
  addInteraction(groups.filter((group) => group.dataset.id), highlight, open);
  const more = recall.hits.length > MAX_HITS && el("p", { class: "small quiet" }, `The first ${MAX_HITS} of ${recall.hits.length} hits.`);
  return el("figure", { class: "rank-figure" }, chart, more, rankTable(lines));
}

function chartLines({ hits: allHits, dropped = [] }) {
  const hits = allHits.slice(0, MAX_HITS);
  const rankIn = (hit, retriever) => hit.why.find(({ step }) => step === retriever)?.rank ?? null;
  const line = (hit) => ({ hit, semantic: rankIn(hit, "semantic"), keyword: rankIn(hit, "keyword") });
  const shown = hits.map((hit, index) => ({ ...line(hit), fused: hit.rank, colour: hitColour(index, hits.length) }));
  // Memories that one retriever ranks high, but fusion drops, are shown in grey.
  const isHigh = (rank) => rank !== null && rank <= hits.length;
  const grey = dropped.map(line).filter(({ semantic, keyword }) => isHigh(semantic) || isHigh(keyword)).slice(0, MAX_DROPPED);
  return [...shown, ...grey.map((each) => ({ ...each, fused: null, colour: null }))];
}

/** The row of each memory in a column: by rank, without gaps. */
function columnRows(lines, name) {
  const ranked = lines.filter((line) => line[name] !== null).sort((a, b) => a[name] - b[name]);
  return new Map(ranked.map((line, row) => [line.hit.id, row]));
}

function drawLine(line, columns, unranked) {
  const { hit, colour } = line;
  const y = (name) => (columns[name].has(hit.id) ? TOP + columns[name].get(hit.id) * ROW + ROW / 2 - 8 : unranked);
  const curves = RETRIEVERS.map((name) => curve(COLUMNS[name], y(name), COLUMNS.fused, y("fused"), line[name] === null));
  const marks = Object.keys(COLUMNS).filter((name) => line[name] !== null).map((name) => rankMark(name, y(name), line));
  const group = svg("g", { class: colour ? "chart-line" : "chart-line grey", ...(colour && { "data-id": hit.id, role: "button",
    tabindex: -1, "aria-label": lineSentence(line) }) }, curves, marks);
  if (colour) group.style.color = colour;
  return group;
}

function curve(x1, y1, x2, y2, absent) {
  const middle = (x1 + x2) / 2;
  const d = `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
  // The wide, invisible path makes the line easier to point at.
  return [svg("path", { d, class: absent ? "chart-path absent" : "chart-path" }), !absent && svg("path", { d, class: "chart-target" })];
}

function rankMark(name, y, line) {
  const x = COLUMNS[name];
  if (name === "fused") {
    return [svg("circle", { cx: x, cy: y, r: 10, class: "chart-rank" }), svg("text", { x, y: y + 4, class: "chart-number" }, line.fused)];
  }
  const left = name === "semantic";
  return [svg("circle", { cx: x, cy: y, r: DOT, class: "chart-dot" }),
    svg("text", { x: left ? x - 12 : x + 12, y: y + 4, class: left ? "chart-label end" : "chart-label" }, `#${line[name]}`)];
}

function lineSentence({ hit, semantic, keyword, fused }) {
  const rank = (value) => (value === null ? "not a candidate" : `rank ${value}`);
  return `Hit ${fused}, semantic: ${rank(semantic)}, keyword: ${rank(keyword)}: ${hit.memory.text.slice(0, 80)}`;
}

/** One line is in the tab order, arrow keys move to the others, Enter and Space go to the card. */
function addInteraction(groups, highlight, open) {
  groups[0]?.setAttribute("tabindex", 0);
  groups.forEach((group, index) => {
    const { id } = group.dataset;
    group.addEventListener("pointerenter", () => highlight(id));
    group.addEventListener("pointerleave", () => highlight(null));
    group.addEventListener("focus", () => highlight(id));
    group.addEventListener("blur", () => highlight(null));
    group.addEventListener("click", () => open(id));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") open(id);
      const target = groups[{ ArrowDown: index + 1, ArrowUp: index - 1 }[event.key]];
      if (!target && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      if (!target) return;
      group.setAttribute("tabindex", -1);
      target.setAttribute("tabindex", 0);
      target.focus();
    });
  });
}

function rankTable(lines) {
  const cell = (rank) => el("td", { class: "number" }, rank === null ? "–" : rank);
  return el("details", { class: "as-table" }, el("summary", { class: "small quiet" }, "Show as table"),
    el("div", { class: "scroll" }, el("table", { class: "figures" },
      el("thead", {}, el("tr", {}, ["Memory", "Semantic", "Fused", "Keyword"].map((name, index) =>
        el("th", { scope: "col", class: index ? "number" : null }, name)))),
      el("tbody", {}, lines.map(({ hit, semantic, keyword, fused }) => el("tr", {},
        el("th", { scope: "row", class: "cut" }, hit.memory.text.slice(0, 60)), cell(semantic), cell(fused), cell(keyword)))))));
}
