/** One memory opened: all that is known of it, and what can be changed. */

import { openDialog } from "./dialog.js";
import { el, replace } from "./dom.js";
import { pin } from "./memory_rows.js";
import { labelled } from "./remember_form.js";
import { KINDS } from "./scope.js";
import { exactly, fromLocalInput, number, toLocalInput } from "./times.js";
import { valueTree } from "./value_tree.js";

/**
 * @param {object} app
 * @param {object} memory
 * @param {object} events
 * @param {(memory: object) => void} events.changed  called with the memory as it now is, also before it is sure
 * @param {() => void} events.close
 * @param {(memory: object) => void} events.forget
 */
export function createEditor(app, memory, events) {
  let now = memory;
  let saving = false;
  const fields = {
    text: el("textarea", { rows: 5, value: memory.text, class: "editor-text" }),
    kind: el("select", {}, KINDS.map((kind) => el("option", { value: kind }, kind))),
    speaker: el("input", { type: "text", autocomplete: "off" }),
    occurred: el("input", { type: "datetime-local", step: 1 }),
    source: el("input", { type: "text", autocomplete: "off" }),
    importance: el("input", { type: "range", min: 0, max: 1, step: 0.01 }),
  };
  const importance = el("output", { class: "mono editor-importance" });
  const wrong = el("p", { class: "note error", role: "alert", hidden: true });
  const save = el("button", { class: "button primary" }, "Save changes");
  const revert = el("button", { type: "button", class: "button", onclick: () => fill(now) }, "Revert");
  const pinned = el("button", { type: "button", class: "button", onclick: () => send({ evergreen: !now.evergreen }) },
    pin(), "Evergreen");
  const facts = el("div", { class: "editor-facts" });
  const form = el("form", { class: "editor-form", onsubmit: submit, oninput: showDirt, onkeydown: saveByKey },
    labelled("Text", fields.text, "whole"),
    labelled("Kind", fields.kind), labelled("Speaker", fields.speaker),
    labelled("When it happened", fields.occurred, "whole"), labelled("Source", fields.source, "whole"),
    el("div", { class: "whole editor-slider" }, labelled("Importance", [fields.importance, importance])),
    wrong,
    el("div", { class: "editor-end whole" }, save, revert));
  const element = el("section", { class: "editor panel", "aria-label": "Memory", tabindex: "-1" },
    el("div", { class: "panel-top" },
      el("h2", {}, "Memory"),
      el("div", { class: "editor-actions" }, pinned,
        el("button", { type: "button", class: "button danger", onclick: () => events.forget(now) }, "Forget…"),
        el("button", { type: "button", class: "button icon", "aria-label": "Close", onclick: events.close }, "×"))),
    form, facts);

  /** What the fields of a memory look like in the form. */
  function written(of) {
    return {
      text: of.text, kind: of.kind, speaker: of.speaker ?? "", occurred: toLocalInput(of.occurred),
      source: of.source ?? "", importance: String(of.importance),
    };
  }

  function fill(of) {
    for (const [name, value] of Object.entries(written(of))) fields[name].value = value;
    showDirt();
    showWrong(null);
  }

  function changes() {
    const before = written(now);
    const differ = Object.keys(fields).filter((name) => !isSame(name, fields[name].value, before[name]));
    return Object.fromEntries(differ.map((name) => [name, read(name, fields[name].value)]));
  }

  // Fields write some values in their own way: a slider stands on hundredths, a time loses its last zeros.
  function isSame(name, value, before) {
    if (name === "importance") return Math.abs(Number(value) - Number(before)) < 0.005;
    if (name === "occurred") return fromLocalInput(value) === fromLocalInput(before);
    return value === before;
  }

  function read(name, value) {
    if (name === "importance") return Number(value);
    if (name === "occurred") return fromLocalInput(value);
    if (name === "speaker" || name === "source") return value.trim() || null;
    return value;
  }

  function showDirt() {
    const dirty = Object.keys(changes());
    for (const name of Object.keys(fields)) fields[name].closest(".field").classList.toggle("dirty", dirty.includes(name));
    importance.value = Number(fields.importance.value).toFixed(2);
    save.disabled = revert.disabled = !dirty.length || saving;
  }

  function submit(event) {
    event.preventDefault();
    const changed = changes();
    if (Object.keys(changed).length && !saving) send(changed);
  }

  function saveByKey(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  }

  /** Shows the change at once, and takes it back if the service refuses it; what was typed stays. */
  async function send(changed, { undoes = false } = {}) {
    const before = now;
    const old = Object.fromEntries(Object.keys(changed).map((name) => [name, before[name]]));
    saving = true;
    showWrong(null);
    adopt({ ...before, ...changed });
    try {
      const stored = await app.api.patch(`v1/memories/${before.id}`, changed);
      saving = false;
      adopt(stored);
      const undo = () => send(old, { undoes: true });
      app.toast(undoes ? "Undone" : "Saved", undoes ? {} : { action: undo });
    } catch (problem) {
      saving = false;
      const typed = Object.fromEntries(Object.keys(fields).map((name) => [name, fields[name].value]));
      adopt(before);
      for (const [name, value] of Object.entries(typed)) fields[name].value = value;
      showWrong(problem);
      app.toast(`Not saved: ${problem.detail ?? problem}`, { kind: "error" });
    }
    showDirt();
  }

  /** Takes a memory as the present one; fields that were being typed in stay as they are. */
  function adopt(next) {
    const dirty = new Set(Object.keys(changes()));
    now = next;
    for (const [name, value] of Object.entries(written(next))) if (!dirty.has(name)) fields[name].value = value;
    pinned.setAttribute("aria-pressed", String(now.evergreen));
    replace(facts, shownFacts(now, events));
    showDirt();
    events.changed(now);
  }

  function showWrong(problem) {
    wrong.hidden = !problem;
    wrong.textContent = problem ? problem.detail ?? String(problem) : "";
    const named = new Set((problem?.errors ?? []).map((error) => error.field));
    for (const [name, field] of Object.entries(fields)) {
      if (named.has(name)) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }
  }

  fill(now);
  pinned.setAttribute("aria-pressed", String(now.evergreen));
  replace(facts, shownFacts(now, events));

  return {
    element,
    id: memory.id,
    focus: () => element.focus(),
    /** Takes note of what became of the memory elsewhere, such as by an undo that was offered before it was reopened. */
    refresh: (memory) => memory !== now && adopt(memory),
    isDirty: () => Object.keys(changes()).length > 0,
    /** Whether it may be left: at once if nothing was changed, else after a query. */
    mayLeave: async () => !Object.keys(changes()).length || askToLeave(),
  };
}

async function askToLeave() {
  const leave = await openDialog("Leave without saving?", (close) => [
    el("p", {}, "You changed this memory, and the changes are not saved yet."),
    el("div", { class: "dialog-end" },
      el("button", { type: "button", class: "button danger", onclick: () => close(true) }, "Discard changes"),
      el("button", { type: "button", class: "button primary", autofocus: true, onclick: () => close(false) }, "Keep editing")),
  ]);
  return leave === true;
}

function shownFacts(memory, { toSession }) {
  const rows = [
    ["Session", memory.session && el("button", { type: "button", class: "link", onclick: () => toSession(memory) }, memory.session)],
    ["Place in it", memory.position !== null && memory.session && number(memory.position)],
    ["Project", memory.project],
    ["Profile", memory.profile],
    ["Noted down", exactly(memory.created)],
    ["Recalled", memory.accessCount ? `${number(memory.accessCount)} ×, last ${exactly(memory.accessed)}` : "never"],
    ["Id", el("code", {}, memory.id)],
    ["Content hash", el("code", {}, memory.contentHash)],
  ];
  return [
    el("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== false && value !== undefined)
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    Object.keys(memory.metadata).length > 0 && [el("h3", {}, "Metadata"), valueTree(memory.metadata)],
  ];
}
