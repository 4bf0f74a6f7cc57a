"""The tables of memories and of their terms: scopes and names as ids, rows as memories, postings in memory."""

from __future__ import annotations

import json
import threading
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw
import numpy as np
import numpy.typing as npt

from retentive.models import KINDS, Memory, Scope
from retentive.stores.damage import UNREADABLE, Damage
from retentive.stores.rules import is_within, prefix_range
from retentive.stores.sql_codec import EPOCH, FACT_COLUMNS, KIND_NUMBERS, to_memories

_COLUMNS = f"""
    m.key, m.id, m.text, m.created, p.name, r.name, s.name, m.position, m.kind, m.speaker, m.importance, m.metadata,
    m.source, m.occurred, m.accessed, m.access_count, m.evergreen, m.content_hash, m.text_hash, {FACT_COLUMNS}
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
_SCOPES_OF_IDS = _ROWS.format(columns="m.key, m.id, p.name, r.name, s.name, m.kind", column="m.id", joins=_JOINS)
_IDS_BETWEEN = "SELECT id FROM memories WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
_BY_KEYS = _ROWS.format(columns=_COLUMNS, column="m.key", joins=_JOINS)

INDEXED_ROWS = _ROWS.format(columns=f"{_COLUMNS}, m.terms", column="m.key", joins=_JOINS)
"""The rows of keys, with the terms of each, joined by spaces, at the place `TERMS`."""

TERMS = 26

IN_SCOPE = """
    profile = :profile
      AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects))
        OR session IN (SELECT value FROM json_each(:sessions)))
      AND (NOT :outside_projects OR project IS NULL)
      AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
"""
"""The condition for the memories of a `ResolvedScope`, with its parameters."""

# The partial index has only the memories whose validity has an end or a given start, so that it answers for all others
# without reading their rows. The planner would read the rows.
CURRENT = """
    AND NOT EXISTS (
      SELECT 1 FROM memories AS dated INDEXED BY memories_dated
      WHERE dated.key = {key}
        AND (dated.valid_from IS NOT NULL OR dated.valid_to IS NOT NULL OR dated.expires IS NOT NULL)
        AND (dated.valid_to <= :current_at OR dated.expires <= :current_at OR dated.valid_from > :current_at)
    )
"""
"""The condition that a memory is current at the time `:current_at`."""

_KEYS = f"SELECT key FROM memories WHERE {IN_SCOPE} ORDER BY key"  # noqa: S608 - a text of our own

_KEYS_AMONG = f"SELECT key FROM memories WHERE key IN carray(:keys) AND ({IN_SCOPE}) ORDER BY key"  # noqa: S608 - as above

_NEIGHBOURS = """
    SELECT json_group_array(json_array(
      m.key,
      (SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position < m.position {current}
       ORDER BY n.position DESC LIMIT 1),
      (SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position > m.position {current}
       ORDER BY n.position LIMIT 1)
    ))
    FROM carray(:keys) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value
    WHERE m.session IS NOT NULL
"""

_MATCHING = """
    SELECT json_group_array((SELECT group_concat(rowid) FROM words WHERE words MATCH asked.value ->> 0))
    FROM json_each(?) AS asked
"""
# SQLite compares every row with the key, so that all postings take twice as long to read by this one.
_MATCHING_SINCE = """
    SELECT json_group_array((
      SELECT group_concat(rowid) FROM words WHERE words MATCH asked.value ->> 0 AND rowid >= asked.value ->> 1
    ))
    FROM json_each(?) AS asked
"""

# `sz` starts with a memory's length in terms as a varint: one byte up to 127, otherwise two.
_LENGTHS = """
    SELECT group_concat(coalesce(substr(hex(d.sz), 1, 4), '0000'), '')
    FROM carray(?) AS wanted LEFT JOIN words_docsize AS d ON d.id = wanted.value
"""

IDENTITY = KIND_NUMBERS["identity"]

Keys = npt.NDArray[np.int64]
"""Keys of memories, in ascending order unless it is said otherwise."""

CACHED_POSTINGS = 16 << 20
"""At most this many bytes of postings are cached; then those that were not read for the longest time are left out."""

OFTEN = 5
"""Reading all postings of a term takes about as long as reading those in a scope this many times."""


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
    """A scope as ids; None means any. With `outside_projects` it has only what is in no project."""

    profile: int
    containers: Containers | None
    kinds: tuple[int, ...] | None
    outside_projects: bool = False

    def fts_filter(self, *, single_profile: bool) -> str:
        """The scope as part of an FTS5 query; empty if it excludes nothing.

        The only profile of a store needs no token: matching all its rows would cost more than the search.
        """
        parts = []
        if self.containers is not None:
            shared = [self.shared_filter] if self.shares_identity else []
            parts.append([*_tokens("r", self.containers.projects), *_tokens("s", self.containers.sessions), *shared])
        elif not single_profile:
            parts.append(_tokens("p", (self.profile,)))
        if self.outside_projects:
            parts.append(_tokens("r", (0,)))
        if self.kinds is not None:
            parts.append(_tokens("k", self.kinds))
        return "".join(f" AND scope : ({' OR '.join(tokens)})" for tokens in parts)

    @property
    def is_profile(self) -> bool:
        """Whether all memories of the profile are in the scope."""
        return self.containers is None and self.kinds is None and not self.outside_projects

    @property
    def shares_identity(self) -> bool:
        """Whether a search also finds the identity memories of the profile without a project: it does in a project."""
        return bool(self.containers and self.containers.projects) and (self.kinds is None or IDENTITY in self.kinds)

    @property
    def shared_filter(self) -> str:
        """The identity memories of the profile without a project as part of an FTS5 query."""
        return f"(p{self.profile} AND r0 AND k{IDENTITY})"

    @property
    def parameters(self) -> dict[str, Any]:
        """The scope as parameters of a statement, lists as JSON."""
        containers = self.containers
        return {
            "profile": self.profile,
            "projects": None if containers is None else json.dumps(containers.projects),
            "sessions": None if containers is None else json.dumps(containers.sessions),
            "kinds": None if self.kinds is None else json.dumps(self.kinds),
            "outside_projects": self.outside_projects,
        }


def _tokens(letter: str, ids: tuple[int, ...]) -> list[str]:
    return [f"{letter}{id}" for id in ids]


def resolve(connection: apsw.Connection, scope: Scope) -> ResolvedScope | None:
    """Resolve the names of a scope; None if one does not exist, which matches nothing."""
    if scope.is_empty or not all(is_storable(name) for name in (scope.profile, scope.project) if name):
        return None
    profile: int | None = connection.execute("SELECT id FROM profiles WHERE name = ?", (scope.profile,)).get
    if profile is None:
        return None
    kinds = None if scope.kinds is None else tuple(KIND_NUMBERS[kind] for kind in scope.kinds)
    project: int | None = None
    if scope.project is not None:
        statement = "SELECT id FROM projects WHERE profile = ? AND name = ?"
        project = connection.execute(statement, (profile, scope.project)).get
        if project is None:
            return None
    if scope.sessions is None:
        within = None if project is None else Containers(projects=(project,))
        return ResolvedScope(profile, within, kinds, scope.outside_projects)
    containers = _containers(connection, scope, profile, project)
    return None if containers is None else ResolvedScope(profile, containers, kinds, scope.outside_projects)


def _containers(connection: apsw.Connection, scope: Scope, profile: int, within: int | None) -> Containers | None:
    """All sessions of these names, each replaced by its project if it has one; None if no session exists."""
    projects: dict[int, None] = {}
    sessions: dict[int, None] = {}
    statement = "SELECT id, project FROM sessions WHERE profile = ? AND name = ?"
    if within is not None:
        statement += " AND coalesce(project, 0) = ?"
    if scope.outside_projects:
        statement += " AND project IS NULL"
    for name in filter(is_storable, scope.sessions or ()):
        parameters = (profile, name) if within is None else (profile, name, within)
        for session, project in connection.execute(statement, parameters):
            if project is None or scope.only_sessions:
                sessions[session] = None
            else:
                projects[project] = None
    return Containers(tuple(projects), tuple(sessions)) if projects or sessions else None


def count_memories(connection: apsw.Connection, scope: ResolvedScope) -> int:
    """How many memories a search finds in the scope."""
    # The planner uses both indexes where the OR has both sides, and each alone where one is empty.
    where, containers = IN_SCOPE, scope.containers
    if scope.kinds is None and containers is not None and not containers.projects:
        where = "session IN (SELECT value FROM json_each(:sessions))"
    elif scope.kinds is None and containers is not None and not containers.sessions:
        where = "profile = :profile AND project IN (SELECT value FROM json_each(:projects))"
    statement = f"SELECT count(*) FROM memories WHERE {where}"  # noqa: S608 - texts of our own
    count: int = connection.execute(statement, scope.parameters).get
    if scope.shares_identity and containers is not None:
        shared = scope.shared_filter
        if containers.sessions:  # of which some have no project
            shared = f"({shared} NOT ({' OR '.join(_tokens('s', containers.sessions))}))"
        count += connection.execute("SELECT count(*) FROM words WHERE words MATCH ?", (f"scope : {shared}",)).get
    return count


def fetch_json(connection: apsw.Connection, statement: str, bindings: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Run a statement that aggregates its rows into one JSON value.

    Fetching a row releases and reacquires the interpreter's lock. With several recalls at once that takes most of
    their time: two threads that fetched a hundred rows each were slower than one.
    """
    return json.loads(connection.execute(statement, bindings).get)


def storable_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that the store can hold; carray() rejects NUL characters, which no id has."""
    return tuple(id for id in ids if is_storable(id) and "\0" not in id)


def read_rows(
    connection: apsw.Connection, statement: str, keys: Sequence[int], damaged: list[Damage]
) -> list[Sequence[Any]]:
    """The rows of these keys that exist. Those that SQLite cannot read are left out and added to `damaged`."""
    wanted = array("q", keys)
    if not wanted:
        return []
    try:
        rows: list[Sequence[Any]] = fetch_json(connection, statement, (apsw.carray(wanted),))
    except (UnicodeDecodeError, json.JSONDecodeError, apsw.CorruptError):
        rows = []
        for key in wanted:
            try:
                rows += fetch_json(connection, statement, (apsw.carray(array("q", [key])),))
            except (UnicodeDecodeError, json.JSONDecodeError, apsw.CorruptError):
                damaged.append(Damage(id_of(connection, key), UNREADABLE))
    return rows


def id_of(connection: apsw.Connection, key: int) -> str:
    """The id of a memory that cannot be read, as far as that can be read."""
    try:
        id: bytes | None = connection.execute("SELECT CAST(id AS BLOB) FROM memories WHERE key = ?", (key,)).get
    except apsw.CorruptError:
        id = None
    return f"(unknown, key {key})" if id is None else id.decode(errors="replace")


def unchecked(connection: apsw.Connection, key: int) -> Memory | None:
    """A memory whose text may be another one than that of its hash; None if it cannot be read."""
    rows = read_rows(connection, _BY_KEYS, [key], [])
    found = to_memories([[*row[:18], None, *row[19:]] for row in rows], [])
    return found.get(key)


def by_keys(connection: apsw.Connection, keys: Iterable[int], damaged: list[Damage] | None = None) -> dict[int, Memory]:
    """The memories of these keys that exist. Those that are damaged are left out and added to `damaged`."""
    left_out = [] if damaged is None else damaged
    return to_memories(read_rows(connection, _BY_KEYS, list(keys), left_out), left_out)


def by_ids(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, tuple[int, Memory]]:
    """The keys and memories of these ids that exist, in the order of the ids."""
    wanted = storable_ids(dict.fromkeys(ids))
    if not wanted:
        return {}
    keys = keys_of(connection, wanted)
    found = by_keys(connection, keys.values())
    return {id: (keys[id], found[keys[id]]) for id in wanted if id in keys and keys[id] in found}


def keys_within(connection: apsw.Connection, ids: Sequence[str], within: Any) -> dict[str, int]:
    """The keys of these ids that exist in a scope, in the order of the ids. Their texts are not read."""
    wanted = storable_ids(dict.fromkeys(ids))
    if not wanted:
        return {}
    rows = fetch_json(connection, _SCOPES_OF_IDS, (apsw.carray(wanted),))
    found = {
        id: key
        for key, id, profile, project, session, kind in rows
        if is_within(Memory(id, "", EPOCH, profile, project, session, kind=KINDS[kind - 1]), within)
    }
    return {id: found[id] for id in wanted if id in found}


def ids_with_prefix(connection: apsw.Connection, prefix: str, within: Scope | None, limit: int) -> list[str]:
    """Ids in a scope that start with a prefix, in ascending order. Only the index of ids is read, and their scopes."""
    bounds = prefix_range(prefix)
    found: list[str] = []
    while bounds and len(found) < limit:
        rows = connection.execute(_IDS_BETWEEN, (*bounds, limit))
        page = [id for (id,) in rows]
        found += page if within is None else keys_within(connection, page, within)
        bounds = (f"{page[-1]} ", bounds[1]) if len(page) == limit else None
    return found[:limit]


def keys_of(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The keys of these ids that exist."""
    wanted = storable_ids(ids)
    if not wanted:
        return {}
    return dict(connection.execute("SELECT id, key FROM memories WHERE id IN carray(?)", (apsw.carray(wanted),)))


def list_keys(connection: apsw.Connection, scope: ResolvedScope, *, among: Sequence[int] | None = None) -> list[int]:
    """The keys of the memories in a scope; of these keys, if some are given."""
    if among is None:
        return [key for (key,) in connection.execute(_KEYS, scope.parameters)]
    parameters = {**scope.parameters, "keys": apsw.carray(array("q", among))}
    return [key for (key,) in connection.execute(_KEYS_AMONG, parameters)]


def neighbour_keys(
    connection: apsw.Connection, keys: Iterable[int], *, current_at: int | None = None
) -> dict[int, tuple[int | None, int | None]]:
    """The keys before and after each of these in its session; a memory without a session is not in the result.

    With a time, neighbours that are not current at it are passed over.
    """
    wanted = array("q", keys)
    if not wanted:
        return {}
    statement = _NEIGHBOURS.format(current="" if current_at is None else CURRENT.format(key="n.key"))
    rows = fetch_json(connection, statement, {"keys": apsw.carray(wanted), "current_at": current_at})
    return {key: (before, after) for key, before, after in rows}


# Of the sessions of a name, that of the given project; without one that in no project, or else the only one.
_SESSION_NAMED = """
    SELECT s.id, r.name FROM sessions AS s JOIN profiles AS p ON p.id = s.profile
    LEFT JOIN projects AS r ON r.id = s.project
    WHERE p.name = :profile AND s.name = :session AND (:project IS NULL OR r.name = :project)
    ORDER BY coalesce(s.project, 0) LIMIT 2
"""
_TURN_BEFORE = "SELECT key FROM memories WHERE session = ? AND position < ? ORDER BY position DESC LIMIT 1"
_TURN_AFTER = _TURN_BEFORE.replace("position < ?", "position > ?").replace("DESC", "ASC")


def turn_before(connection: apsw.Connection, memory: Memory) -> int:
    """The key of the memory before this one in its session; the session's last if it has no position; 0 if none."""
    return _turn(connection, _TURN_BEFORE, memory)


def turn_after(connection: apsw.Connection, memory: Memory) -> int:
    """The key of the memory after this one in its session; 0 if there is none, or if it has no position."""
    return _turn(connection, _TURN_AFTER, memory)


def _turn(connection: apsw.Connection, statement: str, memory: Memory) -> int:
    if memory.session is None:
        return 0
    sessions = sessions_named(connection, memory.profile, memory.session, memory.project)
    if not sessions or (len(sessions) > 1 and None not in sessions):
        return 0
    position = 2**53 if memory.position is None else memory.position
    found: int | None = connection.execute(statement, (next(iter(sessions.values())), position)).get
    return found or 0


def sessions_named(
    connection: apsw.Connection, profile: str, session: str, project: str | None
) -> dict[str | None, int]:
    """The ids of the sessions of a name, by project: that of the project given, or two, that in no project first."""
    parameters = {"profile": profile, "session": session, "project": project}
    return {home: id for id, home in connection.execute(_SESSION_NAMED, parameters)}


class IndexState(NamedTuple):
    """The keyword index in one snapshot. Entries with other keys are added to it, from `next_key` on.

    `unindexed` is the sequence number of the last write that removed or replaced entries.
    """

    unindexed: int
    next_key: int


class _Cached(NamedTuple):
    keys: Keys
    state: IndexState


class _Lengths(NamedTuple):
    unindexed: int
    by_key: npt.NDArray[np.int16]  # -1 where it was not read


class Postings:
    """The postings that searches have read, for any number of threads. Each search sees those of its snapshot."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._cached: dict[str, _Cached] = {}  # by query; the one that was read last is the last
        self._bytes = 0
        self._asked: Counter[str] = Counter()
        self._unindexed = 0
        self._lengths = _Lengths(0, np.zeros(0, np.int16))

    def is_worth_reading(self, query: str, size: int, state: IndexState) -> bool:
        """Whether to read all postings of a query that has many, given their number: it is asked for often.

        Those of others are not left out for them.
        """
        with self._guard:
            if state.unindexed != self._unindexed or len(self._asked) > 10_000:
                self._asked.clear()
                self._unindexed = state.unindexed
            self._asked[query] += 1
            has_room = self._bytes + size * np.int64().nbytes <= CACHED_POSTINGS // 2
            return query in self._cached or (self._asked[query] > OFTEN and has_room)

    def read(self, connection: apsw.Connection, state: IndexState, queries: Sequence[str]) -> list[Keys]:
        """The keys that match each query, in the snapshot of a connection. Those that are cached are not read again."""
        known = [self._known(query, state) for query in queries]
        unread = {query: one.state.next_key for query, one in zip(queries, known, strict=True) if one.state != state}
        added: dict[str, str | None] = {}
        for statement, asked in (
            (_MATCHING, [(query, since) for query, since in unread.items() if not since]),
            (_MATCHING_SINCE, [(query, since) for query, since in unread.items() if since]),
        ):
            if asked:
                read = fetch_json(connection, statement, (json.dumps(asked),))
                added |= zip([query for query, _ in asked], read, strict=True)
        found = []
        for query, one in zip(queries, known, strict=True):
            keys = one.keys
            if query in added:
                if new := added[query]:
                    keys = np.concatenate([keys, np.fromstring(new, np.int64, sep=",")])
                self._keep(query, _Cached(keys, state))
            found.append(keys)
        return found

    def count(self, query: str, state: IndexState) -> int | None:
        """How many keys match a query in a snapshot; None if its postings are not cached."""
        one = self._known(query, state)
        return len(one.keys) if one.state == state else None

    def lengths(self, connection: apsw.Connection, state: IndexState, keys: Keys) -> npt.NDArray[np.int64]:
        """The number of terms of each of these memories; of one with very many, not the exact one."""
        cached = self._lengths
        if cached.unindexed != state.unindexed:
            cached = _Lengths(state.unindexed, np.full(state.next_key, -1, np.int16))
        elif len(cached.by_key) < state.next_key:
            added = np.full(state.next_key - len(cached.by_key), -1, np.int16)
            cached = _Lengths(state.unindexed, np.concatenate([cached.by_key, added]))
        lengths = cached.by_key[keys]
        missing = np.flatnonzero(lengths < 0)
        if len(missing):
            lengths[missing] = cached.by_key[keys[missing]] = _read_lengths(connection, keys[missing])
        if cached.unindexed >= self._lengths.unindexed:
            self._lengths = cached
        return lengths.astype(np.int64)

    def _known(self, query: str, state: IndexState) -> _Cached:
        """What is cached of a query in a snapshot, and up to which key."""
        with self._guard:
            one = self._cached.get(query)
            if one is None or one.state.unindexed != state.unindexed:
                return _Cached(np.zeros(0, np.int64), IndexState(state.unindexed, 0))
            self._cached[query] = self._cached.pop(query)
        if one.state.next_key > state.next_key:  # a search in a later snapshot has read it
            return _Cached(one.keys[: np.searchsorted(one.keys, state.next_key)], state)
        return one

    def _keep(self, query: str, one: _Cached) -> None:
        with self._guard:
            before = self._cached.get(query)
            if before is not None:
                if before.state > one.state:  # of a later snapshot
                    return
                self._forget(query)
            self._cached[query] = one
            self._bytes += one.keys.nbytes
            while self._bytes > CACHED_POSTINGS:
                self._forget(next(iter(self._cached)))

    def _forget(self, query: str) -> None:
        self._bytes -= self._cached.pop(query).keys.nbytes


def _read_lengths(connection: apsw.Connection, keys: Keys) -> npt.NDArray[np.int64]:
    text: str = connection.execute(_LENGTHS, (apsw.carray(keys),)).get
    first, second = np.frombuffer(bytes.fromhex(text), np.uint8).reshape(-1, 2).astype(np.int64).T
    return np.where(first < 128, first, (first - 128) * 128 + second % 128)


def common_keys(one: Keys, other: Keys) -> Keys:
    """The keys that are in both."""
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    if not len(few):
        return few
    places = np.searchsorted(many, few)
    places[places == len(many)] = 0
    common: Keys = few[many[places] == few]
    return common
