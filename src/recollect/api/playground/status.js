/** To come. */

import { el } from "./dom.js";

export const title = "Status";

export function mount(root) {
  root.append(el("p", { class: "state" }, "Coming."));
  return () => {};
}
