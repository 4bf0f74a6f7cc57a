/** Where a memory comes from, when it was, and whether it is retired. */

import { el } from "../shared/dom.js";
import { ago, dateTime, memoryTime } from "../shared/format.js";
import { route } from "../shared/route.js";

const DEFAULT_IMPORTANCE = 0.5;
const wordyDay = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "long", day: "numeric" });

/** Speaker, time, project and session of a memory, and its kind and importance unless they are the default ones. */
export function provenance(memory) {
  const when = memoryTime(memory);
  return el("p", { class: "provenance" },
    memory.speaker && el("span", { class: "speaker", dir: "auto" }, memory.speaker),
    el("time", { datetime: when, title: dateTime(when) }, `${ago(when)}, ${wordyDay.format(new Date(when))}`),
    sessionLink(memory),
    memory.kind !== "episodic" && el("span", {}, memory.kind),
    memory.importance !== DEFAULT_IMPORTANCE && el("span", { title: "Importance, from 0 to 1" }, "importance ",
      el("span", { class: "mono" }, memory.importance)),
    memory.evergreen && el("span", { class: "tag" }, "evergreen"));
}

/** "superseded", "retracted", "expired" or "not valid yet"; null for a memory that is current. */
export function retiredLabel({ validFrom, validTo, expires, supersededBy }, now = Date.now()) {
  const isPast = (time) => Boolean(time) && new Date(time).getTime() <= now;
  if (isPast(validTo)) return supersededBy ? "superseded" : "retracted";
  if (isPast(expires)) return "expired";
  return validFrom && !isPast(validFrom) ? "not valid yet" : null;
}

function sessionLink({ id, project, session, position }) {
  const names = [project, session].filter(Boolean);
  if (!names.length) return null;
  const profile = route.params.get("profile");
  const params = new URLSearchParams(Object.entries({ profile, project, session, id }).filter(([, value]) => value));
  return el("a", { class: "session-link", href: `#/memories?${params}`, title: session ? "Open in its session" : "Open in its project" },
    names.join(" › "), position !== null && el("span", { class: "mono" }, ` #${position}`));
}
