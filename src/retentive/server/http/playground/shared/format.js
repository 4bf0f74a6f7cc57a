/** Format numbers, dates, durations and names. Dates and counts use the browser's language and time zone. */

const numberFormat = new Intl.NumberFormat();
const dayFormat = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const longDayFormat = new Intl.DateTimeFormat(undefined, { weekday: "long", year: "numeric", month: "long", day: "numeric" });
const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const clockSecondsFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dateTimeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const relativeFormat = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["year", 31_557_600], ["month", 2_629_800], ["week", 604_800], ["day", 86_400], ["hour", 3600], ["minute", 60]];

const nameOrder = new Intl.Collator(undefined, { numeric: true });

/** The order of two things by their names: "part 2" comes before "part 10". */
export const byName = (one, other) => nameOrder.compare(one.name, other.name);

export const number = (value) => numberFormat.format(value);

/** "1 memory", "1,200 memories" */
export function plural(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/** A score with three decimals and a real minus sign. */
export function score(value) {
  return withMinusSign(value.toFixed(3));
}

/** A difference with its sign, such as "+0.583" or "−0.060". */
export function signed(value) {
  const text = value.toFixed(3);
  return Number(text) > 0 ? `+${text}` : withMinusSign(text);
}

function withMinusSign(text) {
  return text.replace(/^-/, "−").replace(/^−(0\.?0*)$/, "$1");
}

/** "8.1 ms", "1.2 s" */
export function duration(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

/** "3 d 4 h", "12 min", "40 s" */
export function uptime(seconds) {
  /** @type {[number, string][]} */
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const index = seconds < 1 ? units.length - 1 : units.findIndex(([size]) => seconds >= size);
  const [size, unit] = units[index];
  const next = units[index + 1];
  const rest = index < 2 ? Math.floor((seconds % size) / next[0]) : 0;
  return `${Math.floor(seconds / size)} ${unit}` + (rest ? ` ${rest} ${next[1]}` : "");
}

/** "3 weeks ago" */
export function ago(time, now = Date.now()) {
  const seconds = (new Date(time).getTime() - now) / 1000;
  const [unit, size] = UNITS.find(([, unitSize]) => Math.abs(seconds) >= unitSize) ?? [null, 1];
  return unit === null ? "just now" : relativeFormat.format(Math.round(seconds / size), unit);
}

export const day = (time) => dayFormat.format(new Date(time));
export const longDay = (time) => longDayFormat.format(new Date(time));
export const clock = (time) => clockFormat.format(new Date(time));
export const clockWithSeconds = (time) => clockSecondsFormat.format(new Date(time));
export const dateTime = (time) => dateTimeFormat.format(new Date(time));

/** "2 Mar 2026 – 8 May 2026"; a single day once. */
export function dateRange(first, last) {
  if (!first) return "";
  const [from, to] = [day(first), day(last ?? first)];
  return from === to ? from : `${from} – ${to}`;
}

/** The time a memory is about: when it occurred, or else when it was created. */
export const memoryTime = (memory) => memory.occurred ?? memory.created;

/** A time as the value of `<input type="datetime-local">`, to the second, in local time. */
export function toLocalInput(time) {
  if (!time) return "";
  const date = new Date(time);
  const pad = (value, length = 2) => String(value).padStart(length, "0");
  return `${pad(date.getFullYear(), 4)}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`
    + `T${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** The value of `<input type="datetime-local">` as ISO 8601; null if it is empty. */
export function fromLocalInput(value) {
  return value ? new Date(value).toISOString() : null;
}

/** A message of the service, which may start in lower case, as a sentence; a command at its end has no full stop. */
export function sentence(text) {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?:]$|: retentive [^;]*$/.test(text) ? "" : "."}`;
}

/** "semanticWeight" as "Semantic weight" */
export function sentenceCase(camel) {
  const words = camel.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).replace(/^rrf /, "RRF ").replace(/^min /, "minimum ");
  return words[0].toUpperCase() + words.slice(1);
}

/** "semanticWeight" as "semantic_weight" */
export function snakeCase(camel) {
  return camel.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
