/** The panel of the Status view with what prompts got: the memories that each client was given, to be judged. */

import { createRatings } from "../recall/evaluation.js";
import { el, replace } from "../shared/dom.js";
import { ago, dateTime, number, plural } from "../shared/format.js";

const LIMIT = 50;

/** @param {App} app */
export function createGivenPanel(app) {
  const summary = el("p", { class: "quiet small" });
  const list = el("ol", { class: "given", tabindex: "0", "aria-label": "Prompts" });
  const element = el("section", { class: "panel status-wide", "aria-labelledby": "status-given" },
    el("div", { class: "panel-top" }, el("h2", { id: "status-given" }, "Given to agents"), summary,
      el("button", { type: "button", class: "button", onclick: () => load() }, "Reload")),
    list);
  let latest = 0;

  async function load() {
    const request = (latest += 1);
    const { project } = app.scope.value;
    list.inert = true; // a thumb pressed now would be shown by neither the old list nor the new one
    try {
      const [{ given }, { judgements }] = await Promise.all([
        app.api.get("v1/given", { project, limit: LIMIT }), app.api.get("v1/judgements", { project })]);
      if (request === latest) show(given, judgements);
    } catch (error) {
      if (request === latest) replace(list, el("li", { class: "small" }, error.message));
    }
    if (request === latest) list.inert = false;
  }

  function show(given, judgements) {
    const helped = given.filter(({ notes }) => notes.length).length;
    summary.textContent = given.length ? `${number(helped)} of the latest ${plural(given.length, "prompt")} got memories` : "";
    replace(list, given.map((one) => prompt(one, judgements)));
    if (!given.length) {
      replace(list, el("li", { class: "quiet small" },
        "Nothing yet. What hooks, chat, MCP and /v1/context give to an agent appears here, unless given_days is 0."));
    }
  }

  function prompt(one, judgements) {
    const item = el("li", {});
    const { query, project, at } = one;
    const ratings = createRatings(app, () => ({ query, project, askedAt: at }), () => {}, item);
    const where = [one.client, project, one.session].filter(Boolean).join(" · ");
    replace(item,
      el("p", { class: "quiet small" }, where, " · ", el("time", { datetime: at, title: dateTime(at) }, ago(at))),
      el("p", { class: "given-query", dir: "auto" }, query || "(no query)"),
      one.notes.length ? el("ul", {}, one.notes.map((note) => el("li", { class: "given-note" },
        el("span", { class: "mono small given-relevance" }, note.relevance === null ? note.part : `${Math.round(100 * note.relevance)} %`),
        el("span", { class: "given-text", dir: "auto" }, note.text ?? el("em", { class: "quiet" }, "forgotten")),
        query && note.text !== null && ratings.buttons({ id: note.id }))))
        : el("p", { class: "quiet small" }, one.judged ? `Nothing: none of ${plural(one.judged, "memory", "memories")} helps.` : "Nothing."));
    ratings.use(judgements);
    return item;
  }

  return { element, load };
}
