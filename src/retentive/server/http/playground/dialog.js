/** Dialogs of the page's own: titled, closed by Escape, by the cross, by a click beside them or by going elsewhere. */

import { el, unique } from "./dom.js";

/**
 * Opens a dialog. `build(close)` gives what is in it; `close(value)` closes it. The promise gives that value, or
 * undefined if it was closed in another way. Focus goes back to where it was.
 */
export function openDialog(title, build, { wide = false } = {}) {
  return new Promise((resolve) => {
    let value;
    const close = (given) => {
      value = given;
      dialog.close();
    };
    const id = unique("dialog");
    const dialog = el(
      "dialog",
      { class: wide ? "dialog wide" : "dialog", "aria-labelledby": id },
      el(
        "div",
        { class: "dialog-inside" },
        el(
          "header",
          { class: "dialog-top" },
          el("h2", { id }, title),
          el("button", { type: "button", class: "button icon", "aria-label": "Close", onclick: () => close() }, "×"),
        ),
        build(close),
      ),
    );
    dialog.addEventListener("click", (event) => event.target === dialog && close());
    const leave = () => close();
    addEventListener("hashchange", leave);
    dialog.addEventListener("close", () => {
      removeEventListener("hashchange", leave);
      dialog.remove();
      resolve(value);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Asks before something that is not easily taken back; true if it is meant. */
export async function confirm(title, text, label) {
  const meant = await openDialog(title, (close) => [
    el("p", {}, text),
    el(
      "div",
      { class: "dialog-end" },
      el("button", { type: "button", class: "button", onclick: () => close(false) }, "Cancel"),
      el("button", { type: "button", class: "button danger", onclick: () => close(true) }, label),
    ),
  ]);
  return meant === true;
}
