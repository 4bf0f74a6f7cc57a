/** Memories forgotten after a query, and brought back as they were. */

import { openDialog } from "./dialog.js";
import { el } from "./dom.js";
import { counted, exactly, whenOf } from "./times.js";

const SHOWN = 5;
const AT_ONCE = 200;
const SECONDS_TO_UNDO = 15;

/**
 * Asks, forgets, and offers to undo.
 * @param {object} app
 * @param {object[]} memories  as the service gave them: that is what an undo sends back
 * @param {{gone: () => void, back: (memories: object[]) => void}} events
 */
export async function forget(app, memories, { gone, back }) {
  if (!memories.length || !(await isMeant(memories))) return;
  const ids = memories.map((memory) => memory.id);
  let judged = [];
  try {
    // Goes with the memories, so it is kept here for an undo.
    judged = (await app.api.get("v1/judgements")).judgements.filter((one) => ids.includes(one.memory));
    if (ids.length === 1) await app.api.delete(`v1/memories/${ids[0]}`);
    else await app.api.post("v1/memories/forget", { ids });
  } catch (problem) {
    app.toast(`Nothing was forgotten: ${problem.detail ?? problem}`, { kind: "error" });
    return;
  }
  gone();
  const what = counted(ids.length, "memory", "memories");
  app.toast(`Forgot ${what}`, { label: "Undo", seconds: SECONDS_TO_UNDO, action: () => bringBack(app, memories, judged, back) });
  app.refreshScope();
}

async function bringBack(app, memories, judged, back) {
  try {
    const restored = [];
    for (let at = 0; at < memories.length; at += AT_ONCE) {
      const part = memories.slice(at, at + AT_ONCE).map(asSent);
      restored.push(...(await app.api.post("v1/memories", { memories: part })).memories);
    }
    for (const said of byQuery(judged)) await app.api.post("v1/judgements", said);
    back(restored);
    app.announce(`${counted(restored.length, "memory is", "memories are")} back`);
    app.refreshScope();
  } catch (problem) {
    app.toast(`This could not be undone: ${problem.detail ?? problem}`, {
      kind: "error", label: "Try again", seconds: 60, action: () => bringBack(app, memories, judged, back),
    });
  }
}

/** What was said of memories, as requests have it: one for each query. */
function byQuery(judged) {
  const asked = new Map();
  for (const { query, project, askedAt, memory, relevance } of judged) {
    const key = JSON.stringify([query, project, askedAt]);
    const said = asked.get(key) ?? { query, good: {}, bad: [], ...(project && { project }), ...(askedAt && { askedAt }) };
    if (relevance) said.good[memory] = relevance;
    else said.bad.push(memory);
    asked.set(key, said);
  }
  return [...asked.values()];
}

/** A memory as a request has it, without what the service itself knows or counts. */
export function asSent({ profile, contentHash, accessed, accessCount, ...memory }) {
  return Object.fromEntries(Object.entries(memory).filter(([, value]) => value !== null));
}

async function isMeant(memories) {
  const what = counted(memories.length, "memory", "memories");
  const meant = await openDialog(`Forget ${what}?`, (close) => [
    el("ul", { class: "forget-list" }, memories.slice(0, SHOWN).map((memory) => el("li", {},
      el("p", { class: "forget-text" }, memory.text),
      el("p", { class: "quiet small" }, [memory.speaker, exactly(whenOf(memory)), memory.session].filter(Boolean).join(" · "))))),
    memories.length > SHOWN && el("p", { class: "quiet" }, `and ${counted(memories.length - SHOWN, "other", "others")}`),
    el("p", { class: "small" }, `No recall will find ${memories.length === 1 ? "it" : "them"} any more. `
      + `You can undo this for ${SECONDS_TO_UNDO} seconds.`),
    el("div", { class: "dialog-end" },
      el("button", { type: "button", class: "button", autofocus: true, onclick: () => close(false) }, "Keep"),
      el("button", { type: "button", class: "button danger", onclick: () => close(true) }, `Forget ${what}`)),
  ]);
  return meant === true;
}
