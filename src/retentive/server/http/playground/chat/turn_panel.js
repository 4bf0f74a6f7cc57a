/** What memory did for one message: what is in the prompt, what was left out and why, and what was stored. */

import { el, replace } from "../shared/dom.js";
import { dateTime, day, number, plural, sentence } from "../shared/format.js";
import { route } from "../shared/route.js";

const MAX_LEFT_OUT = 10;
const REASONS = { irrelevant: "not relevant", unjudged: "not judged", budget: "no room", repeated: "already said" };
const PARTS = { rules: "rule", identity: "identity", facts: "fact", recalled: "recalled", recent: "recent" };

/** A panel with three parts, of which one is shown: what was recalled, left out, and remembered. */
export function createTurnPanel() {
  const tabs = el("div", { class: "orders turn-tabs", role: "group", "aria-label": "What memory did" });
  const content = el("div", { class: "turn-content" });
  const element = el("div", { class: "turn-panel" }, tabs, content);
  /** @type {Record<string, {count: ?number, content: any}>} */
  const parts = { Recalled: waiting("Recalling…"), "Left out": waiting("Recalling…"), Remembered: waiting("Nothing yet.") };
  let shown = "Recalled";

  function draw() {
    const focused = tabs.contains(document.activeElement);
    replace(tabs, Object.entries(parts).map(([name, { count }]) => el("button", { type: "button", class: "button",
      "aria-pressed": String(name === shown), onclick: () => {
        shown = name;
        draw();
      } }, name, count !== null && el("span", { class: "mono quiet" }, number(count)))));
    replace(content, parts[shown].content);
    if (focused) tabs.querySelector("[aria-pressed=true]").focus();
  }

  draw();
  return {
    element,
    showContext(context) {
      parts.Recalled = { count: context.items.length, content: promptPart(context) };
      parts["Left out"] = { count: context.leftOut.length, content: leftOutPart(context.leftOut) };
      draw();
    },
    showMessage(text) {
      parts.Recalled = parts["Left out"] = waiting(text);
      draw();
    },
    /** @param {Memory[]} memories @param {string} note  shown if there are none */
    showStored(memories, note = "") {
      parts.Remembered = memories.length
        ? { count: memories.length, content: el("ul", { class: "turn-items" }, memories.map(storedItem)) } : waiting(note);
      draw();
    },
  };
}

const waiting = (text) => ({ count: null, content: el("p", { class: "quiet small" }, text) });

/** "3 memories, 120 tokens" */
export function contextSummary({ items, tokenCount }) {
  return items.length ? `${plural(items.length, "memory", "memories")}, ${plural(tokenCount, "token")}` : "no memories";
}

function promptPart({ items, tokenCount, budget, relevance, judged, passed, note, degraded, text }) {
  return [
    degraded && el("p", { class: "note warn" }, sentence(degraded)),
    el("p", { class: "quiet small" }, `${number(tokenCount)} of ${number(budget)} tokens · relevance of the recall ${percent(relevance)} · ${number(passed)} of ${number(judged)} judged memories passed`),
    items.length ? el("ol", { class: "turn-items" }, items.map(promptItem)) : el("p", { class: "quiet small" }, sentence(note ?? "nothing is stored in this scope")),
    text && el("details", { class: "turn-block" }, el("summary", { class: "small" }, "Text that is added to the prompt"), el("pre", { tabindex: "0" }, text)),
  ];
}

function leftOutPart(items) {
  if (!items.length) return el("p", { class: "quiet small" }, "Nothing was left out.");
  const list = el("ul", { class: "turn-items" }, items.slice(0, MAX_LEFT_OUT).map(promptItem));
  const more = items.length > MAX_LEFT_OUT && el("button", { type: "button", class: "link small", onclick: () => {
    list.append(...items.slice(MAX_LEFT_OUT).map(promptItem));
    more.remove();
  } }, `Show ${items.length - MAX_LEFT_OUT} more`);
  return [list, more];
}

function promptItem(item) {
  return el("li", { class: item.leftOut ? "turn-item left-out" : "turn-item" },
    el("div", { class: "turn-item-top" },
      el("span", { class: "tag" }, item.leftOut ? REASONS[item.leftOut] : PARTS[item.part]),
      item.relevance !== null && relevanceBar(item.relevance),
      el("span", { class: "quiet mono turn-tokens", title: "Tokens in the prompt" }, plural(item.tokens, "token"))),
    itemText(item.text, item.id),
    el("p", { class: "quiet small" }, [item.speaker, item.session ?? item.project].filter(Boolean).map((part) => `${part} · `),
      el("time", { datetime: item.when, title: dateTime(item.when) }, day(item.when)), item.cut && " · cut"),
    el("p", { class: "quiet small turn-why" }, item.why));
}

function storedItem(memory) {
  return el("li", { class: "turn-item" },
    el("div", { class: "turn-item-top" }, el("span", { class: "tag" }, memory.kind === "episodic" ? memory.speaker : `fact ${memory.key ?? ""}`),
      memory.metadata.incomplete && el("span", { class: "tag" }, "incomplete")),
    itemText(memory.text, memory.id));
}

/** The text of a memory, as a link to it. */
function itemText(text, id) {
  const profile = route.params.get("profile");
  const params = new URLSearchParams({ ...(profile && { profile }), id });
  return el("a", { class: "turn-text-link", dir: "auto", href: `#/memories?${params}`, title: "Open in Memories" }, text);
}

/** A bar from 0 to 1 with its number. */
function relevanceBar(value) {
  return el("span", { class: "turn-relevance", title: "Relevance: how likely it helps, from 0 to 100 %" },
    el("span", { class: "turn-bar", "aria-hidden": "true" }, el("span", { style: { width: `${Math.round(100 * value)}%` } })),
    el("span", { class: "visually-hidden" }, "relevance "), el("span", { class: "mono" }, percent(value)));
}

const percent = (value) => `${Math.round(100 * value)} %`;
