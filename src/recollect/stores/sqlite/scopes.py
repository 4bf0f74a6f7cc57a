"""Names of profiles, projects and sessions as numbers, and scopes as what the searches need."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

from recollect.errors import Conflict
from recollect.models import Memory, Scope
from recollect.stores.sqlite.rows import KIND_NUMBERS


@dataclass(frozen=True, slots=True)
class Numbers:
    """Where a memory stands, in numbers; 0 stands for none."""

    profile: int
    project: int
    session: int
    kind: int

    @property
    def tokens(self) -> str:
        """The scope column of the word index."""
        return f"p{self.profile} r{self.project} s{self.session} k{self.kind}"


SCOPE_TOKENS = 4
"""How many tokens the scope adds to the length of a row in the word index."""


@dataclass(frozen=True, slots=True)
class Reach:
    """A scope in numbers. None means any; an empty tuple would mean nothing, and is never made: see `resolve`."""

    profile: int
    project: int | None
    sessions: tuple[int, ...] | None
    kinds: tuple[int, ...] | None

    def match(self, *, alone: bool) -> str:
        """The scope as part of an FTS5 query; empty if nothing is left out.

        A profile that is alone in the store needs no token: counting its rows would cost more than the search.
        """
        parts = []
        if self.sessions is not None:
            parts.append(_any_of("s", self.sessions))
        if self.project is not None:
            parts.append(_any_of("r", (self.project,)))
        if not parts and not alone:
            parts.append(_any_of("p", (self.profile,)))
        if self.kinds is not None:
            parts.append(_any_of("k", self.kinds))
        return "".join(f" AND scope : {part}" for part in parts)


def _any_of(letter: str, numbers: tuple[int, ...]) -> str:
    return "(" + " OR ".join(f"{letter}{number}" for number in numbers) + ")"


def resolve(connection: apsw.Connection, scope: Scope) -> Reach | None:
    """The scope in numbers; None if it names anything that does not exist, which matches nothing."""
    profile = connection.execute("SELECT id FROM profiles WHERE name = ?", (scope.profile,)).get
    if profile is None:
        return None
    project = None
    if scope.project is not None:
        statement = "SELECT id FROM projects WHERE profile = ? AND name = ?"
        project = connection.execute(statement, (profile, scope.project)).get
        if project is None:
            return None
    kinds = None if scope.kinds is None else tuple(KIND_NUMBERS[kind] for kind in scope.kinds)
    if scope.sessions is None:
        return Reach(profile, project, None, kinds) if kinds != () else None
    return _resolve_sessions(connection, scope, Reach(profile, project, (), kinds)) if kinds != () else None


def _resolve_sessions(connection: apsw.Connection, scope: Scope, reach: Reach) -> Reach | None:
    """Named sessions, or the one project that all of them stand for."""
    found: list[tuple[int, int | None]] = []
    for name in scope.sessions or ():
        statement = "SELECT id, project FROM sessions WHERE profile = ? AND name = ?"
        found.extend(connection.execute(statement, (reach.profile, name)))
    if reach.project is not None:
        found = [(id, project) for id, project in found if project == reach.project]
    if not found:
        return None
    if scope.only_sessions:
        return Reach(reach.profile, None, tuple(id for id, _ in found), reach.kinds)
    projects = {project for _, project in found}
    if len(projects) == 1 and None not in projects:
        return Reach(reach.profile, projects.pop(), None, reach.kinds)
    ids = dict.fromkeys(id for id, project in found if project is None)
    for project in projects - {None}:
        ids.update(dict.fromkeys(id for (id,) in connection.execute("SELECT id FROM sessions WHERE project = ?", (project,))))
    return Reach(reach.profile, None, tuple(ids), reach.kinds)


class Registrar:
    """Gives names their numbers while a batch is written, and memories their place."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._profiles: dict[str, int] = {}
        self._projects: dict[tuple[int, str], int] = {}
        self._sessions: dict[tuple[int, str], tuple[int, int]] = {}
        self._next: dict[int, int] = {}

    def numbers(self, memory: Memory) -> Numbers:
        """The numbers of a memory's names, made where they are new."""
        profile = self.profile(memory.profile)
        project = self.project(profile, memory.project) if memory.project is not None else 0
        session = 0
        if memory.session is not None:
            session, home = self._session(profile, memory.session, project)
            if project and home != project:
                raise Conflict(
                    f"session '{memory.session}' does not belong to project '{memory.project}'; leave the project out, "
                    f"or move it: recollect sessions move '{memory.session}' --project '{memory.project}'"
                )
            project = home
        return Numbers(profile, project, session, KIND_NUMBERS[memory.kind])

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
