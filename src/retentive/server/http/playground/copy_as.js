/** The turned parameters and the query as TOML, curl and Python, for the clipboard. */

import { openDialog } from "./dialog.js";
import { el } from "./dom.js";
import { snake } from "./format.js";
import { token } from "./api.js";

/** @param {{query: object, turned: object}} what the query as a recall takes it, and the parameters */
export const FORMS = {
  TOML: ({ turned }) => `[tuning]\n${Object.entries(turned).map(([parameter, value]) => `${snake(parameter)} = ${toml(value)}\n`).join("")}`,

  curl: ({ query, turned }) => {
    const body = JSON.stringify({ ...query, tuning: turned }, null, 1).replaceAll(/\n\s*/g, " ");
    const lines = [`curl ${new URL("v1/recall", document.baseURI.split("#")[0])}`, "-H 'Content-Type: application/json'"];
    if (token.value) lines.push(`-H "Authorization: Bearer $RETENTIVE_TOKEN"`);
    return `${[...lines, `-d '${body.replaceAll("'", "'\\''")}'`].join(" \\\n  ")}\n`;
  },

  Python: ({ query: { query, onlySession, ...rest }, turned }) => {
    const named = { ...rest, ...(onlySession && { only_session: true }), ...(Object.keys(turned).length && { tuning: snaked(turned) }) };
    const given = Object.entries(named).map(([name, value]) => `, ${name}=${python(value)}`).join("");
    return [
      "from retentive import Engine", "", "with Engine.open() as engine:",
      `    for hit in engine.recall(${python(query)}${given}).hits:`, "        print(hit.rank, hit.memory.text)", "",
    ].join("\n");
  },
};

/** Puts a text on the clipboard; where that is not allowed, shows it to be copied by hand. */
export async function copy(app, text, name) {
  try {
    await navigator.clipboard.writeText(text);
    app.toast(`Copied as ${name}`);
  } catch {
    openDialog(`Copy as ${name}`, () => {
      const field = el("textarea", { readonly: true, rows: 10, class: "mono", "aria-label": name, value: text });
      requestAnimationFrame(() => field.select());
      return [el("p", { class: "quiet" }, "The browser does not let this page use the clipboard. Copy it from here."), field];
    });
  }
}

function snaked(parameters) {
  return Object.fromEntries(Object.entries(parameters).map(([parameter, value]) => [snake(parameter), value]));
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
