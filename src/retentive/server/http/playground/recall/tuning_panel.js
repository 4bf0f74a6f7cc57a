/** The tuning: a preset, a few basic controls, and all parameters of the schema. Unsaved changes apply to this page only. */

import { errorText } from "../shared/api.js";
import { el, replace } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { basicControls } from "./basic_parameters.js";
import { copySelect } from "./copy_formats.js";
import { parameterField, sameValue } from "./parameter_field.js";
import { confirmSave } from "./save_dialog.js";

const GROUPS = {
  Search: ["semanticWeight", "keywordWeight", "minCandidates", "maxDocumentFrequency", "minCosine"],
  Fusion: ["fusion", "rrfK", "semanticScaling", "keywordScaling", "minScoreRange", "minLead",
    "shortKeywordShare", "minMatch"],
  Context: ["neighbourWeight", "sessionWeight"],
  "Time and decay": ["timeWeight", "decay", "halfLifeDays", "importanceSlowsDecay"],
  Quality: ["quality", "recencyShare", "importanceShare", "accessHalfLifeDays", "speakerWeight", "sourceWeights"],
  Result: ["dedup", "diversity", "judgeDepth", "judgeWeight", "minScore"],
};
/** Parameters that are a basic control themselves. */
const BASIC = ["judge", "minRelevance"];
/** Parameters that no preset sets, as in `OUTSIDE_PRESETS` of the service. */
const OUTSIDE_PRESETS = [...BASIC, "judgeDepth", "judgeWeight"];

/**
 * @param {App} app
 * @param {{onChange: () => void, onSave: () => void, onOpen: () => void, request: () => object}} handlers  called when the
 *   unsaved changes change, when the saved tuning does, and when the panel is opened; `request` returns the current body
 *   of a recall request
 */
export function createTuningPanel(app, { onChange, onSave, onOpen, request }) {
  /** @type {Record<string, Schema>} */
  let schema = {};
  /** @type {Tuning} */
  let saved = {};
  /** @type {Record<string, Tuning>} */
  let presets = {};
  /** @type {Tuning} */
  let unsaved = {};
  let fields = {};
  let basic = null;
  let groups = [];
  const isWide = matchMedia("(min-width: 960px)");
  const body = el("div", { class: "parameter-groups" }, el("div", { class: "skeleton" }), el("div", { class: "skeleton" }));
  const state = el("span", { class: "tuning-state small", "aria-live": "polite" });
  const presetName = el("span", { class: "tuning-preset small" });
  const preset = el("select", { id: "preset", "aria-label": "Preset", onchange: () => applyPreset(preset.value) });
  const saveButton = el("button", { type: "button", class: "button primary", onclick: save }, "Save…");
  const resetButton = el("button", { type: "button", class: "button", title: "Discard unsaved changes",
    onclick: () => (apply({}), preset.focus()) }, "Reset");
  const undoButton = el("button", { type: "button", class: "button", title: "Undo the last saved change", onclick: undo }, "Undo");
  const element = el("details", { class: "panel tuning", open: isWide.matches, ontoggle: () => element.open && !isWide.matches && onOpen() },
    el("summary", { class: "tuning-title" }, el("h2", {}, "Tuning"), presetName, state),
    el("div", { class: "tuning-inside" },
      el("div", { class: "tuning-bar" }, preset, saveButton, resetButton, undoButton,
        copySelect(app, () => ({ request: request(), unsaved }))), body));

  async function load() {
    const [schemaResponse, current, named, { changes }] = await Promise.all([
      app.api.get("settings/schema"), app.api.get("settings"), app.api.get("settings/presets"), app.api.get("settings/history"),
    ]);
    saved = current;
    presets = named;
    undoButton.disabled = changes.length === 0;
    if (!groups.length) draw(schemaResponse.properties);
    apply(unsaved, { silent: true });
  }

  function draw(properties) {
    schema = properties;
    const set = (name, value) => apply({ ...unsaved, [name]: value });
    fields = Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, parameterField(name, part, set)]));
    basic = basicControls(schema, (changes) => apply({ ...unsaved, ...changes }));
    const grouped = new Set([...Object.values(GROUPS).flat(), ...BASIC]);
    const all = { ...GROUPS, Other: Object.keys(schema).filter((name) => !grouped.has(name)) };
    groups = Object.entries(all).map(([name, names]) => ({ name, parameters: names.filter((parameter) => parameter in fields) }))
      .filter(({ parameters }) => parameters.length).map((group) => ({ ...group, mark: el("span", { class: "group-mark small" }) }));
    const advanced = { parameters: groups.flatMap(({ parameters }) => parameters), mark: el("span", { class: "group-mark small" }) };
    replace(body,
      el("div", { class: "basic-parameters" }, basic.elements,
        BASIC.filter((name) => name in fields).map((name) => fields[name].element)),
      el("details", { class: "advanced", ontoggle: showGroups }, el("summary", {}, el("h3", {}, "Advanced"), advanced.mark),
        groups.map(({ name, parameters, mark }) => el("details", { class: "parameter-group" },
          el("summary", {}, el("h4", {}, name), mark), parameters.map((parameter) => fields[parameter].element)))));
    groups.push(advanced);
  }

  /** Scroll to the groups of parameters when they are unfolded: on a phone they are below the sheet's edge. */
  function showGroups({ currentTarget }) {
    if (currentTarget.open) currentTarget.scrollIntoView({ block: "nearest" });
  }

  /** Make these values the unsaved changes, as far as they differ from the saved tuning. */
  function apply(values, { silent = false } = {}) {
    unsaved = Object.fromEntries(Object.entries(values).filter(([name, value]) => name in saved && !sameValue(value, saved[name])));
    const current = { ...saved, ...unsaved };
    for (const [name, field] of Object.entries(fields)) field.show(current[name], saved[name]);
    basic?.show(current, saved);
    for (const { parameters, mark } of groups) {
      const changed = parameters.filter((name) => name in unsaved).length;
      mark.textContent = changed ? `${changed} changed` : "";
    }
    showPreset(current);
    const total = Object.keys(unsaved).length;
    state.textContent = total ? plural(total, "unsaved change") : "Saved";
    element.classList.toggle("has-changes", total > 0);
    saveButton.disabled = resetButton.disabled = total === 0;
    if (!silent) onChange();
  }

  /** Show the name of the preset in force; if no preset has these values, the one that differs in the fewest. */
  function showPreset(current) {
    const differences = (name) => presetValues(name).filter(([parameter, value]) => !sameValue(value, current[parameter])).length;
    const [nearest] = Object.keys(presets).map((name) => ({ name, count: differences(name) })).sort((a, b) => a.count - b.count);
    if (!nearest) return;
    const label = nearest.count ? `changed from ${nearest.name}` : nearest.name;
    preset.value = nearest.count ? "" : nearest.name;
    if (presetName.textContent === label) return;
    presetName.textContent = label;
    replace(preset, nearest.count > 0 && el("option", { value: "" }, label), Object.keys(presets).map((name) => el("option", {}, name)));
    preset.value = nearest.count ? "" : nearest.name;
  }

  /** The parameters of a preset that can be changed here. */
  function presetValues(name) {
    return Object.entries(presets[name]).filter(
      ([parameter]) => parameter in schema && !schema[parameter].readOnly && !OUTSIDE_PRESETS.includes(parameter));
  }

  function applyPreset(name) {
    if (!name) return;
    apply(Object.fromEntries(presetValues(name)));
    app.announce(`Preset ${name}: ${state.textContent}`);
  }

  /** Save the unsaved changes; a default value is sent as null, so that later defaults apply. */
  async function save() {
    if (!(await confirmSave(app, unsaved, saved))) return;
    const isDefault = (name, value) => "default" in schema[name] && sameValue(value, schema[name].default);
    const changes = Object.fromEntries(Object.entries(unsaved).map(([name, value]) => [name, isDefault(name, value) ? null : value]));
    await send(() => app.api.patch("settings", changes), `Saved ${plural(Object.keys(changes).length, "parameter")}`, { action: undo });
  }

  async function undo() {
    await send(() => app.api.post("settings/undo"), "Undid the last saved change");
  }

  async function send(request, message, toastOptions) {
    try {
      await request();
      unsaved = {};
      await load();
      app.toast(message, toastOptions);
      onSave();
      // The pressed button may now be disabled or gone; without this, keyboard focus would return to the top of the page.
      const { activeElement } = document;
      if (activeElement === document.body || activeElement.matches(":disabled")) (undoButton.disabled ? preset : undoButton).focus();
    } catch (error) {
      app.toast(errorText(error, "change settings"), { kind: "error" });
    }
  }

  return { element, load, apply, unsaved: () => unsaved };
}
