/** Values that the browser stores. Where it refuses that, they last as long as the page. */

function createStorage(open) {
  const unstored = new Map();
  return {
    /** @returns {?string} */
    get(name) {
      if (unstored.has(name)) return unstored.get(name);
      try {
        return open().getItem(name);
      } catch {
        return null;
      }
    },
    /** Set a value; null removes it. */
    set(name, value) {
      unstored.delete(name);
      try {
        if (value === null) open().removeItem(name);
        else open().setItem(name, value);
      } catch {
        unstored.set(name, value);
      }
    },
  };
}

// Reading the property itself is an error if storage is refused.
export const tabStorage = createStorage(() => sessionStorage);
export const browserStorage = createStorage(() => localStorage);
