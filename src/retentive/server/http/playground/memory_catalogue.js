/** Projects and their sessions to browse by: a column, or a select where there is no room for one. */

import { el, replace, unique } from "./dom.js";
import { counted, number, span } from "./times.js";

/**
 * @param {object} app
 * @param {(scope: {project: ?string, session: ?string}) => void} choose
 */
export function createCatalogue(app, choose) {
  const tree = el("ul", { class: "catalogue-tree" });
  const id = unique("catalogue");
  const select = el("select", { id, onchange: () => choose(JSON.parse(select.value)) });
  const element = el("nav", { class: "catalogue", "aria-label": "Projects and sessions" },
    el("div", { class: "catalogue-select" }, el("label", { class: "label", for: id }, "Project or session"), select),
    tree);
  let known = { projects: [], sessions: [] };

  async function load() {
    if (!known.projects.length && !known.sessions.length) replace(tree, loadingRows());
    try {
      const [{ projects }, { sessions }] = await Promise.all([app.api.get("v1/projects"), app.api.get("v1/sessions")]);
      known = { projects, sessions: sessions.filter((session) => session.memories > 0) };
      draw();
    } catch (problem) {
      replace(tree, el("li", { class: "note error" }, problem.detail ?? String(problem)));
    }
  }

  function draw() {
    const here = app.scope.value;
    const loose = known.sessions.filter((session) => session.project === null);
    replace(tree,
      el("li", {}, entry("All memories", null, { project: null, session: null }, !here.project && !here.session)),
      known.projects.filter((project) => project.memories > 0).map((project) => branch(project, here)),
      loose.length > 0 && el("li", {}, el("p", { class: "catalogue-loose" }, "In no project"),
        el("ul", {}, loose.map((session) => sessionEntry(session, here)))));
    replace(select,
      option("All memories", { project: null, session: null }, here),
      known.projects.map((project) => el("optgroup", { label: project.name },
        option(`All of ${project.name} (${number(project.memories)})`, { project: project.name, session: null }, here),
        known.sessions.filter((session) => session.project === project.name).map((session) => sessionOption(session, here)))),
      loose.length > 0 && el("optgroup", { label: "In no project" }, loose.map((session) => sessionOption(session, here))));
  }

  function branch(project, here) {
    const inside = known.sessions.filter((session) => session.project === project.name);
    const isOpen = here.project === project.name || inside.some((session) => session.name === here.session)
      || known.sessions.length <= 12;
    return el("li", {},
      entry(project.name, number(project.memories), { project: project.name, session: null },
        here.project === project.name && !here.session, "project"),
      inside.length > 0 && (isOpen
        ? el("ul", {}, inside.map((session) => sessionEntry(session, here)))
        : el("p", { class: "catalogue-more" }, counted(inside.length, "session", "sessions"))));
  }

  function sessionEntry(session, here) {
    const to = { project: session.project, session: session.name };
    return el("li", {}, entry(session.name, number(session.memories), to, here.session === session.name, "session",
      span(session.first, session.last)));
  }

  function entry(name, count, to, isHere, className = "all", dates = "") {
    return el("button", {
      type: "button", class: `catalogue-entry ${className}`, "aria-current": isHere ? "true" : null, title: name,
      onclick: () => choose(to),
    },
    el("span", { class: "catalogue-name" }, name),
    count !== null && el("span", { class: "catalogue-count mono" }, count, el("span", { class: "visually-hidden" }, " memories")),
    dates && el("span", { class: "catalogue-dates" }, dates));
  }

  return { element, load, draw, names: () => known };
}

function sessionOption(session, here) {
  const label = `${session.name} (${number(session.memories)}) · ${span(session.first, session.last)}`;
  return option(label, { project: session.project, session: session.name }, here);
}

function option(label, to, here) {
  const isHere = to.session ? here.session === to.session : !here.session && (here.project ?? null) === to.project;
  return el("option", { value: JSON.stringify(to), selected: isHere }, label);
}

function loadingRows() {
  return Array.from({ length: 4 }, () => el("li", { class: "skeleton catalogue-skeleton" }));
}
