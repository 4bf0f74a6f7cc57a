/** The field of one tuning parameter: a control for its type, its description, and a button that resets it. */

import { el, unique } from "../shared/dom.js";
import { sentenceCase } from "../shared/format.js";

/** The slider of a range at least this wide is logarithmic. */
const LOG_RANGE = 500;
const LOG_STEPS = 400;

/**
 * @param {string} name  in camelCase
 * @param {Schema} schema
 * @param {(name: string, value: any) => void} onChange
 * @returns {{element: Node, show: (value: any, saved: any) => void}}
 */
export function parameterField(name, schema, onChange) {
  const id = unique(name);
  const label = sentenceCase(name);
  const about = `${id}-about`;
  const createControl = schema.enum ? choiceControl : (CONTROLS[schema.type] ?? textControl);
  const control = createControl({ id, about, label }, schema, (value) => onChange(name, value));
  const defaultValue = "default" in schema ? schema.default : {};
  const reset = el("button", {
    type: "button", class: "parameter-reset", title: `Reset to the default, ${valueText(defaultValue)}`,
    "aria-label": `${label}: reset to the default, ${valueText(defaultValue)}`,
    onclick: () => (onChange(name, defaultValue), control.inputs.at(-1).focus()),
  }, "↺");
  const dot = el("span", { class: "parameter-dot", "aria-hidden": "true" });
  if (schema.readOnly) for (const input of control.inputs) input.disabled = true;
  const element = el("div", { class: `parameter parameter-${schema.enum ? "choice" : schema.type}`, "data-parameter": name },
    el("div", { class: "parameter-top" }, dot, el("label", { for: id, class: "parameter-name" }, label), control.head,
      schema.readOnly ? el("span", { class: "tag", title: "Set by the configuration or environment of the service" }, "read-only") : reset),
    control.body,
    el("p", { class: "parameter-about", id: about }, schema.description,
      schema.readOnly && " Set by the configuration of the service; it cannot be changed here."));

  let shown = null;

  function show(value, saved) {
    const next = JSON.stringify([value, saved]);
    if (next === shown) return; // a slider that is moved shows all fields again at each step
    shown = next;
    control.show(value);
    const isDefault = sameValue(value, defaultValue);
    element.classList.toggle("not-default", !isDefault);
    element.classList.toggle("changed", !sameValue(value, saved));
    dot.title = isDefault ? "" : `The default is ${valueText(defaultValue)}`;
    reset.hidden = isDefault;
  }
  return { element, show };
}

export function sameValue(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** The value of a parameter in words. */
export function valueText(value) {
  if (typeof value === "boolean") return value ? "on" : "off";
  if (value === null || typeof value !== "object") return String(value);
  return Object.entries(value).map(([pattern, weight]) => `${pattern} = ${weight}`).join(", ") || "none";
}

// Each control returns `head` (beside the name), `body` (below it), its `inputs`, and `show(value)`.
const CONTROLS = { number: numberControl, integer: numberControl, boolean: switchControl, object: weightsControl };

function numberControl({ id, about, label }, schema, onChange) {
  const isInteger = schema.type === "integer";
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum;
  const isLog = high - low >= LOG_RANGE;
  const step = isInteger ? 1 : high - low > 2 ? 0.05 : 0.01;
  const least = schema.exclusiveMinimum === undefined ? low : step;
  const rounded = (value) => (isInteger ? Math.round(value) : Number(value.toPrecision(isLog ? 3 : 6)));
  const toSlider = (value) => (isLog ? (Math.log(Math.max(value, least) / least) / Math.log(high / least)) * LOG_STEPS : value);
  const fromSlider = (position) => rounded(isLog ? least * (high / least) ** (position / LOG_STEPS) : position);
  const slider = el("input", {
    type: "range", min: isLog ? 0 : least, max: isLog ? LOG_STEPS : high, step: isLog ? 1 : step, "aria-label": `${label}, slider`,
    oninput: () => onChange(fromSlider(Number(slider.value))),
  });
  const field = el("input", {
    id, type: "number", class: "mono", min: low, max: high, step: isInteger ? 1 : "any", "aria-describedby": about,
    oninput: () => field.value !== "" && field.checkValidity() && onChange(Number(field.value)),
  });
  return {
    head: field, body: slider, inputs: [slider, field],
    show(value) {
      if (document.activeElement !== field || Number(field.value) !== value) field.value = value;
      slider.value = toSlider(value);
    },
  };
}

function choiceControl({ id, about }, schema, onChange) {
  const field = el("select", { id, "aria-describedby": about, onchange: () => onChange(field.value) },
    schema.enum.map((value) => el("option", { value }, value)));
  return { head: field, body: null, inputs: [field], show: (value) => void (field.value = value) };
}

function switchControl({ id, about }, _schema, onChange) {
  const field = el("input", { id, type: "checkbox", role: "switch", class: "switch", "aria-describedby": about,
    onchange: () => onChange(field.checked) });
  return { head: field, body: null, inputs: [field], show: (value) => void (field.checked = value) };
}

/** Patterns and weights, one pair per line: notes/* = 1.5 */
function weightsControl({ id, about }, _schema, onChange) {
  const field = el("textarea", {
    id, rows: 2, class: "mono", spellcheck: "false", placeholder: "notes/* = 1.5", "aria-describedby": about,
    oninput: () => {
      const pairs = field.value.split("\n").filter((line) => line.trim()).map((line) => line.match(/^\s*(.+?)\s*=\s*([\d.]+)\s*$/));
      field.setCustomValidity(pairs.includes(null) ? "Enter one pattern and its weight per line: notes/* = 1.5" : "");
      if (field.reportValidity()) onChange(Object.fromEntries(pairs.map(([, pattern, weight]) => [pattern, Number(weight)])));
    },
  });
  return {
    head: null, body: field, inputs: [field],
    show(value) {
      if (document.activeElement === field) return;
      field.value = Object.entries(value).map(([pattern, weight]) => `${pattern} = ${weight}`).join("\n");
    },
  };
}

function textControl({ id, about }, _schema, onChange) {
  const field = el("input", { id, "aria-describedby": about, onchange: () => onChange(field.value) });
  return { head: field, body: null, inputs: [field], show: (value) => void (field.value = value) };
}
