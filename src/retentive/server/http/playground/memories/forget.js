/** Forget memories after confirmation, with an undo that restores them and their judgements. */

import { el } from "../shared/dom.js";
import { dateTime, memoryTime, plural } from "../shared/format.js";
import { openDialog } from "../shared/overlays.js";

const MAX_SHOWN = 5;
const BATCH_SIZE = 200;
const UNDO_SECONDS = 15;

/**
 * @param {App} app
 * @param {Memory[]} memories  complete, as in responses: an undo sends them back
 * @param {{onForgotten: () => void, onRestored: () => void}} handlers
 */
export async function forgetMemories(app, memories, { onForgotten, onRestored }) {
  if (!memories.length || !(await confirmForget(memories))) return;
  const ids = memories.map((memory) => memory.id);
  let judgements = [];
  try {
    // The service deletes the judgements together with the memories.
    judgements = (await app.api.get("v1/judgements")).judgements.filter((each) => ids.includes(each.memory));
    if (ids.length === 1) await app.api.delete(`v1/memories/${ids[0]}`);
    else await app.api.post("v1/memories/forget", { ids });
  } catch (error) {
    app.toast(`No memory was forgotten: ${error.message}`, { kind: "error" });
    return;
  }
  onForgotten();
  app.toast(`Forgot ${plural(ids.length, "memory", "memories")}`,
    { seconds: UNDO_SECONDS, action: () => restore(app, memories, judgements, onRestored) });
  app.refreshScope();
}

async function restore(app, memories, judgements, onRestored) {
  try {
    for (let start = 0; start < memories.length; start += BATCH_SIZE) {
      await app.api.post("v1/memories", { memories: memories.slice(start, start + BATCH_SIZE).map(asRequest) });
    }
    for (const request of judgementRequests(judgements)) await app.api.post("v1/judgements", request);
    onRestored();
    app.announce(`Restored ${plural(memories.length, "memory", "memories")}`);
    app.refreshScope();
  } catch (error) {
    app.toast(`The undo failed: ${error.message}`, {
      kind: "error", label: "Try again", seconds: 60, action: () => restore(app, memories, judgements, onRestored),
    });
  }
}

/** Return a memory as a request takes it, without the fields that the service computes. */
function asRequest({ profile, contentHash, accessed, accessCount, found, ...memory }) {
  return Object.fromEntries(Object.entries(memory).filter(([, value]) => value !== null));
}

/** Group judgements into requests, one for each query. */
function judgementRequests(judgements) {
  const requests = new Map();
  for (const { query, project, askedAt, memory, relevance } of judgements) {
    const key = JSON.stringify([query, project, askedAt]);
    const request = requests.get(key) ?? { query, good: {}, bad: [], ...(project && { project }), ...(askedAt && { askedAt }) };
    if (relevance) request.good[memory] = relevance;
    else request.bad.push(memory);
    requests.set(key, request);
  }
  return [...requests.values()];
}

async function confirmForget(memories) {
  const what = plural(memories.length, "memory", "memories");
  const confirmed = await openDialog(`Forget ${what}?`, (close) => [
    el("ul", { class: "forget-list" }, memories.slice(0, MAX_SHOWN).map((memory) => el("li", {},
      el("p", { class: "forget-text", dir: "auto" }, memory.text),
      el("p", { class: "quiet small" }, [memory.speaker, dateTime(memoryTime(memory)), memory.session].filter(Boolean).join(" · "))))),
    memories.length > MAX_SHOWN && el("p", { class: "quiet" }, `and ${memories.length - MAX_SHOWN} more`),
    el("p", { class: "small" }, `Forgotten memories are deleted. You can undo this for ${UNDO_SECONDS} seconds.`),
    el("div", { class: "dialog-end" },
      el("button", { type: "button", class: "button", autofocus: true, onclick: () => close(false) }, "Cancel"),
      el("button", { type: "button", class: "button danger", onclick: () => close(true) }, `Forget ${what}`)),
  ]);
  return confirmed === true;
}
