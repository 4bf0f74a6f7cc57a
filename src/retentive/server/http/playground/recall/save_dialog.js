/** The dialog before a tuning is saved: what changes, and what that does to the metrics of the user's own queries. */

import { el, replace } from "../shared/dom.js";
import { plural, sentenceCase } from "../shared/format.js";
import { openDialog } from "../shared/overlays.js";
import { measure, metricsTable } from "./evaluation.js";
import { valueText } from "./parameter_field.js";

/**
 * Open the dialog; resolve to true if the user saves.
 * @param {App} app
 * @param {Tuning} unsaved
 * @param {Tuning} saved
 */
export async function confirmSave(app, unsaved, saved) {
  const abort = new AbortController();
  const answer = await openDialog("Save this tuning?", (close) => saveForm(app, { unsaved, saved, signal: abort.signal, close }));
  abort.abort();
  return answer === true;
}

function saveForm(app, { unsaved, saved, signal, close }) {
  const button = el("button", { type: "button", class: "button primary", disabled: true, onclick: () => close(true) }, "Save");
  const effect = el("div", { class: "save-effect", "aria-live": "polite" },
    el("p", { class: "quiet" }, "Measuring both tunings on your judged queries…"), el("progress", { "aria-label": "Measuring" }));
  showEffect(app, unsaved, effect, signal).finally(() => {
    button.disabled = false;
    if (button.isConnected) button.focus();
  });
  return el("div", { class: "save-form" },
    el("p", {}, `${plural(Object.keys(unsaved).length, "parameter")} will change for every program that uses this store.`),
    el("table", { class: "figures" }, el("tbody", {}, Object.entries(unsaved).map(([name, value]) => el("tr", {},
      el("th", { scope: "row" }, sentenceCase(name)),
      el("td", { class: "number" }, `${valueText(saved[name])} → ${valueText(value)}`))))),
    effect,
    el("div", { class: "dialog-end" },
      el("button", { type: "button", class: "button", onclick: () => close() }, "Cancel"), button));
}

async function showEffect(app, unsaved, effect, signal) {
  try {
    const result = await measure(app, unsaved, { signal });
    replace(effect, el("h3", {}, "On your judged queries"), result.n ? metricsTable(result, true)
      : el("p", { class: "note" }, "There are no judgements yet, so the effect cannot be measured. ",
        "To make one, close this dialog and press the thumb up at a hit that answers its query."));
  } catch (error) {
    if (error.name !== "AbortError") replace(effect, el("p", { class: "note error" }, `The effect could not be measured: ${error.message}`));
  }
}
