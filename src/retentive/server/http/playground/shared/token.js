/** The API token of this browser tab: its storage, the button in the header and the dialog that asks for one. */

import { commandCode } from "./commands.js";
import { el } from "./dom.js";
import { sentence } from "./format.js";
import { openDialog } from "./overlays.js";
import { tabStorage } from "./storage.js";

const KEY = "retentive-token";

export const token = {
  get value() {
    return tabStorage.get(KEY);
  },
  set value(secret) {
    tabStorage.set(KEY, secret || null);
  },
};

let pending = null;
let lastResult = { at: -Infinity, hasToken: false };
let lastInput = 0;
for (const type of ["pointerdown", "keydown"]) addEventListener(type, () => { lastInput = performance.now(); }, true);

/**
 * Ask the user for a token; resolve to true if there is one to retry with.
 *
 * Concurrent rejected requests share one dialog. A request sent before the dialog closed (`sentAt`, in terms of
 * performance.now()) gets the same result. A cancelled dialog does not open again before the next user input.
 */
export function requestToken(reason, sentAt = Infinity) {
  const cancelled = !lastResult.hasToken && lastInput <= lastResult.at;
  if (!pending && (sentAt < lastResult.at || cancelled)) return Promise.resolve(lastResult.hasToken);
  pending ??= askForToken(reason).then((hasToken) => {
    lastResult = { at: performance.now(), hasToken };
    return hasToken;
  }).finally(() => {
    pending = null;
    showTokenState();
  });
  return pending;
}

/** The header button: opens the dialog and shows whether a token is in use. */
export const tokenButton = el("button", {
  type: "button",
  class: "button quiet token",
  onclick: async () => {
    if (await requestToken(null)) location.reload();
  },
}, "Token");

export function showTokenState() {
  const inUse = Boolean(token.value);
  tokenButton.classList.toggle("on", inUse);
  tokenButton.title = inUse ? "This tab sends a token with every request" : "No token is sent";
  tokenButton.setAttribute("aria-label", inUse ? "Token: in use" : "Token: none");
}

async function askForToken(reason) {
  const before = token.value;
  const entered = await openDialog(reason ? "Token required" : "API token", (close) => tokenForm(reason, close));
  if (entered === undefined) return false;
  token.value = entered;
  return reason ? Boolean(entered) : entered !== (before ?? "");
}

function tokenForm(reason, close) {
  const field = el("input", {
    id: "token-field", type: "password", autocomplete: "off", spellcheck: "false", autofocus: true, value: token.value ?? "",
  });
  const submit = (event) => {
    event.preventDefault();
    close(field.value.trim());
  };
  return el("form", { method: "dialog", onsubmit: submit },
    reason && el("p", { class: "note warn" }, token.value ? sentence(reason) : "This service requires a token."),
    el("label", { for: "token-field", class: "label" }, "Token"),
    field,
    el("p", { class: "quiet" }, "Stored in this tab only; closing the tab deletes it. Create a token with ",
      commandCode("token create"), "."),
    el("div", { class: "dialog-end" },
      token.value && el("button", { type: "button", class: "button", onclick: () => close("") }, "Remove token"),
      el("button", { class: "button primary" }, "Use token")));
}
