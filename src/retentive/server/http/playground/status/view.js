/** The Status view: memories over time, recall latency, model and store, degraded recalls, what was given, and tokens. */

import { commandCode, withStore } from "../shared/commands.js";
import { el, replace } from "../shared/dom.js";
import { noMemories } from "../shared/empty_states.js";
import { clockWithSeconds, duration, number, plural, sentence, uptime } from "../shared/format.js";
import { latencyTable, timelineChart, timelineLegend, timelineTable } from "./charts.js";
import { createGivenPanel } from "./given.js";
import { createTokensPanel } from "./tokens.js";

export const title = "Status";

const REFRESH_MS = 5000;

export function mount(root, app) {
  const parts = {
    notes: el("div", { class: "status-notes" }),
    figures: el("dl", { class: "status-figures" }),
    timeline: el("div", { class: "timeline-slot" }),
    legend: el("ul", { class: "timeline-legend" }),
    table: el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of memories over time" }),
    latency: el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of latencies" }),
    model: el("dl", { class: "facts" }),
    degraded: el("div", {}),
  };
  const tokens = createTokensPanel(app);
  const given = createGivenPanel(app);
  const updated = el("p", { class: "quiet small" }, "Loading…");
  const details = el("details", { class: "timeline-table" }, el("summary", {}, "Show as table"), parts.table);
  const view = el("div", { class: "status waiting" },
    el("div", { class: "status-top" }, el("h1", {}, "Status"), updated),
    parts.notes, parts.figures,
    el("section", { class: "panel status-wide", "aria-labelledby": "status-timeline" },
      el("div", { class: "panel-top" }, el("h2", { id: "status-timeline" }, "Memories over time"), parts.legend),
      parts.timeline, details),
    el("section", { class: "panel", "aria-labelledby": "status-latency" },
      el("div", { class: "panel-top" }, el("h2", { id: "status-latency" }, "Recall latency by stage"),
        el("p", { class: "quiet small" }, "bar: median; line: p95 (log scale)")),
      parts.latency),
    el("section", { class: "panel", "aria-labelledby": "status-model" },
      el("div", { class: "panel-top" }, el("h2", { id: "status-model" }, "Model and store")), parts.model,
      el("h2", { class: "status-second" }, "Degraded recalls"), parts.degraded),
    given.element, tokens.element);
  let timeline = null;
  let lastUpdate = "";
  let shown = {};
  let timer = 0;
  let latestRequest = 0;

  async function refresh() {
    clearTimeout(timer);
    const request = (latestRequest += 1);
    try {
      const { project } = app.scope.value;
      const [status, nextTimeline] = await Promise.all([app.api.get("v1/status"), app.api.get("v1/timeline", { project })]);
      if (request !== latestRequest) return;
      show(status, nextTimeline);
      scheduleRefresh();
    } catch (error) {
      if (request === latestRequest) showError(error);
    }
  }

  function scheduleRefresh() {
    clearTimeout(timer);
    timer = setTimeout(() => document.visibilityState === "visible" && refresh(), REFRESH_MS);
  }

  function show(status, nextTimeline) {
    view.classList.remove("waiting");
    timeline = nextTimeline;
    lastUpdate = clockWithSeconds(Date.now());
    updated.textContent = `Updated at ${lastUpdate}; refreshes every ${REFRESH_MS / 1000} seconds`;
    draw("notes", [status.degraded, status.degradedReason, status.unembedded], () => notes(status));
    draw("figures", status, () => figures(status));
    draw("timeline", [timeline, status.memories > 0],
      () => (timeline.buckets.length ? timelineChart(timeline, width()) : noTimeline(status)));
    draw("legend", timeline, () => timelineLegend(timeline));
    draw("table", timeline, () => timelineTable(timeline));
    draw("latency", status.latency, () => (status.latency.whole ? latencyTable(status.latency) : noRecalls(app)));
    draw("model", status, () => modelFacts(status));
    draw("degraded", [status.degradedRecalls, status.recalls], () => degradedRecalls(status));
    tokens.show(status.access === "admin");
    details.hidden = !timeline.buckets.length;
  }

  // A part whose data has not changed is not redrawn, so that a selection or a tooltip in it stays.
  function draw(part, data, build) {
    const key = JSON.stringify(data);
    if (shown[part] === key) return;
    shown[part] = key;
    replace(parts[part], build());
  }

  function noTimeline({ memories }) {
    if (!memories) return noMemories({ remember: () => app.go("#/memories") });
    return el("p", { class: "state" }, "This project has no memories.");
  }

  function showError(error) {
    const needsToken = error.status === 401 || error.status === 403;
    updated.textContent = lastUpdate ? `Last updated at ${lastUpdate}` : "";
    shown.notes = null;
    replace(parts.notes, el("div", { class: "note error status-problem", role: "alert" },
      el("h2", {}, needsToken ? "Token required" : "The status is not available"),
      el("p", {}, error.message),
      el("button", { type: "button", class: "button", onclick: refresh }, needsToken ? "Enter a token" : "Try again")));
    if (!needsToken) scheduleRefresh();
  }

  const width = () => Math.max(240, Math.floor(parts.timeline.clientWidth));
  const resizeObserver = new ResizeObserver(() => {
    if (timeline?.buckets.length && Number(parts.timeline.firstElementChild?.getAttribute("width")) !== width()) {
      replace(parts.timeline, timelineChart(timeline, width()));
    }
  });
  const onVisible = () => document.visibilityState === "visible" && refresh();
  root.append(view);
  resizeObserver.observe(parts.timeline);
  document.addEventListener("visibilitychange", onVisible);
  const start = () => {
    refresh();
    given.load();
  };
  const removeListener = app.scope.onChange(start);
  start();

  return () => {
    latestRequest += 1;
    clearTimeout(timer);
    resizeObserver.disconnect();
    removeListener();
    document.removeEventListener("visibilitychange", onVisible);
  };
}

function notes(status) {
  return [
    status.degraded && el("div", { class: "note warn status-problem" },
      el("h2", {}, "Recall is degraded: keyword retriever only"),
      el("p", {}, withStore(sentence(status.degradedReason ?? "The embedder is not available."))),
      el("p", {}, commandCode("doctor"), " finds the cause. If the embedding model has changed, ",
        commandCode("reembed"), " recomputes the vectors.")),
    status.unembedded > 0 && el("div", { class: "note warn status-problem" },
      el("h2", {}, plural(status.unembedded, "memory has no vector", "memories have no vector")),
      el("p", {}, "Only the keyword retriever finds them. ", commandCode("reembed"), " computes the missing vectors.")),
  ];
}

function figures(status) {
  const { whole } = status.latency;
  const rows = [
    ["Memories", number(status.memories)],
    ["Recalls", status.recalls === null ? null : number(status.recalls), "since startup"],
    ["Median recall", whole && duration(whole.p50)],
    ["p95 recall", whole && duration(whole.p95)],
    ["Errors", status.errors === null ? null : number(status.errors), "since startup"],
    ["Uptime", uptime(status.uptimeSeconds)],
  ];
  return rows.filter(([, value]) => value !== null).map(([name, value, note]) => el("div", { class: "status-figure" },
    el("dt", {}, name), el("dd", {}, el("span", { class: "mono" }, value), note && el("span", { class: "quiet small" }, note))));
}

function modelFacts(status) {
  const rows = [
    ["Embedder", status.embedder],
    ["Model", status.model?.name ?? "none yet"],
    ["Dimensions", status.model && number(status.model.dimension)],
    ["Revision", status.model?.revision],
    ["Fingerprint", status.model && el("code", {}, status.model.fingerprint)],
    ["Store", el("code", {}, status.store)],
    ["No vector", status.unembedded === null ? null : number(status.unembedded)],
    ["Profile", status.profile],
    ["Version", el("code", {}, status.version)],
  ];
  return rows.filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}

function degradedRecalls({ degradedRecalls: counts, recalls }) {
  if (counts === null) return el("p", { class: "quiet small" }, "Not available.");
  const rows = Object.entries(counts);
  if (!rows.length) {
    return el("p", { class: "small" }, recalls ? `None of ${plural(recalls, "recall")} since startup.` : "No recalls since startup.");
  }
  return el("table", { class: "figures" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Degradation"),
      el("th", { scope: "col", class: "number" }, `of ${plural(recalls, "recall")}`))),
    el("tbody", {}, rows.map(([degradation, count]) => el("tr", {}, el("th", { scope: "row" }, degradation),
      el("td", { class: "number" }, number(count))))));
}

function noRecalls(app) {
  return el("p", { class: "state" }, "No recalls since startup. ",
    el("button", { type: "button", class: "button", onclick: () => app.go("#/recall") }, "Open Recall"));
}
