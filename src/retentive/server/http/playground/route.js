/** Where one is: a view and its parameters, kept in the address so that a link or a reload opens the same. */

const HOME = "recall";
const listeners = new Set();
const holders = new Set();

function parse() {
  const [view, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: view || HOME, params: new URLSearchParams(query) };
}

function written(view, params) {
  const query = params.toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

function tell() {
  for (const listener of [...listeners]) listener();
}

export const route = {
  get view() {
    return parse().view;
  },

  get params() {
    return parse().params;
  },

  /** Changes some parameters (null or "" takes one away); `push` makes the back button undo it. */
  update(changes, { push = false } = {}) {
    const { view, params } = parse();
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") params.delete(name);
      else params.set(name, value);
    }
    const hash = written(view, params);
    if (hash === location.hash) return;
    history[push ? "pushState" : "replaceState"](null, "", hash);
    tell();
  },

  /** Opens a view, such as "#/memories?session=trip"; `kept` names parameters to bring along if it does not say. */
  go(hash, kept = []) {
    const here = parse().params;
    const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
    const params = new URLSearchParams(query);
    for (const name of kept) if (!params.has(name) && here.has(name)) params.set(name, here.get(name));
    location.hash = written(path, params);
  },

  /** Calls back whenever the view or a parameter changes; gives a function that ends this. */
  onChange(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },

  /**
   * Asks before another address is followed, for a view with something that would be lost: `mayLeave(event)` of the
   * hashchange gives false to hold it back, and then puts the address right. Gives a function that ends this.
   */
  holdBack(mayLeave) {
    holders.add(mayLeave);
    return () => holders.delete(mayLeave);
  },
};

addEventListener("hashchange", (event) => [...holders].every((mayLeave) => mayLeave(event)) && tell());
addEventListener("popstate", () => location.hash || tell());
