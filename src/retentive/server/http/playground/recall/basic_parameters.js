/** The few controls that most users need. Each one sets one or two tuning parameters; all are below "Advanced". */

import { el, unique } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { sameValue } from "./parameter_field.js";

const HALF_LIVES = [365, 90, 30, 7];
const MAX_CONTEXT = 3;
const round = (value) => Number(value.toFixed(3));

/**
 * @typedef {object} BasicControl
 * @property {string} label
 * @property {string} about
 * @property {string[]} parameters  that it sets
 * @property {number} max  the positions are 0, `step`, … `max`
 * @property {number} [step]
 * @property {string[]} [ends]  the names of both ends
 * @property {(values: Tuning, defaults: Tuning) => number} position
 * @property {(position: number, values: Tuning, defaults: Tuning) => Tuning} values
 * @property {(values: Tuning, defaults: Tuning) => string} text  the value in words
 */

/** @type {BasicControl[]} */
const CONTROLS = [
  {
    label: "Balance",
    about: "The weight of the keyword retriever against that of the semantic retriever.",
    parameters: ["semanticWeight", "keywordWeight"],
    max: 100,
    ends: ["semantic", "keyword"],
    position: ({ semanticWeight, keywordWeight }) => Math.round((100 * keywordWeight) / (semanticWeight + keywordWeight || 1)),
    values: (position, { semanticWeight, keywordWeight }, defaults) => {
      const total = Math.min(semanticWeight + keywordWeight || defaults.semanticWeight + defaults.keywordWeight, 5);
      return { semanticWeight: round((total * (100 - position)) / 100), keywordWeight: round((total * position) / 100) };
    },
    text: ({ semanticWeight, keywordWeight }) => {
      const keyword = Math.round((100 * keywordWeight) / (semanticWeight + keywordWeight || 1));
      return `${100 - keyword} : ${keyword}`;
    },
  },
  {
    label: "Context",
    about: "How much a memory gains from its neighbours and its session.",
    parameters: ["neighbourWeight", "sessionWeight"],
    max: MAX_CONTEXT,
    step: 0.1,
    position: contextFactor,
    values: (position, _values, defaults) => ({
      neighbourWeight: round(position * defaults.neighbourWeight), sessionWeight: round(position * defaults.sessionWeight) }),
    text: (values, defaults) => {
      const factor = contextFactor(values, defaults);
      return factor === 0 ? "off" : factor === 1 ? "default" : `× ${factor}`;
    },
  },
  {
    label: "Recency",
    about: "How fast scores decay with age. Identity and evergreen memories never decay.",
    parameters: ["decay", "halfLifeDays"],
    max: HALF_LIVES.length,
    position: ({ decay, halfLifeDays }) => {
      if (!decay) return 0;
      const distances = HALF_LIVES.map((days) => Math.abs(Math.log(days / halfLifeDays)));
      return 1 + distances.indexOf(Math.min(...distances));
    },
    values: (position) => (position === 0 ? { decay: false } : { decay: true, halfLifeDays: HALF_LIVES[position - 1] }),
    text: ({ decay, halfLifeDays }) => (decay ? `half in ${plural(halfLifeDays, "day")}` : "off"),
  },
];

/**
 * @param {Tuning} values
 * @param {Tuning} defaults
 */
function contextFactor({ sessionWeight, neighbourWeight }, defaults) {
  const factor = sessionWeight ? sessionWeight / defaults.sessionWeight : neighbourWeight / defaults.neighbourWeight;
  return Number(factor.toFixed(2));
}

/**
 * Create the controls whose parameters the schema has.
 * @param {Record<string, Schema>} schema
 * @param {(changes: Tuning) => void} onChange
 * @returns {{elements: HTMLElement[], show: (values: Tuning, saved: Tuning) => void}}
 */
export function basicControls(schema, onChange) {
  const defaults = Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, part.default]));
  const controls = CONTROLS.filter(({ parameters }) => parameters.every((name) => name in schema))
    .map((control) => createControl(control, schema, defaults, onChange));
  return {
    elements: controls.map(({ element }) => element),
    show: (values, saved) => controls.forEach((control) => control.show(values, saved)),
  };
}

function createControl(control, schema, defaults, onChange) {
  const { label, about, parameters, max, step = 1, ends } = control;
  const id = unique("basic");
  const value = el("output", { class: "basic-value mono", for: id });
  let current = defaults;
  let savedValues = defaults;
  const input = el("input", {
    id, "aria-describedby": `${id}-about`, disabled: parameters.some((name) => schema[name].readOnly),
    type: "range", min: 0, max, step, oninput: () => onChange(valuesAt(Number(input.value))),
  });

  /** The values of a position: the saved ones or the defaults where they have this position, because a slider rounds. */
  function valuesAt(position) {
    const exact = [savedValues, defaults].find((values) => control.position(values, defaults) === position);
    if (exact) return Object.fromEntries(parameters.map((name) => [name, exact[name]]));
    return control.values(position, current, defaults);
  }

  function show(values, saved) {
    current = values;
    savedValues = saved;
    const position = Math.min(control.position(values, defaults), max);
    if (Number(input.value) !== position) input.value = String(position);
    value.textContent = control.text(values, defaults);
    input.setAttribute("aria-valuetext", value.textContent);
    element.classList.toggle("changed", parameters.some((name) => !sameValue(values[name], saved[name])));
  }

  const element = el("div", { class: "basic" },
    el("div", { class: "parameter-top" }, el("label", { for: id, class: "parameter-name" }, label), value),
    input,
    ends && el("p", { class: "basic-ends", "aria-hidden": "true" }, ends.map((end) => el("span", {}, end))),
    el("p", { class: "parameter-about", id: `${id}-about` }, about));
  return { element, show };
}
