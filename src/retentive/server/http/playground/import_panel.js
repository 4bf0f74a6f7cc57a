/** The import of a file, while it runs and when it has ended. It goes on while another view is looked at. */

import { el, replace } from "./dom.js";
import { importFile } from "./import_batches.js";
import { counted, number } from "./times.js";

const SHOWN = 100;
const place = el("div", { class: "import-place" });
let running = null;

/** Where the import is shown; the same element for every visit to the view. */
export const importPlace = place;

/**
 * Imports files, one after the other.
 * @param {object} app
 * @param {FileList | File[]} files
 * @param {() => void} stored  called when memories have been added
 */
export async function importFiles(app, files, stored) {
  if (running) {
    app.toast("An import is running; wait for it, or cancel it.", { kind: "error" });
    return;
  }
  for (const file of [...files]) await importOne(app, file, stored);
}

async function importOne(app, file, stored, again = "") {
  const stop = (running = new AbortController());
  const bar = el("progress", { max: 1, value: 0, "aria-label": `Import of ${file.name}` });
  const line = el("p", { class: "import-line mono", role: "status" }, "Reading…");
  const cancel = el("button", { type: "button", class: "button", onclick: () => stop.abort() }, "Cancel");
  const box = el("section", { class: "import panel", "aria-label": "Import" },
    el("div", { class: "panel-top" }, el("h2", {}, `Import of ${file.name}`), cancel), bar, line);
  replace(place, box);
  let progress = { sent: 0, kept: 0, refused: [] };
  const send = async (memories, key) => {
    const headers = { "Idempotency-Key": key };
    return (await app.api.post("v1/memories", { memories }, { headers, signal: stop.signal })).memories;
  };
  const tell = (now) => {
    progress = now;
    bar.value = now.done;
    line.textContent = `${counted(now.sent, "line", "lines")} sent, ${number(now.refused.length)} refused`;
  };
  let failure = null;
  let before = null;
  try {
    before = (await app.api.get("v1/stats")).memories;
    await importFile(file, { send, tell, signal: stop.signal, again });
  } catch (problem) {
    failure = problem.name === "AbortError" ? "Cancelled" : problem.detail ?? problem.message;
  }
  const after = await app.api.get("v1/stats").then((stats) => stats.memories, () => null);
  running = null;
  const added = before === null || after === null ? null : after - before;
  const repeat = (name) => importOne(app, file, stored, name);
  replace(place, ended(file, progress, { failure, added, total: after }, repeat));
  app.announce(place.querySelector(".note")?.textContent ?? "");
  stored();
  app.refreshScope();
}

function ended(file, progress, outcome, repeat) {
  const { sent, refused } = progress;
  const nothingNew = !outcome.failure && sent > 0 && outcome.added === 0;
  return el("section", { class: "import panel", "aria-label": "Import" },
    el("div", { class: "panel-top" }, el("h2", {}, `Import of ${file.name}`),
      el("button", { type: "button", class: "button icon", "aria-label": "Close", onclick: () => replace(place) }, "×")),
    el("p", { class: outcome.failure ? "note error" : refused.length || !sent ? "note warn" : "note good" }, summary(progress, outcome)),
    refused.length > 0 && refusedTable(refused),
    outcome.failure && el("p", {}, el("button", { type: "button", class: "button", onclick: () => repeat("") }, "Go on"),
      el("span", { class: "quiet small" }, " What was stored already is not stored again.")),
    nothingNew && progress.kept < sent && el("p", {},
      el("button", { type: "button", class: "button", onclick: () => repeat(`-${Date.now().toString(36)}`) }, "Import them anew"),
      el("span", { class: "quiet small" }, ` ${number(sent - progress.kept)} of them were forgotten since.`)));
}

function summary({ sent, refused }, { failure, added, total }) {
  const parts = [];
  if (failure) parts.push(failure.endsWith(".") ? failure : `${failure}.`);
  if (!sent && !refused.length && !failure) return "There are no memories in this file.";
  if (added === 0 && sent) parts.push(`All ${number(sent)} lines were imported before: nothing was stored twice.`);
  else if (added !== null && added < sent) {
    parts.push(`${counted(added, "memory", "memories")} added; ${number(sent - added)} lines were there already.`);
  } else parts.push(`${counted(sent, "memory", "memories")} added.`);
  if (refused.length) parts.push(`${counted(refused.length, "line was", "lines were")} refused.`);
  if (total !== null) parts.push(`There are ${counted(total, "memory", "memories")} now.`);
  return parts.join(" ");
}

function refusedTable(refused) {
  return el("div", { class: "scroll import-refused", tabindex: "0", role: "region", "aria-label": "Refused lines" },
    el("table", { class: "figures" },
      el("thead", {}, el("tr", {}, ["Line", "Why", "Text"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, refused.slice(0, SHOWN).map(({ number: line, reason, text }) => el("tr", {},
        el("td", { class: "mono" }, number(line)), el("td", {}, reason), el("td", { class: "quiet" }, text))))),
    refused.length > SHOWN && el("p", { class: "quiet small" }, `and ${number(refused.length - SHOWN)} more`));
}
