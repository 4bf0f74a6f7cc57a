/** Memories of a scope, some at a time: newest first as the service pages them, or a session in its own order. */

const PAGE = 50;
const WHOLE_PAGE = 1000;
const TURNS = 200;

/**
 * @typedef {object} Feed
 * @property {boolean} inOrder  whether it reads as a conversation
 * @property {() => Promise<object[]>} next  the next memories
 * @property {() => boolean} ended  whether there are no more
 * @property {() => ?number} total  how many there are, if that is known
 */

/**
 * @param {object} api
 * @param {object} query
 * @param {?string} until  the last day to be shown, such as 2026-05-08
 * @returns {Feed}
 */
export function newestFirst(api, query, until = null) {
  let cursor = until ? endOfDay(until) : null;
  let ended = false;
  return {
    inOrder: false,
    ended: () => ended,
    total: () => null,
    async next() {
      const page = await api.get("v1/memories", { ...query, cursor, limit: PAGE });
      cursor = page.nextCursor;
      ended = cursor === null;
      return page.memories;
    },
  };
}

/** Where to go on for what was stored up to the end of a day: an id begins with its milliseconds (UUIDv7). */
function endOfDay(day) {
  const end = new Date(`${day}T00:00:00`);
  end.setDate(end.getDate() + 1);
  const hex = Math.max(0, end.getTime()).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
}

/**
 * A session from its beginning. The service gives newest first, so the whole session is fetched before the first turn
 * can be shown.
 * @returns {Feed}
 */
export function inOrder(api, query) {
  let all = null;
  let shown = 0;
  return {
    inOrder: true,
    ended: () => all !== null && shown >= all.length,
    total: () => all?.length ?? null,
    async next() {
      all ??= await wholeSession(api, query);
      const turns = all.slice(shown, shown + TURNS);
      shown += turns.length;
      return turns;
    },
  };
}

async function wholeSession(api, query) {
  const all = [];
  let cursor = null;
  do {
    const page = await api.get("v1/memories", { ...query, cursor, limit: WHOLE_PAGE });
    all.push(...page.memories);
    cursor = page.nextCursor;
  } while (cursor !== null);
  return all.sort((a, b) => (a.position ?? 0) - (b.position ?? 0) || (a.id < b.id ? -1 : 1));
}
