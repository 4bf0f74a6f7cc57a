/** One parameter: a control that fits its kind, what it does, its default and a way back to it. */

import { el, unique } from "./dom.js";
import { spaced } from "./format.js";

/** Wide ranges are turned by their logarithm: from 1 to 1000, the first steps matter most. */
const WIDE = 500;
const NOTCHES = 400;

/**
 * @param {string} name in camelCase
 * @param {object} schema the parameter's part of the settings' schema
 * @param {(name: string, value: any) => void} turn is told of every move
 * @returns {{element: Node, show: (value: any, how: {kept: any}) => void}}
 */
export function parameterField(name, schema, turn) {
  const id = unique(name);
  const about = `${id}-about`;
  const kind = schema.enum ? choice : (CONTROLS[schema.type] ?? words);
  const control = kind({ id, about, label: spaced(name) }, schema, (value) => turn(name, value));
  const fallback = "default" in schema ? schema.default : {};
  const back = el("button", {
    type: "button", class: "parameter-back", title: `Back to the default, ${written(fallback)}`,
    "aria-label": `${spaced(name)}: back to the default, ${written(fallback)}`, onclick: () => (turn(name, fallback), control.inputs.at(-1).focus()),
  }, "↺");
  const dot = el("span", { class: "parameter-dot", "aria-hidden": "true" });
  if (schema.readOnly) for (const input of control.inputs) input.disabled = true;
  const element = el("div", { class: `parameter parameter-${schema.enum ? "choice" : schema.type}`, "data-parameter": name },
    el("div", { class: "parameter-top" }, dot, el("label", { for: id, class: "parameter-name" }, spaced(name)), control.head,
      schema.readOnly ? el("span", { class: "tag", title: "Set by this service's configuration or environment" }, "fixed") : back),
    control.body,
    el("p", { class: "parameter-about", id: about }, schema.description,
      schema.readOnly && " Set by this service's configuration, so it cannot be turned here."));

  function show(value, { kept }) {
    control.show(value);
    const away = !same(value, fallback);
    element.classList.toggle("away", away);
    element.classList.toggle("turned", !same(value, kept));
    dot.title = away ? `The default is ${written(fallback)}` : "";
    back.hidden = !away;
  }
  return { element, show };
}

export function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

function written(value) {
  if (value === true || value === false) return value ? "on" : "off";
  return typeof value === "object" ? "none" : String(value);
}

const CONTROLS = { number: figure, integer: figure, boolean: onOff, object: pairs };

function figure({ id, about, label }, schema, turn) {
  const whole = schema.type === "integer";
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum;
  const log = high - low >= WIDE;
  const step = whole ? 1 : high - low > 2 ? 0.05 : 0.01;
  const least = schema.exclusiveMinimum === undefined ? low : step;
  const rounded = (value) => (whole ? Math.round(value) : Number(value.toPrecision(log ? 3 : 6)));
  const toNotch = (value) => (log ? (Math.log(Math.max(value, least) / least) / Math.log(high / least)) * NOTCHES : value);
  const fromNotch = (notch) => (log ? rounded(least * (high / least) ** (notch / NOTCHES)) : rounded(notch));
  const slider = el("input", {
    type: "range", min: log ? 0 : least, max: log ? NOTCHES : high, step: log ? 1 : step, "aria-label": `${label}, slider`,
    oninput: () => turn(fromNotch(Number(slider.value))),
  });
  const field = el("input", {
    id, type: "number", class: "mono", min: low, max: high, step: whole ? 1 : "any", "aria-describedby": about,
    oninput: () => field.value !== "" && field.checkValidity() && turn(Number(field.value)),
  });
  return {
    head: field, body: slider, inputs: [slider, field],
    show(value) {
      if (document.activeElement !== field || Number(field.value) !== value) field.value = value;
      slider.value = toNotch(value);
    },
  };
}

function choice({ id, about }, schema, turn) {
  const field = el("select", { id, "aria-describedby": about, onchange: () => turn(field.value) },
    schema.enum.map((value) => el("option", { value }, value)));
  return { head: field, body: null, inputs: [field], show: (value) => void (field.value = value) };
}

function onOff({ id, about }, schema, turn) {
  const field = el("input", { id, type: "checkbox", role: "switch", class: "switch", "aria-describedby": about,
    onchange: () => turn(field.checked) });
  return { head: field, body: null, inputs: [field], show: (value) => void (field.checked = value) };
}

/** Patterns and weights, one to a line: notes/* = 1.5 */
function pairs({ id, about }, schema, turn) {
  const field = el("textarea", {
    id, rows: 2, class: "mono", spellcheck: "false", placeholder: "notes/* = 1.5", "aria-describedby": about,
    oninput: () => {
      const read = field.value.split("\n").filter((line) => line.trim()).map((line) => line.match(/^\s*(.+?)\s*=\s*([\d.]+)\s*$/));
      field.setCustomValidity(read.includes(null) ? "One pattern and its weight to a line: notes/* = 1.5" : "");
      if (field.reportValidity()) turn(Object.fromEntries(read.map(([, pattern, weight]) => [pattern, Number(weight)])));
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

function words({ id, about }, schema, turn) {
  const field = el("input", { id, "aria-describedby": about, onchange: () => turn(field.value) });
  return { head: field, body: null, inputs: [field], show: (value) => void (field.value = value) };
}
