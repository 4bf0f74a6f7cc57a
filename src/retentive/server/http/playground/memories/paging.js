/** Load the memories of a scope in pages: newest first, or a session in its own order. */

const PAGE_SIZE = 50;
const SESSION_PAGE_SIZE = 1000;
const TURNS_PER_PAGE = 200;

/**
 * @typedef {object} Pager
 * @property {boolean} isConversation  whether the memories are the turns of a session, in order
 * @property {() => Promise<object[]>} next  loads the next memories
 * @property {() => boolean} isDone  whether there are no more
 * @property {() => ?number} total  how many there are, if known
 */

/**
 * @param {object} api
 * @param {object} scope  fields of the request
 * @param {?string} until  the last day to include, such as 2026-05-08
 * @returns {Pager}
 */
export function newestFirst(api, scope, until = null) {
  let cursor = until ? cursorAfter(until) : null;
  let done = false;
  return {
    isConversation: false,
    isDone: () => done,
    total: () => null,
    async next() {
      const page = await api.get("v1/memories", { ...scope, cursor, limit: PAGE_SIZE });
      cursor = page.nextCursor;
      done = cursor === null;
      return page.memories;
    },
  };
}

/** Return a cursor behind which are the memories created up to the end of a day: a UUIDv7 starts with its time. */
function cursorAfter(day) {
  const end = new Date(`${day}T00:00:00`);
  end.setDate(end.getDate() + 1);
  const hex = Math.max(0, end.getTime()).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
}

/**
 * A session from its start. The service pages newest first, so the first call loads the whole session.
 * @returns {Pager}
 */
export function sessionOrder(api, scope) {
  let turns = null;
  let shown = 0;
  return {
    isConversation: true,
    isDone: () => turns !== null && shown >= turns.length,
    total: () => turns?.length ?? null,
    async next() {
      turns ??= await loadSession(api, scope);
      const page = turns.slice(shown, shown + TURNS_PER_PAGE);
      shown += page.length;
      return page;
    },
  };
}

async function loadSession(api, scope) {
  const turns = [];
  let cursor = null;
  do {
    const page = await api.get("v1/memories", { ...scope, cursor, limit: SESSION_PAGE_SIZE });
    turns.push(...page.memories);
    cursor = page.nextCursor;
  } while (cursor !== null);
  return turns.sort((a, b) => (a.position ?? 0) - (b.position ?? 0) || (a.id < b.id ? -1 : 1));
}
