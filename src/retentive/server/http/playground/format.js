/** Figures, times and places as people read them. */

const LANGUAGE = "en";
const UNITS = [["year", 31_557_600], ["month", 2_629_800], ["week", 604_800], ["day", 86_400], ["hour", 3600], ["minute", 60]];
const relative = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" });
const absolute = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "full", timeStyle: "short" });

/** "3 weeks ago" */
export function ago(time, now = Date.now()) {
  const seconds = (new Date(time) - now) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return unit === "second" ? "just now" : relative.format(Math.round(seconds / size), unit);
}

/** "Thursday, 3 September 2026 at 07:40" */
export function wholeTime(time) {
  return absolute.format(new Date(time));
}

/** A score with three places. */
export function score(value) {
  return withMinus(value.toFixed(3));
}

/** A change with its sign, such as "+0.583" or "−0.060". */
export function change(value, places = 3) {
  const text = value.toFixed(places);
  return Number(text) > 0 ? `+${text}` : withMinus(text);
}

function withMinus(text) {
  return text.replace(/^-/, "−").replace(/^−(0\.?0*)$/, "$1");
}

/** "8.1 ms", "1.2 s" */
export function duration(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString(LANGUAGE)} ${number === 1 ? one : many}`;
}

/** "semanticWeight" as "Semantic weight" */
export function spaced(camel) {
  const words = camel.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).replace(/^rrf /, "RRF ");
  return words[0].toUpperCase() + words.slice(1);
}

/** "semanticWeight" as "semantic_weight" */
export function snake(camel) {
  return camel.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
