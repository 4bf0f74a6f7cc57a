/** Navigation by project and session: a tree beside the list, or a select on narrow screens. */

import { el, replace, unique } from "../shared/dom.js";
import { byName, dateRange, number, plural } from "../shared/format.js";

/** All projects are expanded up to this many sessions. */
const MAX_EXPANDED = 12;
const REVIEW = { project: null, session: null, review: "open" };

/**
 * @param {App} app
 * @param {(target: {project: ?string, session: ?string, review: ?string}) => void} open
 * @param {() => void} onLoad
 */
export function createCatalogue(app, open, onLoad) {
  const tree = el("ul", { class: "catalogue-tree" });
  const id = unique("catalogue");
  const select = el("select", { id, onchange: () => open(JSON.parse(select.value)) });
  const element = el("nav", { class: "catalogue", "aria-label": "Projects and sessions" },
    el("div", { class: "catalogue-select" }, el("label", { class: "label", for: id }, "Project or session"), select),
    tree);
  let names = { projects: [], sessions: [] };
  let openReviews = 0;

  async function load() {
    if (!names.projects.length && !names.sessions.length) replace(tree, skeleton());
    try {
      const [{ projects }, { sessions }] = await Promise.all([app.api.get("v1/projects"), app.api.get("v1/sessions")]);
      projects.sort(byName);
      names = { projects, sessions: sessions.filter((session) => session.memories > 0) };
      draw();
      onLoad();
    } catch (error) {
      replace(tree, el("li", { class: "note error" }, error.message));
    }
  }

  function draw() {
    const isReview = Boolean(app.route.params.get("review"));
    const scope = isReview ? {} : app.scope.value;
    const sessionsOf = (project) => names.sessions.filter((session) => session.project === project);
    const loose = sessionsOf(null);
    replace(tree,
      el("li", {}, entry("All memories", { project: null, session: null }, { isCurrent: !isReview && !scope.project && !scope.session }),
        entry("Review", REVIEW, { isCurrent: isReview, count: openReviews, unit: "suggestions" })),
      names.projects.filter((project) => project.memories > 0).map((project) => branch(project, sessionsOf(project.name), scope)),
      loose.length > 0 && el("li", {}, el("p", { class: "catalogue-loose" }, "No project"),
        el("ul", {}, loose.map((session) => sessionEntry(session, scope)))));
    replace(select,
      option("All memories", { project: null, session: null }, scope),
      el("option", { value: JSON.stringify(REVIEW), selected: isReview }, `Review (${number(openReviews)})`),
      names.projects.map((project) => el("optgroup", { label: project.name },
        option(`All of ${project.name} (${number(project.memories)})`, { project: project.name, session: null }, scope),
        sessionsOf(project.name).map((session) => sessionOption(session, scope)))),
      loose.length > 0 && el("optgroup", { label: "No project" }, loose.map((session) => sessionOption(session, scope))));
    showCurrent();
  }

  /** Scroll the list, and not the page, to the entry that is open. */
  function showCurrent() {
    const current = tree.querySelector("[aria-current]");
    if (!current) return;
    const end = current.offsetTop + current.offsetHeight;
    if (current.offsetTop < element.scrollTop || end > element.scrollTop + element.clientHeight) element.scrollTop = current.offsetTop - 48;
  }

  function branch(project, sessions, scope) {
    const isExpanded = scope.project === project.name || sessions.some((session) => session.name === scope.session)
      || names.sessions.length <= MAX_EXPANDED;
    return el("li", {},
      entry(project.name, { project: project.name, session: null },
        { count: project.memories, isCurrent: scope.project === project.name && !scope.session, className: "project" }),
      sessions.length > 0 && (isExpanded
        ? el("ul", {}, sessions.map((session) => sessionEntry(session, scope)))
        : el("p", { class: "catalogue-more" }, plural(sessions.length, "session"))));
  }

  function sessionEntry(session, scope) {
    return el("li", {}, entry(session.name, { project: session.project, session: session.name },
      { count: session.memories, isCurrent: scope.session === session.name, className: "session",
        dates: dateRange(session.first, session.last) }));
  }

  function entry(name, target, { count = null, isCurrent, className = "all", dates = "", unit = "memories" }) {
    return el("button", {
      type: "button", class: `catalogue-entry ${className}`, "aria-current": isCurrent ? "true" : null, title: name,
      onclick: () => open(target),
    },
    el("span", { class: "catalogue-name" }, name),
    count !== null && el("span", { class: "catalogue-count mono" }, number(count), el("span", { class: "visually-hidden" }, ` ${unit}`)),
    dates && el("span", { class: "catalogue-dates" }, dates));
  }

  return {
    element, load, draw,
    names: () => names,
    setReviews(count) {
      openReviews = count;
      draw();
    },
  };
}

function sessionOption(session, scope) {
  const label = `${session.name} (${number(session.memories)}) · ${dateRange(session.first, session.last)}`;
  return option(label, { project: session.project, session: session.name }, scope);
}

function option(label, target, scope) {
  const isCurrent = target.session ? scope.session === target.session : !scope.session && (scope.project ?? null) === target.project;
  return el("option", { value: JSON.stringify(target), selected: isCurrent }, label);
}

function skeleton() {
  return Array.from({ length: 4 }, () => el("li", { class: "skeleton catalogue-skeleton" }));
}
