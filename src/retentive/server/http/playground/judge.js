/** Thumbs on hits: what somebody says of a memory as an answer to the query, kept as a judgement. */

import { el, svg } from "./dom.js";

/** @param {() => {query: string, project: ?string}} asked what is judged now */
export function createJudge(app, asked, onJudged) {
  let said = new Map();

  /** Learns what was said of the query before. */
  async function load() {
    const { query, project } = asked();
    const { judgements } = await app.api.get("v1/judgements", { project });
    const here = judgements.filter((each) => each.query === query.trim() && each.project === (project ?? null));
    said = new Map(here.map(({ memory, relevance }) => [memory, relevance > 0]));
    for (const thumbs of document.querySelectorAll(".thumbs")) show(thumbs);
  }

  function show(thumbs) {
    for (const button of thumbs.children) {
      button.setAttribute("aria-pressed", String(said.get(thumbs.dataset.memory) === (button.dataset.good === "true")));
    }
  }

  async function press(memory, good) {
    const { query, project } = asked();
    const named = project ? { project } : {};
    try {
      if (said.get(memory) === good) {
        await app.api.delete("v1/judgements", { query, memory, ...named });
        said.delete(memory);
      } else {
        await app.api.post("v1/judgements", { query, [good ? "good" : "bad"]: [memory], ...named });
        said.set(memory, good);
      }
    } catch (problem) {
      const text = problem.detail ?? String(problem);
      app.toast(problem.status === 403 ? `This token may not judge: ${text}` : text, { kind: "error" });
    }
    for (const thumbs of document.querySelectorAll(".thumbs")) show(thumbs);
    onJudged();
  }

  /** The two buttons of a hit. */
  function thumbs(hit) {
    const button = (good, sign, label) => el("button", {
      type: "button", class: "button icon thumb", "data-good": String(good), "aria-pressed": "false", "aria-label": label, title: label,
      onclick: () => press(hit.id, good),
    }, sign);
    const element = el("div", { class: "thumbs", role: "group", "aria-label": `Judge hit ${hit.rank}`, dataset: { memory: hit.id } },
      button(true, thumb(), "A good answer"), button(false, thumb(true), "A bad answer"));
    show(element);
    return element;
  }

  return { load, thumbs };
}

function thumb(down = false) {
  const d = "M6 9v8H3V9zM6 9l3-6c1.4 0 2 .9 2 2v3h4.4c1 0 1.7.9 1.5 1.9l-1.1 5.6c-.2.9-.9 1.5-1.8 1.5H6z";
  return svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true", class: "thumb-sign",
    transform: down ? "rotate(180)" : null }, svg("path", { d, "stroke-width": 1.5, "stroke-linejoin": "round" }));
}
