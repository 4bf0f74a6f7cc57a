/** The current view and its parameters, stored in the hash of the address, so that links and reloads restore them. */

const DEFAULT_VIEW = "recall";
const listeners = new Set();
const guards = new Set();

function parse() {
  const [view, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: view || DEFAULT_VIEW, params: new URLSearchParams(query) };
}

function toHash(view, params) {
  const query = params.toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

function notify() {
  for (const listener of [...listeners]) listener();
}

export const route = {
  get view() {
    return parse().view;
  },

  get params() {
    return parse().params;
  },

  /** Change some parameters; null or "" removes one. With `push` the change becomes an entry of the browser history. */
  update(changes, { push = false } = {}) {
    const { view, params } = parse();
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") params.delete(name);
      else params.set(name, value);
    }
    const hash = toHash(view, params);
    if (hash === location.hash) return;
    history[push ? "pushState" : "replaceState"](null, "", hash);
    notify();
  },

  /** Open a view such as "#/memories?session=trip"; `inherited` names parameters to copy if the hash lacks them. */
  go(hash, inherited = []) {
    const current = parse().params;
    const [view, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
    const params = new URLSearchParams(query);
    for (const name of inherited) if (!params.has(name) && current.has(name)) params.set(name, current.get(name));
    location.hash = toHash(view, params);
  },

  /** Call `listener` after each change of the view or a parameter; return a function that removes it. */
  onChange(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },

  /**
   * Call `guard(event)` on each hashchange. If it returns false, the navigation is cancelled, and the guard restores
   * the address. Return a function that removes the guard.
   */
  addGuard(guard) {
    guards.add(guard);
    return () => guards.delete(guard);
  },
};

addEventListener("hashchange", (event) => [...guards].every((guard) => guard(event)) && notify());
addEventListener("popstate", () => location.hash || notify());
