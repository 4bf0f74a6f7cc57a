/** Memories: browse by project, session and time, read a session in order, change, forget, remember, import. */

import { el, replace } from "./dom.js";
import { forget } from "./forgetting.js";
import { importFiles, importPlace } from "./import_panel.js";
import { createCatalogue } from "./memory_catalogue.js";
import { createEditor } from "./memory_editor.js";
import { inOrder, newestFirst } from "./memory_feeds.js";
import { createList } from "./memory_list.js";
import { nothingHere, noMemories } from "./memory_states.js";
import { rememberSomething } from "./remember_form.js";
import { counted } from "./times.js";
import { takeDrops } from "./dropping.js";

export const title = "Memories";

export function mount(root, app) {
  const catalogue = createCatalogue(app, (to) => browse(to));
  const list = createList(app, { open: (id) => open(id, { push: true }), forget: forgetThese, chosen: showChosen, empty });
  const heading = el("h1", { class: "memories-title" });
  const orders = el("div", { class: "orders", role: "group", "aria-label": "Order" });
  const picker = el("input", { type: "file", accept: ".jsonl,.ndjson,.json,application/json", multiple: true,
    class: "visually-hidden", tabindex: "-1", "aria-label": "File to import", onchange: importPicked });
  const actions = el("div", { class: "memories-actions" },
    el("button", { type: "button", class: "button primary", onclick: remember }, "Remember…"),
    el("button", { type: "button", class: "button", onclick: () => picker.click() }, "Import…"), picker);
  const untilDay = el("input", { type: "date", onchange: () => app.route.update({ until: untilDay.value }) });
  const untilPick = el("label", { class: "until" }, "Noted until", untilDay);
  const chosenBar = el("div", { class: "chosen-bar", hidden: true, role: "group", "aria-label": "Selected memories" });
  const side = el("div", { class: "memories-side", hidden: true });
  const view = el("div", { class: "memories" },
    catalogue.element,
    el("div", { class: "memories-middle" },
      importPlace,
      el("div", { class: "memories-top" }, heading, untilPick, orders, actions),
      chosenBar, list.element),
    side);
  let editor = null;
  let opening = null;
  let shownScope = "";

  const readsInOrder = () => Boolean(app.scope.value.session) && app.route.params.get("order") !== "newest";

  const until = () => (/^\d{4}-\d\d-\d\d$/.test(app.route.params.get("until") ?? "") ? app.route.params.get("until") : null);

  /** Goes where the address says: another scope is listed, another memory opened. */
  async function follow() {
    const id = app.route.params.get("id");
    const scope = JSON.stringify([app.scope.value, readsInOrder(), until()]);
    if (scope !== shownScope) {
      shownScope = scope;
      showHeading();
      catalogue.draw();
      const feed = (readsInOrder() ? inOrder : newestFirst)(app.api, app.scope.asQuery(), until());
      list.show(feed, id).then(() => list.mark(app.route.params.get("id"), { scroll: Boolean(id) }));
    }
    if (id !== (editor?.id ?? opening)) await showEditor(id);
  }

  function showHeading() {
    const { project, session } = app.scope.value;
    replace(heading, session ?? project ?? "All memories");
    const order = (name, value) => el("button", { type: "button", class: "button", "aria-pressed": String(readsInOrder() === !value),
      onclick: () => app.route.update({ order: value }) }, name);
    untilPick.hidden = readsInOrder();
    untilDay.value = until() ?? "";
    replace(orders, session && [order("In order", null), order("Newest first", "newest")]);
  }

  async function browse(to) {
    if (!(await mayLeave())) {
      catalogue.draw();
      return;
    }
    app.route.update({ project: to.project, session: to.session, id: null, order: null, until: null }, { push: true });
  }

  const mayLeave = async () => !editor || editor.mayLeave();

  async function open(id, { push = false } = {}) {
    if (editor?.id === id) {
      editor.focus();
      return;
    }
    if (await mayLeave()) {
      drop();
      app.route.update({ id }, { push });
    }
  }

  async function close() {
    if (!editor || !(await mayLeave())) return;
    const { id } = editor;
    drop();
    app.route.update({ id: null });
    list.focus(id);
  }

  function drop() {
    editor = null;
    opening = null;
    side.hidden = true;
    view.classList.remove("opened");
    replace(side);
  }

  async function showEditor(id) {
    drop();
    list.mark(id);
    if (!id) return;
    opening = id;
    side.hidden = false;
    view.classList.add("opened");
    replace(side, el("div", { class: "panel" }, el("div", { class: "skeleton" })));
    try {
      const memory = await app.api.get(`v1/memories/${encodeURIComponent(id)}`);
      if (opening !== id) return;
      editor = createEditor(app, memory, { changed, close, forget: (one) => forgetThese([one]), toSession });
      replace(side, editor.element);
      editor.focus();
    } catch (problem) {
      if (opening !== id) return;
      replace(side, el("div", { class: "panel" }, el("p", { class: "note error" }, problem.detail ?? String(problem)),
        el("button", { type: "button", class: "button", onclick: () => app.route.update({ id: null }) }, "Close")));
    }
  }

  function changed(memory) {
    list.update(memory);
    if (editor?.id === memory.id) editor.refresh(memory);
  }

  function toSession({ id, project, session }) {
    app.route.update({ id, project, session, kinds: null, order: null, until: null }, { push: true });
  }

  function forgetThese(memories) {
    const ids = memories.map((memory) => memory.id);
    let restore = () => {};
    forget(app, memories, {
      gone() {
        if (ids.includes(editor?.id)) {
          drop();
          app.route.update({ id: null });
        }
        restore = list.remove(ids);
        catalogue.load();
      },
      back() {
        restore();
        if (ids.every((id) => list.get(id))) catalogue.load();
        else reload(); // another list is shown by now
      },
    });
  }

  function showChosen(memories) {
    chosenBar.hidden = !memories.length;
    replace(chosenBar, el("span", { class: "mono" }, `${memories.length} selected`),
      el("button", { type: "button", class: "button danger", onclick: () => forgetThese(memories) },
        `Forget ${counted(memories.length, "memory", "memories")}…`),
      el("button", { type: "button", class: "button quiet", onclick: () => list.clearChosen() }, "Clear"));
  }

  function reload() {
    shownScope = "";
    catalogue.load();
    follow();
  }

  async function remember() {
    const stored = await rememberSomething(app, catalogue.names());
    if (!stored) return;
    app.refreshScope();
    reload();
    app.toast("Remembered", { label: "Open", action: () => open(stored.id) });
  }

  function importPicked() {
    importFiles(app, picker.files, reload);
    picker.value = "";
  }

  function empty() {
    const { project, session, kinds } = app.scope.value;
    if (project || session || kinds || until()) return nothingHere(showAll);
    return noMemories({ remember, choose: () => picker.click() });
  }

  const showAll = () => app.route.update({ project: null, session: null, kinds: null, until: null, order: null }, { push: true });

  function closeByKey(event) {
    if (event.key !== "Escape" || !editor || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    event.preventDefault(); // else the same key closes the query that it brings up
    close();
  }

  // The address has changed already when this is told of; it is put back until the query is answered.
  function holdBack(event) {
    const to = new URL(event.newURL).hash;
    const stays = to.startsWith("#/memories") && new URLSearchParams(to.split("?")[1]).get("id") === editor?.id;
    if (stays || !editor?.isDirty()) return true;
    history.replaceState(null, "", event.oldURL);
    mayLeave().then((may) => {
      if (!may) return;
      drop();
      location.hash = to;
    });
    return false;
  }

  const warn = (event) => editor?.isDirty() && event.preventDefault();
  const endDrops = takeDrops(view, (files) => importFiles(app, files, reload));
  const endRoute = app.route.onChange(() => app.route.view === "memories" && follow());
  const endHold = app.route.holdBack(holdBack);
  addEventListener("beforeunload", warn);
  document.addEventListener("keydown", closeByKey);
  root.append(view);
  catalogue.load();
  follow();

  return () => {
    endDrops();
    endRoute();
    list.end();
    endHold();
    removeEventListener("beforeunload", warn);
    document.removeEventListener("keydown", closeByKey);
  };
}
