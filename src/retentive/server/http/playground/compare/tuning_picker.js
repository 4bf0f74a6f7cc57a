/** The choice of one of the two tunings: the saved one or a preset, and parameters that differ from it. */

import { parameterField } from "../recall/parameter_field.js";
import { el, replace, unique } from "../shared/dom.js";
import { sentenceCase } from "../shared/format.js";

/**
 * Changes of several parameters that are often compared, in terms of the tuning that they change.
 * @type {Record<string, (values: Tuning) => Tuning>}
 */
const SHORTCUTS = {
  "Keyword retriever only": ({ keywordWeight }) => ({ semanticWeight: 0, keywordWeight: keywordWeight || 1 }),
  "Semantic retriever only": ({ semanticWeight }) => ({ keywordWeight: 0, semanticWeight: semanticWeight || 1 }),
  "Judge orders": () => ({ judge: "order" }),
  "Judge off": () => ({ judge: "off" }),
};

/**
 * @param {string} name  "A" or "B"
 * @param {(choice: {base: string, changes: object}) => void} onChange
 */
export function createTuningPicker(name, onChange) {
  const id = unique("tuning");
  const base = el("select", { id, onchange: () => change({ ...choice, base: base.value, changes: {} }) });
  const add = el("select", { "aria-label": `Parameter of ${name} to change`, onchange: addParameter });
  const fields = el("div", { class: "compare-fields" });
  const element = el("section", { class: `panel compare-tuning compare-tuning-${name.toLowerCase()}`, "aria-label": `Tuning ${name}` },
    el("div", { class: "compare-tuning-top" }, el("label", { for: id, class: "compare-name" }, name), base, add), fields);
  let choice = { base: "", changes: {} };
  let settings = null; // {schema, saved, presets}
  let shown = {};

  function load(loaded) {
    settings = loaded;
    replace(base, el("option", { value: "" }, "Saved tuning"), Object.keys(settings.presets).map((preset) => el("option", { value: preset }, preset)));
  }

  const baseValues = () => settings.presets[choice.base] ?? settings.saved;

  /** Show a choice; a preset or parameters that do not exist are left out. */
  function show({ base: wanted, changes }) {
    const known = Object.entries(changes).filter(([parameter]) => parameter in settings.schema);
    choice = { base: wanted in settings.presets ? wanted : "", changes: Object.fromEntries(known) };
    base.value = choice.base;
    const names = Object.keys(choice.changes);
    replace(add, el("option", { value: "" }, "Change a parameter…"),
      el("optgroup", { label: "Often compared" }, Object.keys(SHORTCUTS).filter(isUseful).map((label) => el("option", { value: label }, label))),
      el("optgroup", { label: "Parameters" }, Object.keys(settings.schema).filter((parameter) => !names.includes(parameter))
        .map((parameter) => el("option", { value: parameter }, sentenceCase(parameter)))));
    // Fields that stay are not drawn again: one of them may be in use.
    const kept = Object.fromEntries(names.map((parameter) => [parameter, shown[parameter] ?? createField(parameter)]));
    if (names.join() !== Object.keys(shown).join()) replace(fields, Object.values(kept).map((field) => field.row));
    shown = kept;
    for (const parameter of names) shown[parameter].field.show(choice.changes[parameter], baseValues()[parameter]);
  }

  /** Whether a shortcut changes the tuning that is chosen. */
  function isUseful(label) {
    const values = { ...baseValues(), ...choice.changes };
    return Object.entries(SHORTCUTS[label](values)).some(([parameter, value]) => parameter in settings.schema && values[parameter] !== value);
  }

  function createField(parameter) {
    const { readOnly, ...schema } = settings.schema[parameter]; // a query may use another value than the configured one
    const field = parameterField(parameter, schema, (_, value) => change({ ...choice, changes: { ...choice.changes, [parameter]: value } }));
    const label = sentenceCase(parameter);
    return { field, row: el("div", { class: "compare-field" }, field.element,
      el("button", { type: "button", class: "button icon", "aria-label": `${label} of ${name}: do not change it`, onclick: () => removeParameter(parameter) }, "×")) };
  }

  function addParameter() {
    const chosen = add.value;
    if (!chosen) return;
    const values = { ...baseValues(), ...choice.changes };
    const added = chosen in SHORTCUTS ? SHORTCUTS[chosen](values) : { [chosen]: values[chosen] };
    change({ ...choice, changes: { ...choice.changes, ...added } });
    shown[Object.keys(added)[0]].row.querySelector("input, select, textarea").focus();
  }

  function removeParameter(parameter) {
    const { [parameter]: _, ...changes } = choice.changes;
    change({ ...choice, changes });
    add.focus();
  }

  function change(next) {
    show(next);
    onChange(choice);
  }

  return { element, load, show, value: () => choice };
}

/** A choice as requests take it: null is the saved tuning. */
export function asTuning({ base, changes }) {
  if (!Object.keys(changes).length) return base || null;
  return { ...(base && { preset: base }), ...changes };
}

/** A choice in words. */
export function tuningName({ base, changes }) {
  const count = Object.keys(changes).length;
  return `${base || "saved tuning"}${count ? ` with ${count === 1 ? "1 change" : `${count} changes`}` : ""}`;
}
