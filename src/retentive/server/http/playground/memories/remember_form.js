/** The form that adds a memory. */

import { el, labelled, unique } from "../shared/dom.js";
import { fromLocalInput } from "../shared/format.js";
import { openDialog } from "../shared/overlays.js";
import { KINDS } from "../shared/scope.js";

/**
 * Open the form; resolve to the stored memory, or to undefined if the form was closed.
 * @param {App} app
 * @param {{projects: {name: string}[], sessions: {name: string}[]}} names  to suggest
 */
export function openRememberForm(app, names) {
  return openDialog("Remember a memory", (close) => rememberForm(app, names, close), { wide: true });
}

function rememberForm(app, names, close) {
  const scope = app.scope.value;
  const fields = {
    text: el("textarea", { rows: 4, dir: "auto", required: true, autofocus: true, placeholder: "I am allergic to peanuts" }),
    kind: el("select", {}, KINDS.map((kind) => el("option", { value: kind }, kind))),
    speaker: el("input", { type: "text", autocomplete: "off" }),
    project: el("input", { type: "text", autocomplete: "off", value: scope.project ?? "" }),
    session: el("input", { type: "text", autocomplete: "off", value: scope.session ?? "" }),
    occurred: el("input", { type: "datetime-local", step: 1 }),
    importance: el("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0.5 }),
    evergreen: el("input", { type: "checkbox" }),
  };
  const errorNote = el("p", { class: "note error", role: "alert", hidden: true });
  const button = el("button", { class: "button primary" }, "Remember");

  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    errorNote.hidden = true;
    try {
      close(await app.api.post("v1/memories", readFields(fields)));
    } catch (error) {
      errorNote.textContent = error.message;
      errorNote.hidden = false;
    } finally {
      button.disabled = false;
    }
  }

  return el("form", { class: "remember-form", onsubmit: submit },
    labelled("Text", fields.text, "whole"),
    labelled("Kind", fields.kind), labelled("Speaker", fields.speaker),
    labelled("Project", withSuggestions(fields.project, names.projects)),
    labelled("Session", withSuggestions(fields.session, names.sessions)),
    labelled("Occurred", fields.occurred), labelled("Importance", fields.importance),
    el("label", { class: "check whole" }, fields.evergreen, " Evergreen: exempt from decay"),
    errorNote,
    el("div", { class: "dialog-end whole" },
      el("button", { type: "button", class: "button", onclick: () => close() }, "Cancel"), button));
}

function readFields(fields) {
  const names = Object.fromEntries(["speaker", "project", "session"].map((name) => [name, fields[name].value.trim()])
    .filter(([, value]) => value));
  const occurred = fromLocalInput(fields.occurred.value);
  return {
    text: fields.text.value, kind: fields.kind.value, importance: Number(fields.importance.value),
    evergreen: fields.evergreen.checked, ...names, ...(occurred && { occurred }),
  };
}

function withSuggestions(field, entries) {
  const id = unique("suggestions");
  field.setAttribute("list", id);
  return [field, el("datalist", { id }, entries.map(({ name }) => el("option", { value: name })))];
}
