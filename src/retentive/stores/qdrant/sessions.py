"""Profiles, projects and sessions: which exist, the sessions that memories go into, and scopes as filters.

Each name is a note; see `session_notes` for those of sessions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qdrant_client import models as q

from retentive.errors import Unavailable
from retentive.models import Memory, Scope
from retentive.stores.qdrant.connection import Connection, NoteWrite, any_of, matching, note_id, payload_of, with_ids
from retentive.stores.qdrant.model_collections import ModelCollections
from retentive.stores.qdrant.points import encodable, points_of
from retentive.stores.qdrant.session_notes import SessionName, SessionNote, in_session, session_note_id
from retentive.stores.rules import home_of, no_session, taken_name

MAX_KNOWN = 50_000
"""How many names a process keeps in memory."""

ATTEMPTS = 20
"""How often a note is written, while other processes write it too."""

NO_PROJECT = q.IsEmptyCondition(is_empty=q.PayloadField(key="project"))
SHARED = q.Filter(must=[any_of("kind", ["identity"]), NO_PROJECT])
"""Identity memories that belong to no project."""

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Placement:
    """Memories with the projects of their sessions, and the notes of names that do not exist yet.

    `following` are the ids of memories that go wherever their session is: they do not name its project.
    """

    memories: list[Memory] = field(default_factory=list)
    following: set[str] = field(default_factory=set)
    new: list[q.PointStruct] = field(default_factory=list)
    changed: list[NoteWrite] = field(default_factory=list)

    @property
    def operations(self) -> list[Any]:
        """The operations on the notes that register the new names."""
        points = q.PointsList(points=self.new, update_mode=q.UpdateMode.INSERT_ONLY)
        return [q.UpsertOperation(upsert=points)] if self.new else []

    @property
    def sessions(self) -> dict[SessionName, list[Memory]]:
        """The memories with a session, by its name."""
        found: dict[SessionName, list[Memory]] = {}
        for memory in self.memories:
            if memory.session is not None:
                found.setdefault((memory.profile, memory.session), []).append(memory)
        return found

    @property
    def session_notes(self) -> list[str]:
        """The ids of the notes of the sessions."""
        return [session_note_id(name) for name in self.sessions]


class NameRegistry:
    """The names of a store. Those that were read are kept in memory.

    Another process may have moved a session since: `check_sessions` compares that after the write of its memories.
    """

    def __init__(self, connection: Connection, collections: ModelCollections) -> None:
        self._connection = connection
        self._collections = collections
        self._known: dict[str, Payload] = {}

    # Placing memories

    def load(self, memories: Sequence[Memory], *, notes: Sequence[str] = (), fresh: bool = False) -> dict[str, Payload]:
        """Read the names of these memories unless they are known, and other notes in the same request.

        They are also read if a memory names a project that had no such session: another process may have created it.
        """
        wanted = [note_id(*names) for memory in memories for names in _names_of(memory)]
        if not notes and not fresh and all(id in self._known for id in wanted):
            sessions = [(one, self._session((one.profile, one.session))) for one in memories if one.session]
            if all(memory.project is None or (note and memory.project in note.projects) for memory, note in sessions):
                return {}
        found = self._connection.retrieve(self._connection.notes, [*wanted, *notes])
        payloads: dict[str, Payload] = {id: payload_of(record) for id, record in found.items()}
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        self._known |= {id: payloads[id] for id in wanted if id in payloads}
        return payloads

    def _session(self, name: SessionName) -> SessionNote | None:
        payload = self._known.get(session_note_id(name))
        return None if payload is None else SessionNote.parse(payload)

    def place(self, memories: Sequence[Memory], *, exact: bool = False, staying: bool = False) -> Placement:
        """Give memories the projects of their sessions, after `load`; nothing is written.

        Unless `exact`, one without a project goes into the session of its name that `home_of` chooses. Memories that
        are `staying` are in their session, which may have been moved.
        """
        following = {one.id for one in memories if staying or (one.project is None and not exact)}
        placement = Placement(following=following)
        new: dict[str, Payload] = {}
        sessions: dict[SessionName, SessionNote] = {}
        for memory in memories:
            placed = memory._replace(position=None)
            if memory.session is not None:
                name = (memory.profile, memory.session)
                note = sessions.get(name) or self._session(name) or SessionNote(())
                project = memory.project
                if staying:
                    project = note.follow(project)
                elif not exact:
                    project = home_of(memory.session, project, note.projects)
                sessions[name] = note.with_project(project)
                placed = memory._replace(project=project)
            placement.memories.append(placed)
            for names in _names_of(memory):
                id = note_id(*names)
                if id not in self._known and names[0] != "session":
                    new[id] = _name_payload(names)
        changed = {name: note for name, note in sessions.items() if note != self._session(name)}
        new |= {session_note_id(name): note.payload(name) for name, note in changed.items() if note.stamp is None}
        placement.new.extend(self._points(new))
        writes = [NoteWrite(session_note_id(name), note.payload(name), note.stamp) for name, note in changed.items()]
        placement.changed.extend(write for write in writes if write.replaces is not None)
        return placement

    def register(self, placement: Placement) -> None:
        """Register new sessions of names that exist. `check_sessions` finds those that others changed meanwhile."""
        if placement.changed:
            self._connection.write_notes(placement.changed)

    def check_sessions(self, placement: Placement, found: Mapping[str, q.Record]) -> dict[str, str | None]:
        """Compare the sessions of memories that were just written with their notes, which were read after that.

        Memories whose session was moved meanwhile follow it, unless they name its former project. Return the projects
        of those that have another one now, by id. A move that was interrupted is completed.
        """
        # The names that were registered with these memories exist now.
        self._known = {str(point.id): point.payload or {} for point in placement.new} | self._known
        changed: dict[str, str | None] = {}
        for name, memories in placement.sessions.items():
            record = found.get(session_note_id(name))
            note = SessionNote(()) if record is None else SessionNote.parse(payload_of(record))
            if record is not None:
                self._known[session_note_id(name)] = payload_of(record)
            right = {memory.project for memory in memories} <= set(note.projects)
            if right and not note.moving:
                continue
            if note.moving:
                note = self._complete(name, note)
            projects: dict[str | None, list[Memory]] = {}
            for memory in memories:
                home = note.follow(memory.project) if memory.id in placement.following else memory.project
                projects.setdefault(home, []).append(memory)
            for project, of_project in projects.items():
                self._ensure(name, project)
                self._label(with_ids(points_of(one.id for one in of_project).values()), project)
                changed |= {one.id: project for one in of_project if one.project != project}
        return changed

    def _ensure(self, name: SessionName, project: str | None) -> None:
        """Write the note of a name with a session of this project, whatever other processes write meanwhile."""
        for _ in range(ATTEMPTS):
            note = self._read(name) or SessionNote(())
            if project in note.projects or self._write(name, note, note.with_project(project)):
                return
        raise Unavailable(f"other processes keep changing the sessions '{name[1]}'; try again")

    def _read(self, name: SessionName) -> SessionNote | None:
        """Read the note of a name."""
        id = session_note_id(name)
        found = self._connection.retrieve(self._connection.notes, [id] if encodable(*name) else [])
        if id not in found:
            self._known.pop(id, None)
            return None
        self._known[id] = payload_of(found[id])
        return SessionNote.parse(self._known[id])

    def _write(self, name: SessionName, old: SessionNote, new: SessionNote) -> bool:
        """Write a note over a version that was read; return whether no other process has changed it meanwhile."""
        id = session_note_id(name)
        self._known.pop(id, None)
        return self._connection.write_notes([NoteWrite(id, new.payload(name), old.stamp)])

    def register_projects(self, names: Iterable[SessionName]) -> None:
        """Create projects, each named by its profile and its own name."""
        new = {note_id("project", *name): _name_payload(("project", *name)) for name in names}
        self._connection.upsert(self._connection.notes, self._points(new), mode=q.UpdateMode.INSERT_ONLY)

    def _points(self, payloads: Mapping[str, Payload]) -> list[q.PointStruct]:
        stamp = self._connection.clock.take()
        return [q.PointStruct(id=id, vector={}, payload={**one, "stamp": stamp}) for id, one in payloads.items()]

    # Moving sessions

    def move(self, profile: str, session: str, source: str | None, project: str | None) -> str | None:
        """Move a session with its memories, and return the project that it was in.

        If that is interrupted, the next write to the session completes it.
        """
        name = (profile, session)
        note = self._read(name)
        if note is None:
            raise no_session(session, profile, source)
        if note.moving:
            same = note.last == (source, project)
            note = self._complete(name, note)
            if same:
                return source
        known = [one for one in note.projects if source in (None, one)]
        if not known:
            raise no_session(session, profile, source)
        home = home_of(session, source, known)
        if home == project:
            return home
        if project in note.projects and self._connection.count(
            self._connection.memories, in_session(profile, project, session)
        ):
            raise taken_name(session, project)
        if project is not None:
            self.register_projects([(profile, project)])
        if not self._write(name, note, note.moved(home, project)):
            raise Unavailable(f"another process is moving the session '{session}'; try again")
        self._complete(name, note.moved(home, project))
        return home

    def drop(self, profile: str, session: str, project: str | None) -> bool:
        """Delete a session without memories; return whether there was one."""
        name = (profile, session)
        note = self._read(name)
        if note is None or note.moving or project not in note.projects:
            return False
        if self._connection.count(self._connection.memories, in_session(profile, project, session)):
            return False
        if len(note.projects) > 1:
            return self._write(name, note, note.without_project(project))
        same = q.HasIdCondition(has_id=[session_note_id(name)])
        unchanged = q.FieldCondition(key="stamp", match=q.MatchValue(value=note.stamp))
        self._known.pop(session_note_id(name), None)
        self._connection.delete_where(self._connection.notes, q.Filter(must=[same, unchanged]))
        return True

    def _complete(self, name: SessionName, note: SessionNote) -> SessionNote:
        """Write the present project into all memories of a session that is moving, and record that it is complete."""
        profile, session = name
        if note.last is None:  # of an earlier version: the session was the only one of its name
            self._label(matching(profile=profile, session=session), note.projects[0])
        else:
            self._label(in_session(profile, note.last[0], session), note.last[1])
        present = self._read(name) or note
        if present.moving and present.last == note.last:
            # If this is not written, another process has completed the move, or started another one.
            self._write(name, present, present.complete())
        return present.complete()

    def _label(self, where: q.Filter, project: str | None) -> None:
        """Write a project into memories."""
        payload = {"project": project, "written": self._connection.clock.take()}
        operations = [q.SetPayloadOperation(set_payload=q.SetPayload(payload=payload, filter=where))]
        self._collections.for_each_collection(lambda collection: self._connection.update(collection.name, operations))

    # Reading

    def notes(self, type: str, profile: str | None = None, project: str | None = None) -> Iterator[Any]:
        """Yield the payloads of all notes of a type."""
        if not encodable(profile, project):
            return
        wanted = {"type": type, "profile": profile, "project": project}
        where = matching(**{name: value for name, value in wanted.items() if value is not None})
        for record in self._connection.scroll(self._connection.notes, where):
            yield record.payload

    def sessions(self, profile: str | None = None, project: str | None = None) -> Iterator[tuple[str, str | None, str]]:
        """Yield the profile, project and name of all sessions, or those of a profile or of a project."""
        for payload in self.notes("session", profile, project):
            for one in SessionNote.parse(payload).projects:
                if project in (None, one):
                    yield payload["profile"], one, payload["name"]

    def count_sessions(self) -> int:
        """Count all sessions. Notes of an earlier version have no project if their session has none."""
        named = self._connection.facet(self._connection.notes, "project", matching(type="session"))
        without = NO_PROJECT
        earlier = self._connection.count(self._connection.notes, q.Filter(must=[matching(type="session"), without]))
        return sum(named.values()) + earlier

    def scope_filter(self, scope: Scope, *, searching: bool = False) -> q.Filter | None:
        """Return the filter of a scope; None if it matches nothing. Named sessions are read, because they may move.

        A search of a project also finds the identity memories of the profile that belong to no project.
        """
        if not encodable(scope.profile, scope.project) or scope.is_empty:
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
        if scope.outside_projects:
            must.append(NO_PROJECT)
        return q.Filter(must=must)

    def _exists(self, *names: str) -> bool:
        """Whether a name exists. Names are never deleted, so those that were found are kept in memory."""
        id = note_id(*names)
        if id not in self._known:
            found = self._connection.retrieve(self._connection.notes, [id])
            self._known |= {id: payload_of(record) for id, record in found.items()}
        return id in self._known

    def _sessions_filter(self, scope: Scope, *, searching: bool) -> q.Filter | None:
        """Return a filter for all sessions of some names, each with the rest of its project; None if none exists."""
        names = [name for name in scope.sessions or () if encodable(name)]
        notes = {session_note_id((scope.profile, name)): name for name in names}
        projects: dict[str, None] = {}
        sessions: dict[str, None] = {}
        for id, record in self._connection.retrieve(self._connection.notes, notes).items():
            for project in SessionNote.parse(payload_of(record)).projects:
                if scope.project not in (None, project) or (scope.outside_projects and project is not None):
                    continue
                if project is None or scope.only_sessions:
                    sessions[notes[id]] = None
                else:
                    projects[project] = None
        conditions: list[q.Condition] = [
            any_of(key, values) for key, values in (("project", projects), ("session", sessions)) if values
        ]
        if not conditions:
            return None
        if projects and searching:
            conditions.append(SHARED)
        within: list[q.Condition] = []
        if scope.project is not None and not projects:
            within.append(any_of("project", [scope.project]))
        return q.Filter(should=conditions, must=within or None)


def _names_of(memory: Memory) -> Iterator[tuple[str, ...]]:
    yield "profile", memory.profile
    if memory.project is not None:
        yield "project", memory.profile, memory.project
    if memory.session is not None:
        yield "session", memory.profile, memory.session


def _name_payload(names: tuple[str, ...]) -> dict[str, Any]:
    type, profile, *rest = names
    return {"type": type, "profile": profile, "name": rest[0] if rest else profile}


class StoreParts:
    """What the parts of a store share. The lock serialises the writes of a process: one write is several requests."""

    _connection: Connection
    _collections: ModelCollections
    _names: NameRegistry
    _lock: threading.RLock
