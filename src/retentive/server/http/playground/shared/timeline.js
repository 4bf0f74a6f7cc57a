/** Days, months and years over which the service counts memories; all are in UTC. */

export const SHORT_DATE = { day: { day: "numeric", month: "short" }, month: { month: "short" }, year: { year: "numeric" } };
export const LONG_DATE = {
  day: { day: "numeric", month: "long", year: "numeric" }, month: { month: "long", year: "numeric" }, year: { year: "numeric" },
};

/** Return all buckets from the first to the last; the service omits empty ones. */
export function withoutGaps({ by, buckets }) {
  if (!buckets.length) return [];
  const known = new Map(buckets.map((bucket) => [bucket.start, bucket]));
  const all = [];
  const last = buckets.at(-1).start;
  for (let start = buckets[0].start; start <= last; start = nextStart(start, by)) {
    all.push(known.get(start) ?? { start, memories: 0, byKind: {} });
  }
  return all;
}

/** The start of the next bucket. */
export function nextStart(start, by) {
  const date = new Date(`${start}T00:00:00Z`);
  if (by === "day") date.setUTCDate(date.getUTCDate() + 1);
  else if (by === "month") date.setUTCMonth(date.getUTCMonth() + 1);
  else date.setUTCFullYear(date.getUTCFullYear() + 1);
  return date.toISOString().slice(0, 10);
}

/** A day of UTC. */
export function formatDate(start, options) {
  return new Intl.DateTimeFormat(undefined, { ...options, timeZone: "UTC" }).format(new Date(`${start}T00:00:00Z`));
}

/** A period that a query names as days of UTC: "8 May 2023", "1–31 May 2023". @param {NamedPeriod} period */
export function formatPeriod({ since, until }) {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "long", timeZone: "UTC" });
  return format.formatRange(Date.parse(since), Date.parse(until) - 1);
}

/** Months show their year only on the first label and in January. */
export function axisLabel(start, by, isFirst) {
  const withYear = by === "month" && (isFirst || start.slice(5, 7) === "01");
  return formatDate(start, withYear ? { month: "short", year: "numeric" } : SHORT_DATE[by]);
}
