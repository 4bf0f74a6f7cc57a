/** The scope that all views share: profile, project, session and kinds of memories. It is stored in the address. */

import { el, replace, unique } from "./dom.js";
import { byName, number } from "./format.js";
import { route } from "./route.js";

export const KINDS = ["episodic", "semantic", "identity"];
export const SCOPE_PARAMS = ["profile", "project", "session", "kinds"];

const ALL = { profile: "Default profile", project: "All projects", session: "All sessions" };

const listeners = new Set();

export const scope = {
  /** @returns {{profile: ?string, project: ?string, session: ?string, kinds: ?string[]}} null means any */
  get value() {
    const { params } = route;
    const kinds = (params.get("kinds") ?? "").split(",").filter((kind) => KINDS.includes(kind));
    const [profile, project, session] = SCOPE_PARAMS.map((name) => params.get(name));
    return { profile, project, session, kinds: kinds.length ? kinds : null };
  },

  /** Change parts of the scope. A new profile clears project and session; a new project clears the session. */
  set(changes) {
    const cleared = "profile" in changes ? { project: null, session: null } : "project" in changes ? { session: null } : {};
    const { kinds, ...names } = { ...cleared, ...changes };
    const params = "kinds" in changes ? { ...names, kinds: kinds?.length ? kinds.join(",") : null } : names;
    route.update(params, { push: true });
  },

  /** The scope as fields of a request; a selected session does not include the other sessions of its project. */
  asRequest() {
    const { project, session, kinds } = this.value;
    return {
      ...(project && { project }),
      ...(session && { session, onlySession: true }),
      ...(kinds && { kinds }),
    };
  },

  /** Call `listener` after each change; return a function that removes it. */
  onChange(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** Notify the scope's listeners when the address changes the scope. */
export function watchScope() {
  let last = JSON.stringify(scope.value);
  route.onChange(() => {
    const current = JSON.stringify(scope.value);
    if (current === last) return;
    last = current;
    for (const listener of [...listeners]) listener(scope.value);
  });
}

/** Create the scope picker of the header; `load` fetches the names to choose from. */
export function createScopePicker(api) {
  const picks = Object.fromEntries(["profile", "project", "session"].map((name) => [name, createPick(name)]));
  const kinds = KINDS.map(createKindBox);
  const body = el("div", { class: "scope-body", id: unique("scope") }, ...Object.values(picks).map(({ label }) => label),
    el("fieldset", { class: "kinds" }, el("legend", { class: "visually-hidden" }, "Kinds"), kinds.map(({ label }) => label)));
  const summary = el("span", { class: "scope-summary" });
  const opener = el("button", {
    type: "button", class: "button quiet scope-opener", "aria-expanded": "false", "aria-controls": body.id,
    onclick: () => opener.setAttribute("aria-expanded", String(element.classList.toggle("open"))),
  }, summary);
  const element = el("div", { class: "scope", role: "group", "aria-label": "Scope" }, opener, body);
  for (const [name, all] of Object.entries(ALL)) setOptions(picks[name].field, [], all);
  picks.profile.label.hidden = !scope.value.profile;

  function show() {
    const value = scope.value;
    for (const [name, { field }] of Object.entries(picks)) select(field, value[name]);
    for (const { box } of kinds) box.checked = value.kinds?.includes(box.value) ?? false;
    const parts = [value.profile, value.project, value.session, value.kinds?.join(", ")].filter(Boolean);
    replace(summary, parts.length ? parts.join(" › ") : "All memories");
  }

  async function load() {
    const { project } = scope.value;
    const [{ profiles }, { projects }, { sessions }] = await Promise.all([
      api.get("v1/profiles"), api.get("v1/projects"), api.get("v1/sessions", { project }),
    ]);
    setOptions(picks.profile.field, profiles, ALL.profile);
    setOptions(picks.project.field, projects.sort(byName), ALL.project);
    setOptions(picks.session.field, sessions, ALL.session);
    picks.profile.label.hidden = profiles.length < 2 && !scope.value.profile;
    show();
  }

  scope.onChange(() => {
    show();
    load().catch(() => {});
  });
  show();
  return { element, load };
}

function createPick(name) {
  const field = el("select", { onchange: () => scope.set({ [name]: field.value || null }) });
  return { field, label: el("label", { class: "pick" }, el("span", {}, name), field) };
}

function createKindBox(kind) {
  const box = el("input", {
    type: "checkbox", value: kind,
    onchange: () => {
      const current = scope.value.kinds ?? [];
      scope.set({ kinds: KINDS.filter((one) => (one === kind ? box.checked : current.includes(one))) });
    },
  });
  return { box, label: el("label", { class: "kind" }, box, el("span", {}, kind)) };
}

function setOptions(field, entries, all) {
  replace(field, el("option", { value: "" }, all),
    entries.map(({ name, memories }) => el("option", { value: name }, `${name} (${number(memories)})`)));
}

/** Select a name. A name from the address that is not in the list is added, because it is part of the request. */
function select(field, name) {
  const value = name ?? "";
  if (![...field.options].some((option) => option.value === value)) field.append(el("option", { value }, value || "All"));
  field.value = value;
}
