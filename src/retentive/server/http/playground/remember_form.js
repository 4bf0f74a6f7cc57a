/** A small form to add a memory by hand. */

import { openDialog } from "./dialog.js";
import { el, unique } from "./dom.js";
import { KINDS } from "./scope.js";
import { fromLocalInput } from "./times.js";

/**
 * Asks for a memory and stores it; gives it as stored, or undefined if it was left.
 * @param {object} app
 * @param {{projects: object[], sessions: object[]}} known  names to offer
 */
export function rememberSomething(app, known) {
  return openDialog("Remember something", (close) => form(app, known, close), { wide: true });
}

function form(app, known, close) {
  const here = app.scope.value;
  const fields = {
    text: el("textarea", { rows: 4, required: true, autofocus: true, placeholder: "I am allergic to peanuts" }),
    kind: el("select", {}, KINDS.map((kind) => el("option", { value: kind }, kind))),
    speaker: el("input", { type: "text", autocomplete: "off" }),
    project: el("input", { type: "text", autocomplete: "off", value: here.project ?? "" }),
    session: el("input", { type: "text", autocomplete: "off", value: here.session ?? "" }),
    occurred: el("input", { type: "datetime-local", step: 1 }),
    importance: el("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0.5 }),
    evergreen: el("input", { type: "checkbox" }),
  };
  const wrong = el("p", { class: "note error", role: "alert", hidden: true });
  const button = el("button", { class: "button primary" }, "Remember");

  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    wrong.hidden = true;
    try {
      close(await app.api.post("v1/memories", given(fields)));
    } catch (problem) {
      wrong.textContent = problem.detail ?? String(problem);
      wrong.hidden = false;
    } finally {
      button.disabled = false;
    }
  }

  return el("form", { class: "remember-form", onsubmit: submit },
    labelled("Text", fields.text, "whole"),
    labelled("Kind", fields.kind), labelled("Speaker", fields.speaker),
    labelled("Project", offered(fields.project, known.projects)), labelled("Session", offered(fields.session, known.sessions)),
    labelled("When it happened", fields.occurred), labelled("Importance", fields.importance),
    el("label", { class: "check whole" }, fields.evergreen, " Evergreen: never fades with age"),
    wrong,
    el("div", { class: "dialog-end whole" },
      el("button", { type: "button", class: "button", onclick: () => close() }, "Cancel"), button));
}

function given(fields) {
  const named = Object.fromEntries(["speaker", "project", "session"].map((name) => [name, fields[name].value.trim()])
    .filter(([, value]) => value));
  const occurred = fromLocalInput(fields.occurred.value);
  return {
    text: fields.text.value, kind: fields.kind.value, importance: Number(fields.importance.value),
    evergreen: fields.evergreen.checked, ...named, ...(occurred && { occurred }),
  };
}

/** A field with its label above it. */
export function labelled(label, field, className = "") {
  const [control, ...rest] = [field].flat();
  control.id ||= unique("field");
  return el("div", { class: `field ${className}` }, el("label", { class: "label", for: control.id }, label), control, rest);
}

function offered(field, things) {
  const id = unique("offered");
  field.setAttribute("list", id);
  return [field, el("datalist", { id }, things.map(({ name }) => el("option", { value: name })))];
}
