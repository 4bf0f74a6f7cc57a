/** The list of hits: cards with text, provenance, relevance, score and ranks, moved through by keyboard. */

import { el, replace, unique } from "../shared/dom.js";
import { plural, score } from "../shared/format.js";
import { addTooltip } from "../shared/overlays.js";
import { markWords } from "./matched_words.js";
import { neighbourParts } from "./neighbours.js";
import { provenance, retiredLabel } from "./provenance.js";
import { scoreBar, scoreSentence, scoreTable } from "./score_bar.js";

const MAX_LENGTH = 320;

/** An empty list. Arrow keys, Home and End move between its cards, one of which is in the tab order. */
export function hitList(name, label) {
  const list = el("ol", { class: `hits ${name}`, "aria-label": label });
  list.addEventListener("keydown", (event) => {
    const cards = [...list.querySelectorAll(".hit-card")];
    const index = cards.findIndex((card) => event.target instanceof Node && card.contains(event.target));
    if (index < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: cards.length - 1 }[event.key];
    if (target === undefined || !cards[target]) return;
    event.preventDefault();
    cards.forEach((card, position) => card.setAttribute("tabindex", position === target ? "0" : "-1"));
    cards[target].focus();
  });
  return list;
}

/**
 * What the cards of a list share.
 * @typedef {object} CardOptions
 * @property {string[]} terms  of the query, whose words are marked
 * @property {string[]} retrievers
 * @property {(memory: Memory) => Promise<{before: ?Memory, after: ?Memory}>} around
 * @property {(id: ?string) => void} highlight
 * @property {(hit: Hit) => HTMLElement} rating
 */

/**
 * What changes when the tuning is changed.
 * @typedef {{hit: Hit, scale: Scale, colour: string, move: ?Move}} CardState
 */

/**
 * The card of a memory. `show` changes the parts that depend on the tuning; the others are built once, so that they keep
 * the focus and what the user opened, and a slider can be moved over many hits.
 * @param {Hit} hit
 * @param {CardOptions} options
 * @returns {{element: HTMLElement, card: HTMLElement, show: (state: CardState) => void}}
 */
export function hitCard(hit, options) {
  const { memory } = hit;
  const textId = unique("hit");
  const score = scoreParts();
  const relevance = relevanceBar();
  const neighbours = neighbourParts(memory, options.around);
  const retired = retiredLabel(memory);
  const rank = el("span", { class: "hit-rank mono" });
  const move = el("span", { class: "move-place" });
  const chips = el("ul", { class: "retriever-chips", "aria-label": "Rank in each retriever" });
  const highlight = (id) => () => options.highlight(id);
  const card = el("article", { class: "hit-card", tabindex: -1, "aria-labelledby": textId,
    onpointerenter: highlight(hit.id), onpointerleave: highlight(null), onfocusin: highlight(hit.id), onfocusout: highlight(null) },
  el("div", { class: "hit-side" }, rank, move),
  el("div", { class: "hit-main" },
    neighbours?.before,
    el("div", { class: "hit-line" }, el("div", {}, hitText(memory.text, options.terms, textId), retired && retiredTag(memory, retired)),
      relevance.element),
    neighbours?.after,
    provenance(memory),
    score.line,
    score.table,
    el("div", { class: "hit-end" }, chips, neighbours?.button, options.rating(hit))));
  let shown = "";

  function show(state) {
    const next = JSON.stringify(state);
    if (next === shown) return;
    shown = next;
    rank.textContent = String(state.hit.rank);
    rank.style.borderColor = state.colour;
    replace(move, state.move && moveMark(state.move));
    relevance.show(state.hit.relevance);
    score.show(state);
    replace(chips, options.retrievers.map((retriever) => retrieverChip(retriever, state.hit)));
  }

  return { element: el("li", { class: retired ? "hit retired" : "hit", "data-id": hit.id }, card), card, show };
}

/** The score and its bar, which opens the table of the score parts. Its tooltip has the same table, unless that is open. */
function scoreParts() {
  /** @type {?Hit} */
  let hit = null;
  const table = el("div", { class: "hit-score-table", hidden: true, id: unique("score") });
  const opener = el("button", { type: "button", class: "bar-button", "aria-controls": table.id, "aria-expanded": "false",
    onclick: () => {
      table.hidden = !table.hidden;
      opener.setAttribute("aria-expanded", String(!table.hidden));
      showTable();
    } });
  const number = el("span", { class: "hit-score mono", title: "Score" });
  const showTable = () => replace(table, !table.hidden && scoreTable(hit));
  addTooltip(opener, () => (table.hidden ? scoreTable(hit) : null));
  return {
    line: el("div", { class: "score-line" }, opener, number),
    table,
    /** @param {CardState} state */
    show(state) {
      hit = state.hit;
      opener.setAttribute("aria-label", scoreSentence(hit));
      replace(opener, scoreBar(hit.why, state.scale));
      number.textContent = score(hit.score);
      showTable();
    },
  };
}

/** The estimated probability that a hit helps, as a bar and a number; hidden if it was not estimated. */
function relevanceBar() {
  const number = el("span", { class: "relevance-number mono" });
  const fill = el("span");
  const bar = el("span", { class: "relevance-bar", role: "meter", "aria-label": "Relevance", "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-valuenow": 0 }, fill);
  const element = el("div", { class: "relevance", title: "Relevance: the estimated probability that it helps to answer the query" },
    number, bar);
  return {
    element,
    /** @param {?number} relevance */
    show(relevance) {
      element.hidden = typeof relevance !== "number";
      if (element.hidden) return;
      const percent = Math.round(100 * relevance);
      number.textContent = `${percent} %`;
      bar.setAttribute("aria-valuenow", String(percent));
      bar.setAttribute("aria-valuetext", `${percent} %`);
      fill.style.width = `${percent}%`;
    },
  };
}

function retiredTag({ reason }, label) {
  return el("p", { class: "retired-line" }, el("span", { class: "tag retired-tag" }, label), reason && ` ${reason}`);
}

/** ▲2, ▼1, = or new: the change of rank from the saved tuning. */
function moveMark({ rankA, change }) {
  if (rankA === null) return el("span", { class: "move new" }, "new");
  if (!change) return el("span", { class: "move same", title: "Rank unchanged" }, "=");
  const sentence = `${plural(Math.abs(change), "rank")} ${change > 0 ? "up" : "down"}, was ${rankA}`;
  return el("span", { class: `move ${change > 0 ? "up" : "down"}`, title: sentence },
    el("span", { "aria-hidden": "true" }, `${change > 0 ? "▲" : "▼"}${Math.abs(change)}`),
    el("span", { class: "visually-hidden" }, sentence));
}

function retrieverChip(retriever, hit) {
  const rank = hit.why.find(({ step }) => step === retriever)?.rank ?? null;
  const sentence = rank === null ? `Not a candidate of the ${retriever} retriever` : `Rank ${rank} in the ${retriever} retriever`;
  return el("li", { class: rank === null ? "retriever-chip none" : "retriever-chip", title: sentence, "data-retriever": retriever },
    el("span", { "aria-hidden": "true" }, `${retriever} `, el("b", {}, rank === null ? "–" : `#${rank}`)),
    el("span", { class: "visually-hidden" }, sentence));
}

/** The text of a memory with the matched words marked; a long one is shortened, with a button that shows the rest. */
function hitText(text, terms, id) {
  if (text.length <= MAX_LENGTH) return el("p", { class: "hit-text", id, dir: "auto" }, markWords(text, terms));
  const excerpt = `${text.slice(0, MAX_LENGTH).replace(/\s+\S{0,40}$/, "")}…`;
  const shown = el("span", {}, markWords(excerpt, terms));
  const more = el("button", {
    type: "button", class: "more", "aria-expanded": "false",
    onclick: () => {
      const open = more.getAttribute("aria-expanded") !== "true";
      more.setAttribute("aria-expanded", String(open));
      replace(shown, markWords(open ? text : excerpt, terms));
      more.textContent = open ? "less" : "more";
    },
  }, "more");
  return el("p", { class: "hit-text", id, dir: "auto" }, shown, " ", more);
}

/** A hit of the saved tuning that the unsaved changes removed from the result. */
export function removedRow(hit) {
  return el("li", { class: "removed", "data-id": hit.id }, el("span", { class: "move mono" }, `was ${hit.rank}`),
    el("p", { class: "removed-text", dir: "auto" }, hit.memory.text));
}
