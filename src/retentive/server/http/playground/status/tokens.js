/** The panel of the Status view in which an administrator makes, lists and revokes API tokens. */

import { el, labelled, replace } from "../shared/dom.js";
import { day } from "../shared/format.js";

const ACCESSES = ["read", "write", "admin"];

/** @param {App} app */
export function createTokensPanel(app) {
  const list = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of tokens" });
  const made = el("div", { "aria-live": "polite" });
  const access = el("select", {}, ACCESSES.map((name) => el("option", { value: name }, name)));
  const note = el("input", { type: "text", autocomplete: "off", maxlength: 200, placeholder: "laptop" });
  const allProfiles = el("input", { type: "checkbox" });
  const form = el("form", { class: "token-form", onsubmit: create }, labelled("Access", access), labelled("Note", note),
    el("label", { class: "check" }, allProfiles, " All profiles"), el("button", { class: "button" }, "Make a token"));
  const element = el("section", { class: "panel status-wide", "aria-labelledby": "status-tokens", hidden: true },
    el("div", { class: "panel-top" }, el("h2", { id: "status-tokens" }, "API tokens"),
      el("p", { class: "quiet small" }, "A client sends one as Authorization: Bearer …")),
    list, form, made);

  async function attempt(work) {
    try {
      await work();
    } catch (error) {
      app.toast(error.message, { kind: "error" });
    }
  }

  const load = () => attempt(async () => {
    const { tokens } = await app.api.get("v1/tokens");
    replace(list, tokens.length ? table(tokens) : el("p", { class: "quiet small" }, "No tokens."));
  });

  function create(event) {
    event.preventDefault();
    return attempt(async () => {
      const { token } = await app.api.post("v1/tokens",
        { access: access.value, note: note.value, allProfiles: allProfiles.checked });
      replace(made, el("p", { class: "note good" }, "Copy the new token now; it is not shown again: ", el("code", {}, token)));
      form.reset();
      await load();
    });
  }

  const revoke = (token) => attempt(async () => {
    await app.api.delete(`v1/tokens/${encodeURIComponent(token.id)}`);
    replace(made);
    app.toast(`Token ${token.id} was revoked`);
    await load();
  });

  function table(tokens) {
    const heads = ["Token", "Profile", "Access", "Made", "Note"];
    return el("table", { class: "figures" },
      el("thead", {}, el("tr", {}, heads.map((name) => el("th", { scope: "col" }, name)), el("td", {}))),
      el("tbody", {}, tokens.map((token) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, token.id)),
        el("td", {}, token.profile ?? "all profiles"), el("td", {}, token.access), el("td", {}, day(token.created)),
        el("td", {}, token.note),
        el("td", {}, el("button", { type: "button", class: "button", "aria-label": `Revoke token ${token.id}`,
          onclick: () => revoke(token) }, "Revoke"))))));
  }

  return {
    element,
    /** Show the panel to an administrator only. */
    show(isAdmin) {
      if (isAdmin && element.hidden) load();
      element.hidden = !isAdmin;
    },
  };
}
