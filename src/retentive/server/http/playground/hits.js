/** Hits as cards: what, who, when, where, and why it stands where it does. */

import { bar, barInWords, barTable } from "./bars.js";
import { el, unique } from "./dom.js";
import { ago, count, score, wholeTime } from "./format.js";
import { route } from "./route.js";
import { tipOn } from "./tip.js";

const FOLD = 320;
const RETRIEVERS = { semantic: "meaning", keyword: "words" };

/**
 * A card.
 * @param {object} hit as the service gives it
 * @param {{scale: object, colour: string, move?: object, retrievers: string[], thumbs?: Node,
 *   highlight: (id: ?string) => void, tabbable: boolean}} how
 */
export function hitCard(hit, { scale, colour, move, retrievers, thumbs, highlight, tabbable }) {
  const { memory } = hit;
  const named = unique("hit");
  const details = el("div", { class: "hit-why", hidden: true, id: unique("why") });
  const opener = tipOn(
    el("button", {
      type: "button", class: "bar-button", "aria-expanded": "false", "aria-controls": details.id,
      "aria-label": `Why: ${barInWords(hit)}`,
      onclick: () => {
        const open = opener.getAttribute("aria-expanded") !== "true";
        if (open && !details.firstChild) details.append(barTable(hit));
        details.hidden = !open;
        opener.setAttribute("aria-expanded", String(open));
      },
    }, bar(hit.why, scale)),
    () => barTable(hit),
  );
  const number = el("span", { class: "hit-rank mono" }, hit.rank);
  number.style.borderColor = colour;
  return el(
    "li",
    { class: "hit", "data-id": hit.id },
    el(
      "article",
      {
        class: "hit-card", tabindex: tabbable ? 0 : -1, "aria-labelledby": named,
        onpointerenter: () => highlight(hit.id), onpointerleave: () => highlight(null),
        onfocusin: () => highlight(hit.id), onfocusout: () => highlight(null),
      },
      el("div", { class: "hit-side" }, number, move && moveMark(move)),
      el(
        "div",
        { class: "hit-main" },
        el("div", { class: "hit-line" }, folded(memory.text, named), el("span", { class: "hit-score mono", title: "Score" },
          score(hit.score))),
        provenance(memory),
        opener,
        details,
        el("div", { class: "hit-end" }, el("ul", { class: "retriever-chips", "aria-label": "Places in the searches" },
          retrievers.map((retriever) => retrieverChip(retriever, hit))), thumbs),
      ),
    ),
  );
}

/** ▲2, ▼1, =, new */
function moveMark({ rankA, change }) {
  if (rankA === null) return el("span", { class: "move new" }, "new");
  if (!change) return el("span", { class: "move same", title: "It did not move" }, "=");
  const words = `${count(Math.abs(change), "place")} ${change > 0 ? "up" : "down"}, it was ${rankA}`;
  return el("span", { class: `move ${change > 0 ? "up" : "down"}`, title: words },
    el("span", { "aria-hidden": "true" }, `${change > 0 ? "▲" : "▼"}${Math.abs(change)}`),
    el("span", { class: "visually-hidden" }, words));
}

function retrieverChip(retriever, hit) {
  const rank = hit.why.find(({ step }) => step === retriever)?.rank ?? null;
  const words = rank === null ? `The search by ${RETRIEVERS[retriever] ?? retriever} did not bring it` : `Place ${rank} by ${RETRIEVERS[retriever] ?? retriever}`;
  return el("li", { class: rank === null ? "retriever-chip none" : "retriever-chip", title: words, "data-retriever": retriever },
    el("span", { "aria-hidden": "true" }, `${RETRIEVERS[retriever] ?? retriever} `, el("b", {}, rank === null ? "–" : `#${rank}`)),
    el("span", { class: "visually-hidden" }, words));
}

function folded(text, id) {
  if (text.length <= FOLD) return el("p", { class: "hit-text", id }, text);
  const cut = text.slice(0, FOLD).replace(/\s+\S*$/, "");
  const shown = el("span", {}, `${cut}…`);
  const more = el("button", {
    type: "button", class: "more", "aria-expanded": "false",
    onclick: () => {
      const open = more.getAttribute("aria-expanded") !== "true";
      more.setAttribute("aria-expanded", String(open));
      shown.textContent = open ? text : `${cut}…`;
      more.textContent = open ? "less" : "more";
    },
  }, "more");
  return el("p", { class: "hit-text", id }, shown, " ", more);
}

/** Who said it, when, where, and what kind of memory it is. */
export function provenance(memory) {
  const when = memory.occurred ?? memory.created;
  return el(
    "p",
    { class: "provenance" },
    memory.speaker && el("span", { class: "who" }, memory.speaker),
    el("time", { datetime: when, title: wholeTime(when) }, ago(when)),
    placeLink(memory),
    el("span", {}, memory.kind),
    el("span", { title: "Importance, from 0 to 1" }, "importance ", el("span", { class: "mono" }, memory.importance)),
    memory.evergreen && el("span", { class: "tag" }, "evergreen"),
  );
}

/** Where it belongs, as a way to read it among what was said around it. */
function placeLink({ id, project, session, position }) {
  const named = [project, session].filter(Boolean);
  if (!named.length) return null;
  const profile = route.params.get("profile");
  const query = new URLSearchParams(Object.entries({ profile, project, session, id }).filter(([, value]) => value));
  return el("a", { class: "place", href: `#/memories?${query}`, title: "Read it where it belongs" }, named.join(" › "),
    position !== null && el("span", { class: "mono" }, ` #${position}`));
}

/** A memory that fell out of the result, greyed. */
export function goneRow(hit, why) {
  return el("li", { class: "gone", "data-id": hit.id }, el("span", { class: "move gone-mark mono" }, why),
    el("p", { class: "gone-text" }, hit.memory.text));
}

/** Arrow keys, Home and End move through the cards of a list; one of them can be reached by Tab. */
export function walkByArrows(list) {
  list.addEventListener("keydown", (event) => {
    const cards = [...list.querySelectorAll(".hit-card")];
    const at = cards.indexOf(event.target.closest(".hit-card"));
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: cards.length - 1 }[event.key];
    if (to === undefined || !cards[to]) return;
    event.preventDefault();
    cards.forEach((card, place) => card.setAttribute("tabindex", place === to ? 0 : -1));
    cards[to].focus();
  });
}
