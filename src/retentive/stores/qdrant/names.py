"""The profiles, projects and sessions that exist, and which project a session belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qdrant_client import models as q

from retentive.errors import Conflict, Unavailable
from retentive.models import Memory
from retentive.stores.qdrant.connection import Change, Connection, matching
from retentive.stores.qdrant.key_value import note_id
from retentive.stores.qdrant.points import encodable


class Home(NamedTuple):
    """Where a session belongs; `moving` while its memories are still on their way there."""

    project: str | None
    moving: bool = False
    stamp: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """Memories in their sessions' projects, the names that are new, and sessions whose move was cut off."""

    memories: list[Memory]
    new: list[Change] = field(default_factory=list)
    unmoved: dict[tuple[str, str], str | None] = field(default_factory=dict)


def homes(connection: Connection, profile: str, sessions: Iterable[str]) -> dict[str, Home]:
    """Those of these sessions that exist, each with its project."""
    points = {note_id("session", profile, name): name for name in sessions if encodable(profile, name)}
    found = connection.retrieve(connection.notes, points)
    return {points[id]: _home(record) for id, record in found.items()}


def place(connection: Connection, memories: Sequence[Memory]) -> Placed:
    """The memories where they belong; nothing is written. `Conflict` for a project that is not the session's."""
    wanted = {note_id(*names): names for memory in memories for names in _names_of(memory)}
    found = connection.retrieve(connection.notes, wanted)
    new: dict[str, Change] = {}
    known: dict[tuple[str, str], str | None] = {}
    placed, unmoved = [], {}
    for id, record in found.items():
        if wanted[id][0] == "session":
            home, (_, profile, session) = _home(record), wanted[id]
            known[profile, session] = home.project
            if home.moving:
                unmoved[profile, session] = home.project
    for memory in memories:
        placed.append(_placed(memory, known))
        for names in _names_of(memory):
            id = note_id(*names)
            if id not in found and id not in new:
                new[id] = Change(id, _payload(names, known))
    return Placed(placed, list(new.values()), unmoved)


def register(connection: Connection, new: Sequence[Change]) -> None:
    """Let these names come into being. `Conflict` if another process has just put a session somewhere else."""
    if not new:
        return
    stamp = connection.clock.take()
    points = [q.PointStruct(id=one.id, vector={}, payload={**one.payload, "stamp": stamp}) for one in new]
    connection.upsert(connection.notes, points, mode=q.UpdateMode.INSERT_ONLY)
    sessions = {one.id: one.payload for one in new if one.payload["type"] == "session"}
    for id, record in connection.retrieve(connection.notes, sessions).items():
        if _home(record).project != sessions[id].get("project"):
            raise Conflict(
                f"session '{sessions[id]['name']}' was put into another project just now; nothing was stored, try again"
            )


def project(profile: str, name: str) -> Change:
    """A project that is to exist."""
    return Change(note_id("project", profile, name), {"type": "project", "profile": profile, "name": name})


def set_home(connection: Connection, profile: str, session: str, home: Home, *, to: str | None, moving: bool) -> Home:
    """The session with its new project."""
    payload = _payload(("session", profile, session), {(profile, session): to}) | {"moving": moving}
    id = note_id("session", profile, session)
    if not connection.put([Change(id, payload, home.stamp)]):
        raise Unavailable(f"another process is moving the session '{session}'; try again")
    return homes(connection, profile, [session])[session]


def listed(connection: Connection, type: str, profile: str | None = None, project: str | None = None) -> Iterator[Any]:
    """The payloads of all names of a type."""
    if not encodable(profile, project):
        return
    wanted = {"type": type, "profile": profile, "project": project}
    where = matching(**{name: value for name, value in wanted.items() if value is not None})
    for record in connection.scroll(connection.notes, where):
        yield record.payload


def _names_of(memory: Memory) -> Iterator[tuple[str, ...]]:
    yield "profile", memory.profile
    if memory.project is not None:
        yield "project", memory.profile, memory.project
    if memory.session is not None:
        yield "session", memory.profile, memory.session


def _placed(memory: Memory, known: dict[tuple[str, str], str | None]) -> Memory:
    if memory.session is None:
        return memory._replace(position=None)
    home = known.setdefault((memory.profile, memory.session), memory.project)
    if memory.project not in (None, home):
        raise Conflict(
            f"session '{memory.session}' does not belong to project '{memory.project}'; leave the project out, "
            f"or move it: retentive sessions move '{memory.session}' --project '{memory.project}'"
        )
    return memory._replace(project=home)


def _payload(names: tuple[str, ...], known: Mapping[tuple[str, str], str | None]) -> dict[str, Any]:
    type, profile, *rest = names
    payload: dict[str, Any] = {"type": type, "profile": profile, "name": rest[0] if rest else profile}
    if type == "session":
        payload |= {"project": known[profile, rest[0]], "moving": False}
    return payload


def _home(record: q.Record) -> Home:
    payload = record.payload or {}
    return Home(payload.get("project"), payload["moving"], payload["stamp"])
