"""The table of memories: scopes and names as ids, rows as memories, and the statements that read and insert them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw

from retentive.errors import Conflict
from retentive.models import Filter, Memory, Scope
from retentive.stores.base import is_within
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds, to_memory, to_micros

INSERT = "INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_COLUMNS = """
    m.key, m.id, m.text, m.created, p.name, r.name, s.name, m.position, m.kind, m.speaker, m.importance, m.metadata,
    m.source, m.occurred, m.accessed, m.access_count, m.evergreen, m.content_hash
"""
_JOINS = """
    JOIN profiles AS p ON p.id = m.profile
    LEFT JOIN projects AS r ON r.id = m.project
    LEFT JOIN sessions AS s ON s.id = m.session
"""
_ROWS = """
    SELECT json_group_array(json_array({columns}))
    FROM carray(?) AS wanted CROSS JOIN memories AS m ON {column} = wanted.value {joins}
"""
_BY_IDS = _ROWS.format(columns=_COLUMNS, column="m.id", joins=_JOINS)
_BY_KEYS = _ROWS.format(columns=_COLUMNS, column="m.key", joins=_JOINS)

# With what a search needs besides: the terms, and the slots of the vectors.
_SLOTS = "json((SELECT json_group_array(v.slot) FROM vectors AS v WHERE v.memory = m.key))"
_INDEXED = _ROWS.format(columns=f"{_COLUMNS}, m.terms, {_SLOTS}", column="m.key", joins=_JOINS)

_LIST = """
    SELECT key FROM memories
    WHERE profile = :profile
      AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects))
        OR session IN (SELECT value FROM json_each(:sessions)))
      AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
      AND (:cursor IS NULL OR id < :cursor)
    ORDER BY id DESC LIMIT :limit
"""

# Metadata is compared by type and value; integers and reals are one type.
_FILTER = """
    SELECT json_group_array(m.key) FROM memories AS m
    WHERE m.profile = :profile
      AND (:projects IS NULL OR m.project IN (SELECT value FROM json_each(:projects))
        OR m.session IN (SELECT value FROM json_each(:sessions)))
      AND (:kinds IS NULL OR m.kind IN (SELECT value FROM json_each(:kinds)))
      AND (:since IS NULL OR coalesce(m.occurred, m.created) >= :since)
      AND (:until IS NULL OR coalesce(m.occurred, m.created) < :until)
      AND NOT EXISTS (
        SELECT 1 FROM json_each(:metadata) AS wanted WHERE NOT EXISTS (
          SELECT 1 FROM json_each(m.metadata) AS has
          WHERE has.key = wanted.key AND has.atom IS wanted.atom
            AND replace(has.type, 'integer', 'real') = replace(wanted.type, 'integer', 'real')
            AND has.type NOT IN ('object', 'array')
        )
      )
"""

_NEIGHBOURS = """
    SELECT json_group_array(json_array(
      m.key,
      (SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position < m.position
       ORDER BY n.position DESC LIMIT 1),
      (SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position > m.position
       ORDER BY n.position LIMIT 1)
    ))
    FROM carray(?) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value
    WHERE m.session IS NOT NULL
"""


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
    count: int = connection.execute(_from_scope("count(*)", scope), scope.parameters).get
    return count


def scope_terms(connection: apsw.Connection, scope: ResolvedScope) -> list[tuple[int, str]]:
    """The keys and terms of all memories in the scope."""
    statement = _from_scope("json_group_array(json_array(key, terms))", scope)
    return [(key, terms) for key, terms in fetch_json(connection, statement, scope.parameters)]


def _from_scope(selected: str, scope: ResolvedScope) -> str:
    """A statement that reads all memories of a scope."""
    # The planner uses both indexes where the OR has both sides, and each alone where one is empty.
    containers = scope.containers
    if scope.kinds is None and containers is not None and not containers.projects:
        where = "session IN (SELECT value FROM json_each(:sessions))"
    elif scope.kinds is None and containers is not None and not containers.sessions:
        where = "profile = :profile AND project IN (SELECT value FROM json_each(:projects))"
    else:
        where = """
            profile = :profile
            AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects))
              OR session IN (SELECT value FROM json_each(:sessions)))
            AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
        """
    return f"SELECT {selected} FROM memories WHERE {where}"  # noqa: S608 - columns and parameters


def filtered_keys(connection: apsw.Connection, scope: ResolvedScope, wanted: Filter) -> list[int]:
    """The keys of the memories in a scope that match a filter."""
    bounds = {"since": to_micros(wanted.since), "until": to_micros(wanted.until)}
    metadata = json.dumps(dict(wanted.metadata))
    keys: list[int] = fetch_json(connection, _FILTER, {**scope.parameters, **bounds, "metadata": metadata})
    return keys


class IndexedRow(NamedTuple):
    """A memory with its terms, joined by spaces, and the slots of its vectors, of every model."""

    key: int
    memory: Memory
    terms: str
    slots: Sequence[int]


def fetch_json(connection: apsw.Connection, statement: str, bindings: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Run a statement that aggregates its rows into one JSON value.

    Fetching a row releases and reacquires the interpreter's lock. With several recalls at once that takes most of
    their time: two threads that fetched a hundred rows each were slower than one.
    """
    return json.loads(connection.execute(statement, bindings).get)


def storable_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that the store can hold; carray() rejects NUL characters, which no id has."""
    return tuple(id for id in ids if is_storable(id) and "\0" not in id)


def by_keys(connection: apsw.Connection, keys: Iterable[int]) -> dict[int, Memory]:
    """The memories of these keys that exist."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    return {row[0]: to_memory(row) for row in fetch_json(connection, _BY_KEYS, (apsw.carray(wanted),))}


def by_ids(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, tuple[int, Memory]]:
    """The keys and memories of these ids that exist, in the order of the ids."""
    wanted = storable_ids(dict.fromkeys(ids))
    if not wanted:
        return {}
    found = {row[1]: (row[0], to_memory(row)) for row in fetch_json(connection, _BY_IDS, (apsw.carray(wanted),))}
    return {id: found[id] for id in wanted if id in found}


def keys_within(connection: apsw.Connection, ids: Sequence[str], within: Any) -> dict[str, int]:
    """The keys of these ids that exist in a scope, in the order of the ids."""
    return {id: key for id, (key, memory) in by_ids(connection, ids).items() if is_within(memory, within)}


def indexed_rows(connection: apsw.Connection, keys: Iterable[int]) -> dict[int, IndexedRow]:
    """The memories of these keys that exist, with terms and slots."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    rows = fetch_json(connection, _INDEXED, (apsw.carray(wanted),))
    return {row[0]: IndexedRow(row[0], to_memory(row), row[18], row[19]) for row in rows}


def keys_of(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The keys of these ids that exist."""
    wanted = storable_ids(ids)
    if not wanted:
        return {}
    return dict(connection.execute("SELECT id, key FROM memories WHERE id IN carray(?)", (apsw.carray(wanted),)))


def list_keys(
    connection: apsw.Connection, scope: ResolvedScope, *, cursor: str | None = None, limit: int = -1
) -> list[int]:
    """The keys of the memories in a scope after the cursor, newest first."""
    return [key for (key,) in connection.execute(_LIST, {**scope.parameters, "cursor": cursor, "limit": limit})]


def scan_keys(connection: apsw.Connection, *, cursor: str | None, limit: int) -> list[int]:
    """The keys of all memories after the cursor, by id."""
    statement = "SELECT key FROM memories WHERE id > ? ORDER BY id LIMIT ?"
    return [key for (key,) in connection.execute(statement, (cursor or "", limit))]


def neighbour_keys(connection: apsw.Connection, keys: Iterable[int]) -> dict[int, tuple[int | None, int | None]]:
    """The keys before and after each of these in its session; a memory without a session is not in the result."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    rows = fetch_json(connection, _NEIGHBOURS, (apsw.carray(wanted),))
    return {key: (before, after) for key, before, after in rows}


def to_row(key: int, memory: Memory, ids: ScopeIds, position: int | None, terms: Sequence[str]) -> tuple[Any, ...]:
    """The values of a memory for `INSERT`."""
    metadata = json.dumps(dict(memory.metadata), ensure_ascii=False) if memory.metadata else None
    return (
        key, memory.id, ids.profile, ids.project or None, ids.session or None, position, ids.kind,
        memory.speaker, memory.importance, metadata, memory.source, to_micros(memory.created),
        to_micros(memory.occurred), to_micros(memory.accessed), memory.access_count, memory.evergreen,
        memory.content_hash, memory.text, " ".join(terms),
    )  # fmt: skip


def check_new(connection: apsw.Connection, ids: Sequence[str]) -> None:
    """Raise `Conflict` if one of these ids exists, or is given twice."""
    if len(set(ids)) < len(ids):
        raise Conflict("two of these memories have the same id; nothing was stored")
    statement = "SELECT id FROM memories WHERE id IN carray(?) ORDER BY id LIMIT 1"
    known = connection.execute(statement, (apsw.carray(tuple(ids)),)).get
    if known is not None:
        raise Conflict(f"there is a memory with the id {known} already; update it instead, nothing was stored")


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
