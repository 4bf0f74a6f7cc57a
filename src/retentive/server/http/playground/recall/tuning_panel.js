/** The tuning parameters, built from the schema of the settings. Unsaved changes apply to this page only. */

import { errorText } from "../shared/api.js";
import { el, replace } from "../shared/dom.js";
import { plural, snakeCase } from "../shared/format.js";
import { openDialog } from "../shared/overlays.js";
import { token } from "../shared/token.js";
import { parameterField, sameValue } from "./parameter_field.js";

const GROUPS = {
  Search: ["semanticWeight", "keywordWeight", "poolFactor", "poolFloor", "commonWords", "semanticFloor"],
  Fusion: ["fusion", "rrfK", "rankBase", "semanticScaling", "keywordScaling", "spreadDepth", "spreadLeast", "standoutLeast"],
  Context: ["neighbourWeight", "sessionWeight", "contextWords"],
  "Time and decay": ["timeWeight", "decay", "halfLifeDays", "importanceSlowsDecay"],
  Quality: ["quality", "relevanceShare", "recencyShare", "importanceShare", "accessHalfLifeDays", "sourceWeights"],
  Result: ["dedup", "diversity", "rerank", "rerankWeight", "rerankSeconds", "scoreFloor"],
  Chat: ["contextTokens", "recentTurns"],
};
const OPEN_GROUPS = ["Search"];

/**
 * @param {object} app
 * @param {{onChange: () => void, onSave: () => void, request: () => object}} handlers  called when the unsaved changes
 *   change, and when the saved tuning does; `request` returns the current body of a recall request
 */
export function createTuningPanel(app, { onChange, onSave, request }) {
  let schema = {};
  let saved = {};
  let presets = {};
  let unsaved = {};
  let fields = {};
  let groups = [];
  const body = el("div", { class: "parameter-groups" }, el("div", { class: "skeleton" }), el("div", { class: "skeleton" }));
  const state = el("p", { class: "tuning-state small", "aria-live": "polite" });
  const preset = el("select", { id: "preset", "aria-label": "Preset", onchange: () => applyPreset(preset.value) });
  const saveButton = el("button", { type: "button", class: "button primary", onclick: save }, "Save");
  const resetButton = el("button", { type: "button", class: "button", title: "Discard unsaved changes",
    onclick: () => (apply({}), preset.focus()) }, "Reset");
  const undoButton = el("button", { type: "button", class: "button", title: "Undo the last saved change", onclick: undo }, "Undo");
  const copySelect = el("select", {
    "aria-label": "Copy as", onchange: () => {
      copyText(app, COPY_FORMATS[copySelect.value]({ request: request(), unsaved }), copySelect.value);
      copySelect.value = "";
    },
  }, el("option", { value: "" }, "Copy as…"), Object.keys(COPY_FORMATS).map((name) => el("option", {}, name)));
  const element = el("details", { class: "panel tuning", open: matchMedia("(min-width: 960px)").matches },
    el("summary", { class: "tuning-title" }, el("h2", {}, "Tuning"), state),
    el("div", { class: "tuning-bar" }, preset, copySelect, saveButton, resetButton, undoButton), body);

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
    const grouped = new Set(Object.values(GROUPS).flat());
    const all = { ...GROUPS, Other: Object.keys(schema).filter((name) => !grouped.has(name)) };
    groups = Object.entries(all).map(([name, names]) => ({ name, parameters: names.filter((parameter) => parameter in fields) }))
      .filter(({ parameters }) => parameters.length).map((group) => ({ ...group, mark: el("span", { class: "group-mark small" }) }));
    replace(body, groups.map(({ name, parameters, mark }) => el("details", { class: "parameter-group", open: OPEN_GROUPS.includes(name) },
      el("summary", {}, el("h3", {}, name), mark), parameters.map((parameter) => fields[parameter].element))));
    replace(preset, el("option", { value: "" }, "Presets…"), Object.keys(presets).map((name) => el("option", {}, name)));
  }

  /** Make these values the unsaved changes, as far as they differ from the saved tuning. */
  function apply(values, { silent = false } = {}) {
    unsaved = Object.fromEntries(Object.entries(values).filter(([name, value]) => name in saved && !sameValue(value, saved[name])));
    for (const [name, field] of Object.entries(fields)) field.show(name in unsaved ? unsaved[name] : saved[name], saved[name]);
    for (const { parameters, mark } of groups) {
      const changed = parameters.filter((name) => name in unsaved).length;
      mark.textContent = changed ? `${changed} changed` : "";
    }
    const total = Object.keys(unsaved).length;
    state.textContent = total ? plural(total, "unsaved change") : "Saved";
    element.classList.toggle("has-changes", total > 0);
    saveButton.disabled = resetButton.disabled = total === 0;
    if (!silent) onChange();
  }

  function applyPreset(name) {
    preset.value = "";
    if (!name) return;
    const writable = Object.entries(presets[name]).filter(
      ([parameter]) => !schema[parameter]?.readOnly && !GROUPS.Chat.includes(parameter));
    apply(Object.fromEntries(writable));
    app.announce(`Preset ${name}: ${state.textContent}`);
  }

  /** Save the unsaved changes; a default value is sent as null, so that later defaults apply. */
  async function save() {
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
      if (activeElement === document.body || activeElement.disabled) (undoButton.disabled ? preset : undoButton).focus();
    } catch (error) {
      app.toast(errorText(error, "change settings"), { kind: "error" });
    }
  }

  return { element, load, apply, unsaved: () => unsaved };
}

/** The request and the unsaved changes as text for the clipboard. */
const COPY_FORMATS = {
  TOML: ({ unsaved }) => `[tuning]\n${Object.entries(unsaved).map(([name, value]) => `${snakeCase(name)} = ${toml(value)}\n`).join("")}`,

  curl: ({ request, unsaved }) => {
    const body = JSON.stringify({ ...request, tuning: unsaved }, null, 1).replaceAll(/\n\s*/g, " ");
    const lines = [`curl ${new URL("v1/recall", document.baseURI.split("#")[0])}`, "-H 'Content-Type: application/json'"];
    if (token.value) lines.push(`-H "Authorization: Bearer $RETENTIVE_TOKEN"`);
    return `${[...lines, `-d '${body.replaceAll("'", "'\\''")}'`].join(" \\\n  ")}\n`;
  },

  Python: ({ request: { query, onlySession, ...rest }, unsaved }) => {
    const tuning = Object.fromEntries(Object.entries(unsaved).map(([name, value]) => [snakeCase(name), value]));
    const options = { ...rest, ...(onlySession && { only_session: true }), ...(Object.keys(tuning).length && { tuning }) };
    const written = Object.entries(options).map(([name, value]) => `, ${name}=${python(value)}`).join("");
    return [
      "from retentive import Engine", "", "with Engine.open() as engine:",
      `    for hit in engine.recall(${python(query)}${written}).hits:`, "        print(hit.rank, hit.memory.text)", "",
    ].join("\n");
  },
};

/** Copy a text to the clipboard; if the browser does not allow that, show it in a dialog. */
async function copyText(app, text, format) {
  try {
    await navigator.clipboard.writeText(text);
    app.toast(`Copied as ${format}`);
  } catch {
    openDialog(`Copy as ${format}`, () => {
      const field = el("textarea", { readonly: true, rows: 10, class: "mono", "aria-label": format, value: text });
      requestAnimationFrame(() => field.select());
      return [el("p", { class: "quiet" }, "The browser does not allow this page to use the clipboard. Copy the text below."), field];
    });
  }
}

function toml(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{ ${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)} = ${toml(one)}`).join(", ")} }`;
}

function python(value) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one)}`).join(", ")}}`;
}
