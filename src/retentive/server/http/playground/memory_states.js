/** What is shown where there are no memories. */

import { el } from "./dom.js";

/** A store in which nothing is remembered yet, and the ways to begin. */
export function noMemories({ remember, choose }) {
  const curl = `curl ${location.origin}/v1/memories -H 'Content-Type: application/json' -d '{"text": "I am allergic to peanuts"}'`;
  return el("div", { class: "panel no-memories" },
    el("h2", {}, "No memories yet"),
    el("p", { class: "quiet" }, "Whatever an agent remembers appears here. To begin by hand:"),
    el("ul", { class: "ways" },
      remember && el("li", {}, el("button", { type: "button", class: "button", onclick: remember }, "Write one down")),
      choose && el("li", {}, el("button", { type: "button", class: "button", onclick: choose }, "Choose a JSONL file"),
        el("span", { class: "quiet small" }, "or drop one on this page")),
      way("In a shell", 'retentive remember "I am allergic to peanuts"'),
      way("Over HTTP", curl),
      way("Or look at samples first", "retentive samples")));
}

/** A scope that has none. */
export function nothingHere(showAll) {
  return el("div", { class: "state" }, el("h2", {}, "Nothing here"),
    el("p", {}, "No memory is in this project or session, or of these kinds."),
    el("button", { type: "button", class: "button", onclick: showAll }, "Show all memories"));
}

function way(label, line) {
  return el("li", { class: "way" }, el("span", { class: "small" }, label), el("code", {}, line));
}
