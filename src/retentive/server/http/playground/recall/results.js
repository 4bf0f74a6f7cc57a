/** The results of a recall: a summary, the tools, and one list of hits or two side by side. */

import { el, replace } from "../shared/dom.js";
import { hitCard, hitList, removedRow } from "./hits.js";
import { createNeighbours } from "./neighbours.js";
import { hitColour } from "./rank_chart.js";
import { animateReorder } from "./reordering.js";
import { scalesOf, stepLegend } from "./score_bar.js";
import { recallSummary } from "./timing.js";

/**
 * What the view shows: the response, with unsaved changes also that of the saved tuning and the changes of rank.
 * @typedef {{shown: Recall, saved: ?Recall, moved: ?Move[]}} Shown
 */

/**
 * @param {App} app
 * @param {{rating: (hit: Hit) => HTMLElement, highlight: (id: ?string) => void, openExplain: () => void}} handlers
 */
export function createResults(app, { rating, highlight, openExplain }) {
  const element = el("section", { class: "results", "aria-label": "Hits" });
  const neighbours = createNeighbours(app);
  /** The cards of both lists by memory. They are kept while the tuning is changed. */
  const cards = { shown: new Map(), saved: new Map() };
  const top = el("div", { class: "results-top" });
  const list = hitList("shown", "Hits");
  const savedPlace = el("div", { class: "saved-place" });
  const shownTitle = el("div");
  const removedPlace = el("div");
  // The list stays in its place when it is drawn again: an element that is moved loses the focus.
  const place = el("div", { class: "lists" }, savedPlace, el("div", {}, shownTitle, list, removedPlace));
  /** @type {?Shown} */
  let state = null;
  let sideBySide = false;

  function setBusy(isBusy) {
    element.setAttribute("aria-busy", String(isBusy));
    if (isBusy && !element.firstChild) replace(element, loadingState());
  }

  /** @param {Shown} next */
  function draw(next) {
    state = next;
    if (!element.contains(list)) replace(element, top, place);
    animateReorder(list, () => {
      replace(top, header());
      drawLists();
    });
  }

  function header() {
    const { shown, saved } = state;
    const toggle = saved && el("button", {
      type: "button", class: "button", "aria-pressed": String(sideBySide),
      onclick: () => {
        sideBySide = !sideBySide;
        draw(state);
        element.querySelector(".results-tools [aria-pressed]")?.focus();
      },
    }, "Side by side");
    const explain = el("button", { type: "button", class: "button", title: "Explain the rank of any memory, or why it is not here (?)",
      "aria-keyshortcuts": "?", onclick: openExplain }, "Explain…");
    return [recallSummary(shown),
      el("div", { class: "results-tools" }, stepLegend(shown.hits), el("div", { class: "results-buttons" }, toggle, explain))];
  }

  function drawLists() {
    const { shown, saved, moved } = state;
    const [scale, savedScale] = scalesOf(shown.hits, saved?.hits ?? shown.hits);
    const showBoth = saved && sideBySide;
    const removed = saved ? saved.hits.filter(({ id }) => !shown.hits.some((hit) => hit.id === id)) : [];
    replaceItems(list, listItems("shown", shown, scale, moved));
    place.classList.toggle("side-by-side", Boolean(showBoth));
    replace(savedPlace, showBoth && [el("h3", { class: "list-title" }, "Saved tuning"),
      replace(hitList("saved", "Hits with the saved tuning"), listItems("saved", saved, savedScale, null))]);
    replace(shownTitle, showBoth && el("h3", { class: "list-title" }, "Unsaved changes"));
    replace(removedPlace, removed.length > 0 && el("div", { class: "removed-hits" },
      el("h3", { class: "list-title" }, "No longer in the result"), el("ul", {}, removed.map(removedRow))));
  }

  /**
   * @param {"shown" | "saved"} name
   * @param {Recall} recall
   * @param {Scale} scale
   * @param {?Move[]} moved
   */
  function listItems(name, { hits, terms }, scale, moved) {
    const moves = new Map(moved?.map((move) => [move.id, move]));
    const options = { terms, around: neighbours.around, highlight, rating };
    const items = hits.map((hit, index) => {
      if (!cards[name].has(hit.id)) cards[name].set(hit.id, hitCard(hit, options));
      const card = cards[name].get(hit.id);
      card.show({ hit, scale, colour: hitColour(index, hits.length), move: moves.get(hit.id) ?? null });
      return card;
    });
    const focused = items.findIndex(({ card }) => card.contains(document.activeElement));
    items.forEach(({ card }, index) => card.setAttribute("tabindex", index === Math.max(focused, 0) ? "0" : "-1"));
    return items.map((item) => item.element);
  }

  function focusCard(id) {
    const hit = [...element.querySelectorAll(".shown .hit")].find((each) => each.dataset.id === id);
    hit?.querySelector(".hit-card").focus();
    hit?.scrollIntoView({ block: "nearest" });
  }

  return {
    element,
    setBusy,
    draw,
    focusCard,
    showNone: (shown, message) => replace(element, recallSummary(shown), message),
    /** Scroll to the first hit. */
    showFirst: () => element.querySelector(".lists")?.scrollIntoView({ block: "start" }),
    clear: () => replace(element),
    /** Build all cards anew: the hits are those of another query. */
    forgetCards() {
      cards.shown.clear();
      cards.saved.clear();
      neighbours.clear();
    },
  };
}

/** Bring the items of a list in this order. Items that are in their place are not touched, so they keep the focus. */
function replaceItems(list, items) {
  const kept = new Set(items);
  for (const item of [...list.children]) if (!kept.has(item)) item.remove();
  items.forEach((item, index) => {
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] ?? null);
  });
}

function loadingState() {
  const card = () => el("div", { class: "panel loading-card" }, el("div", { class: "skeleton" }), el("div", { class: "skeleton short" }));
  return el("div", { class: "loading", role: "status", "aria-label": "Loading hits" }, card(), card(), card());
}
