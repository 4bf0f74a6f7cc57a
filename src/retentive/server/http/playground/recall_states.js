/** What the view Recall shows where there are no hits to show. */

import { el } from "./dom.js";

const SAMPLES = ["what does the cat eat?", "why did the logins fail?", "when was the oven delivered?"];

/** Nothing is asked yet. */
export function introState(app, ask) {
  const offers = el("div", { class: "offers" });
  offerSamples(app, offers, ask).catch(() => {});
  return el("div", { class: "state intro" }, el("h2", {}, "What does your agent remember?"),
    el("p", {}, "Ask a query. Every hit shows what each step of the ranking gave it; turn a parameter and watch the order move."),
    offers);
}

async function offerSamples(app, offers, ask) {
  const { memories } = await app.api.get("v1/memories", { limit: 1 });
  if (!memories.length) {
    offers.append(el("p", {}, "There are no memories here yet."), el("button", { type: "button", class: "button primary",
      onclick: () => app.go("#/memories") }, "Bring some in"));
    return;
  }
  const { projects } = await app.api.get("v1/projects");
  if (!projects.some(({ name }) => name.startsWith("sample-"))) return;
  offers.append(...SAMPLES.map((text) => el("button", { type: "button", class: "button", onclick: () => ask(text) }, text)));
}

/** Asked, and nothing found. */
export function emptyState(app, openWhy) {
  const { project, session, kinds } = app.scope.value;
  const narrow = project || session || kinds;
  return el("div", { class: "state" }, el("h2", {}, "Nothing found"),
    el("p", {}, narrow ? "No memory of this scope answers the query." : "No memory answers the query."),
    narrow && el("button", { type: "button", class: "button", onclick: () => app.scope.set({ project: null, session: null, kinds: null }) },
      "Ask all memories"),
    " ", el("button", { type: "button", class: "button", onclick: openWhy }, "Why not?"));
}

/** It did not work. */
export function errorState(problem, retry) {
  const needsToken = problem.status === 401;
  return el("div", { class: "state", role: "alert" },
    el("h2", {}, needsToken ? "A token is needed" : "That did not work"),
    el("p", {}, problem.detail ?? String(problem)),
    problem.errors?.map(({ field, message }) => el("p", { class: "small" }, `${field}: ${message}`)),
    el("button", { type: "button", class: "button", onclick: retry }, needsToken ? "Enter a token" : "Try again"));
}

/** The first answer is on its way. */
export function loadingState() {
  const row = () => el("div", { class: "panel loading-card" }, el("div", { class: "skeleton" }), el("div", { class: "skeleton short" }));
  return el("div", { class: "loading", role: "status", "aria-label": "Recalling" }, row(), row(), row());
}
