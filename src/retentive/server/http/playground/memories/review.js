/** The review queue: pairs of memories of which the newer one may have replaced the older one, to accept or to reject. */

import { errorText } from "../shared/api.js";
import { el, replace } from "../shared/dom.js";
import { dateTime, day, memoryTime, plural } from "../shared/format.js";

const PAGE_SIZE = 20;
const STATUSES = { open: "Open", confirmed: "Accepted", dismissed: "Rejected" };
const EMPTY = {
  open: "No suggestion is open. When a new memory says that something has changed, and an older one is about the same, both appear here.",
  confirmed: "No suggestion has been accepted.",
  dismissed: "No suggestion has been rejected.",
};

/**
 * @param {App} app
 * @param {object} handlers
 * @param {(id: string) => void} handlers.open  called with a memory to open
 * @param {() => void} handlers.onDecision  called after a memory was retired or restored
 * @param {(count: number) => void} handlers.onCount  called with the number of open suggestions
 */
export function createReview(app, { open, onDecision, onCount }) {
  const count = el("span", {});
  const bar = el("div", { class: "review-bar", hidden: true }, count,
    el("button", { type: "button", class: "button", onclick: () => app.route.update({ review: "open", id: null }, { push: true }) }, "Review"));
  const tabs = el("div", { class: "orders", role: "group", "aria-label": "Status of the suggestions" });
  const list = el("ol", { class: "review-pairs", "aria-label": "Suggestions" });
  const state = el("div", {});
  const more = el("button", { type: "button", class: "button memory-more", hidden: true, onclick: showMore }, "Show more");
  const element = el("section", { class: "review", "aria-label": "Review", tabindex: "-1" },
    el("p", { class: "quiet review-about" }, "A newer memory says that something has changed. Accept: the older memory is retired, and recalls "
      + "leave it out. Reject: both memories are kept. Each decision can be undone."),
    tabs, list, state, more);
  let status = "open";
  let reviews = [];
  let shown = 0;
  let latest = 0;

  /** Show how many suggestions are open, on the bar above the list. */
  async function loadBar() {
    try {
      const { total } = await app.api.get("v1/reviews", { limit: 1 });
      onCount(total);
      bar.hidden = total === 0;
      count.textContent = `${plural(total, "memory", "memories")} may be out of date`;
    } catch {
      bar.hidden = true; // the list itself says what is wrong
    }
  }

  /** Show the suggestions with a status. */
  async function show(wanted) {
    status = wanted in STATUSES ? wanted : "open";
    const request = (latest += 1);
    drawTabs();
    replace(list);
    more.hidden = true;
    replace(state, el("div", { class: "panel" }, el("div", { class: "skeleton" })));
    try {
      const found = (await app.api.get("v1/reviews", { status })).reviews;
      if (request !== latest) return;
      reviews = found;
      shown = 0;
      replace(state);
      showMore();
      app.announce(plural(reviews.length, "suggestion"));
    } catch (error) {
      if (request !== latest) return;
      replace(state, el("div", { class: "note error" }, el("p", {}, error.message),
        el("button", { type: "button", class: "button", onclick: () => show(status) }, "Try again")));
    }
  }

  function drawTabs() {
    replace(tabs, Object.entries(STATUSES).map(([value, name]) => el("button", { type: "button", class: "button",
      "aria-pressed": String(value === status), onclick: () => app.route.update({ review: value }) }, name)));
  }

  function showMore() {
    const next = reviews.slice(shown, shown + PAGE_SIZE);
    list.append(...next.map(pair));
    shown += next.length;
    more.hidden = shown >= reviews.length;
    if (!reviews.length) replace(state, el("p", { class: "state" }, EMPTY[status]));
  }

  function pair(review) {
    const { suggestion, old, new: newer } = review;
    const item = el("li", { class: "panel review-pair", dataset: { id: suggestion.id } },
      el("div", { class: "review-sides" }, side("Older", old), el("span", { class: "review-arrow", "aria-hidden": "true" }, "→"), side("Newer", newer)),
      el("p", { class: "small quiet review-reason" }, `Suggested because of ${suggestion.reason}.`),
      suggestion.proposal && el("p", { class: "small review-reason" }, el("strong", {}, "LLM: "), suggestion.proposal),
      el("div", { class: "review-actions" }, buttons(review, () => item)));
    return item;
  }

  function side(name, memory) {
    const when = memoryTime(memory);
    return el("article", { class: `review-side review-${name.toLowerCase()}` },
      el("h2", {}, name, " ", el("time", { class: "quiet", datetime: when, title: dateTime(when) }, day(when))),
      el("p", { class: "review-text", dir: "auto" }, memory.text),
      el("p", { class: "small quiet" }, [memory.speaker, memory.project, memory.session].filter(Boolean).join(" · "), " ",
        el("button", { type: "button", class: "link", onclick: () => open(memory.id) }, "Open")));
  }

  function buttons(review, item) {
    if (status !== "open") {
      return el("button", { type: "button", class: "button", onclick: () => decide(review, "undo", item()) }, "Undo");
    }
    return [
      el("button", { type: "button", class: "button primary", onclick: () => decide(review, "confirm", item()) }, "Accept"),
      el("button", { type: "button", class: "button", onclick: () => decide(review, "dismiss", item()) }, "Reject"),
    ];
  }

  async function decide({ suggestion }, action, item) {
    for (const button of item.querySelectorAll(".review-actions button")) button.disabled = true;
    try {
      await app.api.post(`v1/reviews/${suggestion.id}`, { action, actor: "playground" });
    } catch (error) {
      for (const button of item.querySelectorAll(".review-actions button")) button.disabled = false;
      app.toast(`Not changed: ${errorText(error, "decide on suggestions")}`, { kind: "error" });
      return;
    }
    remove(suggestion.id, item);
    loadBar();
    if (action !== "dismiss") onDecision();
    const done = { confirm: "Accepted: the older memory is retired", dismiss: "Rejected: both memories are kept", undo: "The suggestion is open again" };
    app.toast(done[action], action === "undo" ? {} : { action: () => undo(suggestion.id) });
  }

  /** Remove a decided pair; the focus goes to the next one. */
  function remove(id, item) {
    const next = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    reviews = reviews.filter((review) => review.suggestion.id !== id);
    shown = Math.min(shown - 1, reviews.length);
    if (!list.children.length) showMore();
    (next?.querySelector(".review-actions button") ?? list.querySelector(".review-actions button") ?? element).focus();
  }

  async function undo(id) {
    try {
      await app.api.post(`v1/reviews/${id}`, { action: "undo" });
      app.announce("The suggestion is open again");
    } catch (error) {
      app.toast(`The undo failed: ${error.message}`, { kind: "error" });
      return;
    }
    loadBar();
    onDecision();
    if (element.isConnected && app.route.params.get("review")) show(status);
  }

  return { bar, element, loadBar, show };
}
