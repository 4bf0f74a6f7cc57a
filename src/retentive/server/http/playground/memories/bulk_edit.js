/** Change several memories at once: kind, importance, evergreen, and the project of their sessions; with undo. */

import { el, labelled, replace, unique } from "../shared/dom.js";
import { plural } from "../shared/format.js";
import { openDialog } from "../shared/overlays.js";
import { KINDS } from "../shared/scope.js";

const PARALLEL = 4;
const UNDO_SECONDS = 15;

/**
 * Open the dialog, apply the changes, and offer an undo.
 * @param {App} app
 * @param {Memory[]} memories  complete, as in responses
 * @param {{projects: {name: string}[], sessions: {name: string}[]}} names
 * @param {{onChange: (memory: Memory) => void, onMove: () => Promise<void>}} handlers
 */
export async function editMemories(app, memories, names, handlers) {
  const wanted = await openDialog(`Edit ${plural(memories.length, "memory", "memories")}`, (close) => editForm(memories, names, close));
  if (!wanted) return;
  const { project, ...changes } = wanted;
  const requests = Object.keys(changes).length ? memories.map(({ id }) => ({ id, changes })) : [];
  const before = memories.map((memory) => ({ id: memory.id, changes: Object.fromEntries(Object.keys(changes).map((name) => [name, memory[name]])) }));
  const moves = project === undefined ? [] : sessionsOf(memories, names).map((session) => ({ session, from: session.project, to: project || null }));
  if (!(await apply(app, requests, moves, handlers))) return;
  const parts = [requests.length && plural(requests.length, "memory", "memories"), moves.length && plural(moves.length, "session")].filter(Boolean);
  app.toast(`Changed ${parts.join(" and ")}`, { seconds: UNDO_SECONDS, action: async () => {
    const back = moves.map(({ session, from, to }) => ({ session, from: to, to: from }));
    if (await apply(app, requests.length ? before : [], back, handlers)) app.announce("Undone");
  } });
}

/** Send the changes, some at a time; return whether all succeeded. */
async function apply(app, requests, moves, { onChange, onMove }) {
  const waiting = [...requests];
  let failure = null;
  const worker = async () => {
    for (let next = waiting.shift(); next && !failure; next = waiting.shift()) {
      try {
        onChange(await app.api.patch(`v1/memories/${next.id}`, next.changes));
      } catch (error) {
        failure = error;
      }
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  try {
    for (const { session, from, to } of failure ? [] : moves) {
      await app.api.patch(`v1/sessions/${encodeURIComponent(session.name)}`, { project: to, fromProject: from ?? undefined });
    }
  } catch (error) {
    failure = error;
  }
  if (moves.length) await onMove(); // the list announces itself first
  if (failure) app.toast(`Not everything was changed: ${failure.message}`, { kind: "error" });
  return !failure;
}

/** The sessions of these memories. */
function sessionsOf(memories, { sessions }) {
  return sessions.filter(({ name, project }) => memories.some((memory) => memory.session === name && memory.project === project));
}

function editForm(memories, names, close) {
  const id = unique("projects");
  const unchanged = () => el("option", { value: "" }, "Do not change");
  const kind = el("select", { autofocus: true }, unchanged(), KINDS.map((name) => el("option", { value: name }, name)));
  const evergreen = el("select", {}, unchanged(), el("option", { value: "true" }, "evergreen"), el("option", { value: "false" }, "not evergreen"));
  const importance = el("input", { type: "number", min: 0, max: 1, step: 0.05, placeholder: "Do not change" });
  const project = el("input", { type: "text", autocomplete: "off", list: id, placeholder: "Do not change" });
  const noProject = el("input", { type: "checkbox", onchange: () => {
    project.disabled = noProject.checked;
    showMove();
  } });
  const sessions = sessionsOf(memories, names);
  const moveNote = el("p", { class: "quiet small whole" });
  const errorNote = el("p", { class: "note error whole", role: "alert", hidden: true });
  project.addEventListener("input", showMove);

  function showMove() {
    const moved = sessions.reduce((sum, session) => sum + session.memories, 0);
    replace(moveNote, project.value.trim() || noProject.checked
      ? `${plural(sessions.length, "session")} with ${plural(moved, "memory", "memories")} will be moved: a session is in one project.`
      : "A project is that of the whole session; memories without a session stay where they are.");
  }

  function submit(event) {
    event.preventDefault();
    const changes = {
      ...(kind.value && { kind: kind.value }), ...(evergreen.value && { evergreen: evergreen.value === "true" }),
      ...(importance.value !== "" && { importance: Number(importance.value) }),
      ...((project.value.trim() || noProject.checked) && sessions.length && { project: noProject.checked ? "" : project.value.trim() }),
    };
    errorNote.hidden = Object.keys(changes).length > 0;
    errorNote.textContent = "Nothing was chosen that changes these memories.";
    if (errorNote.hidden) close(changes);
  }

  showMove();
  return el("form", { class: "remember-form", onsubmit: submit },
    labelled("Kind", kind), labelled("Importance, from 0 to 1", importance), labelled("Decay", evergreen),
    labelled("Project of their sessions", [project, el("datalist", { id }, names.projects.map(({ name }) => el("option", { value: name })))]),
    el("label", { class: "check whole" }, noProject, "Move their sessions out of their project"), moveNote, errorNote,
    el("div", { class: "dialog-end whole" },
      el("button", { type: "button", class: "button", onclick: () => close() }, "Cancel"),
      el("button", { class: "button primary" }, "Change")));
}
