/** Memories over time: a bar for each day, month or year. Selecting a bar, or dragging over several, lists only these. */

import { el, replace, svg } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { LONG_DATE, axisLabel, formatDate, formatPeriod, nextStart, withoutGaps } from "../shared/timeline.js";

const HEIGHT = 72;
const AXIS = 20;
const LABEL_WIDTH = 64;
const DAY = 86_400_000;

/** @param {App} app @param {(days: {since: ?string, until: ?string}) => void} period  called with the days that are selected */
export function createHistogram(app, period) {
  const about = el("span", { class: "quiet small" });
  const plot = el("div", { class: "histogram-plot" });
  const whole = el("button", { type: "button", class: "button quiet", onclick: () => period({ since: null, until: null }) }, "Whole time");
  const element = el("details", { class: "panel histogram", hidden: true, open: matchMedia("(min-width: 880px)").matches },
    el("summary", {}, el("h2", {}, "Memories over time"), about), plot,
    el("p", { class: "quiet small histogram-help" }, "Select a bar, or drag over several, to list only these memories.", whole));
  let by = "day";
  let buckets = [];
  let project;
  let named = null; // the period that the search names
  let anchor = null; // the bar where a drag began
  let pending = new AbortController();

  async function load() {
    pending.abort();
    pending = new AbortController();
    project = app.scope.value.project;
    try {
      const timeline = await app.api.get("v1/timeline", { project }, { signal: pending.signal });
      by = timeline.by;
      buckets = withoutGaps(timeline);
      draw();
    } catch (error) {
      if (error.name !== "AbortError") element.hidden = true; // the list shows what is wrong
    }
  }

  function draw() {
    element.hidden = buckets.length < 2;
    const width = plot.clientWidth;
    about.textContent = `${plural(buckets.reduce((sum, { memories }) => sum + memories, 0), "memory", "memories")} by ${by}`
      + (named ? ` · period: ${formatPeriod(named)}` : "");
    if (element.hidden || !element.open || !width) {
      replace(plot); // when it is opened, its width changes, and it is drawn
      return;
    }
    const [since, until] = ["since", "until"].map((name) => app.route.params.get(name));
    const top = Math.max(...buckets.map(({ memories }) => memories));
    const slot = width / buckets.length;
    const labelEvery = Math.ceil(LABEL_WIDTH / slot);
    whole.hidden = !since && !until;
    replace(plot, svg("svg", { width, height: HEIGHT + AXIS, role: "img", "aria-label": "Memories over time",
      onpointerdown: onDown, onpointermove: onMove, onpointerup: onUp, onpointercancel: () => mark(since, until) },
    named && band(slot), buckets.map(({ start, memories }, index) => {
      const height = memories && Math.max(2, (memories / top) * HEIGHT);
      return [
        svg("rect", { class: "histogram-bar", x: index * slot, y: HEIGHT - height, width: Math.max(1, slot - 1), height }),
        svg("rect", { class: "histogram-slot", x: index * slot, y: 0, width: slot, height: HEIGHT },
          svg("title", {}, `${formatDate(start, LONG_DATE[by])}: ${plural(memories, "memory", "memories")}`)),
        index % labelEvery === 0 && (index + labelEvery / 2) * slot < width
          && svg("text", { x: index * slot, y: HEIGHT + 14 }, axisLabel(start, by, index === 0)),
      ];
    })));
    mark(since, until);
  }

  /** The period that the search names, behind the bars. */
  function band(slot) {
    const [from, to] = [named.since, named.until].map((time) => place(Date.parse(time)) * slot);
    return to > from && svg("rect", { class: "histogram-band", x: from, y: 0, width: Math.max(2, to - from), height: HEIGHT + AXIS },
      svg("title", {}, `“${named.words}”: ${formatPeriod(named)}`));
  }

  /** Where a time is, in bars from the left. */
  function place(time) {
    const index = buckets.findLastIndex(({ start }) => Date.parse(start) <= time);
    if (index < 0) return 0;
    const [from, to] = [buckets[index].start, nextStart(buckets[index].start, by)].map((start) => Date.parse(start));
    return index + Math.min(1, (time - from) / (to - from));
  }

  const lastDay = ({ start }) => new Date(new Date(nextStart(start, by)).getTime() - DAY).toISOString().slice(0, 10);

  /** Show which bars are in a period. */
  function mark(since, until) {
    const isIn = (bucket) => (!since || lastDay(bucket) >= since) && (!until || bucket.start <= until);
    plot.querySelectorAll(".histogram-bar").forEach((bar, index) => bar.classList.toggle("out", !isIn(buckets[index])));
  }

  function dragged(event) {
    const { left, width } = plot.getBoundingClientRect();
    const at = Math.floor(((event.clientX - left) / width) * buckets.length);
    const index = Math.max(0, Math.min(at, buckets.length - 1));
    anchor ??= index;
    return { since: buckets[Math.min(anchor, index)].start, until: lastDay(buckets[Math.max(anchor, index)]) };
  }

  function onDown(event) {
    if (event.button !== 0) return;
    anchor = null;
    event.currentTarget.setPointerCapture(event.pointerId);
    onMove(event);
  }

  function onMove(event) {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const { since, until } = dragged(event);
    mark(since, until);
  }

  function onUp(event) {
    if (event.currentTarget.hasPointerCapture(event.pointerId)) period(dragged(event));
  }

  const observer = new ResizeObserver(() => {
    if (plot.querySelector("svg")?.clientWidth !== plot.clientWidth) draw();
  });
  observer.observe(plot);
  return {
    element,
    load,
    /** Show the period that a search names. @param {?NamedPeriod} period */
    showPeriod(period) {
      if (named === period) return;
      named = period;
      draw();
    },
    show: () => (project === app.scope.value.project ? draw() : load()),
    stop: () => {
      pending.abort();
      observer.disconnect();
    },
  };
}
