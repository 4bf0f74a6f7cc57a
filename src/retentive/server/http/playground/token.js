/** The token of this tab: the button in the header, and the dialog that asks for one. */

import { token } from "./api.js";
import { openDialog } from "./dialog.js";
import { el } from "./dom.js";

let asking = null;
let last = { at: -Infinity, usable: false };
let touched = 0;
for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => { touched = performance.now(); }, true);

/**
 * Asks once, however many requests were refused; true if there is a token to try. A request that was sent before the
 * last answer (`sent`, as performance.now() tells it) has that answer too, and a dialog that was closed stays closed
 * until the page is touched again.
 */
export function askForToken(reason, sent = Infinity) {
  const closed = !last.usable && touched <= last.at;
  if (!asking && (sent < last.at || closed)) return Promise.resolve(last.usable);
  asking ??= ask(reason).then((usable) => {
    last = { at: performance.now(), usable };
    return usable;
  }).finally(() => {
    asking = null;
    showToken();
  });
  return asking;
}

/** The button that opens the dialog and says whether a token is used. */
export const tokenButton = el("button", {
  type: "button",
  class: "button quiet token",
  onclick: async () => {
    if (await askForToken(null)) location.reload();
  },
}, "Token");

export function showToken() {
  const has = Boolean(token.value);
  tokenButton.classList.toggle("on", has);
  tokenButton.title = has ? "A token is sent with every request of this tab" : "No token is sent";
  tokenButton.setAttribute("aria-label", has ? "Token, in use" : "Token, none");
}

async function ask(reason) {
  const before = token.value;
  const given = await openDialog(reason ? "A token is needed" : "Token", (close) => form(reason, close));
  if (given === undefined) return false;
  token.value = given;
  return reason ? Boolean(given) : given !== (before ?? "");
}

function form(reason, close) {
  const field = el("input", {
    id: "token-field", type: "password", autocomplete: "off", spellcheck: "false", value: token.value ?? "",
    placeholder: "rcl_…",
  });
  return el(
    "form",
    {
      method: "dialog",
      onsubmit: (event) => {
        event.preventDefault();
        close(field.value.trim());
      },
    },
    reason && el("p", { class: "note warn" }, reason),
    el("label", { for: "token-field", class: "label" }, "Token"),
    field,
    el("p", { class: "quiet" }, "Kept in this tab alone, and gone when it closes. Make one with ",
      el("code", {}, "retentive token create"), "."),
    el(
      "div",
      { class: "dialog-end" },
      token.value && el("button", { type: "button", class: "button", onclick: () => close("") }, "Use none"),
      el("button", { class: "button primary" }, "Use this token"),
    ),
  );
}
