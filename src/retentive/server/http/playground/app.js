/** The page: its header, and one view at a time. */

import { api } from "./shared/api.js";
import { el, replace } from "./shared/dom.js";
import { toast } from "./shared/overlays.js";
import { route } from "./shared/route.js";
import { SCOPE_PARAMS, createScopePicker, scope, watchScope } from "./shared/scope.js";
import { showTokenState, tokenButton } from "./shared/token.js";

const VIEWS = {
  recall: () => import("./recall/view.js"),
  chat: () => import("./chat/view.js"),
  compare: () => import("./compare/view.js"),
  memories: () => import("./memories/view.js"),
  status: () => import("./status/view.js"),
};

const main = document.getElementById("main");
const announcer = document.getElementById("announcer");
const tabs = document.querySelectorAll(".tabs a");
const picker = createScopePicker(api);

/** What every view gets. */
const app = {
  api,
  scope,
  route,
  toast,
  /** Open a view such as "#/memories?session=trip"; the scope is kept unless the hash sets another. */
  go: (hash) => route.go(hash, SCOPE_PARAMS),
  /** Send a message to screen readers. */
  announce(text) {
    announcer.textContent = text;
  },
  /** Reload the names in the scope picker after memories were added or forgotten. */
  refreshScope: () => picker.load().catch(() => {}),
};

/** The last parameters of each view, which its tab restores. */
const lastParams = {};
let current = null;
let unmount = () => {};

async function showView() {
  const name = route.view in VIEWS ? route.view : "recall";
  for (const tab of tabs) {
    if (tab.dataset.view === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  const own = [...route.params].filter(([param]) => !SCOPE_PARAMS.includes(param));
  lastParams[name] = new URLSearchParams(own).toString();
  if (name === current) return;
  const isFirst = current === null;
  current = name;
  unmount();
  unmount = () => {};
  replace(main);
  main.className = `view-${name}`;
  try {
    const view = await VIEWS[name]();
    if (current !== name) return;
    document.title = `${view.title} · Retentive`;
    unmount = view.mount(main, app) ?? (() => {});
    if (!isFirst) main.focus({ preventScroll: true });
  } catch (error) {
    console.error(error);
    replace(main, el("p", { class: "state error" }, "This view failed to load. Reload the page to try again."));
  }
}

for (const tab of tabs) {
  tab.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const { view } = tab.dataset;
    if (view !== current) app.go(`#/${view}?${lastParams[view] ?? ""}`);
  });
}
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

document.getElementById("scope").append(picker.element);
document.getElementById("top-end").append(tokenButton);
showTokenState();
watchScope();
route.onChange(showView);
showView();
picker.load().catch((error) => toast(error.message, { kind: "error" }));
