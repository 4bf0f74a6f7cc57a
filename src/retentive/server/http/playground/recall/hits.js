/** The list of hits: cards with text, provenance, score and ranks, moved through by keyboard, animated on reordering. */

import { el, unique } from "../shared/dom.js";
import { ago, dateTime, plural, score } from "../shared/format.js";
import { addTooltip } from "../shared/overlays.js";
import { route } from "../shared/route.js";
import { scoreBar, scoreSentence, scoreTable } from "./score_bar.js";

const MAX_LENGTH = 320;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

/** An empty list. Arrow keys, Home and End move between its cards, one of which is in the tab order. */
export function hitList(name, label) {
  const list = el("ol", { class: `hits ${name}`, "aria-label": label });
  list.addEventListener("keydown", (event) => {
    const cards = [...list.querySelectorAll(".hit-card")];
    const index = cards.indexOf(event.target.closest(".hit-card"));
    if (index < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: cards.length - 1 }[event.key];
    if (target === undefined || !cards[target]) return;
    event.preventDefault();
    cards.forEach((card, position) => card.setAttribute("tabindex", position === target ? 0 : -1));
    cards[target].focus();
  });
  return list;
}

/**
 * The card of a hit.
 * @param {object} hit as in the response
 * @param {{scale: object, colour: string, move: ?object, retrievers: string[], rating: Node,
 *   highlight: (id: ?string) => void, tabbable: boolean}} options
 */
export function hitCard(hit, { scale, colour, move, retrievers, rating, highlight, tabbable }) {
  const { memory } = hit;
  const textId = unique("hit");
  const details = el("div", { class: "hit-score-table", hidden: true, id: unique("score") });
  const opener = el("button", {
    type: "button", class: "bar-button", "aria-expanded": "false", "aria-controls": details.id, "aria-label": scoreSentence(hit),
    onclick: () => {
      const open = opener.getAttribute("aria-expanded") !== "true";
      if (open && !details.firstChild) details.append(scoreTable(hit));
      details.hidden = !open;
      opener.setAttribute("aria-expanded", String(open));
    },
  }, scoreBar(hit.why, scale));
  addTooltip(opener, () => scoreTable(hit));
  const rank = el("span", { class: "hit-rank mono" }, hit.rank);
  rank.style.borderColor = colour;
  const events = {
    onpointerenter: () => highlight(hit.id), onpointerleave: () => highlight(null),
    onfocusin: () => highlight(hit.id), onfocusout: () => highlight(null),
  };
  return el("li", { class: "hit", "data-id": hit.id },
    el("article", { class: "hit-card", tabindex: tabbable ? 0 : -1, "aria-labelledby": textId, ...events },
      el("div", { class: "hit-side" }, rank, move && moveMark(move)),
      el("div", { class: "hit-main" },
        el("div", { class: "hit-line" }, hitText(memory.text, textId),
          el("span", { class: "hit-score mono", title: "Score" }, score(hit.score)),
          typeof hit.relevance === "number" && el("span", { class: "hit-relevance mono", title: "Relevance: how likely it helps, from 0 to 1" },
            `${Math.round(100 * hit.relevance)} %`)),
        provenance(memory),
        opener,
        details,
        el("div", { class: "hit-end" }, el("ul", { class: "retriever-chips", "aria-label": "Rank in each retriever" },
          retrievers.map((retriever) => retrieverChip(retriever, hit))), rating))));
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

/** The text of a memory; a long one is shortened, with a button that shows the rest. */
function hitText(text, id) {
  if (text.length <= MAX_LENGTH) return el("p", { class: "hit-text", id }, text);
  const excerpt = `${text.slice(0, MAX_LENGTH).replace(/\s+\S*$/, "")}…`;
  const shown = el("span", {}, excerpt);
  const more = el("button", {
    type: "button", class: "more", "aria-expanded": "false",
    onclick: () => {
      const open = more.getAttribute("aria-expanded") !== "true";
      more.setAttribute("aria-expanded", String(open));
      shown.textContent = open ? text : excerpt;
      more.textContent = open ? "less" : "more";
    },
  }, "more");
  return el("p", { class: "hit-text", id }, shown, " ", more);
}

/** Speaker, time, project and session, kind and importance of a memory. */
export function provenance(memory) {
  const when = memory.occurred ?? memory.created;
  return el("p", { class: "provenance" },
    memory.speaker && el("span", { class: "speaker" }, memory.speaker),
    el("time", { datetime: when, title: dateTime(when) }, ago(when)),
    sessionLink(memory),
    el("span", {}, memory.kind),
    el("span", { title: "Importance, from 0 to 1" }, "importance ", el("span", { class: "mono" }, memory.importance)),
    memory.evergreen && el("span", { class: "tag" }, "evergreen"));
}

function sessionLink({ id, project, session, position }) {
  const names = [project, session].filter(Boolean);
  if (!names.length) return null;
  const profile = route.params.get("profile");
  const params = new URLSearchParams(Object.entries({ profile, project, session, id }).filter(([, value]) => value));
  return el("a", { class: "session-link", href: `#/memories?${params}`, title: session ? "Open in its session" : "Open in its project" },
    names.join(" › "), position !== null && el("span", { class: "mono" }, ` #${position}`));
}

/** A hit of the saved tuning that the unsaved changes removed from the result. */
export function removedRow(hit) {
  return el("li", { class: "removed", "data-id": hit.id }, el("span", { class: "move mono" }, `was ${hit.rank}`),
    el("p", { class: "removed-text" }, hit.memory.text));
}

/** Run `redraw` and animate the items of a list from their old positions; `data-id` identifies an item. */
export function animateReorder(list, redraw) {
  const before = reducedMotion.matches ? new Map() : offsets(list);
  redraw();
  if (before.size === 0) return;
  for (const element of list.querySelectorAll(":scope > [data-id]")) {
    const old = before.get(element.dataset.id);
    if (old === undefined) {
      element.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 280, easing: "ease-out" });
      continue;
    }
    const distance = old - element.offsetTop;
    if (Math.abs(distance) < 1) continue;
    element.animate([{ transform: `translateY(${distance}px)` }, { transform: "none" }],
      { duration: 380, easing: "cubic-bezier(.3, 0, .1, 1)" });
  }
}

function offsets(list) {
  return new Map([...list.querySelectorAll(":scope > [data-id]")].map((each) => [each.dataset.id, each.offsetTop]));
}
