"""Profiles, projects and sessions: which exist, the project of each session, and scopes as filters.

Each name is a note. The note of a session has its project, and `moving` while its memories still have the former one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qdrant_client import models as q

from retentive.errors import Conflict, NotFound, Unavailable
from retentive.models import Memory, Scope
from retentive.stores.qdrant.connection import Connection, NoteWrite, any_of, matching, note_id, payload_of
from retentive.stores.qdrant.model_collections import ModelCollections
from retentive.stores.qdrant.points import encodable

MAX_KNOWN = 50_000
"""How many names a process keeps in memory."""

SHARED = q.Filter(must=[any_of("kind", ["identity"]), q.IsEmptyCondition(is_empty=q.PayloadField(key="project"))])
"""Identity memories that belong to no project."""

Payload = Mapping[str, Any]
SessionName = tuple[str, str]
"""The profile and the name of a session."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Memories with the projects of their sessions, and the notes of names that do not exist yet."""

    memories: list[Memory]
    new: list[q.PointStruct] = field(default_factory=list)
    sessions: dict[SessionName, str | None] = field(default_factory=dict)

    @property
    def operations(self) -> list[Any]:
        """The operations on the notes that register the new names."""
        points = q.PointsList(points=self.new, update_mode=q.UpdateMode.INSERT_ONLY)
        return [q.UpsertOperation(upsert=points)] if self.new else []

    @property
    def session_notes(self) -> list[str]:
        """The ids of the notes of the sessions."""
        return [note_id("session", *name) for name in self.sessions]


class NameRegistry:
    """The names of a store. Names are never deleted, so those that were read are kept in memory.

    Another process may have moved a session since: `check_sessions` compares that after the write of its memories.
    """

    def __init__(self, connection: Connection, collections: ModelCollections) -> None:
        self._connection = connection
        self._collections = collections
        self._known: dict[str, Payload] = {}

    # Placing memories

    def load(self, memories: Sequence[Memory], *, notes: Sequence[str] = (), fresh: bool = False) -> dict[str, Payload]:
        """Read the names of these memories unless they are known, and other notes in the same request.

        They are also read if a memory names another project than its session had: the session may have been moved.
        """
        wanted = [note_id(*names) for memory in memories for names in _names_of(memory)]
        if not notes and not fresh and all(id in self._known for id in wanted):
            sessions = [
                (one, self._known[note_id("session", one.profile, one.session)]) for one in memories if one.session
            ]
            if all(memory.project in (None, session.get("project")) for memory, session in sessions):
                return {}
        found = self._connection.retrieve(self._connection.notes, [*wanted, *notes])
        payloads: dict[str, Payload] = {id: payload_of(record) for id, record in found.items()}
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        self._known |= {id: payloads[id] for id in wanted if id in payloads}
        return payloads

    def place(self, memories: Sequence[Memory]) -> Placement:
        """Give memories the projects of their sessions, after `load`; nothing is written.

        `Conflict` if a memory names another project than its session's.
        """
        placement = Placement([])
        new: dict[str, Payload] = {}
        for memory in memories:
            if memory.session is None:
                placed = memory._replace(position=None)
            else:
                name = (memory.profile, memory.session)
                known = self._known.get(note_id("session", *name))
                project = placement.sessions.setdefault(name, known.get("project") if known else memory.project)
                if memory.project not in (None, project):
                    raise _other_project(memory.session, memory.project)
                placed = memory._replace(project=project)
            placement.memories.append(placed)
            for names in _names_of(memory):
                id = note_id(*names)
                if id not in self._known and id not in new:
                    new[id] = _name_payload(names, placement.sessions)
        placement.new.extend(self._points(new))
        return placement

    def check_sessions(
        self, memories: Sequence[Memory], placement: Placement, found: Mapping[str, q.Record]
    ) -> dict[SessionName, str | None]:
        """Compare the sessions of memories that were just written with their notes, which were read after that.

        Sessions that were moved meanwhile, or whose move was interrupted, are relabelled and returned with their
        present project. `Conflict` if one of these memories names another project than that.
        """
        moved: dict[SessionName, str | None] = {}
        for name, project in placement.sessions.items():
            id = note_id("session", *name)
            if id not in found:
                continue
            note = self._known[id] = payload_of(found[id])
            present = note.get("project")
            if present == project and not note["moving"]:
                continue
            for memory in memories:
                if (memory.profile, memory.session) == name and memory.project not in (None, present):
                    raise _other_project(name[1], memory.project)
            moved[name] = present
        # The names that were registered with these memories exist now.
        self._known = {str(point.id): point.payload or {} for point in placement.new} | self._known
        for (profile, session), project in moved.items():
            self.relabel(profile, session, project)
        return moved

    def register_projects(self, names: Iterable[SessionName]) -> None:
        """Create projects, each named by its profile and its own name."""
        new = {note_id("project", *name): _name_payload(("project", *name), {}) for name in names}
        self._connection.upsert(self._connection.notes, self._points(new), mode=q.UpdateMode.INSERT_ONLY)

    def _points(self, payloads: Mapping[str, Payload]) -> list[q.PointStruct]:
        stamp = self._connection.clock.take()
        return [q.PointStruct(id=id, vector={}, payload={**one, "stamp": stamp}) for id, one in payloads.items()]

    # Moving sessions

    def move(self, profile: str, session: str, project: str | None) -> None:
        """Move a session with its memories. If that is interrupted, the next write to the session completes it."""
        id = note_id("session", profile, session)
        found = self._connection.retrieve(self._connection.notes, [id] if encodable(profile, session) else [])
        if id not in found:
            raise NotFound(f"there is no session '{session}' in profile '{profile}'")
        if project is not None:
            self.register_projects([(profile, project)])
        if not self._write_session(profile, session, payload_of(found[id]), project, moving=True):
            raise Unavailable(f"another process is moving the session '{session}'; try again")
        self.relabel(profile, session, project)

    def relabel(self, profile: str, session: str, project: str | None) -> None:
        """Write the present project of a session into all its memories, and record that its move is complete."""
        payload = {"project": project, "written": self._connection.clock.take()}
        label = q.SetPayload(payload=payload, filter=matching(profile=profile, session=session))
        operations = [q.SetPayloadOperation(set_payload=label)]
        id = note_id("session", profile, session)
        found = self._collections.for_each_collection(
            lambda collection: self._connection.update(collection.name, operations), then_read=[id]
        )
        note = payload_of(found[id])
        if note["moving"] and note.get("project") == project:
            # If this is not written, another process has completed the move, or started another one.
            self._write_session(profile, session, note, project, moving=False)

    def _write_session(self, profile: str, session: str, note: Payload, project: str | None, *, moving: bool) -> bool:
        payload = _name_payload(("session", profile, session), {(profile, session): project}) | {"moving": moving}
        id = note_id("session", profile, session)
        self._known.pop(id, None)
        return self._connection.write_notes([NoteWrite(id, payload, note["stamp"])])

    # Reading

    def notes(self, type: str, profile: str | None = None, project: str | None = None) -> Iterator[Any]:
        """Yield the payloads of all notes of a type."""
        if not encodable(profile, project):
            return
        wanted = {"type": type, "profile": profile, "project": project}
        where = matching(**{name: value for name, value in wanted.items() if value is not None})
        for record in self._connection.scroll(self._connection.notes, where):
            yield record.payload

    def scope_filter(self, scope: Scope, *, searching: bool = False) -> q.Filter | None:
        """Return the filter of a scope; None if it matches nothing. Named sessions are read, because they may move.

        A search of a project also finds the identity memories of the profile that belong to no project.
        """
        if not encodable(scope.profile, scope.project) or scope.kinds == () or scope.sessions == ():
            return None
        must: list[q.Condition] = [q.FieldCondition(key="profile", match=q.MatchValue(value=scope.profile))]
        if scope.kinds is not None:
            must.append(any_of("kind", scope.kinds))
        if scope.sessions is not None:
            sessions = self._sessions_filter(scope, searching=searching)
            if sessions is None:
                return None
            must.append(sessions)
        elif scope.project is not None:
            of_project = q.FieldCondition(key="project", match=q.MatchValue(value=scope.project))
            shared = searching and self._exists("project", scope.profile, scope.project)
            must.append(q.Filter(should=[of_project, SHARED]) if shared else of_project)
        return q.Filter(must=must)

    def _exists(self, *names: str) -> bool:
        """Whether a name exists. Names are never deleted, so those that were found are kept in memory."""
        id = note_id(*names)
        if id not in self._known:
            found = self._connection.retrieve(self._connection.notes, [id])
            self._known |= {id: payload_of(record) for id, record in found.items()}
        return id in self._known

    def _sessions_filter(self, scope: Scope, *, searching: bool) -> q.Filter | None:
        """Return a filter for named sessions, each with the rest of its project; None if none of them exists."""
        names = [name for name in scope.sessions or () if encodable(name)]
        notes = {note_id("session", scope.profile, name): name for name in names}
        projects: dict[str, None] = {}
        sessions: dict[str, None] = {}
        for id, record in self._connection.retrieve(self._connection.notes, notes).items():
            project = payload_of(record).get("project")
            if scope.project not in (None, project):
                continue
            if project is None or scope.only_sessions:
                sessions[notes[id]] = None
            else:
                projects[project] = None
        conditions: list[q.Condition] = [
            any_of(key, values) for key, values in (("project", projects), ("session", sessions)) if values
        ]
        if projects and searching:
            conditions.append(SHARED)
        return q.Filter(should=conditions) if conditions else None


def _names_of(memory: Memory) -> Iterator[tuple[str, ...]]:
    yield "profile", memory.profile
    if memory.project is not None:
        yield "project", memory.profile, memory.project
    if memory.session is not None:
        yield "session", memory.profile, memory.session


def _name_payload(names: tuple[str, ...], projects: Mapping[SessionName, str | None]) -> dict[str, Any]:
    type, profile, *rest = names
    payload: dict[str, Any] = {"type": type, "profile": profile, "name": rest[0] if rest else profile}
    if type == "session":
        payload |= {"project": projects[profile, rest[0]], "moving": False}
    return payload


def _other_project(session: str, project: str | None) -> Conflict:
    return Conflict(
        f"session '{session}' does not belong to project '{project}'; leave the project out, "
        f"or move it: retentive sessions move '{session}' --project '{project}'"
    )


class StoreParts:
    """What the parts of a store share. The lock serialises the writes of a process: one write is several requests."""

    _connection: Connection
    _collections: ModelCollections
    _names: NameRegistry
    _lock: threading.RLock
