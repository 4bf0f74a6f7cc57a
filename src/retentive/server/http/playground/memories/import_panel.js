/** The progress and the result of a file import. The import continues while another view is open. */

import { el, replace } from "../shared/dom.js";
import { number, plural } from "../shared/format.js";
import { importFile, isExport } from "./import_file.js";

const MAX_SHOWN = 100;
let running = null;

/** The element that shows the import; the same one each time the view is opened. */
export const importPanel = el("div", { class: "import-panel" });

/**
 * Import files one after the other.
 * @param {App} app
 * @param {FileList | File[]} files
 * @param {() => void} onStored  called after each file
 */
export async function importFiles(app, files, onStored) {
  if (running) {
    app.toast("An import is already running. Wait until it ends, or cancel it.", { kind: "error" });
    return;
  }
  for (const file of [...files]) await importOne(app, file, onStored);
}

async function importOne(app, file, onStored, keySuffix = "") {
  const abort = (running = new AbortController());
  const bar = el("progress", { max: 1, value: 0, "aria-label": `Import ${file.name}` });
  const line = el("p", { class: "import-line mono", role: "status" }, "Reading…");
  const cancel = el("button", { type: "button", class: "button", onclick: () => abort.abort() }, "Cancel");
  replace(importPanel, el("section", { class: "import panel", "aria-label": "Import" },
    el("div", { class: "panel-top" }, el("h2", {}, `Import ${file.name}`), cancel), bar, line));
  let progress = { sent: 0, returned: 0, rejected: [] };
  const send = async (memories, key) => {
    const headers = { "Idempotency-Key": key };
    return (await app.api.post("v1/memories", { memories }, { headers, signal: abort.signal })).memories;
  };
  const onProgress = (current) => {
    progress = current;
    bar.value = current.done;
    line.textContent = `${plural(current.sent, "line")} sent, ${number(current.rejected.length)} rejected`;
  };
  let failure = null;
  let before = null;
  try {
    before = (await app.api.get("v1/stats")).memories;
    if (await isExport(file)) progress = await sendExport(app, file, abort.signal);
    else await importFile(file, { send, onProgress, signal: abort.signal, keySuffix });
  } catch (error) {
    failure = error.name === "AbortError" ? "Cancelled" : error.message;
  }
  const total = await app.api.get("v1/stats").then((stats) => stats.memories, () => null);
  running = null;
  const added = before === null || total === null ? null : total - before;
  const repeat = (suffix) => importOne(app, file, onStored, suffix);
  replace(importPanel, importResult(file, progress, { failure, added, total }, repeat));
  app.announce(importPanel.querySelector(".note")?.textContent ?? "");
  onStored();
  app.refreshScope();
}

/** Send an export of another program as it is. */
async function sendExport(app, file, signal) {
  const done = await app.api.post("v1/import", file, { query: { name: file.name }, signal });
  if (done.truncated.length) throw new Error(`Reading stopped: ${done.truncated[0]}`);
  const sent = done.added + done.existing;
  return { sent, returned: sent, rejected: [] };
}

function importResult(file, progress, outcome, repeat) {
  const { sent, returned, rejected } = progress;
  const { failure, added } = outcome;
  const forgotten = !failure && added === 0 ? sent - returned : 0;
  return el("section", { class: "import panel", "aria-label": "Import" },
    el("div", { class: "panel-top" }, el("h2", {}, `Import ${file.name}`),
      el("button", { type: "button", class: "button icon", "aria-label": "Close", onclick: () => replace(importPanel) }, "×")),
    el("p", { class: failure ? "note error" : rejected.length || !sent ? "note warn" : "note good" }, importSummary(progress, outcome)),
    rejected.length > 0 && rejectedTable(rejected),
    failure && el("p", {}, el("button", { type: "button", class: "button", onclick: () => repeat("") }, "Resume"),
      el("span", { class: "quiet small" }, " Memories that are already stored are not added again.")),
    forgotten > 0 && el("p", {},
      el("button", { type: "button", class: "button", onclick: () => repeat(`-${Date.now().toString(36)}`) }, "Import again"),
      el("span", { class: "quiet small" },
        ` ${plural(forgotten, "of these memories was", "of these memories were")} forgotten after the first import.`)));
}

function importSummary({ sent, rejected }, { failure, added, total }) {
  if (!sent && !rejected.length && !failure) return "The file contains no memories.";
  const sentences = [];
  if (failure) sentences.push(failure.endsWith(".") ? failure : `${failure}.`);
  if (added === 0 && sent) sentences.push(`${plural(sent, "line was", "lines were")} already imported; nothing was added.`);
  else if (added !== null && added < sent) {
    sentences.push(`${plural(added, "memory", "memories")} added; ${plural(sent - added, "line was", "lines were")} already imported.`);
  } else sentences.push(`${plural(sent, "memory", "memories")} added.`);
  if (rejected.length) sentences.push(`${plural(rejected.length, "line was", "lines were")} rejected.`);
  if (total !== null) sentences.push(`Total: ${plural(total, "memory", "memories")}.`);
  return sentences.join(" ");
}

function rejectedTable(rejected) {
  return el("div", { class: "scroll import-rejected", tabindex: "0", role: "region", "aria-label": "Rejected lines" },
    el("table", { class: "figures" },
      el("thead", {}, el("tr", {}, ["Line", "Reason", "Text"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rejected.slice(0, MAX_SHOWN).map(({ number: line, reason, text }) => el("tr", {},
        el("td", { class: "mono" }, number(line)), el("td", {}, reason), el("td", { class: "quiet" }, text))))),
    rejected.length > MAX_SHOWN && el("p", { class: "quiet small" }, `and ${number(rejected.length - MAX_SHOWN)} more`));
}
