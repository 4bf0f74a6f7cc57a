/** The list of memories: loaded on scrolling, moved through by keyboard, with memories selected and opened. */

import { markWords } from "../recall/matched_words.js";
import { el, replace, svg } from "../shared/dom.js";
import { clock, dateTime, day, longDay, memoryTime, plural } from "../shared/format.js";

const SPEAKER_COLOURS = 6;
const MAX_LABEL = 80;

/**
 * @param {App} app
 * @param {object} handlers
 * @param {(id: string) => void} handlers.open
 * @param {(memories: Memory[]) => void} handlers.forget
 * @param {(memories: Memory[]) => void} handlers.onSelect  called with the selected memories
 * @param {() => Node} handlers.emptyState  what to show if there are no memories
 */
export function createList(app, handlers) {
  const rows = new Map(); // id → {memory, item}
  const selected = new Set();
  const speakers = new Map(); // name → number of its colour
  let pager = null;
  let loading = null;
  let openId = null;
  let lastDay = null;

  const items = el("ol", { class: "memory-items", "aria-label": "Memories", onkeydown: onKey, onfocusin: onFocus });
  const state = el("div", { class: "memory-state" });
  const more = el("button", { type: "button", class: "button memory-more", hidden: true, onclick: loadMore }, "Load more");
  const element = el("div", { class: "memory-list" }, items, state, more);
  const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && loadMore(), { rootMargin: "400px" });
  observer.observe(more);

  /** Show a pager from its start; a conversation is loaded up to the memory with `targetId`. */
  async function show(next, targetId = null) {
    pager = next;
    loading = null;
    rows.clear();
    speakers.clear();
    selected.clear();
    lastDay = null;
    more.hidden = true;
    items.className = pager.isConversation ? "memory-items conversation" : "memory-items";
    replace(items);
    replace(state, skeleton());
    notifySelection();
    await loadMore();
    while (pager === next && targetId && pager.isConversation && !rows.has(targetId) && !pager.isDone()) await loadMore();
    if (pager === next && rows.size) app.announce(summary());
  }

  /** Load the next page; only one load runs at a time. */
  function loadMore() {
    if (!pager || (pager.isDone() && rows.size)) return Promise.resolve();
    loading ??= load(pager);
    return loading;
  }

  async function load(from) {
    more.disabled = true;
    try {
      const memories = await from.next();
      if (from !== pager) return; // another list is shown by now
      replace(state);
      for (const memory of memories) if (!rows.has(memory.id)) append(memory);
      if (!rows.size) replace(state, handlers.emptyState());
    } catch (error) {
      if (from !== pager) return;
      replace(state, errorState(error));
    } finally {
      if (from === pager) {
        loading = null;
        more.disabled = false;
        more.hidden = from.isDone() || rows.size === 0;
        setTabStop();
        // An observer only reports changes. Observing again reports a button that is still visible.
        observer.unobserve(more);
        observer.observe(more);
      }
    }
  }

  function append(memory) {
    const when = memoryTime(memory);
    if (!pager.isSearch && day(when) !== lastDay) items.append(dayRow(when));
    lastDay = day(when);
    const item = draw(memory);
    rows.set(memory.id, { memory, item });
    items.append(item);
  }

  function draw(memory) {
    const options = { isSelected: selected.has(memory.id), open: handlers.open, select };
    if (!speakers.has(memory.speaker)) speakers.set(memory.speaker, speakers.size);
    const item = pager.isConversation ? turnRow(memory, { ...options, colour: speakers.get(memory.speaker) }) : listRow(memory, options);
    if (memory.id === openId) item.querySelector("button").setAttribute("aria-current", "true");
    return item;
  }

  function select(id, isSelected) {
    if (isSelected) selected.add(id);
    else selected.delete(id);
    notifySelection();
  }

  const selectedMemories = () => [...selected].map((id) => rows.get(id)?.memory).filter(Boolean);

  function notifySelection() {
    element.classList.toggle("selecting", selected.size > 0);
    handlers.onSelect(selectedMemories());
  }

  /** Redraw a memory that was changed. */
  function update(memory) {
    const row = rows.get(memory.id);
    if (!row) return;
    const hadFocus = row.item.contains(document.activeElement);
    const changed = { ...memory, found: row.memory.found };
    const item = draw(changed);
    row.item.replaceWith(item);
    rows.set(memory.id, { memory: changed, item });
    setTabStop();
    if (selected.has(memory.id)) notifySelection();
    if (hadFocus) opener(item).focus();
  }

  /** Remove memories; return a function that puts them back at their positions. */
  function remove(ids) {
    const removed = ids.filter((id) => rows.has(id)).map((id) => {
      const { memory, item } = rows.get(id);
      const placeholder = document.createComment("");
      item.replaceWith(placeholder);
      rows.delete(id);
      selected.delete(id);
      return { memory, placeholder };
    });
    if (removed.length) nearestOpener(removed[0].placeholder)?.focus();
    if (!rows.size && pager?.isDone()) replace(state, handlers.emptyState());
    setTabStop();
    notifySelection();
    return () => {
      for (const { memory, placeholder } of removed) {
        if (!placeholder.isConnected) continue;
        const item = draw(memory);
        placeholder.replaceWith(item);
        rows.set(memory.id, { memory, item });
        replace(state);
      }
      setTabStop();
    };
  }

  function nearestOpener(placeholder) {
    for (const direction of ["nextSibling", "previousSibling"]) {
      for (let node = placeholder[direction]; node; node = node[direction]) if (node.dataset?.id) return opener(node);
    }
    return null;
  }

  /** Mark the memory that is open in the editor, and scroll to it if requested. */
  function markOpen(id, { scroll = false } = {}) {
    for (const button of items.querySelectorAll("[aria-current]")) button.removeAttribute("aria-current");
    openId = id;
    const item = rows.get(id)?.item;
    if (!item) return;
    opener(item).setAttribute("aria-current", "true");
    setTabStop(item);
    if (scroll) item.scrollIntoView({ block: "center" });
  }

  // The list is one stop in the tab order; arrow keys move inside it.
  function setTabStop(item = null) {
    const all = [...rows.values()].map((row) => row.item);
    const stop = item ?? all.find((one) => opener(one).tabIndex === 0) ?? rows.get(openId)?.item ?? all[0];
    for (const one of items.querySelectorAll(".memory-opener, .memory-select input")) {
      one.tabIndex = stop?.contains(one) ? 0 : -1;
    }
  }

  function onFocus(event) {
    const item = event.target.closest("li.memory");
    if (item) setTabStop(item);
  }

  function onKey(event) {
    const item = event.target.closest("li.memory");
    if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
    const all = [...items.querySelectorAll("li.memory")];
    const index = all.indexOf(item);
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: all.length - 1 }[event.key];
    if (target !== undefined) {
      event.preventDefault();
      opener(all[Math.max(0, Math.min(target, all.length - 1))]).focus();
      if (target >= all.length - 1) loadMore();
    } else if (event.key === "Delete") {
      event.preventDefault();
      handlers.forget(selected.size ? selectedMemories() : [rows.get(item.dataset.id).memory]);
    }
  }

  const opener = (item) => item.querySelector(".memory-opener");

  function setBoxes(checked) {
    for (const box of items.querySelectorAll(".memory-select input")) if (box instanceof HTMLInputElement) box.checked = checked;
  }

  function summary() {
    const total = pager.total();
    if (pager.isSearch) return `${plural(total, "memory", "memories")} found`;
    if (total !== null) return plural(total, "turn in session order", "turns in session order");
    return pager.isDone() ? plural(rows.size, "memory", "memories") : `The newest ${rows.size} memories`;
  }

  function errorState(error) {
    return el("div", { class: "note error" }, el("p", {}, error.message),
      el("button", { type: "button", class: "button", onclick: () => (rows.size ? loadMore() : show(pager)) }, "Try again"));
  }

  return {
    element, show, update, remove, markOpen,
    has: (id) => rows.has(id),
    focus: (id) => (rows.has(id) ? opener(rows.get(id).item) : items.querySelector(".memory-opener"))?.focus(),
    /** Select all memories that are loaded. */
    selectAll() {
      for (const id of rows.keys()) selected.add(id);
      setBoxes(true);
      notifySelection();
    },
    clearSelection() {
      selected.clear();
      setBoxes(false);
      notifySelection();
    },
    stop: () => observer.disconnect(),
  };
}

/** A memory as a row of a list. */
function listRow(memory, options) {
  return row(memory, "memory", options,
    openerButton(memory, options, [
      el("span", { class: "memory-text", dir: "auto" }, memory.found ? markWords(memory.text, memory.found.terms) : memory.text),
      el("span", { class: "memory-facts" },
        typeof memory.found?.relevance === "number" && el("span", { class: "mono", title: "Relevance to the search" }, `${Math.round(100 * memory.found.relevance)} %`),
        time(memoryTime(memory), day),
        memory.speaker && el("span", { class: "memory-speaker", dir: "auto", title: memory.speaker }, memory.speaker),
        (memory.session ?? memory.project) && el("span", { class: "memory-session", dir: "auto", title: memory.session ?? memory.project }, memory.session ?? memory.project),
        tags(memory)),
    ]));
}

/** A memory as a turn of a conversation. */
function turnRow(memory, options) {
  return row(memory, "memory turn", options,
    el("span", { class: `speaker-mark speaker-${options.colour % SPEAKER_COLOURS}`, "aria-hidden": "true" },
      initial(memory.speaker)),
    openerButton(memory, options, [
      el("span", { class: "turn-top" },
        el("strong", { dir: "auto", title: memory.speaker }, memory.speaker ?? "Unknown speaker"),
        el("span", { class: "memory-facts" }, time(memoryTime(memory), clock), tags(memory))),
      el("span", { class: "turn-text", dir: "auto" }, memory.text),
    ]));
}

/** The first character of a name as readers see it: an emoji may consist of several code points. */
function initial(speaker) {
  const [first] = new Intl.Segmenter().segment(speaker?.trim() || "·");
  return first.segment.toUpperCase();
}

/** The heading of a day. */
function dayRow(when) {
  return el("li", { class: "day" }, el("h2", {}, longDay(when)));
}

function row(memory, className, { isSelected, select }, ...content) {
  const line = memory.text.replace(/\s+/g, " ").trim();
  const label = line.length > MAX_LABEL ? `${line.slice(0, MAX_LABEL - 1)}…` : line;
  return el("li", { class: className, dataset: { id: memory.id } },
    el("label", { class: "memory-select" },
      el("input", { type: "checkbox", checked: isSelected, "aria-label": `Select “${label}”`,
        tabindex: "-1", onchange: (event) => select(memory.id, event.target.checked) })),
    ...content);
}

function openerButton(memory, { open }, children) {
  return el("button", { type: "button", class: "memory-opener", tabindex: "-1", onclick: () => open(memory.id) }, children);
}

function time(when, format) {
  return el("time", { datetime: when, title: dateTime(when) }, format(when));
}

function tags(memory) {
  return [
    memory.kind !== "episodic" && el("span", { class: `tag kind-${memory.kind}` }, memory.kind),
    memory.evergreen && el("span", { class: "pinned" }, pinIcon(), el("span", {}, "evergreen")),
  ];
}

export function pinIcon() {
  return svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true", class: "pin" },
    svg("path", { d: "M5 1.5h6l-.8 4.8 2.3 2.7v1H3.5V9l2.3-2.7zM8 10.5V15", fill: "none", stroke: "currentColor",
      "stroke-width": "1.4", "stroke-linejoin": "round", "stroke-linecap": "round" }));
}

function skeleton() {
  return el("div", { class: "memory-skeleton", role: "status", "aria-label": "Loading memories" },
    Array.from({ length: 6 }, (_, index) => el("div", { class: "skeleton", style: { width: `${90 - (index % 3) * 15}%` } })));
}
