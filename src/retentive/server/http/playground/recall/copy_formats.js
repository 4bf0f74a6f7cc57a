/** The request and the unsaved changes as text for the clipboard: TOML, curl and Python. */

import { el } from "../shared/dom.js";
import { snakeCase } from "../shared/format.js";
import { openDialog } from "../shared/overlays.js";
import { token } from "../shared/token.js";

const FORMATS = {
  TOML: ({ unsaved }) => `[tuning]\n${Object.entries(unsaved).map(([name, value]) => `${snakeCase(name)} = ${toml(value)}\n`).join("")}`,

  curl: ({ request, unsaved, profile }) => {
    const body = JSON.stringify({ ...request, tuning: unsaved }, null, 1).replaceAll(/\n\s*/g, " ");
    const lines = [`curl ${new URL("v1/recall", document.baseURI.split("#")[0])}`, "-H 'Content-Type: application/json'"];
    if (token.value) lines.push(`-H "Authorization: Bearer $RETENTIVE_TOKEN"`);
    if (profile) lines.push(`-H ${quoted(`X-Profile: ${profile}`)}`);
    return `${[...lines, `-d ${quoted(body)}`].join(" \\\n  ")}\n`;
  },

  Python: ({ request: { query, ...rest }, unsaved, profile }) => {
    const tuning = Object.fromEntries(Object.entries(unsaved).map(([name, value]) => [snakeCase(name), value]));
    const named = Object.fromEntries(Object.entries(rest).map(([name, value]) => [snakeCase(name), value]));
    const options = { ...named, ...(profile && { profile }), ...(Object.keys(tuning).length && { tuning }) };
    const written = Object.entries(options).map(([name, value]) => `, ${name}=${python(value)}`).join("");
    return [
      "from retentive import Engine", "", "with Engine.open() as engine:",
      `    for hit in engine.recall(${python(query)}${written}).hits:`, "        print(hit.rank, hit.memory.text)", "",
    ].join("\n");
  },
};

/**
 * A choice of formats; choosing one copies the text.
 * @param {App} app
 * @param {() => {request: object, unsaved: Tuning}} current
 */
export function copySelect(app, current) {
  const select = el("select", {
    class: "copy", "aria-label": "Copy as", onchange: () => {
      const { profile } = app.scope.value;
      copyText(app, FORMATS[select.value]({ ...current(), profile }), select.value);
      select.value = "";
    },
  }, el("option", { value: "" }, "Copy…"), Object.keys(FORMATS).map((name) => el("option", {}, name)));
  return select;
}

/** Copy a text to the clipboard; if the browser does not allow that, show it in a dialog. */
async function copyText(app, text, format) {
  try {
    await navigator.clipboard.writeText(text);
    app.toast(`Copied as ${format}`);
  } catch {
    openDialog(`Copy as ${format}`, () => {
      const field = el("textarea", { readonly: true, rows: 10, class: "mono", "aria-label": format, value: text });
      requestAnimationFrame(() => field.select());
      return [el("p", { class: "quiet" }, "The browser does not allow this page to use the clipboard. Copy the text below."), field];
    });
  }
}

/** Quote a text for a shell. */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function toml(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{ ${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)} = ${toml(one)}`).join(", ")} }`;
}

function python(value) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one)}`).join(", ")}}`;
}
