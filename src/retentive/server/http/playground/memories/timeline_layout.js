/** Positions of the sessions and of the time axis in the session timeline. */

import { byName } from "../shared/format.js";

const MIN_WIDTH = 5;
const MAX_LANES = 8;
const MAX_ROWS = 6;
const TICK_WIDTH = 96;
const DAY = 86_400_000;
/** @type {[string, number][]} */
const STEPS = [["day", 1], ["day", 2], ["day", 7], ["day", 14], ["month", 1], ["month", 3], ["month", 6], ["year", 1], ["year", 2], ["year", 5], ["year", 10]];
const LENGTHS = { day: DAY, month: 30 * DAY, year: 365 * DAY };
const FORMATS = {
  day: new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" }),
  month: new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" }),
  year: new Intl.DateTimeFormat(undefined, { year: "numeric" }),
};

/**
 * A lane for each project, the largest first, with a bar for each session that is within the scale. Bars that overlap
 * are in different rows, as far as there are rows.
 * @param {SessionSummary[]} sessions
 * @param {{start: number, span: number, width: number}} scale
 */
export function lanesOf(sessions, scale) {
  const byProject = Map.groupBy(sessions, ({ project }) => project);
  const total = (group) => group.reduce((sum, session) => sum + session.memories, 0);
  const order = [...byProject].sort(([a, one], [b, other]) => Number(a === null) - Number(b === null) || total(other) - total(one)
    || byName({ name: a ?? "" }, { name: b ?? "" }));
  const lanes = order.slice(0, MAX_LANES).map(([name, group]) => lane(name, group, scale)).filter(({ bars }) => bars.length);
  return { lanes, hidden: Math.max(0, order.length - MAX_LANES) };
}

function lane(name, group, { start, span, width }) {
  const x = (time) => ((new Date(time).getTime() - start) / span) * width;
  const ends = [];
  const bars = [];
  for (const session of [...group].sort((a, b) => (a.first < b.first ? -1 : 1))) {
    const [left, right] = [Math.max(0, x(session.first)), Math.min(width, x(session.last))];
    if (right < 0 || left > width) continue;
    const bar = { session, x: Math.min(left, width - MIN_WIDTH), width: Math.max(MIN_WIDTH, right - left), row: 0 };
    const free = ends.findIndex((end) => end + 1 < bar.x);
    bar.row = free >= 0 ? free : ends.length < MAX_ROWS ? ends.length : ends.indexOf(Math.min(...ends));
    ends[bar.row] = bar.x + bar.width;
    bars.push(bar);
  }
  return { name, bars, rows: Math.max(1, ends.length) };
}

/** The ticks of the time axis, at the starts of days, months or years. */
export function axisTicks({ start, span, width }) {
  const [unit, step] = STEPS.find(([name, count]) => (LENGTHS[name] * count * width) / span >= TICK_WIDTH) ?? STEPS.at(-1);
  const ticks = [];
  for (let at = firstTick(new Date(start), unit, step); at.getTime() < start + span; at = nextTick(at, unit, step)) {
    const x = ((at.getTime() - start) / span) * width;
    if (x >= 0 && x < width - TICK_WIDTH / 2) ticks.push({ x: Math.round(x) + 0.5, label: FORMATS[unit].format(at) });
  }
  return ticks;
}

function firstTick(date, unit, step) {
  if (unit === "year") return new Date(Math.ceil(date.getFullYear() / step) * step, 0, 1);
  if (unit === "month") return new Date(date.getFullYear(), Math.ceil(date.getMonth() / step) * step, 1);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate());
}

function nextTick(date, unit, step) {
  const next = new Date(date);
  if (unit === "year") next.setFullYear(next.getFullYear() + step);
  else if (unit === "month") next.setMonth(next.getMonth() + step);
  else next.setDate(next.getDate() + step);
  return next;
}

/** A time as a local day, such as 2026-05-08. */
export function localDay(time) {
  const date = new Date(time);
  const pad = (value, length = 2) => String(value).padStart(length, "0");
  return `${pad(date.getFullYear(), 4)}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}
