/** The parameters of ranking, drawn from the settings' schema. Turned ones count for this page alone until they are kept. */

import { FORMS, copy } from "./copy_as.js";
import { el, replace } from "./dom.js";
import { count } from "./format.js";
import { parameterField, same } from "./parameter_fields.js";

const GROUPS = {
  Search: ["semanticWeight", "keywordWeight", "poolFactor", "poolFloor", "commonWords", "semanticFloor"],
  Fusion: ["fusion", "rrfK", "rankBase", "semanticScaling", "keywordScaling", "spreadDepth", "spreadLeast", "standoutLeast"],
  Context: ["neighbourWeight", "sessionWeight", "contextWords"],
  "Time and age": ["timeWeight", "decay", "halfLifeDays", "importanceSlowsDecay"],
  Quality: ["quality", "relevanceShare", "recencyShare", "importanceShare", "accessHalfLifeDays", "sourceWeights"],
  Result: ["dedup", "diversity", "rerank", "rerankWeight", "rerankSeconds", "scoreFloor"],
};
const OPEN_AT_FIRST = ["Search"];

/**
 * @param {object} app
 * @param {{onTurn: () => void, onKept: () => void, query: () => object}} ways what to do when a parameter was turned for
 *   this page, and when the tuning in force is another; and the query as a recall takes it
 */
export function createParameters(app, { onTurn, onKept, query }) {
  let schema = {};
  let kept = {};
  let presets = {};
  let turned = {};
  let fields = {};
  let groups = [];
  const body = el("div", { class: "parameter-groups" }, el("div", { class: "skeleton" }), el("div", { class: "skeleton" }));
  const state = el("p", { class: "parameters-state small", "aria-live": "polite" });
  const preset = el("select", { id: "preset", "aria-label": "Preset", onchange: () => choosePreset(preset.value) });
  const keep = el("button", { type: "button", class: "button primary", onclick: keepThem }, "Keep");
  const drop = el("button", { type: "button", class: "button", onclick: () => (take({}), preset.focus()) }, "Put back");
  const undo = el("button", { type: "button", class: "button", title: "Takes the last kept change back", onclick: undoLast }, "Undo");
  const copies = el("select", {
    "aria-label": "Copy as", onchange: () => {
      copy(app, FORMS[copies.value]({ query: query(), turned }), copies.value);
      copies.value = "";
    },
  }, el("option", { value: "" }, "Copy as…"), Object.keys(FORMS).map((name) => el("option", {}, name)));
  const summary = el("summary", { class: "parameters-title" }, el("h2", {}, "Parameters"), state);
  const element = el("details", { class: "panel parameters", open: matchMedia("(min-width: 960px)").matches }, summary,
    el("div", { class: "parameters-bar" }, preset, copies, keep, drop, undo), body);

  async function load() {
    const [drawn, inForce, named, { changes }] = await Promise.all([
      app.api.get("settings/schema"), app.api.get("settings"), app.api.get("settings/presets"), app.api.get("settings/history"),
    ]);
    kept = inForce;
    presets = named;
    undo.disabled = changes.length === 0;
    if (!groups.length) draw(drawn.properties);
    take(turned, { silent: true });
  }

  function draw(properties) {
    schema = properties;
    fields = Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, parameterField(name, part, turn)]));
    const named = new Set(Object.values(GROUPS).flat());
    const all = { ...GROUPS, Other: Object.keys(schema).filter((name) => !named.has(name)) };
    groups = Object.entries(all).map(([name, parameters]) => ({ name, parameters: parameters.filter((parameter) => parameter in fields) }))
      .filter(({ parameters }) => parameters.length).map((group) => ({ ...group, mark: el("span", { class: "group-mark small" }) }));
    replace(body, groups.map(({ name, parameters, mark }) => el("details", { class: "parameter-group", open: OPEN_AT_FIRST.includes(name) },
      el("summary", {}, el("h3", {}, name), mark), parameters.map((parameter) => fields[parameter].element))));
    replace(preset, el("option", { value: "" }, "Presets…"), Object.keys(presets).map((name) => el("option", {}, name)));
  }

  function turn(name, value) {
    take({ ...turned, [name]: value });
  }

  /** Takes these parameters as turned, so far as they differ from those in force. */
  function take(parameters, { silent = false } = {}) {
    turned = Object.fromEntries(Object.entries(parameters).filter(([name, value]) => name in kept && !same(value, kept[name])));
    for (const [name, field] of Object.entries(fields)) field.show(name in turned ? turned[name] : kept[name], { kept: kept[name] });
    const number = Object.keys(turned).length;
    for (const { parameters: inside, mark } of groups) {
      const here = inside.filter((name) => name in turned).length;
      mark.textContent = here ? `${here} turned` : "";
    }
    state.textContent = number ? `${number} turned, not kept` : "As in force";
    element.classList.toggle("is-turned", number > 0);
    keep.disabled = drop.disabled = number === 0;
    if (!silent) onTurn();
  }

  function choosePreset(name) {
    preset.value = "";
    if (!name) return;
    const free = Object.entries(presets[name]).filter(([parameter]) => !schema[parameter]?.readOnly);
    take(Object.fromEntries(free));
    app.announce(`Preset ${name}: ${state.textContent}`);
  }

  async function keepThem() {
    const isDefault = (name, value) => "default" in schema[name] && same(value, schema[name].default);
    const changes = Object.fromEntries(Object.entries(turned).map(([name, value]) => [name, isDefault(name, value) ? null : value]));
    await change(() => app.api.patch("settings", changes), `Kept ${count(Object.keys(changes).length, "parameter")}`, { action: undoLast });
  }

  async function undoLast() {
    await change(() => app.api.post("settings/undo"), "The last change is taken back");
  }

  async function change(request, said, toast) {
    try {
      await request();
      turned = {};
      await load();
      app.toast(said, toast);
      onKept();
      // The button that was pressed may be disabled or gone now, and the keyboard's user must not start again at the top.
      const { activeElement, body: nowhere } = document;
      if (activeElement === nowhere || activeElement.disabled) (undo.disabled ? preset : undo).focus();
    } catch (problem) {
      const text = problem.status === 403 ? `This token may not change settings: ${problem.detail}` : problem.detail ?? String(problem);
      app.toast(text, { kind: "error" });
    }
  }

  return { element, load, take, turned: () => turned };
}
