/** Status: what is remembered over time, what the service is made of, what recall lacks, how quick it is. */

import { el, replace } from "./dom.js";
import { noMemories } from "./memory_states.js";
import { KINDS } from "./scope.js";
import { latencyTable, milliseconds } from "./status_latency.js";
import { kindMark, timelineChart, timelineTable } from "./status_timeline.js";
import { counted, instantOf, lasting, number } from "./times.js";

export const title = "Status";

const EVERY_MS = 5000;

export function mount(root, app) {
  const parts = {
    notes: el("div", { class: "status-notes" }),
    figures: el("dl", { class: "status-figures" }),
    timeline: el("div", { class: "timeline-place" }),
    legend: el("ul", { class: "timeline-legend" }),
    table: el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of memories over time" }),
    latency: el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of stages" }),
    made: el("dl", { class: "facts" }),
    degraded: el("div", {}),
  };
  const asOf = el("p", { class: "quiet small" }, "Loading…");
  const details = el("details", { class: "timeline-table" }, el("summary", {}, "As a table"), parts.table);
  const view = el("div", { class: "status" },
    el("div", { class: "status-top" }, el("h1", {}, "Status"), asOf),
    parts.notes, parts.figures,
    el("section", { class: "panel status-wide", "aria-labelledby": "status-timeline" },
      el("div", { class: "panel-top" }, el("h2", { id: "status-timeline" }, "Memories over time"), parts.legend),
      parts.timeline, details),
    el("section", { class: "panel", "aria-labelledby": "status-latency" },
      el("div", { class: "panel-top" }, el("h2", { id: "status-latency" }, "Recall by stage"),
        el("p", { class: "quiet small" }, "thick to the median, thin to p95")),
      parts.latency),
    el("section", { class: "panel", "aria-labelledby": "status-made" },
      el("div", { class: "panel-top" }, el("h2", { id: "status-made" }, "What it is made of")), parts.made,
      el("h2", { class: "status-second" }, "Degraded recalls"), parts.degraded));
  let timeline = null;
  let shown = {};
  let timer = 0;
  let asked = 0;

  async function refresh() {
    clearTimeout(timer);
    const mine = (asked += 1);
    try {
      const { project } = app.scope.value;
      const [status, next] = await Promise.all([app.api.get("v1/status"), app.api.get("v1/timeline", { project })]);
      if (mine !== asked) return;
      show(status, next);
      wait();
    } catch (problem) {
      if (mine !== asked) return;
      fail(problem);
    }
  }

  function wait() {
    clearTimeout(timer);
    timer = setTimeout(() => document.visibilityState === "visible" && refresh(), EVERY_MS);
  }

  function show(status, next) {
    view.classList.remove("waiting");
    asOf.textContent = `As of ${instantOf(Date.now())}, looked at again every 5 seconds`;
    timeline = next;
    draw("notes", [status.degraded, status.degradedReason, status.unembedded], () => notes(status));
    draw("figures", [status, next], () => figures(status));
    draw("timeline", [next, status.memories > 0], () => (next.buckets.length ? timelineChart(next, width()) : none(status)));
    draw("legend", next, () => legend(next));
    draw("table", next, () => timelineTable(next));
    draw("latency", status.latency, () => (status.latency.whole ? latencyTable(status.latency) : noRecalls(app)));
    draw("made", status, () => madeOf(status));
    draw("degraded", [status.degradedRecalls, status.recalls], () => degradedRecalls(status));
    details.hidden = !next.buckets.length;
  }

  function none({ memories }) {
    if (!memories) return noMemories({ remember: () => app.go("#/memories") });
    return el("p", { class: "state" }, "No memory is in this project.");
  }

  // What has not changed is not drawn again, so that it can be read, selected and hovered in peace.
  function draw(part, value, build) {
    const key = JSON.stringify(value);
    if (shown[part] === key) return;
    shown[part] = key;
    replace(parts[part], build());
  }

  function fail(problem) {
    const isToken = problem.status === 401 || problem.status === 403;
    asOf.textContent = timeline ? `${asOf.textContent.split(",")[0]}; older than it should be` : "";
    shown.notes = null;
    replace(parts.notes, el("div", { class: "note error status-problem", role: "alert" },
      el("h2", {}, isToken ? "A token is needed" : "The service cannot be asked"),
      el("p", {}, problem.detail ?? String(problem)),
      el("button", { type: "button", class: "button", onclick: refresh }, isToken ? "Enter a token" : "Try again")));
    if (!isToken) wait();
  }

  const width = () => Math.max(240, Math.floor(parts.timeline.clientWidth));
  const resized = new ResizeObserver(() => {
    if (timeline?.buckets.length && Number(parts.timeline.firstChild?.getAttribute?.("width")) !== width()) {
      replace(parts.timeline, timelineChart(timeline, width()));
    }
  });
  const seen = () => document.visibilityState === "visible" && refresh();
  view.classList.add("waiting");
  root.append(view);
  resized.observe(parts.timeline);
  document.addEventListener("visibilitychange", seen);
  const endScope = app.scope.onChange(refresh);
  refresh();

  return () => {
    asked += 1;
    clearTimeout(timer);
    resized.disconnect();
    endScope();
    document.removeEventListener("visibilitychange", seen);
  };
}

function notes(status) {
  return [
    status.degraded && el("div", { class: "note warn status-problem" },
      el("h2", {}, "Recall finds by words alone"),
      el("p", {}, status.degradedReason ?? "The embedder cannot be used now."),
      el("p", {}, "What to do: ", el("code", {}, "retentive doctor"), " finds the cause; if the model is another one than before, ",
        el("code", {}, "retentive reembed"), " makes the vectors anew.")),
    status.unembedded > 0 && el("div", { class: "note warn status-problem" },
      el("h2", {}, `${counted(status.unembedded, "memory waits", "memories wait")} for a vector`),
      el("p", {}, "Until then they are found by their words alone. ", el("code", {}, "retentive reembed"), " makes up for it.")),
  ];
}

function figures(status) {
  const all = [
    ["Memories", number(status.memories)],
    ["Recalls", status.recalls === null ? null : number(status.recalls), "since the start"],
    ["Median recall", status.latency.whole && `${milliseconds(status.latency.whole.p50)} ms`],
    ["p95 recall", status.latency.whole && `${milliseconds(status.latency.whole.p95)} ms`],
    ["Errors", status.errors === null ? null : number(status.errors), "since the start"],
    ["Up for", lasting(status.uptimeSeconds)],
  ];
  return all.filter(([, value]) => value !== null).map(([name, value, note]) => el("div", { class: "status-figure" },
    el("dt", {}, name), el("dd", {}, el("span", { class: "mono" }, value), note && el("span", { class: "quiet small" }, note))));
}

function legend({ buckets }) {
  return KINDS.map((kind) => {
    const total = buckets.reduce((sum, bucket) => sum + (bucket.byKind[kind] ?? 0), 0);
    return el("li", {}, kindMark(kind), kind, el("span", { class: "mono quiet" }, number(total)));
  });
}

function madeOf(status) {
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

function degradedRecalls({ degradedRecalls: kinds, recalls }) {
  if (kinds === null) return el("p", { class: "quiet small" }, "Counted for everybody together, so not shown to a token.");
  const rows = Object.entries(kinds);
  if (!rows.length) {
    const told = recalls ? `None of ${counted(recalls, "recall", "recalls")} since the start.` : "None: there was no recall yet.";
    return el("p", { class: "small" }, told);
  }
  return el("table", { class: "figures" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "what it was"),
      el("th", { scope: "col", class: "number" }, `of ${number(recalls)}`))),
    el("tbody", {}, rows.map(([kind, count]) => el("tr", {}, el("th", { scope: "row" }, kind),
      el("td", { class: "number" }, number(count))))));
}

function noRecalls(app) {
  return el("p", { class: "state" }, "No recall yet since the start. ",
    el("button", { type: "button", class: "button", onclick: () => app.go("#/recall") }, "Ask something"));
}
