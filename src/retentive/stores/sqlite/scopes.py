"""Names of profiles, projects and sessions as ids, and scopes resolved to those ids."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import apsw

from retentive.errors import Conflict
from retentive.models import Memory, Scope
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds


def is_storable(text: str) -> bool:
    """Whether SQLite can hold this text; it rejects half of a surrogate pair even as a parameter."""
    return text.isascii() or text == text.encode(errors="ignore").decode()


@dataclass(frozen=True, slots=True)
class Containers:
    """The projects and sessions of a scope; a memory in any of them is in the scope. At least one is not empty."""

    projects: tuple[int, ...] = ()
    sessions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedScope:
    """A scope as ids; None means any."""

    profile: int
    containers: Containers | None
    kinds: tuple[int, ...] | None

    def fts_filter(self, *, single_profile: bool) -> str:
        """The scope as part of an FTS5 query; empty if it excludes nothing.

        The only profile of a store needs no token: matching all its rows would cost more than the search.
        """
        parts = []
        if self.containers is not None:
            parts.append([*_tokens("r", self.containers.projects), *_tokens("s", self.containers.sessions)])
        elif not single_profile:
            parts.append(_tokens("p", (self.profile,)))
        if self.kinds is not None:
            parts.append(_tokens("k", self.kinds))
        return "".join(f" AND scope : ({' OR '.join(tokens)})" for tokens in parts)

    @property
    def parameters(self) -> dict[str, Any]:
        """The scope as parameters of a statement, lists as JSON."""
        containers = self.containers
        return {
            "profile": self.profile,
            "projects": None if containers is None else json.dumps(containers.projects),
            "sessions": None if containers is None else json.dumps(containers.sessions),
            "kinds": None if self.kinds is None else json.dumps(self.kinds),
        }


def _tokens(letter: str, ids: tuple[int, ...]) -> list[str]:
    return [f"{letter}{id}" for id in ids]


def resolve(connection: apsw.Connection, scope: Scope) -> ResolvedScope | None:
    """Resolve the names of a scope; None if one does not exist, which matches nothing."""
    profile = _id(connection, "SELECT id FROM profiles WHERE name = ?", scope.profile)
    if profile is None or scope.kinds == ():
        return None
    kinds = None if scope.kinds is None else tuple(KIND_NUMBERS[kind] for kind in scope.kinds)
    project = None
    if scope.project is not None:
        project = _id(connection, "SELECT id FROM projects WHERE profile = ? AND name = ?", profile, scope.project)
        if project is None:
            return None
    if scope.sessions is None:
        return ResolvedScope(profile, None if project is None else Containers(projects=(project,)), kinds)
    containers = _containers(connection, scope, profile, project)
    return None if containers is None else ResolvedScope(profile, containers, kinds)


def _containers(connection: apsw.Connection, scope: Scope, profile: int, within: int | None) -> Containers | None:
    """The named sessions, each replaced by its project if it has one; None if no session exists."""
    projects: dict[int, None] = {}
    sessions: dict[int, None] = {}
    for name in filter(is_storable, scope.sessions or ()):
        statement = "SELECT id, project FROM sessions WHERE profile = ? AND name = ?"
        found: tuple[int, int | None] | None = connection.execute(statement, (profile, name)).get
        if found is None or within not in (None, found[1]):
            continue
        session, project = found
        if project is None or scope.only_sessions:
            sessions[session] = None
        else:
            projects[project] = None
    return Containers(tuple(projects), tuple(sessions)) if projects or sessions else None


def _id(connection: apsw.Connection, statement: str, *values: str | int) -> int | None:
    if any(isinstance(value, str) and not is_storable(value) for value in values):
        return None
    found: int | None = connection.execute(statement, values).get
    return found


def count_memories(connection: apsw.Connection, scope: ResolvedScope) -> int:
    """How many memories are in the scope."""
    # The planner uses both indexes where the OR has both sides, and each alone where one is empty.
    statement = """
        SELECT count(*) FROM memories WHERE profile = :profile
          AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects))
            OR session IN (SELECT value FROM json_each(:sessions)))
          AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
    """
    containers = scope.containers
    if scope.kinds is None and containers is not None and not containers.projects:
        statement = "SELECT count(*) FROM memories WHERE session IN (SELECT value FROM json_each(:sessions))"
    elif scope.kinds is None and containers is not None and not containers.sessions:
        statement = """
            SELECT count(*) FROM memories
            WHERE profile = :profile AND project IN (SELECT value FROM json_each(:projects))
        """
    count: int = connection.execute(statement, scope.parameters).get
    return count


class NameRegistry:
    """Creates the ids of names while a batch is written, and assigns positions in sessions."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._profiles: dict[str, int] = {}
        self._projects: dict[tuple[int, str], int] = {}
        self._sessions: dict[tuple[int, str], tuple[int, int]] = {}
        self._next: dict[int, int] = {}

    def scope_ids(self, memory: Memory) -> ScopeIds:
        """The ids of a memory's names, created where they are new."""
        profile = self.profile(memory.profile)
        project = self.project(profile, memory.project) if memory.project is not None else 0
        session = 0
        if memory.session is not None:
            session, session_project = self._session(profile, memory.session, project)
            if project and session_project != project:
                raise Conflict(
                    f"session '{memory.session}' does not belong to project '{memory.project}'; leave the project out, "
                    f"or move it: retentive sessions move '{memory.session}' --project '{memory.project}'"
                )
            project = session_project
        return ScopeIds(profile, project, session, KIND_NUMBERS[memory.kind])

    def position(self, memory: Memory, session: int) -> int | None:
        """The memory's position in its session: the one given, or the next free one."""
        if not session:
            return None
        if session not in self._next:
            statement = "SELECT coalesce(max(position), -1) + 1 FROM memories WHERE session = ?"
            self._next[session] = self._connection.execute(statement, (session,)).get
        position = self._next[session] if memory.position is None else memory.position
        self._next[session] = max(self._next[session], position + 1)
        return position

    def profile(self, name: str) -> int:
        """The id of a profile."""
        if name not in self._profiles:
            self._connection.execute("INSERT OR IGNORE INTO profiles (name) VALUES (?)", (name,))
            self._profiles[name] = self._connection.execute("SELECT id FROM profiles WHERE name = ?", (name,)).get
        return self._profiles[name]

    def project(self, profile: int, name: str) -> int:
        """The id of a project."""
        key = (profile, name)
        if key not in self._projects:
            self._connection.execute("INSERT OR IGNORE INTO projects (profile, name) VALUES (?, ?)", key)
            found = self._connection.execute("SELECT id FROM projects WHERE profile = ? AND name = ?", key)
            self._projects[key] = found.get
        return self._projects[key]

    def _session(self, profile: int, name: str, project: int) -> tuple[int, int]:
        """The ids of a session and of its project; a new session belongs to the project given."""
        key = (profile, name)
        if key not in self._sessions:
            statement = "INSERT OR IGNORE INTO sessions (profile, name, project) VALUES (?, ?, nullif(?, 0))"
            self._connection.execute(statement, (*key, project))
            found = self._connection.execute(
                "SELECT id, coalesce(project, 0) FROM sessions WHERE profile = ? AND name = ?", key
            )
            self._sessions[key] = found.get
        return self._sessions[key]
