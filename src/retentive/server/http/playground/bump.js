/** Fusion as a picture: where each search had a memory, and where the one list has it, joined by a line. */

import { el, svg } from "./dom.js";

const WIDTH = 380;
const ROW = 26;
const TOP = 40;
const COLUMNS = { semantic: 52, fused: 190, keyword: 328 };
const RETRIEVERS = ["semantic", "keyword"];
const NAMES = { semantic: "by meaning", fused: "fused", keyword: "by words" };
const DOT = 4;
const MOST_GREY = 6;
const MOST_HITS = 20;

/** The colour of the hit at a place: every hit has its own, the same on its card and its lines. */
export function hitColour(place, length) {
  const hue = 290 - (place / Math.max(length - 1, 1)) * 250;
  return `oklch(var(--hit-light) 0.14 ${hue.toFixed(0)})`;
}

/**
 * The chart, and a table that says the same.
 * @param {object} recall with `hits`, and `dropped` if it was asked for
 * @param {{highlight: (id: ?string) => void, open: (id: string) => void}} ways
 */
export function bumpChart(recall, { highlight, open }) {
  const lines = gathered(recall);
  const columns = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, column(lines, name)]));
  const rows = Math.max(...Object.values(columns).map(({ size }) => size), 1);
  const rail = TOP + rows * ROW + 8;
  const height = rail + 32;
  const drawn = lines.map((line) => drawLine(line, columns, rail));
  // Grey lines lie behind those of the hits, and the first hit's lies on top.
  const groups = [...drawn].reverse();
  const chart = svg("svg", { class: "bump", viewBox: `0 0 ${WIDTH} ${height}`, role: "group",
    "aria-label": "Places of each memory by meaning, in the fused list and by words" },
  Object.entries(COLUMNS).map(([name, x]) => svg("text", { x, y: 16, class: "bump-head" }, NAMES[name])),
  svg("line", { x1: 44, x2: WIDTH - 44, y1: rail, y2: rail, class: "bump-rail" }),
  RETRIEVERS.map((retriever) => svg("text", { x: COLUMNS[retriever] + (retriever === "semantic" ? -16 : 16), y: rail + 4, class: "bump-dash" }, "–")),
  svg("text", { x: WIDTH / 2, y: rail + 24, class: "bump-note" }, "– not among its candidates, or behind the limit"),
  groups);
  walk(chart, drawn.filter((group) => group.dataset.id), highlight, open);
  const more = recall.hits.length > MOST_HITS && el("p", { class: "small quiet" }, `The first ${MOST_HITS} of ${recall.hits.length} hits.`);
  return el("figure", { class: "bump-figure" }, chart, more, asTable(lines));
}

function gathered({ hits: all, dropped = [] }) {
  const hits = all.slice(0, MOST_HITS);
  const rankIn = (hit, retriever) => hit.why.find(({ step }) => step === retriever)?.rank ?? null;
  const line = (hit) => ({ hit, semantic: rankIn(hit, "semantic"), keyword: rankIn(hit, "keyword") });
  const shown = hits.map((hit, place) => ({ ...line(hit), fused: hit.rank, colour: hitColour(place, hits.length) }));
  // What a search had near its top and fusion left behind is as telling as what it kept.
  const near = (rank) => rank !== null && rank <= hits.length;
  const grey = dropped.map(line).filter(({ semantic, keyword }) => near(semantic) || near(keyword)).slice(0, MOST_GREY);
  return [...shown, ...grey.map((each) => ({ ...each, fused: null, colour: null }))];
}

/** Which row each memory has in a column: in order of rank, without gaps. */
function column(lines, name) {
  const there = lines.filter((line) => line[name] !== null).sort((a, b) => a[name] - b[name]);
  return new Map(there.map((line, row) => [line.hit.id, row]));
}

function drawLine(line, columns, rail) {
  const { hit, colour } = line;
  const y = (name) => (columns[name].has(hit.id) ? TOP + columns[name].get(hit.id) * ROW + ROW / 2 - 8 : rail);
  const paths = RETRIEVERS.map((retriever) => curve(COLUMNS[retriever], y(retriever), COLUMNS.fused, y("fused"), line[retriever] === null));
  const marks = Object.keys(COLUMNS).filter((name) => line[name] !== null).map((name) => mark(name, y(name), line));
  const group = svg("g", { class: colour ? "bump-line" : "bump-line grey", ...(colour && { "data-id": hit.id, role: "button",
    tabindex: -1, "aria-label": inWords(line) }) }, paths, marks);
  if (colour) group.style.color = colour;
  return group;
}

function curve(x1, y1, x2, y2, absent) {
  const middle = (x1 + x2) / 2;
  const d = `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
  // The wide one is not seen: it makes the line easier to point at.
  return [svg("path", { d, class: absent ? "bump-path absent" : "bump-path" }), !absent && svg("path", { d, class: "bump-wide" })];
}

function mark(name, y, line) {
  const x = COLUMNS[name];
  if (name === "fused") {
    return [svg("circle", { cx: x, cy: y, r: 10, class: "bump-place" }), svg("text", { x, y: y + 4, class: "bump-number" }, line.fused)];
  }
  const left = name === "semantic";
  return [svg("circle", { cx: x, cy: y, r: DOT, class: "bump-dot" }),
    svg("text", { x: left ? x - 12 : x + 12, y: y + 4, class: left ? "bump-rank end" : "bump-rank" }, `#${line[name]}`)];
}

function inWords({ hit, semantic, keyword, fused }) {
  const place = (rank) => (rank === null ? "not found" : `place ${rank}`);
  const where = fused === null ? "Not in the result" : `Hit ${fused}`;
  return `${where}, by meaning ${place(semantic)}, by words ${place(keyword)}: ${hit.memory.text.slice(0, 80)}`;
}

/** One of the lines can be reached by Tab, the others by arrows; Enter goes to the card. */
function walk(chart, groups, highlight, open) {
  groups[0]?.setAttribute("tabindex", 0);
  groups.forEach((group, at) => {
    const { id } = group.dataset;
    group.addEventListener("pointerenter", () => highlight(id));
    group.addEventListener("pointerleave", () => highlight(null));
    group.addEventListener("focus", () => highlight(id));
    group.addEventListener("blur", () => highlight(null));
    group.addEventListener("click", () => open(id));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") open(id);
      const to = groups[{ ArrowDown: at + 1, ArrowUp: at - 1 }[event.key]];
      if (!to && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      if (!to) return;
      group.setAttribute("tabindex", -1);
      to.setAttribute("tabindex", 0);
      to.focus();
    });
  });
}

function asTable(lines) {
  const cell = (rank) => el("td", { class: "number" }, rank === null ? "–" : rank);
  return el("details", { class: "as-table" }, el("summary", { class: "small quiet" }, "As a table"),
    el("div", { class: "scroll" }, el("table", { class: "figures" },
      el("thead", {}, el("tr", {}, ["Memory", "Meaning", "Fused", "Words"].map((name, place) =>
        el("th", { scope: "col", class: place ? "number" : null }, name)))),
      el("tbody", {}, lines.map(({ hit, semantic, keyword, fused }) => el("tr", {},
        el("th", { scope: "row", class: "cut" }, hit.memory.text.slice(0, 60)), cell(semantic), cell(fused), cell(keyword)))))));
}
