/** The history of a fact: its versions on a line, oldest first, and which of them was true on a date. */

import { el, labelled, replace } from "../shared/dom.js";
import { dateRange, day } from "../shared/format.js";

const startOf = (memory) => memory.validFrom ?? memory.occurred ?? memory.created;
const endOf = (memory) => [memory.validTo, memory.expires].filter(Boolean).sort((a, b) => new Date(a).getTime() - new Date(b).getTime())[0] ?? null;

/** Whether a memory was true at a time. */
export function wasTrue(memory, time) {
  const end = endOf(memory);
  return new Date(startOf(memory)) <= time && (!end || time < new Date(end));
}

/**
 * @param {App} app
 * @param {string} id  the memory whose history is shown
 * @param {(id: string) => void} open  called with a version to open
 */
export function createHistory(app, id, open) {
  const date = el("input", { type: "date", oninput: mark });
  const line = el("ol", { class: "fact-line", "aria-label": "Versions" });
  const answer = el("p", { class: "note", role: "status" });
  const element = el("section", { class: "fact-history", "aria-label": "History", hidden: true },
    el("h3", {}, "History"), line, labelled("What was true on", date), answer);
  let versions = [];

  async function load() {
    try {
      versions = (await app.api.get(`v1/memories/${id}/history`)).memories;
    } catch {
      versions = []; // the editor itself says what is wrong
    }
    element.hidden = versions.length < 2 && !versions.some((one) => one.validTo);
    replace(line, versions.map(version));
  }

  function version(memory) {
    const end = endOf(memory);
    const period = end ? dateRange(startOf(memory), end) : `${day(startOf(memory))} – now`;
    const isCurrent = wasTrue(memory, new Date());
    return el("li", { class: `fact-version${memory.id === id ? " shown" : ""}${isCurrent ? " current" : ""}`, "data-id": memory.id },
      el("span", { class: "fact-period" }, period, !isCurrent && el("span", { class: "visually-hidden" }, ", no longer true")),
      el("button", { type: "button", class: "fact-text", dir: "auto", "aria-current": memory.id === id ? "true" : null, onclick: () => open(memory.id) }, memory.text),
      memory.reason && el("span", { class: "fact-reason" }, [memory.reason, memory.actor].filter(Boolean).join(" · ")));
  }

  /** Mark what was true at the end of the chosen day. */
  function mark() {
    const time = date.value ? new Date(`${date.value}T23:59:59.999`) : null;
    const then = time ? versions.filter((one) => wasTrue(one, time)) : [];
    for (const item of line.children) item.classList.toggle("was-true", then.some((one) => one.id === item.getAttribute("data-id")));
    answer.textContent = !time ? "" : then.length ? then.map((one) => one.text).join(" · ") : "Nothing of this was known then.";
  }

  load();
  return { element, load };
}
