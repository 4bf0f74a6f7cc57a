/** Accept files that are dropped anywhere on the page. */

import { el } from "../shared/dom.js";

/**
 * Accept dropped files until the returned function is called.
 * @param {HTMLElement} view  where the drop hint is shown
 * @param {(files: File[]) => void} onDrop
 */
export function acceptFileDrops(view, onDrop) {
  const hint = el("div", { class: "drop-hint", hidden: true, "aria-hidden": "true" },
    el("p", {}, "Drop to import"), el("p", { class: "small" }, "JSONL with one object per line, or a JSON array"));
  let depth = 0; // dragenter and dragleave fire for every element that the pointer crosses

  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  const changeDepth = (change) => {
    depth = Math.max(0, depth + change);
    hint.hidden = depth === 0;
  };
  const listeners = {
    dragenter: (event) => hasFiles(event) && changeDepth(1),
    dragleave: (event) => hasFiles(event) && changeDepth(-1),
    dragover: (event) => hasFiles(event) && event.preventDefault(),
    drop: (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      changeDepth(-depth);
      onDrop([...event.dataTransfer.files]);
    },
  };
  for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener);
  view.append(hint);
  return () => {
    for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener);
  };
}
