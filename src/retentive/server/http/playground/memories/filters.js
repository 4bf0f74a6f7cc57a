/** The search box and the filters of the list. Project, session and kinds are chosen in the header. */

import { el, labelled } from "../shared/dom.js";

const DAY = /^\d{4}-\d\d-\d\d$/;
export const FILTER_PARAMS = ["q", "since", "until", "metadata"];
export const NO_FILTERS = Object.fromEntries(FILTER_PARAMS.map((name) => [name, null]));

/** @param {App} app */
export function createFilters(app) {
  const query = el("input", { type: "search", placeholder: "Search memories", "aria-label": "Search memories", autocomplete: "off",
    oninput: () => query.value || update({ q: null }) });
  const since = el("input", { type: "date", onchange: () => update({ since: since.value }) });
  const until = el("input", { type: "date", onchange: () => update({ until: until.value }) });
  const metadata = el("input", { type: "text", placeholder: "channel = mail", autocomplete: "off", spellcheck: "false",
    onchange: () => isValid() && update({ metadata: metadata.value.trim() }), oninput: isValid });
  const clear = el("button", { type: "button", class: "button quiet", onclick: () => {
    update(NO_FILTERS);
    query.focus();
  } }, "Clear filters");
  const fields = el("div", { class: "filter-fields", hidden: true },
    labelled("From", since), labelled("Until", until), labelled("Metadata", metadata), clear);
  // The fields are outside of the element that opens them, so that its button stays in its place.
  const more = el("details", { class: "filter-more", ontoggle: () => (fields.hidden = !more.open) }, el("summary", { class: "button" }, "Filters"));
  const element = el("form", { class: "filters", role: "search", "aria-label": "Memories", onsubmit: submit },
    query, el("button", { class: "button" }, "Search"), more, fields);

  const update = (changes) => app.route.update(changes);
  const shown = { q: null, metadata: null };

  function submit(event) {
    event.preventDefault();
    if (isValid()) app.route.update({ q: query.value.trim(), metadata: metadata.value.trim() });
    else metadata.reportValidity();
  }

  function isValid() {
    const valid = !metadata.value.trim() || parseMetadata(metadata.value) !== null;
    metadata.setCustomValidity(valid ? "" : "Enter a key and its value: channel = mail");
    return valid;
  }

  /** The filters of the address, as requests take them, and the query. */
  function value() {
    const { params } = app.route;
    const days = Object.fromEntries(["since", "until"].filter((name) => DAY.test(params.get(name) ?? "")).map((name) => [name, localDay(params.get(name), name)]));
    const wanted = parseMetadata(params.get("metadata") ?? "");
    return { query: (params.get("q") ?? "").trim(), filters: { ...days, ...(wanted && { metadata: wanted }) } };
  }

  function show() {
    const { params } = app.route;
    for (const [name, field] of Object.entries({ q: query, metadata })) {
      if (shown[name] !== params.get(name)) field.value = params.get(name) ?? ""; // else what is typed stays
      shown[name] = params.get(name);
    }
    since.value = params.get("since") ?? "";
    until.value = params.get("until") ?? "";
    const count = FILTER_PARAMS.slice(1).filter((name) => params.get(name)).length;
    more.querySelector("summary").textContent = count ? `Filters (${count})` : "Filters";
    if (count) more.open = true;
    clear.disabled = !count && !params.get("q");
  }

  return { element, value, show, isSet: () => FILTER_PARAMS.some((name) => app.route.params.get(name)) };
}

/** The start of a day, or the end of it, in the time zone of the browser, in which the list shows its days. */
function localDay(day, name) {
  const time = new Date(`${day}T00:00:00`);
  if (name === "until") time.setDate(time.getDate() + 1);
  return time.toISOString();
}

/** "channel = mail, year = 2026" as an object; null if it is empty or another form. A value in quotes is text. */
function parseMetadata(text) {
  const pairs = text.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/).filter((part) => part.trim()).map((part) => part.match(/^\s*([^=]+?)\s*=\s*(.*?)\s*$/));
  if (!pairs.length || pairs.includes(null)) return null;
  return Object.fromEntries(pairs.map(([, key, value]) => [key, parseValue(value)]));
}

function parseValue(text) {
  if (/^(true|false|null|-?\d+(\.\d+)?|".*")$/.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  return text;
}
