"""Names of profiles, projects and sessions as numbers, and scopes as what the searches need."""

from __future__ import annotations

import json
from dataclasses import dataclass

import apsw

from retentive.errors import Conflict
from retentive.models import Memory, Scope
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds
from retentive.stores.sqlite.rows import storable


@dataclass(frozen=True, slots=True)
class Containers:
    """Projects and sessions; a memory that is in any of them is inside. Never both empty: see `resolve`."""

    projects: tuple[int, ...] = ()
    sessions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedScope:
    """A scope in numbers; None means any."""

    profile: int
    homes: Containers | None
    kinds: tuple[int, ...] | None

    def match(self, *, alone: bool) -> str:
        """The scope as part of an FTS5 query; empty if nothing is left out.

        A profile that is alone in the store needs no token: counting its rows would cost more than the search.
        """
        parts = []
        if self.homes is not None:
            parts.append([*_tokens("r", self.homes.projects), *_tokens("s", self.homes.sessions)])
        elif not alone:
            parts.append(_tokens("p", (self.profile,)))
        if self.kinds is not None:
            parts.append(_tokens("k", self.kinds))
        return "".join(f" AND scope : ({' OR '.join(tokens)})" for tokens in parts)


def _tokens(letter: str, numbers: tuple[int, ...]) -> list[str]:
    return [f"{letter}{number}" for number in numbers]


def resolve(connection: apsw.Connection, scope: Scope) -> ResolvedScope | None:
    """The scope in numbers; None if it names anything that does not exist, which matches nothing."""
    profile = _number(connection, "SELECT id FROM profiles WHERE name = ?", scope.profile)
    if profile is None or scope.kinds == ():
        return None
    kinds = None if scope.kinds is None else tuple(KIND_NUMBERS[kind] for kind in scope.kinds)
    project = None
    if scope.project is not None:
        project = _number(connection, "SELECT id FROM projects WHERE profile = ? AND name = ?", profile, scope.project)
        if project is None:
            return None
    if scope.sessions is None:
        return ResolvedScope(profile, None if project is None else Containers(projects=(project,)), kinds)
    homes = _homes(connection, scope, profile, project)
    return None if homes is None else ResolvedScope(profile, homes, kinds)


def count_memories(connection: apsw.Connection, reach: ResolvedScope) -> int:
    """How many memories are in reach."""
    # The planner uses both indexes where the OR has both sides, and each alone where one is empty.
    statement = """
        SELECT count(*) FROM memories WHERE profile = :profile
          AND (:anywhere OR project IN (SELECT value FROM json_each(:projects))
            OR session IN (SELECT value FROM json_each(:sessions)))
          AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
    """
    homes = reach.homes or Containers()
    if reach.kinds is None and reach.homes is not None and not homes.projects:
        statement = "SELECT count(*) FROM memories WHERE session IN (SELECT value FROM json_each(:sessions))"
    elif reach.kinds is None and reach.homes is not None and not homes.sessions:
        statement = """
            SELECT count(*) FROM memories
            WHERE profile = :profile AND project IN (SELECT value FROM json_each(:projects))
        """
    values = {
        "profile": reach.profile,
        "anywhere": reach.homes is None,
        "projects": json.dumps(homes.projects),
        "sessions": json.dumps(homes.sessions),
        "kinds": None if reach.kinds is None else json.dumps(reach.kinds),
    }
    count: int = connection.execute(statement, values).get
    return count


def _homes(connection: apsw.Connection, scope: Scope, profile: int, within: int | None) -> Containers | None:
    """Named sessions, each standing for its project if it has one; None if none of them exists."""
    projects: dict[int, None] = {}
    sessions: dict[int, None] = {}
    for name in filter(storable, scope.sessions or ()):
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


def _number(connection: apsw.Connection, statement: str, *values: str | int) -> int | None:
    if any(isinstance(value, str) and not storable(value) for value in values):
        return None
    found: int | None = connection.execute(statement, values).get
    return found


class NameRegistry:
    """Gives names their numbers while a batch is written, and memories their place."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._profiles: dict[str, int] = {}
        self._projects: dict[tuple[int, str], int] = {}
        self._sessions: dict[tuple[int, str], tuple[int, int]] = {}
        self._next: dict[int, int] = {}

    def numbers(self, memory: Memory) -> ScopeIds:
        """The numbers of a memory's names, made where they are new."""
        profile = self.profile(memory.profile)
        project = self.project(profile, memory.project) if memory.project is not None else 0
        session = 0
        if memory.session is not None:
            session, home = self._session(profile, memory.session, project)
            if project and home != project:
                raise Conflict(
                    f"session '{memory.session}' does not belong to project '{memory.project}'; leave the project out, "
                    f"or move it: retentive sessions move '{memory.session}' --project '{memory.project}'"
                )
            project = home
        return ScopeIds(profile, project, session, KIND_NUMBERS[memory.kind])

    def position(self, memory: Memory, session: int) -> int | None:
        """The memory's place in its session: the one it was given, or the next free one."""
        if not session:
            return None
        if session not in self._next:
            statement = "SELECT coalesce(max(position), -1) + 1 FROM memories WHERE session = ?"
            self._next[session] = self._connection.execute(statement, (session,)).get
        position = self._next[session] if memory.position is None else memory.position
        self._next[session] = max(self._next[session], position + 1)
        return position

    def profile(self, name: str) -> int:
        """The number of a profile."""
        if name not in self._profiles:
            self._insert("INSERT OR IGNORE INTO profiles (name) VALUES (?)", (name,))
            self._profiles[name] = self._connection.execute("SELECT id FROM profiles WHERE name = ?", (name,)).get
        return self._profiles[name]

    def project(self, profile: int, name: str) -> int:
        """The number of a project."""
        at = (profile, name)
        if at not in self._projects:
            self._insert("INSERT OR IGNORE INTO projects (profile, name) VALUES (?, ?)", at)
            found = self._connection.execute("SELECT id FROM projects WHERE profile = ? AND name = ?", at)
            self._projects[at] = found.get
        return self._projects[at]

    def _session(self, profile: int, name: str, project: int) -> tuple[int, int]:
        """The number of a session and of its project; a new session belongs to the project given."""
        at = (profile, name)
        if at not in self._sessions:
            statement = "INSERT OR IGNORE INTO sessions (profile, name, project) VALUES (?, ?, nullif(?, 0))"
            self._insert(statement, (*at, project))
            found = self._connection.execute(
                "SELECT id, coalesce(project, 0) FROM sessions WHERE profile = ? AND name = ?", at
            )
            self._sessions[at] = found.get
        return self._sessions[at]

    def _insert(self, statement: str, values: tuple[str | int, ...]) -> None:
        self._connection.execute(statement, values)
