/** Anything that JSON can say, as a tree of text. */

import { el } from "./dom.js";

const DEEPEST = 12;

/** @param {unknown} value */
export function valueTree(value, depth = 0) {
  if (value === null || typeof value !== "object") return leaf(value);
  if (depth === DEEPEST) return leaf("…");
  const entries = Object.entries(value);
  if (!entries.length) return leaf(Array.isArray(value) ? "empty list" : "empty");
  return el("dl", { class: "value-tree" }, entries.map(([name, part]) =>
    el("div", { class: part !== null && typeof part === "object" ? "value-branch" : "value-leaf" },
      el("dt", {}, Array.isArray(value) ? `${Number(name) + 1}` : name),
      el("dd", {}, valueTree(part, depth + 1)))));
}

function leaf(value) {
  return el("span", { class: typeof value === "string" ? "value-text" : "value-text mono" }, String(value));
}
