/** The models that can be compared. The service embeds the memories with another one first; this shows its progress. */

import { errorText } from "../shared/api.js";
import { el, replace } from "../shared/dom.js";
import { clock, number, plural, sentence } from "../shared/format.js";

const POLL_MS = 500;

/** @param {App} app @param {() => void} retry  called to prepare the models again */
export function createModels(app, retry) {
  const element = el("div", { class: "compare-models", "aria-live": "polite" });
  const ready = new Map(); // profile and name of a model whose copy was brought up to date → its status
  let run = 0; // only the last call of `prepare` shows something

  const key = (name) => JSON.stringify([app.scope.value.profile, name]);

  /** The configured model, and the names of the others. */
  async function load() {
    const { current, embedders } = await app.api.get("v1/embedders");
    return { current, others: embedders.map(({ name }) => name) };
  }

  /** Embed the memories with these models where that is needed; resolve to whether all of them can be compared. */
  async function prepare(names) {
    run += 1;
    const own = run;
    for (const name of names) {
      if (ready.has(key(name))) continue;
      const status = await embed(name, own);
      if (own !== run) return false;
      if (status?.state !== "ready") return false;
      ready.set(key(name), status);
    }
    replace(element, names.map((name) => copyNote(ready.get(key(name)))));
    return true;
  }

  async function embed(name, own) {
    try {
      let status = await start(name);
      while (status.state === "running" && own === run) {
        showProgress(status);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        status = await statusOf(name);
      }
      if (own === run && status.state !== "ready") showProblem(status.state === "stopped" ? `Embedding with ${name} was stopped.` : sentence(status.detail));
      return status;
    } catch (error) {
      if (own === run) showProblem(errorText(error, "embed the memories with another model"));
      return null;
    }
  }

  /** Start to embed. Without the right to do so, a copy that another person has made is used as it is. */
  async function start(name) {
    try {
      return await app.api.post("v1/embedders", { name });
    } catch (error) {
      const status = error.status === 403 || error.status === 409 ? await statusOf(name) : null;
      if (status?.state === "ready" || status?.state === "running") return status;
      throw error;
    }
  }

  async function statusOf(name) {
    const { embedders } = await app.api.get("v1/embedders");
    return embedders.find((one) => one.name === name);
  }

  function showProgress({ name, done, total }) {
    if (!element.querySelector("progress")) {
      replace(element, el("div", { class: "panel compare-progress" }, el("p", {}),
        el("progress", { "aria-label": `Embedding with ${name}` }),
        el("button", { type: "button", class: "button", onclick: () => app.api.delete("v1/embedders").catch((error) => showProblem(errorText(error, "stop this"))) }, "Stop")));
    }
    element.querySelector("p").textContent = total ? `Embedding with ${name}: ${number(done)} of ${plural(total, "memory", "memories")}` : `Loading ${name}…`;
    const bar = /** @type {HTMLProgressElement} */ (element.querySelector("progress"));
    if (total) Object.assign(bar, { max: total, value: done });
  }

  function showProblem(text) {
    replace(element, el("p", { class: "note warn" }, text, " ", el("button", { type: "button", class: "link", onclick: retry }, "Try again")));
  }

  function copyNote({ name, memories, at }) {
    return el("p", { class: "quiet small" }, `${name} searches ${plural(memories, "memory", "memories")}, as they were at ${clock(at)}. `,
      el("button", { type: "button", class: "link", onclick: () => { ready.delete(key(name)); retry(); } }, "Update"));
  }

  return {
    element,
    load,
    prepare,
    stop: () => { run += 1; },
  };
}
