/** The view Recall: a question, its hits and why. */

import { el } from "./dom.js";

export const title = "Recall";

export function mount(root) {
  root.append(el("p", { class: "state" }, "Coming."));
  return () => {};
}
