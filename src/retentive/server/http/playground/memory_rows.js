/** One memory as a line of a list, or as a turn of a conversation. */

import { el, svg } from "./dom.js";
import { clockOf, dayOf, exactly, whenOf, wholeDayOf } from "./times.js";

const SPEAKER_COLOURS = 6;
const SHORT = 80;

/** The beginning of a text, for labels. */
export function shortened(text) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > SHORT ? `${line.slice(0, SHORT - 1)}…` : line;
}

/** A line of a list. */
export function listRow(memory, { chosen, open, choose }) {
  return row(memory, "memory", { chosen, choose }, opener(memory, open, [
    el("span", { class: "memory-text" }, memory.text),
    el("span", { class: "memory-facts" },
      time(whenOf(memory), dayOf),
      memory.speaker && el("span", {}, memory.speaker),
      (memory.session ?? memory.project) && el("span", { class: "memory-home" }, memory.session ?? memory.project),
      tags(memory)),
  ]));
}

/** A turn of a conversation. */
export function turnRow(memory, { chosen, open, choose, colour }) {
  return row(memory, "memory turn", { chosen, choose },
    el("span", { class: `speaker-mark speaker-${colour % SPEAKER_COLOURS}`, "aria-hidden": "true" },
      (memory.speaker ?? "·").trim().slice(0, 1).toUpperCase()),
    opener(memory, open, [
      el("span", { class: "turn-top" },
        el("strong", {}, memory.speaker ?? "Somebody"),
        el("span", { class: "memory-facts" }, time(whenOf(memory), clockOf), tags(memory))),
      el("span", { class: "turn-text" }, memory.text),
    ]));
}

/** The line between two days. */
export function dayRow(when, before = "") {
  return el("li", { class: "day" }, el("h2", {}, `${before}${wholeDayOf(when)}`));
}

function row(memory, className, { chosen, choose }, ...inside) {
  return el("li", { class: className, dataset: { id: memory.id } },
    el("label", { class: "memory-choice" },
      el("input", { type: "checkbox", checked: chosen, "aria-label": `Select “${shortened(memory.text)}”`,
        tabindex: "-1", onchange: (event) => choose(memory.id, event.target.checked) })),
    ...inside);
}

function opener(memory, open, children) {
  return el("button", { type: "button", class: "memory-opener", tabindex: "-1", onclick: () => open(memory.id) }, children);
}

function time(when, write) {
  return el("time", { datetime: when, title: exactly(when) }, write(when));
}

function tags(memory) {
  return [
    memory.kind !== "episodic" && el("span", { class: `tag kind-${memory.kind}` }, memory.kind),
    memory.evergreen && el("span", { class: "pinned" }, pin(), el("span", {}, "evergreen")),
  ];
}

/** A pin, drawn. */
export function pin() {
  return svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true", class: "pin" },
    svg("path", { d: "M5 1.5h6l-.8 4.8 2.3 2.7v1H3.5V9l2.3-2.7zM8 10.5V15", fill: "none", stroke: "currentColor",
      "stroke-width": "1.4", "stroke-linejoin": "round", "stroke-linecap": "round" }));
}
