/** The list of hits: cards with text, provenance, relevance and the parts of the score, moved through by keyboard. */

import { el, replace, unique } from "../shared/dom.js";
import { plural, sentence } from "../shared/format.js";
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
  const relevance = el("div", { class: "relevance" });
  const neighbours = neighbourParts(memory, options.around);
  const retired = retiredLabel(memory);
  const rank = el("span", { class: "hit-rank mono" });
  const move = el("span", { class: "move-place" });
  const highlight = (id) => () => options.highlight(id);
  const card = el("article", { class: "hit-card", tabindex: -1, "aria-labelledby": textId,
    onpointerenter: highlight(hit.id), onpointerleave: highlight(null), onfocusin: highlight(hit.id), onfocusout: highlight(null) },
  el("div", { class: "hit-side" }, rank, move),
  el("div", { class: "hit-main" },
    neighbours?.before,
    el("div", { class: "hit-line" }, el("div", {}, hitText(memory.text, options.terms, textId), retired && retiredTag(memory, retired)),
      relevance),
    neighbours?.after,
    provenance(memory),
    score.opener,
    score.table,
    el("div", { class: "hit-end" }, neighbours?.button, options.rating(hit))));
  let shown = "";

  function show(state) {
    const next = JSON.stringify(state);
    if (next === shown) return;
    shown = next;
    rank.textContent = String(state.hit.rank);
    rank.style.borderColor = state.colour;
    replace(move, state.move && moveMark(state.move));
    replace(relevance, relevanceParts(state.hit));
    score.show(state);
  }

  return { element: el("li", { class: retired ? "hit retired" : "hit", "data-id": hit.id }, card), card, show };
}

/** The bar of the score, which opens the table of its parts. Its tooltip has the same table, unless that is open. */
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
  const showTable = () => replace(table, !table.hidden && scoreTable(hit));
  addTooltip(opener, () => (table.hidden ? scoreTable(hit) : null));
  return {
    opener,
    table,
    /** @param {CardState} state */
    show(state) {
      hit = state.hit;
      opener.setAttribute("aria-label", scoreSentence(hit));
      replace(opener, scoreBar(hit.why, state.scale));
      showTable();
    },
  };
}

/** The relevance of a hit with its reason; "not read" if it has none: the judge reads only the best hits. */
function relevanceParts({ relevance, why }) {
  if (typeof relevance !== "number") return el("span", { class: "quiet small", title: "The judge reads only the best hits" }, "not read");
  const percent = Math.round(100 * relevance);
  const fill = el("span");
  fill.style.width = `${percent}%`;
  const note = why.find(({ step }) => step === "relevance")?.note ?? "the probability that it answers or helps";
  return el("div", { title: sentence(note) }, el("span", { class: "relevance-number mono" }, `${percent} %`),
    el("span", { class: "relevance-bar", role: "meter", "aria-label": "Relevance", "aria-valuemin": 0, "aria-valuemax": 100,
      "aria-valuenow": percent, "aria-valuetext": `${percent} %` }, fill),
    el("span", { class: "relevance-label", "aria-hidden": "true" }, "relevance"));
}

function retiredTag({ reason }, label) {
  return el("p", { class: "retired-line" }, el("span", { class: "tag retired-tag" }, label), reason && ` ${reason}`);
}

/** ▲2, ▼1, = or new: the change of rank from the saved tuning. */
function moveMark({ rankA, change }) {
  if (rankA === null) return el("span", { class: "move new" }, "new");
  if (!change) return el("span", { class: "move same", title: "Rank unchanged" }, "=");
  const words = `${plural(Math.abs(change), "rank")} ${change > 0 ? "up" : "down"}, was ${rankA}`;
  return el("span", { class: `move ${change > 0 ? "up" : "down"}`, title: words },
    el("span", { "aria-hidden": "true" }, `${change > 0 ? "▲" : "▼"}${Math.abs(change)}`),
    el("span", { class: "visually-hidden" }, words));
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
