/** The editor of one memory: the fields that can be changed, and the others as text. */

import { el, labelled, replace } from "../shared/dom.js";
import { dateTime, fromLocalInput, number, plural, toLocalInput } from "../shared/format.js";
import { openDialog } from "../shared/overlays.js";
import { KINDS } from "../shared/scope.js";
import { createHistory } from "./history.js";
import { pinIcon } from "./list.js";

const MAX_DEPTH = 12;

/**
 * @param {App} app
 * @param {Memory} memory
 * @param {object} handlers
 * @param {(memory: Memory) => void} handlers.onChange  called with the changed memory, also before the service confirms it
 * @param {() => void} handlers.close
 * @param {(memory: Memory) => void} handlers.forget
 * @param {(memory: Memory) => void} handlers.openSession
 * @param {(id: string) => void} handlers.openMemory
 */
export function createEditor(app, memory, handlers) {
  let current = memory;
  let isSaving = false;
  const fields = {
    text: el("textarea", { rows: 5, value: memory.text, dir: "auto", class: "editor-text" }),
    kind: el("select", {}, KINDS.map((kind) => el("option", { value: kind }, kind))),
    speaker: el("input", { type: "text", autocomplete: "off" }),
    occurred: el("input", { type: "datetime-local", step: 1 }),
    source: el("input", { type: "text", autocomplete: "off" }),
    importance: el("input", { type: "range", min: 0, max: 1, step: 0.01 }),
  };
  const importance = el("output", { class: "mono editor-importance" });
  const errorNote = el("p", { class: "note error", role: "alert", hidden: true });
  const saveButton = el("button", { class: "button primary" }, "Save changes");
  const revertButton = el("button", { type: "button", class: "button", onclick: () => fill(current) }, "Revert");
  const pinButton = el("button", { type: "button", class: "button", onclick: () => send({ evergreen: !current.evergreen }) },
    pinIcon(), "Evergreen");
  const facts = el("div", { class: "editor-facts" });
  const form = el("form", { class: "editor-form", onsubmit: submit, oninput: showChanges, onkeydown: submitOnKey },
    labelled("Text", fields.text, "whole"),
    labelled("Kind", fields.kind), labelled("Speaker", fields.speaker),
    labelled("Occurred", fields.occurred, "whole"), labelled("Source", fields.source, "whole"),
    el("div", { class: "whole editor-slider" }, labelled("Importance", [fields.importance, importance])),
    errorNote,
    el("div", { class: "editor-end whole" }, saveButton, revertButton));
  const element = el("section", { class: "editor panel", "aria-label": "Memory", tabindex: "-1" },
    el("div", { class: "panel-top" },
      el("h2", {}, "Memory"),
      el("div", { class: "editor-actions" }, pinButton,
        el("button", { type: "button", class: "button danger", onclick: () => handlers.forget(current) }, "Forget…"),
        el("button", { type: "button", class: "button icon", "aria-label": "Close", onclick: handlers.close }, "×"))),
    form, facts, createHistory(app, memory.id, handlers.openMemory).element);

  /** Return the values of the form for a memory. */
  function formValues(of) {
    return {
      text: of.text, kind: of.kind, speaker: of.speaker ?? "", occurred: toLocalInput(of.occurred),
      source: of.source ?? "", importance: String(of.importance),
    };
  }

  function fill(of) {
    for (const [name, value] of Object.entries(formValues(of))) fields[name].value = value;
    showChanges();
    showError(null);
  }

  /** Return the fields whose value differs from the memory, as a request takes them. */
  function changes() {
    const before = formValues(current);
    const changed = Object.keys(fields).filter((name) => !isSame(name, fields[name].value, before[name]));
    return Object.fromEntries(changed.map((name) => [name, parse(name, fields[name].value)]));
  }

  // Inputs normalise some values: a slider rounds to hundredths, and a time loses trailing zeros.
  function isSame(name, value, before) {
    if (name === "importance") return Math.abs(Number(value) - Number(before)) < 0.005;
    if (name === "occurred") return fromLocalInput(value) === fromLocalInput(before);
    return value === before;
  }

  function parse(name, value) {
    if (name === "importance") return Number(value);
    if (name === "occurred") return fromLocalInput(value);
    if (name === "speaker" || name === "source") return value.trim() || null;
    return value;
  }

  function showChanges() {
    const changed = Object.keys(changes());
    for (const name of Object.keys(fields)) fields[name].closest(".field").classList.toggle("changed", changed.includes(name));
    importance.value = Number(fields.importance.value).toFixed(2);
    saveButton.disabled = revertButton.disabled = !changed.length || isSaving;
  }

  function submit(event) {
    event.preventDefault();
    const changed = changes();
    if (Object.keys(changed).length && !isSaving) send(changed);
  }

  function submitOnKey(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  }

  /** Show the change at once; if the service rejects it, restore the memory and keep what was typed. */
  async function send(changed, { isUndo = false } = {}) {
    const before = current;
    const old = Object.fromEntries(Object.keys(changed).map((name) => [name, before[name]]));
    isSaving = true;
    showError(null);
    setMemory({ ...before, ...changed });
    try {
      const stored = await app.api.patch(`v1/memories/${before.id}`, changed);
      isSaving = false;
      setMemory(stored);
      const undo = () => send(old, { isUndo: true });
      app.toast(isUndo ? "Undone" : "Saved", isUndo ? {} : { action: undo });
    } catch (error) {
      isSaving = false;
      const typed = Object.fromEntries(Object.keys(fields).map((name) => [name, fields[name].value]));
      setMemory(before);
      for (const [name, value] of Object.entries(typed)) fields[name].value = value;
      showError(error);
      app.toast(`Not saved: ${error.message}`, { kind: "error" });
    }
    showChanges();
  }

  /** Make a memory the current one; fields with unsaved changes keep their values. */
  function setMemory(next) {
    const changed = new Set(Object.keys(changes()));
    current = next;
    for (const [name, value] of Object.entries(formValues(next))) if (!changed.has(name)) fields[name].value = value;
    showFacts();
    showChanges();
    handlers.onChange(current);
  }

  function showFacts() {
    pinButton.setAttribute("aria-pressed", String(current.evergreen));
    replace(facts, memoryFacts(current, handlers.openSession));
  }

  function showError(error) {
    errorNote.hidden = !error;
    errorNote.textContent = error ? error.message : "";
    const invalid = new Set((error?.errors ?? []).map(({ field }) => field));
    for (const [name, field] of Object.entries(fields)) {
      if (invalid.has(name)) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }
  }

  const hasChanges = () => Object.keys(changes()).length > 0;

  fill(current);
  showFacts();

  return {
    element,
    id: memory.id,
    hasChanges,
    focus: () => element.focus(),
    /** Take over a change made elsewhere, such as the undo of an earlier edit. */
    refresh: (changed) => changed !== current && setMemory(changed),
    /** Resolve to whether the editor may be closed; with unsaved changes, ask first. */
    mayClose: async () => !hasChanges() || confirmDiscard(),
  };
}

async function confirmDiscard() {
  const discard = await openDialog("Discard unsaved changes?", (close) => [
    el("p", {}, "The changes to this memory are not saved."),
    el("div", { class: "dialog-end" },
      el("button", { type: "button", class: "button danger", onclick: () => close(true) }, "Discard changes"),
      el("button", { type: "button", class: "button primary", autofocus: true, onclick: () => close(false) }, "Continue editing")),
  ]);
  return discard === true;
}

function memoryFacts(memory, openSession) {
  const rows = [
    ["Session", memory.session && el("button", { type: "button", class: "link", onclick: () => openSession(memory) }, memory.session)],
    ["Position", memory.position !== null && memory.session && number(memory.position)],
    ["Project", memory.project],
    ["Profile", memory.profile],
    ["Created", dateTime(memory.created)],
    ["Recalled", memory.accessCount ? `${plural(memory.accessCount, "time")}, last ${dateTime(memory.accessed)}` : "never"],
    ["Id", el("code", {}, memory.id)],
    ["Content hash", el("code", {}, memory.contentHash)],
  ];
  return [
    el("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== false && value !== undefined)
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    Object.keys(memory.metadata).length > 0 && [el("h3", {}, "Metadata"), valueTree(memory.metadata)],
  ];
}

/** A JSON value as nested lists of names and texts. */
function valueTree(value, depth = 0) {
  if (value === null || typeof value !== "object") return leaf(value);
  if (depth === MAX_DEPTH) return leaf("…");
  const entries = Object.entries(value);
  if (!entries.length) return leaf(Array.isArray(value) ? "empty list" : "empty");
  return el("dl", { class: "value-tree" }, entries.map(([name, part]) =>
    el("div", { class: part !== null && typeof part === "object" ? "value-branch" : "value-leaf" },
      el("dt", {}, Array.isArray(value) ? `${Number(name) + 1}` : name),
      el("dd", {}, valueTree(part, depth + 1)))));
}

function leaf(value) {
  return el("span", { class: typeof value === "string" ? "value-text" : "value-text mono" }, String(value));
}
