/** A search for better parameters on what was judged: started, watched, stopped, and its result tried or kept. */

import { el, replace } from "./dom.js";
import { change, count, spaced } from "./format.js";

const EACH_MS = 1000;

/** @param {{take: (parameters: object) => void, onKept: () => void}} ways turn parameters for this page; when some were kept */
export function createTune(app, { take, onKept }) {
  const start = el("button", { type: "button", class: "button", onclick: begin }, "Find better parameters");
  const body = el("div", { class: "tune-body", "aria-live": "polite" });
  const element = el("div", { class: "tune", hidden: true }, start, body);
  let timer = 0;
  let gone = false;

  async function begin() {
    await watched(() => app.api.post("v1/tune", {}));
  }

  async function end() {
    await watched(() => app.api.delete("v1/tune"));
  }

  async function watched(request) {
    clearTimeout(timer);
    try {
      show(await request());
    } catch (problem) {
      start.disabled = false;
      const text = problem.status === 403 ? `This token may not tune: ${problem.detail}` : problem.detail ?? String(problem);
      replace(body, el("p", { class: "note" }, text));
    }
  }

  function show(progress) {
    if (gone) return;
    const running = progress.state === "running";
    start.disabled = running;
    if (running) {
      showProgress(progress);
      timer = setTimeout(() => watched(() => app.api.get("v1/tune")), EACH_MS);
    } else replace(body, ENDS[progress.state]?.(progress));
  }

  function showProgress({ stage, done, total }) {
    const label = total ? `${stage}, ${done} of ${total}` : stage;
    const had = body.querySelector("progress");
    if (!had) {
      replace(body, el("p", { class: "small tune-stage" }), el("div", { class: "tune-line" },
        el("progress", { "aria-label": "Search for parameters" }),
        el("button", { type: "button", class: "button", onclick: end }, "Stop")));
    }
    body.querySelector(".tune-stage").textContent = label;
    const bar = body.querySelector("progress");
    if (total) Object.assign(bar, { max: total, value: done });
    else bar.removeAttribute("value");
  }

  const ENDS = {
    failed: ({ detail }) => el("p", { class: "note error" }, detail),
    stopped: () => el("p", { class: "quiet small" }, "Stopped."),
    done: ({ result }) => found(result),
  };

  function found({ verdict, metric, heldOut, parameters, tunings, n }) {
    const gain = heldOut[metric];
    const names = Object.keys(parameters);
    const found = Object.fromEntries(names.map((name) => [name, parameters[name].after]));
    const better = verdict === "better";
    return [
      el("p", { class: better ? "note good" : "note" }, better
        ? `Better on queries that had no say in the search: ${metric} ${gain.before.toFixed(3)} → ${gain.after.toFixed(3)}.`
        : "The tuning in force stands: no other is better beyond chance."),
      gain && el("p", { class: "small quiet" },
        `${change(gain.gain)} ${metric}, 95 % between ${gain.gainInterval.map((end) => change(end)).join(" and ")}; `,
        `${count(tunings, "tuning")} looked at, ${count(n, "query")}.`),
      names.length > 0 && el("table", { class: "figures" }, el("tbody", {}, names.map((name) => el("tr", {},
        el("th", { scope: "row" }, spaced(name)),
        el("td", { class: "number" }, `${parameters[name].before} → ${parameters[name].after}`))))),
      names.length > 0 && el("div", { class: "tune-line" },
        el("button", { type: "button", class: "button", onclick: () => take(found) }, "Try these"),
        better && el("button", { type: "button", class: "button primary", onclick: () => keep(found) }, "Keep these")),
    ];
  }

  async function keep(parameters) {
    try {
      await app.api.patch("settings", parameters);
      replace(body);
      app.toast(`Kept ${count(Object.keys(parameters).length, "parameter")}`);
      onKept();
    } catch (problem) {
      app.toast(problem.detail ?? String(problem), { kind: "error" });
    }
  }

  /** Shows the search once there is something to search on, and what runs already. */
  function allow(is) {
    if (is && element.hidden) watched(() => app.api.get("v1/tune"));
    element.hidden = !is;
  }

  return {
    element,
    allow,
    stop() {
      gone = true;
      clearTimeout(timer);
    },
  };
}
