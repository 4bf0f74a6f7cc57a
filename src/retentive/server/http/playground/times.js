/** Times as people read them, in the reader's own zone and language. */

const day = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const wholeDay = new Intl.DateTimeFormat(undefined, { weekday: "long", year: "numeric", month: "long", day: "numeric" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const instant = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const count = new Intl.NumberFormat();

export const number = (value) => count.format(value);
export const dayOf = (time) => day.format(new Date(time));
export const wholeDayOf = (time) => wholeDay.format(new Date(time));
export const clockOf = (time) => clock.format(new Date(time));
export const instantOf = (time) => instant.format(new Date(time));
export const exactly = (time) => exact.format(new Date(time));

/** "1 memory", "2 memories". */
export function counted(value, one, many) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

/** From when to when; a single day is written once. */
export function span(first, last) {
  if (!first) return "";
  const [from, to] = [dayOf(first), dayOf(last ?? first)];
  return from === to ? from : `${from} – ${to}`;
}

/** When a memory happened, or else when it was noted down. */
export const whenOf = (memory) => memory.occurred ?? memory.created;

/** How long something has lasted: "3 d 4 h", "12 min", "40 s". */
export function lasting(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = Math.max(0, parts.findIndex(([size]) => seconds >= size));
  const from = seconds < 1 ? parts.length - 1 : at;
  const whole = Math.floor(seconds / parts[from][0]);
  const next = parts[from + 1];
  const rest = next && from < 2 ? Math.floor((seconds % parts[from][0]) / next[0]) : 0;
  return `${whole} ${parts[from][1]}` + (rest ? ` ${rest} ${next[1]}` : "");
}

/** A time as `<input type="datetime-local">` holds it, to the second, in the reader's zone. */
export function toLocalInput(time) {
  if (!time) return "";
  const at = new Date(time);
  const two = (value) => String(value).padStart(2, "0");
  const date = `${String(at.getFullYear()).padStart(4, "0")}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${date}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The time that such an input says, as the service takes it; null if it is empty. */
export function fromLocalInput(value) {
  return value ? new Date(value).toISOString() : null;
}
