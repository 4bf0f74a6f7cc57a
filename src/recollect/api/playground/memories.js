/** To come. */

import { el } from "./dom.js";

export const title = "Memories";

export function mount(root) {
  root.append(el("p", { class: "state" }, "Coming."));
  return () => {};
}
