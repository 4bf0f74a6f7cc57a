/** The memories before and after a hit in its session, loaded and shown on demand. */

import { el, replace } from "../shared/dom.js";
import { retiredLabel } from "./provenance.js";

const PAGE_SIZE = 1000;

/**
 * Load the neighbours of memories; a session is loaded once.
 * @param {App} app
 */
export function createNeighbours(app) {
  const sessions = new Map();

  async function loadSession({ project, session }) {
    const scope = { ...(project && { project }), session, onlySession: true, includeRetired: true };
    const turns = [];
    let cursor = null;
    do {
      const page = await app.api.get("v1/memories", { ...scope, cursor, limit: PAGE_SIZE });
      turns.push(...page.memories);
      cursor = page.nextCursor;
    } while (cursor !== null);
    return turns.filter(({ position }) => position !== null).sort((a, b) => a.position - b.position);
  }

  /** @returns {Promise<{before: ?Memory, after: ?Memory}>} */
  async function around(memory) {
    const key = JSON.stringify([memory.project, memory.session]);
    if (!sessions.has(key)) sessions.set(key, loadSession(memory));
    try {
      const turns = await sessions.get(key);
      const index = turns.findIndex(({ id }) => id === memory.id);
      return { before: turns[index - 1] ?? null, after: index < 0 ? null : turns[index + 1] ?? null };
    } catch (error) {
      sessions.delete(key);
      throw error;
    }
  }

  return { around, clear: () => sessions.clear() };
}

/**
 * The two places of a card for its neighbours, and the button that fills them; null for a memory without a session.
 * @param {Memory} memory
 * @param {(memory: Memory) => Promise<{before: ?Memory, after: ?Memory}>} around
 */
export function neighbourParts(memory, around) {
  if (!memory.session || memory.position === null) return null;
  const before = el("div", { class: "neighbour before", hidden: true });
  const after = el("div", { class: "neighbour after", hidden: true });
  const button = el("button", { type: "button", class: "button quiet small neighbours-button", "aria-expanded": "false",
    "aria-label": "Neighbours", title: "The memories before and after it in the session", onclick: () => toggle(button.getAttribute("aria-expanded") !== "true") },
  el("span", { "aria-hidden": "true" }, "↕"), el("span", { class: "neighbours-label" }, "Neighbours"));

  async function toggle(open) {
    button.setAttribute("aria-expanded", String(open));
    if (open && !before.firstChild) await load();
    before.hidden = after.hidden = button.getAttribute("aria-expanded") !== "true";
  }

  async function load() {
    try {
      const found = await around(memory);
      replace(before, neighbour(found.before, "The session starts here."));
      replace(after, neighbour(found.after, "The session ends here."));
    } catch (error) {
      replace(before, el("p", { class: "note error" }, error.message));
    }
  }

  return { before, after, button };
}

function neighbour(memory, none) {
  if (!memory) return el("p", { class: "neighbour-none" }, none);
  const retired = retiredLabel(memory);
  return el("p", { class: retired ? "retired" : null }, memory.speaker && el("span", { class: "neighbour-speaker" }, `${memory.speaker}: `),
    el("span", { class: "neighbour-text", dir: "auto" }, memory.text), retired && [" ", el("span", { class: "tag" }, retired)]);
}
