/** The memories of a scope: shown as they come, moved through by keyboard, chosen, opened. */

import { el, replace } from "./dom.js";
import { dayRow, listRow, turnRow } from "./memory_rows.js";
import { counted, dayOf, whenOf } from "./times.js";

/**
 * @param {object} app
 * @param {object} events
 * @param {(id: string) => void} events.open
 * @param {(memories: object[]) => void} events.forget
 * @param {(memories: object[]) => void} events.chosen  called with what is chosen now
 * @param {() => Node} events.empty  what to show where there is nothing
 */
export function createList(app, events) {
  const rows = new Map(); // id → {memory, item}
  const chosen = new Set();
  const speakers = new Map();
  let feed = null;
  let loading = null;
  let opened = null;
  let lastDay = null;

  const items = el("ol", { class: "memory-items", "aria-label": "Memories", onkeydown: moveByKey, onfocusin: remember });
  const state = el("div", { class: "memory-state" });
  const more = el("button", { type: "button", class: "button memory-more", hidden: true, onclick: loadMore }, "Load more");
  const element = el("div", { class: "memory-list" }, items, state, more);
  const scrolled = new IntersectionObserver(([entry]) => entry.isIntersecting && loadMore(), { rootMargin: "400px" });
  scrolled.observe(more);

  /** Shows another feed from its beginning; up to a memory, if one is to be seen. */
  async function show(next, sought = null) {
    feed = next;
    loading = null;
    rows.clear();
    speakers.clear();
    chosen.clear();
    lastDay = null;
    more.hidden = true;
    items.className = feed.inOrder ? "memory-items conversation" : "memory-items";
    replace(items);
    replace(state, skeleton());
    tellChosen();
    await loadMore();
    while (feed === next && sought && feed.inOrder && !rows.has(sought) && !feed.ended()) await loadMore();
    if (feed === next && rows.size) app.announce(told());
  }

  /** One load at a time; a feed that was left in the meantime adds nothing. */
  function loadMore() {
    if (!feed || feed.ended() && rows.size) return Promise.resolve();
    loading ??= load(feed);
    return loading;
  }

  async function load(from) {
    more.disabled = true;
    try {
      const memories = await from.next();
      if (from !== feed) return;
      replace(state);
      for (const memory of memories) if (!rows.has(memory.id)) append(memory);
      if (!rows.size) replace(state, events.empty());
    } catch (problem) {
      if (from !== feed) return;
      replace(state, failed(problem));
    } finally {
      if (from === feed) {
        loading = null;
        more.disabled = false;
        more.hidden = from.ended() || rows.size === 0;
        markTabStop();
        // An observer only tells of a change; what is still in sight is told of when it is watched anew.
        scrolled.unobserve(more);
        scrolled.observe(more);
      }
    }
  }

  function append(memory) {
    // A conversation goes by when things were said; a list by when they were stored, which may be years later.
    const when = feed.inOrder ? whenOf(memory) : memory.created;
    if (dayOf(when) !== lastDay) items.append(dayRow(when, feed.inOrder ? "" : "Noted down "));
    lastDay = dayOf(when);
    const item = drawn(memory);
    rows.set(memory.id, { memory, item });
    items.append(item);
  }

  function drawn(memory) {
    const ways = { chosen: chosen.has(memory.id), open: events.open, choose };
    if (!speakers.has(memory.speaker)) speakers.set(memory.speaker, speakers.size);
    const item = feed.inOrder ? turnRow(memory, { ...ways, colour: speakers.get(memory.speaker) }) : listRow(memory, ways);
    if (memory.id === opened) item.querySelector("button").setAttribute("aria-current", "true");
    return item;
  }

  function choose(id, isChosen) {
    if (isChosen) chosen.add(id);
    else chosen.delete(id);
    tellChosen();
  }

  function tellChosen() {
    element.classList.toggle("choosing", chosen.size > 0);
    events.chosen([...chosen].map((id) => rows.get(id)?.memory).filter(Boolean));
  }

  /** Draws a memory anew after it was changed. */
  function update(memory) {
    const row = rows.get(memory.id);
    if (!row) return;
    const focused = row.item.contains(document.activeElement);
    const item = drawn(memory);
    row.item.replaceWith(item);
    rows.set(memory.id, { memory, item });
    markTabStop();
    if (focused) opener(item).focus();
  }

  /** Takes memories away; gives what brings them back to their places. */
  function remove(ids) {
    const gone = ids.filter((id) => rows.has(id)).map((id) => {
      const { memory, item } = rows.get(id);
      const mark = document.createComment("");
      item.replaceWith(mark);
      rows.delete(id);
      chosen.delete(id);
      return { memory, mark };
    });
    if (gone.length) (nearest(gone[0].mark) ?? { focus() {} }).focus();
    if (!rows.size && feed?.ended()) replace(state, events.empty());
    markTabStop();
    tellChosen();
    return () => {
      for (const { memory, mark } of gone) {
        if (!mark.isConnected) continue;
        const item = drawn(memory);
        mark.replaceWith(item);
        rows.set(memory.id, { memory, item });
        replace(state);
      }
      markTabStop();
    };
  }

  function nearest(mark) {
    for (const way of ["nextSibling", "previousSibling"]) {
      for (let at = mark[way]; at; at = at[way]) if (at.dataset?.id) return opener(at);
    }
    return null;
  }

  /** Marks which memory is open, and brings it into sight if asked to. */
  function mark(id, { scroll = false } = {}) {
    for (const button of items.querySelectorAll("[aria-current]")) button.removeAttribute("aria-current");
    opened = id;
    const item = rows.get(id)?.item;
    if (!item) return;
    opener(item).setAttribute("aria-current", "true");
    markTabStop(item);
    if (scroll) item.scrollIntoView({ block: "center" });
  }

  // One stop for the tab key in the whole list; arrows do the rest.
  function markTabStop(item = null) {
    const all = [...rows.values()].map((row) => row.item);
    const stop = item ?? all.find((one) => opener(one).tabIndex === 0) ?? rows.get(opened)?.item ?? all[0];
    for (const one of items.querySelectorAll(".memory-opener, .memory-choice input")) {
      one.tabIndex = stop?.contains(one) ? 0 : -1;
    }
  }

  function remember(event) {
    const item = event.target.closest("li.memory");
    if (item) markTabStop(item);
  }

  function moveByKey(event) {
    const item = event.target.closest("li.memory");
    if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
    const all = [...items.querySelectorAll("li.memory")];
    const at = all.indexOf(item);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const next = all[Math.max(0, Math.min(to, all.length - 1))];
      opener(next).focus();
      if (to >= all.length - 1) loadMore();
    } else if (event.key === "Delete") {
      event.preventDefault();
      events.forget(chosen.size ? chosenMemories() : [rows.get(item.dataset.id).memory]);
    }
  }

  const chosenMemories = () => [...chosen].map((id) => rows.get(id).memory);
  const opener = (item) => item.querySelector(".memory-opener");

  function told() {
    const total = feed.total();
    if (total !== null) return counted(total, "turn in order", "turns in order");
    return feed.ended() ? counted(rows.size, "memory", "memories") : `The newest ${rows.size} memories`;
  }

  function failed(problem) {
    return el("div", { class: "note error" }, el("p", {}, problem.detail ?? String(problem)),
      el("button", { type: "button", class: "button", onclick: () => (rows.size ? loadMore() : show(feed)) }, "Try again"));
  }

  return {
    element, show, update, remove, mark,
    /** What a memory says here, if it has been loaded. */
    get: (id) => rows.get(id)?.memory,
    focus: (id) => (rows.has(id) ? opener(rows.get(id).item) : items.querySelector(".memory-opener"))?.focus(),
    clearChosen() {
      chosen.clear();
      for (const box of items.querySelectorAll(".memory-choice input")) box.checked = false;
      tellChosen();
    },
    end: () => scrolled.disconnect(),
  };
}

function skeleton() {
  return el("div", { class: "memory-skeleton", role: "status", "aria-label": "Loading memories" },
    Array.from({ length: 6 }, (_, at) => el("div", { class: "skeleton", style: { width: `${90 - (at % 3) * 15}%` } })));
}
