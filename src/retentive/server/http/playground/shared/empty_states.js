/** The state of a store without memories, with the ways to add the first ones. */

import { commandLine } from "./commands.js";
import { el } from "./dom.js";

/** @param {{remember?: () => void, chooseFile?: () => void, samples?: () => void}} actions  buttons are shown for those that are given */
export function noMemories({ remember, chooseFile, samples }) {
  const curl = `curl ${location.origin}/v1/memories -H 'Content-Type: application/json' -d '{"text": "I am allergic to peanuts"}'`;
  return el("div", { class: "panel no-memories" },
    el("h2", {}, "No memories yet"),
    el("p", { class: "quiet" }, "Memories that an agent stores appear here. To add the first ones:"),
    el("ul", { class: "ways" },
      samples && el("li", {}, el("button", { type: "button", class: "button primary", onclick: samples }, "Load the samples"),
        el("span", { class: "quiet small" }, "invented conversations to try recalls on")),
      chooseFile && el("li", {}, el("button", { type: "button", class: "button", onclick: chooseFile }, "Import a JSONL file"),
        el("span", { class: "quiet small" }, "or drop a file on this page")),
      remember && el("li", {}, el("button", { type: "button", class: "button", onclick: remember }, "Remember…"),
        el("span", { class: "quiet small" }, "write a memory yourself")),
      command("Command line", commandLine('remember "I am allergic to peanuts"')),
      command("HTTP", curl),
      command("Sample memories", commandLine("samples"))));
}

function command(label, line) {
  return el("li", { class: "way" }, el("span", { class: "small" }, label), el("code", {}, line));
}
