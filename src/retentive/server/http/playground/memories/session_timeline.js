/** Sessions over time: a lane for each project, a bar for each session. A bar opens its session; a dragged range filters. */

import { el, replace, svg, unique } from "../shared/dom.js";
import { dateRange, number, plural } from "../shared/format.js";
import { axisTicks, lanesOf, localDay } from "./timeline_layout.js";

const LABEL = 18;
const ROW = 8;
const GAP = 2;
const AXIS = 20;
const MIN_DRAG = 8;
const CHARACTER_WIDTH = 7;
const MIN_SPAN = 2 * 86_400_000; // at least one tick of the time axis is in it

/**
 * @param {App} app
 * @param {object} handlers
 * @param {(target: {project: ?string, session: string}) => void} handlers.open
 * @param {(days: {since: ?string, until: ?string}) => void} handlers.period
 */
export function createSessionTimeline(app, { open, period }) {
  const about = el("span", { class: "quiet small" });
  const plot = el("div", { class: "session-plot" });
  const tip = el("div", { class: "session-tip", hidden: true });
  const whole = el("button", { type: "button", class: "button quiet", onclick: () => period({ since: null, until: null }) }, "Whole time");
  const element = el("details", { class: "panel session-timeline", hidden: true, open: matchMedia("(min-width: 880px)").matches, ontoggle: draw },
    el("summary", {}, el("h2", {}, "Sessions over time"), about),
    el("div", { class: "session-plot-box" }, plot, tip),
    el("p", { class: "quiet small session-help" }, "Select a bar to open its session; drag over a period to list only that.", whole));
  let sessions = [];
  let shown = []; // the sessions with bars, in the order of time
  let scale = null;
  let active = -1;
  let drag = null;
  let chart = null;

  function show(names) {
    sessions = names.sessions.filter((session) => session.first);
    draw();
  }

  function draw() {
    element.hidden = sessions.length < 2;
    const width = plot.clientWidth;
    if (element.hidden || !element.open || !width) return;
    const { project, session } = app.scope.value;
    const [since, until] = ["since", "until"].map((name) => app.route.params.get(name));
    const inScope = sessions.filter((each) => !project || each.project === project);
    const times = inScope.flatMap(({ first, last }) => [new Date(first).getTime(), new Date(last).getTime()]);
    const start = since ? new Date(`${since}T00:00:00`).getTime() : times.reduce((a, b) => Math.min(a, b), Date.now());
    const end = until ? new Date(`${until}T23:59:59`).getTime() : times.reduce((a, b) => Math.max(a, b), start);
    const margin = Math.max((end - start) * 0.01, 3_600_000, (MIN_SPAN - (end - start)) / 2);
    scale = { start: start - margin, span: end - start + 2 * margin, width };
    whole.hidden = !since && !until;
    const layout = lanesOf(inScope, scale);
    shown = layout.lanes.flatMap(({ bars }) => bars).sort((a, b) => a.x - b.x);
    about.textContent = [plural(shown.length, "session"), layout.hidden && `${plural(layout.hidden, "project")} more`].filter(Boolean).join(" · ");
    active = -1;
    replace(plot, chartOf(layout.lanes, session));
  }

  function chartOf(lanes, current) {
    const most = shown.reduce((top, bar) => Math.max(top, bar.session.memories), 1);
    let y = AXIS;
    const parts = lanes.map((lane) => {
      const top = y;
      y += LABEL + lane.rows * (ROW + GAP) + 4;
      return [
        svg("text", { x: 0, y: top + 13, class: "session-lane" }, svg("title", {}, lane.name ?? "No project"), shortened(lane.name ?? "No project"),
          svg("tspan", { class: "session-lane-count" }, `  ${number(lane.bars.length)}`)),
        lane.bars.map((bar) => barOf(bar, top + LABEL, most, current)),
      ];
    });
    const ticks = axisTicks(scale);
    chart = svg("svg", { class: "session-chart", width: scale.width, height: y, role: "listbox", tabindex: "0", "aria-label": "Sessions over time",
      onkeydown: onKey, onblur: () => (tip.hidden = true), onpointermove: onMove, onpointerleave: onLeave, onpointerdown: onDown, onpointerup: onUp },
    ticks.map(({ x, label }) => [svg("line", { class: "session-grid", x1: x, x2: x, y1: 0, y2: y }), svg("text", { class: "session-tick", x: x + 4, y: 12 }, label)]),
    parts);
    return chart;
  }

  /** A name that fits into the chart, with the number of its sessions. */
  function shortened(name) {
    const most = Math.floor(scale.width / CHARACTER_WIDTH) - 8;
    return name.length > most ? `${name.slice(0, most - 1)}…` : name;
  }

  function barOf(bar, top, most, current) {
    const { session } = bar;
    const strength = 0.3 + 0.7 * (Math.log1p(session.memories) / Math.log1p(most));
    bar.element = svg("rect", { class: session.name === current ? "session-bar current" : "session-bar", role: "option", id: unique("session"),
      "aria-selected": String(session.name === current), "aria-label": sentence(session), "data-session": session.name,
      x: bar.x, y: top + bar.row * (ROW + GAP), width: bar.width, height: ROW, rx: 2, "fill-opacity": strength.toFixed(2) });
    return bar.element;
  }

  const sentence = ({ name, memories, first, last }) => `${name}, ${plural(memories, "memory", "memories")}, ${dateRange(first, last)}`;

  function showTip(bar) {
    tip.hidden = !bar;
    if (!bar) return;
    const { session } = bar;
    replace(tip, el("strong", {}, session.name), el("span", {}, session.project ?? "No project"),
      el("span", {}, `${plural(session.memories, "memory", "memories")}, ${dateRange(session.first, session.last)}`));
    tip.style.left = `${Math.max(0, Math.min(bar.x, scale.width - tip.offsetWidth))}px`;
    tip.style.top = `${Number(bar.element.getAttribute("y")) + ROW + 6}px`;
  }

  const barAt = (target) => shown.find((bar) => bar.element === target) ?? null;

  function onMove(event) {
    if (!drag) {
      showTip(barAt(event.target));
      return;
    }
    const x = xOf(event);
    const [left, right] = [Math.min(drag.x, x), Math.max(drag.x, x)];
    if (right - left < MIN_DRAG && !drag.box) return;
    drag.box ??= chart.appendChild(svg("rect", { class: "session-brush", y: 0, height: chart.getAttribute("height") }));
    drag.box.setAttribute("x", String(left));
    drag.box.setAttribute("width", String(right - left));
    tip.hidden = true;
  }

  function onLeave() {
    if (!drag) tip.hidden = true;
  }

  function onDown(event) {
    if (event.button !== 0) return;
    drag = { x: xOf(event), bar: barAt(event.target), box: null };
    chart.setPointerCapture(event.pointerId);
  }

  function onUp(event) {
    const done = drag;
    drag = null;
    if (!done) return;
    if (done.box) {
      const times = [done.x, xOf(event)].sort((a, b) => a - b).map((x) => scale.start + (x / scale.width) * scale.span);
      done.box.remove();
      period({ since: localDay(times[0]), until: localDay(times[1]) });
    } else if (done.bar) {
      openBar(done.bar);
    }
  }

  const xOf = (event) => Math.max(0, Math.min(event.clientX - chart.getBoundingClientRect().left, scale.width));
  const openBar = ({ session }) => open({ project: session.project, session: session.name });

  function onKey(event) {
    const target = { ArrowRight: active + 1, ArrowDown: active + 1, ArrowLeft: active - 1, ArrowUp: active - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (event.key === "Enter" && shown[active]) {
      openBar(shown[active]);
    } else if (target !== undefined && shown.length) {
      event.preventDefault();
      shown[active]?.element.classList.remove("active");
      active = Math.max(0, Math.min(target, shown.length - 1));
      shown[active].element.classList.add("active");
      chart.setAttribute("aria-activedescendant", shown[active].element.id);
      showTip(shown[active]);
    }
  }

  const observer = new ResizeObserver(() => plot.clientWidth !== scale?.width && draw());
  observer.observe(plot);
  return { element, show, draw, stop: () => observer.disconnect() };
}
