/** The dialog that explains where a memory ranks for the query, or why it is not in the result. */

import { el, replace, svg } from "../shared/dom.js";
import { number, score } from "../shared/format.js";
import { openDialog } from "../shared/overlays.js";
import { provenance } from "./provenance.js";
import { scoreTable } from "./score_bar.js";

const UUID = /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i;
const RETRIEVERS = { semantic: "Semantic retriever", keyword: "Keyword retriever" };
const OUTCOMES = {
  hit: "In the result", behind: "Below the limit", diversity: "Removed by diversity", duplicate: "Duplicate of a higher hit",
  floor: "Below the score floor", irrelevant: "Not relevant enough", excluded: "Excluded by the request", outside: "Outside the scope", not_found: "Not a candidate",
};
const MAX_LISTED = 200;
const MAX_SHOWN = 40;

/**
 * @param {App} app
 * @param {{request: RecallRequest, tuning: ?Tuning, hits: Hit[], dropped: Hit[]}} recall  the body of the recall request,
 *   the unsaved tuning, and the hits of the response
 */
export function openExplainDialog(app, recall) {
  return openDialog("Explain a memory", () => {
    const list = el("ul", { class: "memory-picker", "aria-label": "Memories", onkeydown: (event) => moveInList(event, list, field) });
    const answer = el("div", { class: "explanation", "aria-live": "polite" });
    const explain = (id) => showExplanation(app, recall, id, answer);
    const find = createFinder(app, recall, list, explain);
    const field = el("input", {
      type: "search", id: "explain-search", autocomplete: "off", autofocus: true, placeholder: "Text or id",
      oninput: () => find(field.value.trim()),
      onkeydown: (event) => {
        const first = list.querySelector("button");
        if (!first || (event.key !== "ArrowDown" && event.key !== "Enter")) return;
        event.preventDefault();
        first.focus();
        if (event.key === "Enter") first.click();
      },
    });
    find("");
    return el("div", { class: "explain" },
      el("p", { class: "quiet" }, "Select a memory to see its rank for “", recall.request.query, "”, or why it is not in the result. ",
        "Arrow keys move through the list, Enter selects."),
      el("label", { class: "label", for: "explain-search" }, "Find a memory"), field, list, answer);
  }, { wide: true });
}

/** Arrow keys, Home and End move between the rows of the list, one of which is in the tab order. */
function moveInList(event, list, field) {
  const rows = [...list.querySelectorAll("button")];
  const index = rows.indexOf(event.target);
  const target = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (index < 0 || target === undefined) return;
  event.preventDefault();
  (rows[target] ?? (target < 0 ? field : event.target)).focus();
  rows.forEach((row) => row.setAttribute("tabindex", row === document.activeElement ? "0" : "-1"));
  if (document.activeElement === field) rows[0].setAttribute("tabindex", "0");
}

/** Return a function that lists the memories for a text: dropped ones for an empty text, else those that match. */
function createFinder(app, { dropped, hits }, list, explain) {
  let latest = 0;
  let newest = null;
  return async (text) => {
    const call = (latest += 1);
    if (UUID.test(text)) {
      replace(list);
      return explain(text);
    }
    if (!text && dropped.length) {
      return showMemories(list, dropped.map(({ memory, rank }) => ({ memory, mark: rank ? `#${rank}` : "out" })), explain);
    }
    newest ??= app.api.get("v1/memories", { limit: MAX_LISTED }).then(({ memories }) => memories);
    try {
      const memories = text ? await searchMemories(app, text, await newest) : await newest;
      if (call !== latest) return undefined;
      const ranks = new Map([...hits, ...dropped].map(({ id, rank }) => [id, rank]));
      const rows = memories.map((memory) => ({ memory, mark: ranks.get(memory.id) ? `#${ranks.get(memory.id)}` : "–" }));
      return showMemories(list, rows, explain);
    } catch (error) {
      return replace(list, el("li", { class: "note error" }, error.message));
    }
  };
}

/** Return the newest memories that contain the text, and keyword matches in all sessions. */
async function searchMemories(app, text, newest) {
  const { sessions } = await app.api.get("v1/sessions");
  const params = { q: text, sessionIds: sessions.map(({ name }) => name).join(","), limit: 20 };
  const found = sessions.length ? (await app.api.get("episodes/search", params)).hits.map(({ memory }) => memory) : [];
  const foundIds = new Set(found.map(({ id }) => id));
  const contains = (memory) => memory.text.toLowerCase().includes(text.toLowerCase());
  return [...newest.filter((memory) => !foundIds.has(memory.id) && contains(memory)), ...found];
}

function showMemories(list, rows, explain) {
  if (!rows.length) return replace(list, el("li", { class: "quiet small" }, "No memory matches. Enter another text or an id."));
  return replace(list, rows.slice(0, MAX_SHOWN).map(({ memory, mark }, index) => el("li", {}, el("button", {
    type: "button", class: "memory-row", tabindex: index === 0 ? 0 : -1,
    onclick: (event) => {
      for (const row of list.querySelectorAll("[aria-current]")) row.removeAttribute("aria-current");
      event.currentTarget.setAttribute("aria-current", "true");
      explain(memory.id);
    },
  }, el("span", { class: "mono quiet" }, mark), el("span", {}, memory.text)))));
}

async function showExplanation(app, { request, tuning }, id, answer) {
  replace(answer, el("div", { class: "skeleton" }));
  try {
    const explanation = await app.api.post("v1/recall/explain", { ...request, id, ...(tuning && { tuning }) });
    replace(answer,
      el("p", { class: "small" }, el("strong", { class: "tag outcome" }, OUTCOMES[explanation.outcome] ?? explanation.outcome)),
      el("p", { class: "explanation-sentence" }, explanation.sentence),
      el("blockquote", {}, el("p", { dir: "auto" }, explanation.memory.text), provenance(explanation.memory)),
      explanation.retrieverRanks.map(retrieverRank),
      explanation.hit && el("details", {}, el("summary", { class: "small" }, "Score by step"), scoreTable(explanation.hit)));
    answer.scrollIntoView({ block: "nearest" });
  } catch (error) {
    replace(answer, el("p", { class: "note error" }, error.message));
  }
}

/** The rank of the memory in one retriever, beside the depth of its candidates, on a logarithmic scale. */
function retrieverRank({ retriever, ran, rank, score: ownScore, found, last, note }) {
  const title = el("h3", {}, RETRIEVERS[retriever] ?? retriever);
  if (!ran || rank === null) {
    const reason = !ran ? "This retriever did not run." : ownScore === null ? "This retriever cannot find the memory."
      : `Score ${score(ownScore)}; the rank is below the searched depth.`;
    return el("div", { class: "retriever-rank" }, title, el("p", { class: "small quiet" }, note || reason));
  }
  const deepest = Math.max(rank, found, 2) * 1.3;
  const x = (depth) => 2 + (Math.log(depth) / Math.log(deepest)) * 96;
  const isCandidate = rank <= found;
  const lastScore = last === null ? "" : `, the last with score ${score(last)}`;
  const sentence = `Rank ${number(rank)} with score ${score(ownScore)}; ${number(found)} candidates${lastScore}.`;
  return el("div", { class: "retriever-rank" }, title,
    svg("svg", { class: "retriever-rank-scale", width: "100%", height: 40, role: "img", "aria-label": sentence },
      svg("rect", { x: "2%", width: `${Math.max(x(Math.max(found, 1)) - 2, 0.5)}%`, y: 8, height: 8, rx: 4, class: "retriever-rank-candidates" }),
      svg("line", { x1: "2%", x2: "98%", y1: 12, y2: 12, class: "retriever-rank-line" }),
      svg("circle", { cx: `${x(rank)}%`, cy: 12, r: 6, class: isCandidate ? "retriever-rank-mark" : "retriever-rank-mark outside" }),
      svg("text", { x: `${x(rank)}%`, y: 34, class: x(rank) > 88 ? "end" : x(rank) < 8 ? "start" : "" }, `#${rank}`)),
    el("p", { class: "small quiet" }, sentence));
}
