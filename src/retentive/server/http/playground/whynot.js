/** "Why not?": pick any memory and see where it stands for the query, or where it fell out. */

import { barTable } from "./bars.js";
import { openDialog } from "./dialog.js";
import { el, replace, svg } from "./dom.js";
import { score } from "./format.js";
import { provenance } from "./hits.js";

const UUID = /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i;
const RETRIEVERS = { semantic: "By meaning", keyword: "By words" };
const OUTCOMES = {
  hit: "In the result", behind: "Behind the limit", diversity: "Left out as too alike", duplicate: "Said by a higher hit",
  floor: "Below the floor", recent: "Known to the caller", outside: "Outside of the scope", not_found: "Not found",
};
const MOST = 200;

/**
 * @param {object} app
 * @param {{query: object, tuning: ?object, dropped: object[], hits: object[]}} about the query as a recall takes
 *   it, the parameters that are turned, and what the recall gave
 */
export function openWhyNot(app, about) {
  return openDialog("Why not?", () => {
    const list = el("ul", { class: "pick-list", "aria-label": "Memories" });
    const answer = el("div", { class: "why-not-answer", "aria-live": "polite" });
    const explain = (id) => explained(app, about, id, answer);
    const find = finder(app, about, list, explain);
    const field = el("input", {
      type: "search", id: "why-not-field", autocomplete: "off", autofocus: true,
      placeholder: "Words of it, or its id", oninput: () => find(field.value.trim()),
    });
    find("");
    return el("div", { class: "why-not" },
      el("p", { class: "quiet" }, "Which memory did you expect for “", about.query.query, "”?"),
      el("label", { class: "label", for: "why-not-field" }, "Find a memory"), field, list, answer);
  }, { wide: true });
}

function finder(app, { dropped, hits }, list, explain) {
  let latest = 0;
  let listed = null;
  return async (words) => {
    const turn = (latest += 1);
    if (UUID.test(words)) {
      replace(list);
      return explain(words);
    }
    const near = dropped.map(({ memory, rank }) => ({ memory, mark: rank ? `#${rank}` : "out" }));
    if (!words && near.length) return show(list, near, explain);
    listed ??= app.api.get("v1/memories", { limit: MOST }).then(({ memories }) => memories);
    try {
      const found = words ? await searched(app, words, await listed) : await listed;
      if (turn !== latest) return undefined;
      const ranks = new Map([...hits, ...dropped].map(({ id, rank }) => [id, rank]));
      return show(list, found.map((memory) => ({ memory, mark: ranks.get(memory.id) ? `#${ranks.get(memory.id)}` : "–" })), explain);
    } catch (problem) {
      return replace(list, el("li", { class: "note error" }, problem.detail ?? String(problem)));
    }
  };
}

/** By words in every session, and what else of the newest has these letters. */
async function searched(app, words, listed) {
  const { sessions } = await app.api.get("v1/sessions");
  const query = { q: words, sessionIds: sessions.map(({ name }) => name).join(","), limit: 20 };
  const found = sessions.length ? (await app.api.get("episodes/search", query)).hits.map(({ memory }) => memory) : [];
  const letters = words.toLowerCase();
  const known = new Set(found.map(({ id }) => id));
  return [...listed.filter(({ id, text }) => !known.has(id) && text.toLowerCase().includes(letters)), ...found];
}

function show(list, rows, explain) {
  if (!rows.length) return replace(list, el("li", { class: "quiet small" }, "No memory has these words. Another one, or an id?"));
  return replace(list, rows.slice(0, 40).map(({ memory, mark }) => el("li", {}, el("button", {
    type: "button", class: "pick-row",
    onclick: (event) => {
      for (const row of list.querySelectorAll("[aria-current]")) row.removeAttribute("aria-current");
      event.currentTarget.setAttribute("aria-current", "true");
      explain(memory.id);
    },
  }, el("span", { class: "mono quiet" }, mark), el("span", {}, memory.text)))));
}

async function explained(app, { query, tuning }, id, answer) {
  replace(answer, el("div", { class: "skeleton" }));
  try {
    const said = await app.api.post("v1/recall/explain", { ...query, id, ...(tuning && { tuning }) });
    replace(answer,
      el("p", { class: "small" }, el("strong", { class: "tag outcome" }, OUTCOMES[said.outcome] ?? said.outcome)),
      el("p", { class: "why-sentence" }, said.sentence),
      el("blockquote", {}, el("p", {}, said.memory.text), provenance(said.memory)),
      said.standings.map(standing),
      said.hit && el("details", {}, el("summary", { class: "small" }, "What each step gave"), barTable(said.hit)));
    answer.scrollIntoView({ block: "nearest" });
  } catch (problem) {
    replace(answer, el("p", { class: "note error" }, problem.detail ?? String(problem)));
  }
}

/** One search's view of it: how deep its candidates go, and how deep the memory lies. Depths are on a log scale. */
function standing({ retriever, ran, rank, score: own, found, last, note }) {
  const title = el("h3", {}, RETRIEVERS[retriever] ?? retriever);
  if (!ran || rank === null) {
    const why = note || (ran ? "this search cannot find it" : "this search did not run");
    return el("div", { class: "standing" }, title, el("p", { class: "small quiet" }, why));
  }
  const deepest = Math.max(rank, found, 2) * 1.3;
  const at = (depth) => 2 + (Math.log(depth) / Math.log(deepest)) * 96;
  const inside = rank <= found;
  const words = `It is at place ${rank} with ${score(own)}; the candidates end at ${found}${last === null ? "" : ` with ${score(last)}`}.`;
  return el("div", { class: "standing" }, title,
    svg("svg", { class: "standing-scale", width: "100%", height: 40, role: "img", "aria-label": words },
      svg("rect", { x: "2%", width: `${Math.max(at(Math.max(found, 1)) - 2, 0.5)}%`, y: 8, height: 8, rx: 4, class: "standing-pool" }),
      svg("line", { x1: "2%", x2: "98%", y1: 12, y2: 12, class: "standing-line" }),
      svg("circle", { cx: `${at(rank)}%`, cy: 12, r: 6, class: inside ? "standing-mark" : "standing-mark out" }),
      svg("text", { x: `${at(rank)}%`, y: 34, class: at(rank) > 88 ? "end" : at(rank) < 8 ? "start" : "" }, `#${rank}`)),
    el("p", { class: "small quiet" }, words));
}
