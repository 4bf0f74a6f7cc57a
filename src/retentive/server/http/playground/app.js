/** The page: header, one view at a time, messages. */

import { createApi } from "./api.js";
import { el, replace } from "./dom.js";
import { route } from "./route.js";
import { SCOPE_PARAMS, scope, scopePicker, watchScope } from "./scope.js";
import { askForToken, showToken, tokenButton } from "./token.js";

const VIEWS = {
  recall: () => import("./recall.js"),
  memories: () => import("./memories.js"),
  status: () => import("./status.js"),
};

const main = document.getElementById("main");
const announcer = document.getElementById("announcer");
const toasts = document.getElementById("toasts");
const api = createApi({ profile: () => scope.value.profile, askForToken });
const picker = scopePicker(api);

const app = {
  api,
  scope,
  route,
  /** Opens a view such as "#/memories?session=trip"; the scope comes along where the hash does not say another. */
  go: (hash) => route.go(hash, SCOPE_PARAMS),
  /** Says something to those who do not see the page. */
  announce(text) {
    announcer.textContent = text;
  },
  toast,
  /** Loads anew what there is to pick in the header, after something was added or forgotten. */
  refreshScope: () => picker.load().catch(() => {}),
};

function toast(text, { action, label = "Undo", kind = "", seconds = action ? 12 : 6 } = {}) {
  let timer = 0;
  const close = () => {
    clearTimeout(timer);
    box.remove();
  };
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(close, seconds * 1000);
  };
  const act = () => {
    close();
    action();
  };
  const box = el(
    "div",
    { class: `toast ${kind}`, role: kind === "error" ? "alert" : "status", onmouseenter: () => clearTimeout(timer),
      onfocusin: () => clearTimeout(timer), onmouseleave: wait, onfocusout: wait },
    el("p", {}, text),
    action && el("button", { type: "button", class: "button quiet", onclick: act }, label),
    el("button", { type: "button", class: "button icon", "aria-label": "Dismiss", onclick: close }, "×"),
  );
  toasts.append(box);
  wait();
  return close;
}

/** What each view was last asked for, so that its tab brings it back. */
const lastParams = {};
let shown = null;
let leave = () => {};

async function show() {
  const name = route.view in VIEWS ? route.view : "recall";
  for (const tab of document.querySelectorAll(".tabs a")) {
    if (tab.dataset.view === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  const own = [...route.params].filter(([param]) => !SCOPE_PARAMS.includes(param));
  lastParams[name] = new URLSearchParams(own).toString();
  if (name === shown) return;
  const first = shown === null;
  shown = name;
  leave();
  leave = () => {};
  replace(main);
  main.className = `view-${name}`;
  try {
    const view = await VIEWS[name]();
    if (shown !== name) return;
    document.title = `${view.title} · Retentive`;
    leave = view.mount(main, app) ?? (() => {});
    if (!first) main.focus({ preventScroll: true });
  } catch (error) {
    console.error(error);
    replace(main, el("p", { class: "state error" }, "This view could not be shown. Reload the page to try again."));
  }
}

for (const tab of document.querySelectorAll(".tabs a")) {
  tab.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const { view } = tab.dataset;
    if (view !== shown) app.go(`#/${view}?${lastParams[view] ?? ""}`);
  });
}
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

document.getElementById("scope").append(picker.element);
document.getElementById("top-end").append(tokenButton);
showToken();
watchScope();
route.onChange(show);
show();
picker.load().catch((problem) => toast(problem.detail ?? String(problem), { kind: "error" }));
