/** The Memories view: browse by project, session and date, read a session in order, edit, forget, add, import. */

import { el, replace } from "../shared/dom.js";
import { noMemories } from "../shared/empty_states.js";
import { plural } from "../shared/format.js";
import { loadSamples } from "../shared/samples.js";
import { editMemories } from "./bulk_edit.js";
import { createCatalogue } from "./catalogue.js";
import { createEditor } from "./editor.js";
import { acceptFileDrops } from "./file_drop.js";
import { NO_FILTERS, createFilters } from "./filters.js";
import { forgetMemories } from "./forget.js";
import { createHistogram } from "./histogram.js";
import { importFiles, importPanel } from "./import_panel.js";
import { createList } from "./list.js";
import { newestFirst, search, sessionOrder } from "./paging.js";
import { openRememberForm } from "./remember_form.js";
import { createReview } from "./review.js";

export const title = "Memories";

export function mount(root, app) {
  const histogram = createHistogram(app, (days) => app.route.update(days, { push: true }));
  const catalogue = createCatalogue(app, (target) => browse(target), () => histogram.load());
  const filters = createFilters(app);
  const list = createList(app, { open: (id) => open(id, { push: true }), forget, onSelect: showSelection, emptyState });
  const review = createReview(app, { open: (id) => open(id, { push: true }), onDecision: reload, onCount: catalogue.setReviews });
  const heading = el("h1", { class: "memories-title" });
  const orders = el("div", { class: "orders", role: "group", "aria-label": "Order" });
  const filePicker = el("input", { type: "file", accept: ".jsonl,.ndjson,.json,application/json", multiple: true,
    class: "visually-hidden", tabindex: "-1", "aria-label": "File to import", onchange: importPicked });
  const actions = el("div", { class: "memories-actions" },
    el("button", { type: "button", class: "button primary", onclick: remember }, "Remember…"),
    el("button", { type: "button", class: "button", onclick: () => filePicker.click() }, "Import…"), filePicker);
  const selectionBar = el("div", { class: "selection-bar", hidden: true, role: "group", "aria-label": "Selected memories" });
  const side = el("div", { class: "memories-side", hidden: true });
  const middle = el("div", {});
  const view = el("div", { class: "memories" },
    catalogue.element,
    el("div", { class: "memories-middle" },
      importPanel,
      el("div", { class: "memories-top" }, heading, orders, actions),
      middle),
    side);
  let editor = null;
  let loadingId = null; // the memory that is being loaded into the editor
  let shownList = "";
  let pager = null;

  const inSessionOrder = () => Boolean(app.scope.value.session) && app.route.params.get("order") !== "newest" && !filters.value().query;

  const reviewStatus = () => app.route.params.get("review");

  /** Show the list or the review queue, and the memory that the address names. */
  /** Show what the address names; it ends when the list is loaded. */
  async function followRoute() {
    const id = app.route.params.get("id");
    let listed = Promise.resolve();
    const listKey = JSON.stringify([app.scope.value, inSessionOrder(), filters.value(), reviewStatus()]);
    if (listKey !== shownList) {
      shownList = listKey;
      showHeading();
      catalogue.draw();
      listed = showMiddle(id);
    }
    if (id !== (editor?.id ?? loadingId)) await showEditor(id);
    await listed;
  }

  async function showMiddle(id) {
    const isReview = Boolean(reviewStatus());
    const parts = isReview ? [review.element] : [review.bar, filters.element, histogram.element, selectionBar, list.element];
    if (middle.firstChild !== parts[0]) replace(middle, parts); // else a field in use would lose the focus
    if (isReview) {
      await review.show(reviewStatus());
      return;
    }
    filters.element.hidden = false;
    filters.show();
    histogram.show();
    histogram.showPeriod(null);
    const shownPager = pager = createPager();
    await list.show(shownPager, id);
    if (shownPager === pager) histogram.showPeriod(pager.period?.() ?? null);
    list.markOpen(app.route.params.get("id"), { scroll: Boolean(id) });
  }

  function createPager() {
    const { query, filters: wanted } = filters.value();
    const scope = app.scope.asRequest();
    if (query) return search(app.api, scope, wanted, query);
    return (inSessionOrder() ? sessionOrder : newestFirst)(app.api, scope, wanted);
  }

  function showHeading() {
    const { project, session } = app.scope.value;
    const isReview = Boolean(reviewStatus());
    replace(heading, isReview ? "Review" : session ?? project ?? "All memories");
    const orderButton = (name, value) => el("button", { type: "button", class: "button",
      "aria-pressed": String(inSessionOrder() === !value), onclick: () => app.route.update({ order: value }) }, name);
    actions.hidden = isReview;
    replace(orders, isReview ? el("button", { type: "button", class: "button", onclick: () => app.route.update({ review: null }, { push: true }) },
      "Back to the list") : session && [orderButton("Session order", null), orderButton("Newest first", "newest")]);
  }

  async function browse({ project, session, review: status = null }) {
    if (!(await mayClose())) {
      catalogue.draw();
      return;
    }
    app.route.update({ project, session, id: null, order: null, ...(session ? NO_FILTERS : {}), review: status }, { push: true });
  }

  const mayClose = async () => !editor || editor.mayClose();

  async function open(id, { push = false } = {}) {
    if (editor?.id === id) {
      editor.focus();
      return;
    }
    if (await mayClose()) {
      removeEditor();
      app.route.update({ id }, { push });
    }
  }

  async function close() {
    if (!editor || !(await mayClose())) return;
    const { id } = editor;
    removeEditor();
    app.route.update({ id: null });
    list.focus(id);
  }

  function removeEditor() {
    editor = null;
    loadingId = null;
    side.hidden = true;
    view.classList.remove("has-editor");
    replace(side);
  }

  async function showEditor(id) {
    removeEditor();
    list.markOpen(id);
    if (!id) return;
    loadingId = id;
    side.hidden = false;
    view.classList.add("has-editor");
    replace(side, el("div", { class: "panel" }, el("div", { class: "skeleton" })));
    try {
      const memory = await app.api.get(`v1/memories/${encodeURIComponent(id)}`);
      if (loadingId !== id) return;
      const openMemory = (other) => open(other, { push: true });
      editor = createEditor(app, memory, { onChange: onEdit, close, forget: (one) => forget([one]), openSession, openMemory });
      replace(side, editor.element);
      editor.focus();
    } catch (error) {
      if (loadingId !== id) return;
      replace(side, el("div", { class: "panel" }, el("p", { class: "note error" }, error.message),
        el("button", { type: "button", class: "button", onclick: () => app.route.update({ id: null }) }, "Close")));
    }
  }

  function onEdit(memory) {
    list.update(memory);
    if (editor?.id === memory.id) editor.refresh(memory);
  }

  function openSession({ id, project, session }) {
    app.route.update({ id, project, session, kinds: null, order: null, ...NO_FILTERS, review: null }, { push: true });
  }

  function forget(memories) {
    const ids = memories.map((memory) => memory.id);
    let putBack = () => {};
    forgetMemories(app, memories, {
      onForgotten() {
        if (ids.includes(editor?.id)) {
          removeEditor();
          app.route.update({ id: null });
        }
        putBack = list.remove(ids);
        catalogue.load();
      },
      onRestored() {
        putBack();
        if (ids.every(list.has)) catalogue.load();
        else reload(); // another list is shown by now
      },
    });
  }

  function showSelection(memories) {
    selectionBar.hidden = !memories.length;
    replace(selectionBar, el("span", { class: "mono" }, `${memories.length} selected`),
      el("button", { type: "button", class: "button", onclick: () => edit(memories) }, "Edit…"),
      el("button", { type: "button", class: "button danger", onclick: () => forget(memories) },
        `Forget ${plural(memories.length, "memory", "memories")}…`),
      el("button", { type: "button", class: "button quiet", onclick: () => list.selectAll() }, "Select all shown"),
      el("button", { type: "button", class: "button quiet", onclick: () => list.clearSelection() }, "Clear selection"));
  }

  function edit(memories) {
    editMemories(app, memories, catalogue.names(), { onChange: onEdit, onMove() {
      app.refreshScope();
      return reload();
    } });
  }

  function reload() {
    if (!reviewStatus()) shownList = "";
    review.loadBar();
    catalogue.load();
    return followRoute();
  }

  async function remember() {
    const stored = await openRememberForm(app, catalogue.names());
    if (!stored) return;
    app.refreshScope();
    reload();
    app.toast("Memory stored", { label: "Open", action: () => open(stored.id) });
  }

  async function samples() {
    try {
      app.announce(`${plural(await loadSamples(app), "sample memory", "sample memories")} loaded`);
      reload();
    } catch (error) {
      app.toast(`The samples were not loaded: ${error.message}`, { kind: "error" });
    }
  }

  function importPicked() {
    importFiles(app, filePicker.files, reload);
    filePicker.value = "";
  }

  function emptyState() {
    const { project, session, kinds } = app.scope.value;
    if (!project && !session && !kinds && !filters.isSet()) {
      filters.element.hidden = true;
      return noMemories({ remember, chooseFile: () => filePicker.click(), samples });
    }
    const showAll = () => app.route.update({ project: null, session: null, kinds: null, order: null, ...NO_FILTERS }, { push: true });
    return el("div", { class: "state" }, el("h2", {}, "No memories"),
      el("p", {}, "No memory matches this search, project, session, kind, time or metadata."),
      el("button", { type: "button", class: "button", onclick: showAll }, "Show all memories"));
  }

  function closeOnEscape(event) {
    if (event.key !== "Escape" || !editor || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    event.preventDefault(); // else the same key press closes the dialog that this opens
    close();
  }

  // The address has already changed when a guard is called. It is restored until the user has answered.
  function guardNavigation(event) {
    const target = new URL(event.newURL).hash;
    const keepsEditor = target.startsWith("#/memories") && new URLSearchParams(target.split("?")[1]).get("id") === editor?.id;
    if (keepsEditor || !editor?.hasChanges()) return true;
    history.replaceState(null, "", event.oldURL);
    mayClose().then((may) => {
      if (!may) return;
      removeEditor();
      location.hash = target;
    });
    return false;
  }

  const guardUnload = (event) => editor?.hasChanges() && event.preventDefault();
  const stopDrops = acceptFileDrops(view, (files) => importFiles(app, files, reload));
  const removeListener = app.route.onChange(() => app.route.view === "memories" && followRoute());
  const removeGuard = app.route.addGuard(guardNavigation);
  addEventListener("beforeunload", guardUnload);
  document.addEventListener("keydown", closeOnEscape);
  root.append(view);
  catalogue.load();
  review.loadBar();
  followRoute();

  return () => {
    stopDrops();
    removeListener();
    removeGuard();
    list.stop();
    histogram.stop();
    removeEventListener("beforeunload", guardUnload);
    document.removeEventListener("keydown", closeOnEscape);
  };
}
