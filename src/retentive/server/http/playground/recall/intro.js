/** What the view shows before the first query: example queries or, in an empty store, the ways to add memories. */

import { errorText } from "../shared/api.js";
import { el, replace } from "../shared/dom.js";
import { noMemories } from "../shared/empty_states.js";
import { plural } from "../shared/format.js";
import { loadSamples, sampleQueries } from "../shared/samples.js";
import { acceptFileDrops } from "../memories/file_drop.js";
import { importFiles, importPanel } from "../memories/import_panel.js";
import { openRememberForm } from "../memories/remember_form.js";

const EXAMPLES = 3;
const NEWEST = 50;
const MAX_WORDS = 6;
const MIN_WORDS = 3;

/**
 * @param {App} app
 * @param {{run: (query: string) => void, onEmpty: (isEmpty: boolean) => void}} handlers  `run` recalls a query, `onEmpty`
 *   tells whether the store is empty
 */
export function createIntro(app, { run, onEmpty }) {
  const head = el("div", { class: "intro-head" }, importPanel, el("h1", { class: "intro-title" }, "Recall what your agent remembers"));
  const body = el("div", { class: "intro-body" });
  let stopDrops = () => {};

  async function load() {
    try {
      const { memories } = await app.api.get("v1/memories", { limit: NEWEST, includeRetired: true });
      stop();
      onEmpty(!memories.length);
      if (memories.length) return replace(body, examples(await queriesFor(app, memories), run));
      stopDrops = acceptFileDrops(head, (files) => importFiles(app, files, load));
      return replace(body, emptyStore(app, load));
    } catch (error) {
      return replace(body, el("p", { class: "note error", role: "alert" }, error.message),
        el("button", { type: "button", class: "button", onclick: load }, error.status === 401 ? "Enter a token" : "Try again"));
    }
  }

  function stop() {
    stopDrops();
    stopDrops = () => {};
  }

  return { head, body, load, stop };
}

async function queriesFor(app, memories) {
  return (await sampleQueries(app))?.slice(0, EXAMPLES) ?? openings(memories);
}

/** The first words of the newest memories, of different sessions where there are enough. */
function openings(memories) {
  const bySession = new Map();
  for (const memory of memories) {
    const words = memory.text.split(/[.!?;:\n]/)[0].trim().split(/\s+/);
    const key = JSON.stringify([memory.project, memory.session]);
    if (words.length >= MIN_WORDS && !bySession.has(key)) bySession.set(key, opening(words));
  }
  return [...new Set(bySession.values())].slice(0, EXAMPLES);
}

/** The first words, without short ones such as "of" at their end. */
function opening(words) {
  const first = words.slice(0, MAX_WORDS);
  while (first.length > MIN_WORDS && first.length < words.length && first.at(-1).length <= 3) first.pop();
  return first.join(" ");
}

function examples(queries, run) {
  return [
    el("p", {}, "Each hit shows how every ranking step changed its score, and each parameter of the ranking can be changed while you watch."),
    queries.length > 0 && el("h2", { class: "intro-examples" }, "For example"),
    el("ul", { class: "examples" }, queries.map((query) =>
      el("li", {}, el("button", { type: "button", class: "button", onclick: () => run(query) }, query)))),
  ];
}

/** The three ways to add memories; each one loads the intro again when it has added some. */
function emptyStore(app, onStored) {
  const filePicker = el("input", { type: "file", accept: ".jsonl,.ndjson,.json,application/json", multiple: true,
    class: "visually-hidden", tabindex: "-1", "aria-label": "File to import", onchange: () => importFiles(app, filePicker.files, onStored) });
  const stored = (count) => {
    app.toast(`${plural(count, "memory", "memories")} stored`);
    app.refreshScope();
    onStored();
  };
  const attempt = (action) => async () => {
    try {
      const count = await action();
      if (count) stored(count);
    } catch (error) {
      app.toast(errorText(error, "store memories"), { kind: "error" });
    }
  };
  return el("div", {}, noMemories({
    samples: attempt(() => loadSamples(app)),
    chooseFile: () => filePicker.click(),
    remember: attempt(async () => ((await openRememberForm(app, { projects: [], sessions: [] })) ? 1 : 0)),
  }), filePicker);
}
