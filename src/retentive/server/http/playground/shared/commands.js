/** Commands that the pages suggest. */

import { el } from "./dom.js";

/** The option that names the store of this service; empty for the default store, or if a token is required. */
const option = document.querySelector("meta[name=store-option]")?.getAttribute("content") ?? "";

/** Return a command line of the program with the option that names the store. */
export function commandLine(words) {
  return ["retentive", option, words].filter(Boolean).join(" ");
}

/** Return a command line as an element. */
export function commandCode(words) {
  return el("code", {}, commandLine(words));
}

/** Name the store in a sentence that suggests `retentive reembed`. */
export function withStore(sentence) {
  return sentence.replaceAll("retentive reembed", () => commandLine("reembed"));
}
