/** Relevance judgements on hits, quality metrics on the judged queries, and the search for better parameters. */

import { errorText } from "../shared/api.js";
import { el, replace, svg } from "../shared/dom.js";
import { plural, sentenceCase, signed } from "../shared/format.js";

const DEBOUNCE_MS = 250;
const POLL_MS = 1000;
/** Smaller differences are not coloured: they round to 0.000. */
const EPSILON = 0.0005;

/**
 * The rating buttons of hits.
 * @param {App} app
 * @param {() => {query: string, project: ?string, askedAt?: string}} current  the query that is rated
 * @param {() => void} onRate
 * @param {ParentNode} root  has the buttons
 */
export function createRatings(app, current, onRate, root = document) {
  let ratings = new Map(); // memory id → whether it is relevant

  /** Load the judgements of the current query. */
  async function load() {
    const { project } = current();
    const { judgements } = await app.api.get("v1/judgements", { project });
    use(judgements);
  }

  /** Show those of some judgements that are of the current query. */
  function use(judgements) {
    const { query, project } = current();
    const own = judgements.filter((each) => each.query === query.trim() && each.project === (project ?? null));
    ratings = new Map(own.map(({ memory, relevance }) => [memory, relevance > 0]));
    showAll();
  }

  function showAll() {
    for (const buttons of root.querySelectorAll(".rating")) show(buttons);
  }

  function show(buttons) {
    for (const button of buttons.children) {
      const isPressed = ratings.get(buttons.dataset.memory) === (button.dataset.relevant === "true");
      button.setAttribute("aria-pressed", String(isPressed));
    }
  }

  /** Save a judgement; pressing the same button again removes it. */
  async function rate(memory, relevant) {
    const { query, project, askedAt } = current();
    const scope = project ? { project } : {};
    try {
      if (ratings.get(memory) === relevant) {
        await app.api.delete("v1/judgements", { query, memory, ...scope });
        ratings.delete(memory);
      } else {
        await app.api.post("v1/judgements", { query, [relevant ? "good" : "bad"]: [memory], askedAt, ...scope });
        ratings.set(memory, relevant);
      }
    } catch (error) {
      app.toast(errorText(error, "save judgements"), { kind: "error" });
    }
    showAll();
    onRate();
  }

  /** The two buttons of a hit. */
  function buttons(hit) {
    const button = (relevant, label) => el("button", {
      type: "button", class: "button icon thumb", "data-relevant": String(relevant), "aria-pressed": "false", "aria-label": label,
      title: label, onclick: () => rate(hit.id, relevant),
    }, thumbIcon({ down: !relevant }));
    const element = el("div", { class: "rating", role: "group", "aria-label": "Judge this hit", dataset: { memory: hit.id } },
      button(true, "Relevant"), button(false, "Not relevant"));
    show(element);
    return element;
  }

  return { load, use, buttons };
}

function thumbIcon({ down }) {
  const d = "M6 9v8H3V9zM6 9l3-6c1.4 0 2 .9 2 2v3h4.4c1 0 1.7.9 1.5 1.9l-1.1 5.6c-.2.9-.9 1.5-1.8 1.5H6z";
  return svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true", class: "thumb-icon",
    transform: down ? "rotate(180)" : null }, svg("path", { d, "stroke-width": 1.5, "stroke-linejoin": "round" }));
}

/**
 * The panel with the metrics of the saved tuning and of the unsaved changes.
 * @param {App} app
 * @param {object} handlers
 * @param {() => Tuning} handlers.unsaved  the unsaved changes of the tuning
 * @param {(parameters: Tuning) => void} handlers.apply  make parameters unsaved changes
 * @param {() => void} handlers.onSave  called when parameters were saved here
 * @param {(query: string) => void} handlers.run  recall a query
 */
export function createEvaluationPanel(app, { unsaved, apply, onSave, run }) {
  const body = el("div", { class: "evaluation-body", "aria-live": "polite" });
  const search = createParameterSearch(app, { apply, onSave });
  const element = el("section", { class: "panel evaluation", "aria-label": "Evaluation" },
    el("div", { class: "panel-top" }, el("h2", {}, "Evaluation")), body, search.element);
  let running = false;
  let rerun = false;
  let timer = 0;

  /** Evaluate after a short delay. An evaluation recalls every judged query, so only one runs at a time. */
  function refresh() {
    clearTimeout(timer);
    timer = setTimeout(evaluate, DEBOUNCE_MS);
  }

  async function evaluate() {
    rerun = running;
    if (running) return;
    running = true;
    element.setAttribute("aria-busy", "true");
    await evaluateOnce();
    element.setAttribute("aria-busy", "false");
    running = false;
    if (rerun) evaluate();
  }

  async function evaluateOnce() {
    const parameters = unsaved();
    const hasChanges = Object.keys(parameters).length > 0;
    try {
      const result = await measure(app, parameters);
      replace(body, result.n ? [metricsTable(result, hasChanges), queryList(result, hasChanges, run)]
        : el("p", { class: "quiet" }, "Judge hits to see quality metrics for your own queries: ",
          "press the thumb up at a hit that answers the query."));
      search.setAvailable(result.n > 0);
    } catch (error) {
      replace(body, el("p", { class: "note error" }, error.message));
      search.setAvailable(false);
    }
  }

  return {
    element,
    refresh,
    stop() {
      clearTimeout(timer);
      search.stop();
    },
  };
}

/**
 * Measure the saved tuning and the unsaved changes on the judged queries of the project in scope.
 * @param {App} app
 * @param {Tuning} unsaved
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<Measured>}
 */
export function measure(app, unsaved, options) {
  const { project } = app.scope.value;
  const b = Object.keys(unsaved).length ? unsaved : null;
  return app.api.post("v1/measure", { a: null, b, ...(project && { project }) }, options);
}

/** The metrics of the saved tuning and, if there are changes, of the unsaved one and the difference. */
export function metricsTable({ metrics, a, b, sentence, degraded, degradedReason }, hasChanges) {
  const row = (name, values) => el("tr", {}, el("th", { scope: "row" }, name),
    metrics.map((metric) => el("td", { class: "number" }, values[metric].toFixed(3))));
  return [
    el("table", { class: "figures metrics" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Tuning"),
        metrics.map((name) => el("th", { scope: "col", class: "number" }, name)))),
      el("tbody", {}, row("Saved", a), hasChanges && row("Unsaved", b),
        hasChanges && el("tr", { class: "difference" }, el("th", { scope: "row" }, "Difference"),
          metrics.map((metric) => el("td", { class: `number ${signClass(b[metric] - a[metric])}` }, signed(b[metric] - a[metric])))))),
    el("p", { class: "small quiet" }, `Mean over ${sentence}.`),
    degraded && el("p", { class: "note warn" }, `Degraded: ${degraded}. ${degradedReason ?? ""}`),
  ];
}

function queryList({ metrics, queries }, hasChanges, run) {
  return el("details", { class: "per-query", open: queries.length <= 5 }, el("summary", { class: "small" }, `${metrics[0]} by query`),
    el("ul", {}, queries.map((each) => queryRow(each, metrics[0], hasChanges, run))));
}

function signClass(difference) {
  return difference > EPSILON ? "better" : difference < -EPSILON ? "worse" : "";
}

function queryRow({ query, relevant, a, b }, metric, hasChanges, run) {
  const difference = b[metric] - a[metric];
  return el("li", { class: "judged-query" },
    el("button", { type: "button", class: "judged-query-text", onclick: () => run(query),
      title: `Recall this query (${plural(relevant, "relevant memory", "relevant memories")})` }, query),
    el("span", { class: "mono small" }, a[metric].toFixed(3)),
    hasChanges && el("span", { class: `mono small ${signClass(difference)}`, title: `Change of ${metric} with the unsaved changes` },
      signed(difference)));
}

/** The search for better parameters on the judged queries; it runs in the service, and this polls its progress. */
function createParameterSearch(app, { apply, onSave }) {
  const start = el("button", { type: "button", class: "button", onclick: () => update(() => app.api.post("v1/tune", {})) },
    "Find better parameters");
  const body = el("div", { class: "search-body", "aria-live": "polite" });
  const element = el("div", { class: "parameter-search", hidden: true }, start, body);
  let timer = 0;
  let stopped = false;

  async function update(request) {
    clearTimeout(timer);
    try {
      show(await request());
    } catch (error) {
      start.disabled = false;
      replace(body, el("p", { class: "note" }, errorText(error, "search for parameters")));
    }
  }

  function show(progress) {
    if (stopped) return;
    const isRunning = progress.state === "running";
    start.disabled = isRunning;
    if (isRunning) {
      showProgress(progress);
      timer = setTimeout(() => update(() => app.api.get("v1/tune")), POLL_MS);
    } else if (progress.state === "failed") replace(body, el("p", { class: "note error" }, progress.detail));
    else if (progress.state === "stopped") replace(body, el("p", { class: "quiet small" }, "Stopped."));
    else if (progress.state === "done") replace(body, searchResult(progress.result, { apply, save }));
    else replace(body);
  }

  function showProgress({ stage, done, total }) {
    if (!body.querySelector("progress")) {
      replace(body, el("p", { class: "small search-stage" }), el("div", { class: "search-line" },
        el("progress", { "aria-label": "Parameter search" }),
        el("button", { type: "button", class: "button", onclick: () => update(() => app.api.delete("v1/tune")) }, "Stop")));
    }
    body.querySelector(".search-stage").textContent = total ? `${stage}, ${done} of ${total}` : stage;
    const bar = body.querySelector("progress");
    if (total) Object.assign(bar, { max: total, value: done });
    else bar.removeAttribute("value");
  }

  async function save(parameters) {
    try {
      await app.api.patch("settings", parameters);
      replace(body);
      app.toast(`Saved ${plural(Object.keys(parameters).length, "parameter")}`);
      onSave();
    } catch (error) {
      app.toast(error.message, { kind: "error" });
    }
  }

  /** Show the search when there are judged queries, with the progress of one that already runs. */
  function setAvailable(available) {
    if (available && element.hidden) update(() => app.api.get("v1/tune"));
    element.hidden = !available;
  }

  return {
    element,
    setAvailable,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

function searchResult({ verdict, metric, heldOut, parameters, tunings, n }, { apply, save }) {
  const gain = heldOut[metric];
  const names = Object.keys(parameters);
  const values = Object.fromEntries(names.map((name) => [name, parameters[name].after]));
  const isBetter = verdict === "better";
  return [
    el("p", { class: isBetter ? "note good" : "note" }, isBetter
      ? `Better on held-out queries: ${metric} ${gain.before.toFixed(3)} → ${gain.after.toFixed(3)}.`
      : "No significant improvement over the saved tuning."),
    gain && el("p", { class: "small quiet" },
      `${signed(gain.gain)} ${metric} (95 % interval ${gain.gainInterval.map(signed).join(" to ")}); `,
      `${plural(tunings, "tuning")} evaluated on ${plural(n, "query", "queries")}.`),
    names.length > 0 && el("table", { class: "figures" }, el("tbody", {}, names.map((name) => el("tr", {},
      el("th", { scope: "row" }, sentenceCase(name)),
      el("td", { class: "number" }, `${parameters[name].before} → ${parameters[name].after}`))))),
    names.length > 0 && el("div", { class: "search-line" },
      el("button", { type: "button", class: "button", onclick: () => apply(values) }, "Try these values"),
      isBetter && el("button", { type: "button", class: "button primary", onclick: () => save(values) }, "Save these values")),
  ];
}
