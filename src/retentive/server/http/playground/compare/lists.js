/** The hits of one query with two tunings, side by side, with a line from the old rank of each memory to its new one. */

import { el, svg } from "../shared/dom.js";
import { day, memoryTime, plural } from "../shared/format.js";
import { route } from "../shared/route.js";

const ROW = 64;
const GAP = 72;

/** "3 up, 2 down, 1 entered, 1 left, 4 unchanged" */
export function movesSentence(moved) {
  const kinds = moved.map(moveKind);
  const parts = ["up", "down", "entered", "left", "unchanged"].map((kind) => [kinds.filter((each) => each === kind).length, kind])
    .filter(([count]) => count);
  return parts.length ? parts.map(([count, kind]) => `${count} ${kind}`).join(", ") : "no hits";
}

/** Two lists with the lines between them. On narrow screens only the second list and what left it are shown. */
export function comparisonLists({ a, b, moved }, names) {
  const moves = new Map(moved.map((move) => [move.id, move]));
  const element = el("div", { class: "compare-lists" },
    list(`A: ${names.a}`, a.hits, moves, "a"),
    slopes(moved, Math.max(a.hits.length, b.hits.length)),
    list(`B: ${names.b}`, b.hits, moves, "b"),
    leftList(a.hits.filter(({ id }) => moves.get(id).rankB === null)));
  const highlight = (id) => {
    for (const each of element.querySelectorAll("[data-id]")) each.classList.toggle("on", each.dataset.id === id);
    element.classList.toggle("has-highlight", id !== null);
  };
  const idAt = (target) => target.closest?.("[data-id]")?.dataset.id ?? null;
  for (const type of ["pointerover", "focusin"]) element.addEventListener(type, (event) => highlight(idAt(event.target)));
  for (const type of ["pointerleave", "focusout"]) element.addEventListener(type, () => highlight(null));
  return element;
}

function moveKind({ rankA, rankB, change }) {
  if (rankA === null) return "entered";
  if (rankB === null) return "left";
  return change > 0 ? "up" : change < 0 ? "down" : "unchanged";
}

function list(title, hits, moves, side) {
  return el("section", { class: `compare-side compare-side-${side}`, "aria-label": title },
    el("h2", {}, title),
    hits.length ? el("ol", {}, hits.map((hit) => row(hit, moves.get(hit.id), side))) : el("p", { class: "quiet" }, "No hits."));
}

function row(hit, move, side) {
  const { memory } = hit;
  const profile = route.params.get("profile");
  const params = new URLSearchParams({ ...(profile && { profile }), id: hit.id });
  return el("li", { class: "compare-row", "data-id": hit.id },
    el("span", { class: "compare-rank mono" }, hit.rank),
    el("div", { class: "compare-body" },
      el("a", { class: "compare-text", dir: "auto", href: `#/memories?${params}`, title: memory.text }, memory.text),
      el("p", { class: "quiet compare-facts" },
        [memory.speaker, memory.session ?? memory.project, day(memoryTime(memory))].filter(Boolean).join(" · "))),
    el("div", { class: "compare-numbers" },
      moveMark(move, side),
      el("span", { class: "mono quiet", title: "Relevance" },
        typeof hit.relevance === "number" ? `${Math.round(100 * hit.relevance)} %` : "not read")));
}

function moveMark(move, side) {
  const kind = moveKind(move);
  if (side === "a") return kind === "left" ? el("span", { class: "compare-move left" }, "left") : null;
  if (kind === "entered") return el("span", { class: "compare-move entered" }, "new");
  if (kind === "unchanged") return el("span", { class: "compare-move", title: "Rank unchanged" }, "=");
  const steps = Math.abs(move.change);
  const sentence = `${plural(steps, "rank")} ${kind}, was ${move.rankA}`;
  return el("span", { class: `compare-move ${kind}`, title: sentence },
    el("span", { "aria-hidden": "true" }, `${kind === "up" ? "▲" : "▼"}${steps}`), el("span", { class: "visually-hidden" }, sentence));
}

function slopes(moved, rows) {
  const y = (rank) => (rank - 0.5) * ROW;
  const lines = moved.filter(({ rankA, rankB }) => rankA !== null && rankB !== null).map((move) =>
    svg("path", { class: `compare-line ${moveKind(move)}`, "data-id": move.id,
      d: `M0 ${y(move.rankA)} C${GAP / 2} ${y(move.rankA)} ${GAP / 2} ${y(move.rankB)} ${GAP} ${y(move.rankB)}` }));
  const dots = moved.filter(({ rankA, rankB }) => rankA === null || rankB === null).map((move) =>
    svg("circle", { class: `compare-dot ${moveKind(move)}`, "data-id": move.id, r: 4,
      cx: move.rankA === null ? GAP - 5 : 5, cy: y(move.rankA ?? move.rankB) }));
  return svg("svg", { class: "compare-slopes", width: GAP, height: Math.max(1, rows) * ROW, "aria-hidden": "true" }, lines, dots);
}

function leftList(hits) {
  if (!hits.length) return null;
  return el("section", { class: "compare-left", "aria-label": "Only in A" }, el("h2", {}, "Only in A"),
    el("ul", {}, hits.map(({ id, rank, memory }) => el("li", { class: "compare-row", "data-id": id },
      el("span", { class: "compare-rank mono" }, rank), el("div", { class: "compare-body" }, el("p", { class: "compare-text", dir: "auto" }, memory.text)),
      el("div", { class: "compare-numbers" }, el("span", { class: "compare-move left" }, "left"))))));
}
