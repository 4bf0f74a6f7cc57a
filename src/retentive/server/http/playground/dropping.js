/** Files dropped anywhere on the page. */

import { el } from "./dom.js";

/**
 * Takes files that are dropped while a view is shown; gives a function that ends this.
 * @param {HTMLElement} view  where the invitation is shown
 * @param {(files: File[]) => void} take
 */
export function takeDrops(view, take) {
  const invitation = el("div", { class: "drop-here", hidden: true, "aria-hidden": "true" },
    el("p", {}, "Drop to import"), el("p", { class: "small" }, "JSONL, one object a line, or a JSON array"));
  let depth = 0; // every element that is crossed is entered and left

  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  const show = (change) => {
    depth = Math.max(0, depth + change);
    invitation.hidden = depth === 0;
  };
  const listeners = {
    dragenter: (event) => hasFiles(event) && show(1),
    dragleave: (event) => hasFiles(event) && show(-1),
    dragover: (event) => hasFiles(event) && event.preventDefault(),
    drop: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      show(-depth);
      take([...event.dataTransfer.files]);
    },
  };
  for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener);
  view.append(invitation);
  return () => {
    for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener);
  };
}
