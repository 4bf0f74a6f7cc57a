/** Which memories are looked at: profile, project, session, kinds. Every view shares it; it lives in the address. */

import { el, replace, unique } from "./dom.js";
import { route } from "./route.js";

export const KINDS = ["episodic", "semantic", "identity"];
export const SCOPE_PARAMS = ["profile", "project", "session", "kinds"];

const listeners = new Set();
let last = "";

export const scope = {
  /** @returns {{profile: ?string, project: ?string, session: ?string, kinds: ?string[]}} null is any */
  get value() {
    const params = route.params;
    const kinds = (params.get("kinds") ?? "").split(",").filter((kind) => KINDS.includes(kind));
    const [profile, project, session] = SCOPE_PARAMS.map((name) => params.get(name));
    return { profile, project, session, kinds: kinds.length ? kinds : null };
  },

  /** Changes parts of it. Another profile has other projects, and another project other sessions. */
  set(changes) {
    const emptied = "profile" in changes ? { project: null, session: null } : "project" in changes ? { session: null } : {};
    const { kinds, ...names } = { ...emptied, ...changes };
    const all = "kinds" in changes ? { ...names, kinds: kinds?.length ? kinds.join(",") : null } : names;
    route.update(all, { push: true });
  },

  /** The fields that a query takes in its body. A session stands for itself alone: it was picked by name. */
  asBody() {
    const { project, session, kinds } = this.value;
    return {
      ...(project && { project }),
      ...(session && { session, onlySession: true }),
      ...(kinds && { kinds }),
    };
  },

  /** The same as parameters of a GET. */
  asQuery() {
    return this.asBody();
  },

  /** Calls back when it changes; gives a function that ends this. */
  onChange(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

function written() {
  return JSON.stringify(scope.value);
}

/** Tells the listeners if the address now has another scope. */
export function watchScope() {
  last = written();
  route.onChange(() => {
    const now = written();
    if (now === last) return;
    last = now;
    for (const listener of [...listeners]) listener(scope.value);
  });
}

/** The picker in the header, and how to load anew what there is to pick. */
export function scopePicker(api) {
  const picks = Object.fromEntries(["profile", "project", "session"].map((name) => [name, pick(name)]));
  const kinds = KINDS.map(kindBox);
  const body = el("div", { class: "scope-body", id: unique("scope") }, ...Object.values(picks).map(({ label }) => label),
    el("fieldset", { class: "kinds" }, el("legend", { class: "visually-hidden" }, "Kinds"), kinds));
  const words = el("span", { class: "scope-words" });
  const opener = el("button", {
    type: "button", class: "button quiet scope-opener", "aria-expanded": "false", "aria-controls": body.id,
    onclick: () => opener.setAttribute("aria-expanded", String(element.classList.toggle("open"))),
  }, words);
  const element = el("div", { class: "scope", role: "group", "aria-label": "Which memories" }, opener, body);

  function show() {
    const value = scope.value;
    for (const [name, { field }] of Object.entries(picks)) choose(field, value[name]);
    for (const { firstChild: box } of kinds) box.checked = value.kinds?.includes(box.value) ?? false;
    const parts = [value.profile, value.project, value.session, value.kinds?.join(", ")].filter(Boolean);
    replace(words, parts.length ? parts.join(" › ") : "All memories");
  }

  async function load() {
    const { project } = scope.value;
    const [{ profiles }, { projects }, { sessions }] = await Promise.all([
      api.get("v1/profiles"), api.get("v1/projects"), api.get("v1/sessions", { project }),
    ]);
    offer(picks.profile.field, profiles, "Own profile");
    offer(picks.project.field, projects, "All projects");
    offer(picks.session.field, sessions, "All sessions");
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

function pick(name) {
  const field = el("select", { onchange: () => scope.set({ [name]: field.value || null }) });
  return { field, label: el("label", { class: "pick" }, el("span", {}, name), field) };
}

function kindBox(kind) {
  const box = el("input", {
    type: "checkbox", value: kind,
    onchange: () => {
      const had = scope.value.kinds ?? [];
      scope.set({ kinds: KINDS.filter((one) => (one === kind ? box.checked : had.includes(one))) });
    },
  });
  return el("label", { class: "kind" }, box, el("span", {}, kind));
}

function offer(field, things, all) {
  replace(field, el("option", { value: "" }, all),
    things.map(({ name, memories }) => el("option", { value: name }, `${name} (${memories.toLocaleString("en")})`)));
}

/** What the address names may not be there; it is shown all the same, as it is what is asked for. */
function choose(field, name) {
  const value = name ?? "";
  if (![...field.options].some((option) => option.value === value)) field.append(el("option", { value }, value || "All"));
  field.value = value;
}
