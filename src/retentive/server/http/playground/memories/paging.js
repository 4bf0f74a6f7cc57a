/** Load the memories of a scope in pages: newest first, a session in its own order, or the results of a search. */

const PAGE_SIZE = 50;
const SESSION_PAGE_SIZE = 1000;
const TURNS_PER_PAGE = 200;
const MAX_FOUND = 200;
/** A search lists what matches by itself, also if it is repeated, and ends where nothing is relevant: more than a judge reads. */
const SEARCH_TUNING = { neighbourWeight: 0, sessionWeight: 0, dedup: false, maxDocumentFrequency: 1, decay: false, judge: "off",
  minRelevance: 0.2 };

/**
 * @typedef {object} Pager
 * @property {boolean} isConversation  whether the memories are the turns of a session, in order
 * @property {boolean} [isSearch]  whether they are the results of a search, the best first
 * @property {() => Promise<Memory[]>} next  loads the next memories
 * @property {() => boolean} isDone  whether there are no more
 * @property {() => ?number} total  how many there are, if known
 * @property {() => ?NamedPeriod} [period]  the period that a search names
 */

/**
 * @param {Api} api
 * @param {object} scope  fields of the request
 * @param {{since?: string, until?: string, metadata?: object}} filters
 * @returns {Pager}
 */
export function newestFirst(api, scope, filters) {
  let cursor = null;
  let done = false;
  return {
    isConversation: false,
    isDone: () => done,
    total: () => null,
    async next() {
      let page;
      do { // a page with a filter can be empty and not the last one
        page = await api.get("v1/memories", { ...scope, ...asQuery(filters), cursor, limit: PAGE_SIZE });
        cursor = page.nextCursor;
      } while (!page.memories.length && cursor !== null);
      done = cursor === null;
      return page.memories;
    },
  };
}

/**
 * The memories that a recall finds; it is not counted as a use of them.
 * @returns {Pager}
 */
export function search(api, scope, filters, query) {
  let found = null;
  let named = null;
  return {
    isConversation: false,
    isSearch: true,
    isDone: () => found !== null,
    total: () => found?.length ?? null,
    period: () => named,
    async next() {
      const request = { query, ...scope, ...filters, limit: MAX_FOUND, tuning: SEARCH_TUNING, recordUse: false };
      const { hits, terms = [], period } = await api.post("v1/recall", request);
      named = period;
      found = hits.map(({ memory, relevance }) => ({ ...memory, found: { relevance, terms } }));
      return found;
    },
  };
}

/**
 * A session from its start. The service pages newest first, so the first call loads the whole session.
 * @returns {Pager}
 */
export function sessionOrder(api, scope, filters) {
  let turns = null;
  let shown = 0;
  return {
    isConversation: true,
    isDone: () => turns !== null && shown >= turns.length,
    total: () => turns?.length ?? null,
    async next() {
      turns ??= await loadSession(api, { ...scope, ...asQuery(filters) });
      const page = turns.slice(shown, shown + TURNS_PER_PAGE);
      shown += page.length;
      return page;
    },
  };
}

/** @param {{since?: string, until?: string, metadata?: object}} filters */
function asQuery({ metadata, ...period }) {
  return { ...period, ...(metadata && { metadata: JSON.stringify(metadata) }) };
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
