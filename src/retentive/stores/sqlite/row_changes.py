"""Insert, replace and delete memories: their names, their rows, and their entries in the keyword index.

The keyword index is an FTS5 table over our own terms. The document frequencies of each profile are counted beside it.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import apsw

from retentive.models import Memory
from retentive.stores.rules import home_of
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS, ScopeIds, fact_values, to_micros
from retentive.stores.sqlite import keyword_separators, vector_blocks
from retentive.stores.sqlite.block_reclaim import reclaim

Entry = tuple[int, list[str], ScopeIds]
"""A memory's key, its terms and its scope, as the keyword index has them."""

_INSERT = f"INSERT INTO memories VALUES ({', '.join('?' * 27)})"  # noqa: S608 - a number of our own


def insert_rows(
    connection: apsw.Connection, memories: Sequence[Memory], scopes: Sequence[ScopeIds], terms: Sequence[list[str]]
) -> range:
    """Insert memories with their terms, but without vectors; return their keys."""
    count = len(memories)
    statement = "UPDATE state SET next_key = next_key + ? RETURNING next_key - ?"
    first: int = connection.execute(statement, (count, count)).get
    keys = range(first, first + count)
    connection.executemany(
        _INSERT,
        [
            _to_row(key, memory, scope, memory.position, of_text)
            for key, memory, scope, of_text in zip(keys, memories, scopes, terms, strict=True)
        ],
    )
    add_keywords(connection, list(zip(keys, terms, scopes, strict=True)))
    return keys


def _to_row(key: int, memory: Memory, ids: ScopeIds, position: int | None, terms: Sequence[str]) -> tuple[Any, ...]:
    """The values of a memory for `_INSERT`."""
    metadata = json.dumps(dict(memory.metadata), ensure_ascii=False) if memory.metadata else None
    return (
        key, memory.id, ids.profile, ids.project or None, ids.session or None, position, ids.kind,
        memory.speaker, memory.importance, metadata, memory.source, to_micros(memory.created),
        to_micros(memory.occurred), to_micros(memory.accessed), memory.access_count, memory.evergreen,
        memory.content_hash, memory.text, " ".join(terms), memory.text_hash, *fact_values(memory),
    )  # fmt: skip


def replace_row(
    connection: apsw.Connection, replaced: Entry, memory: Memory, scope: ScopeIds, terms: list[str]
) -> None:
    """Replace the row of a memory and its entry in the keyword index, given the entry that it has."""
    key = replaced[0]
    remove_keywords(connection, [replaced])
    connection.execute("DELETE FROM memories WHERE key = ?", (key,))
    position = memory.position if scope.session else None
    connection.execute(_INSERT, _to_row(key, memory, scope, position, terms))
    add_keywords(connection, [(key, terms, scope)])
    keyword_separators.clear(connection, _terms_of([replaced]))


def remove_rows(connection: apsw.Connection, keys: Sequence[int]) -> None:
    """Delete memories with their terms, vectors and judgements."""
    for at in range(0, len(keys), 1000):
        some = keys[at : at + 1000]
        removed = keyword_entries(connection, some)
        remove_keywords(connection, removed)
        keyword_separators.clear(connection, _terms_of(removed))
        emptied = vector_blocks.remove_vectors(connection, some) + vector_blocks.remove_turns(connection, some)
        reclaim(connection, emptied)
        connection.executemany("DELETE FROM judgements WHERE memory = ?", [(key,) for key in some])
        connection.executemany("DELETE FROM memories WHERE key = ?", [(key,) for key in some])


def _terms_of(entries: Iterable[Entry]) -> list[str]:
    return [term for _, terms, _ in entries for term in terms]


def keyword_entries(connection: apsw.Connection, keys: Iterable[int]) -> list[Entry]:
    """The entries of these memories in the keyword index, as they were indexed."""
    wanted = array("q", keys)
    if not wanted:
        return []
    rows = connection.execute(
        "SELECT m.key, m.terms, m.profile, coalesce(m.project, 0), coalesce(m.session, 0), m.kind "
        "FROM carray(?) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value",
        (apsw.carray(wanted),),
    )
    return [(key, terms.split(), ScopeIds(*scope)) for key, terms, *scope in rows]


def add_keywords(connection: apsw.Connection, entries: Sequence[Entry]) -> None:
    """Add these memories to the keyword index."""
    connection.executemany(
        "INSERT INTO words (rowid, terms, scope) VALUES (?, ?, ?)",
        ((key, " ".join(terms), ids.tokens) for key, terms, ids in entries),
    )
    _count_keywords(connection, entries, +1)


def remove_keywords(connection: apsw.Connection, entries: Sequence[Entry]) -> None:
    """Delete these memories from the keyword index. Terms and scope are those they were indexed with."""
    connection.executemany(
        "INSERT INTO words (words, rowid, terms, scope) VALUES ('delete', ?, ?, ?)",
        ((key, " ".join(terms), ids.tokens) for key, terms, ids in entries),
    )
    mark_unindexed(connection)
    _count_keywords(connection, entries, -1)


def mark_unindexed(connection: apsw.Connection) -> None:
    """Let readers notice that entries of the keyword index were removed, or replaced."""
    connection.execute("UPDATE state SET unindexed = sequence")


def _count_keywords(connection: apsw.Connection, entries: Sequence[Entry], sign: int) -> None:
    """Count memories in their profiles: their number, their total length, and the document frequency of each term."""
    by_profile: dict[int, list[list[str]]] = {}
    for _, terms, ids in entries:
        by_profile.setdefault(ids.profile, []).append(terms)
    for profile, documents in by_profile.items():
        counts = Counter(chain.from_iterable(map(set, documents)))
        connection.executemany(
            "INSERT INTO term_counts (profile, term, memories) VALUES (?, ?, ?) "
            "ON CONFLICT (profile, term) DO UPDATE SET memories = memories + excluded.memories",
            ((profile, term, sign * counts[term]) for term in sorted(counts)),
        )
        if sign < 0:
            connection.executemany(
                "DELETE FROM term_counts WHERE profile = ? AND term = ? AND memories <= 0",
                ((profile, term) for term in sorted(counts)),
            )
        length = sum(map(len, documents)) + SCOPE_TOKENS * len(documents)
        connection.execute(
            "UPDATE profiles SET memories = memories + ?, terms = terms + ? WHERE id = ?",
            (sign * len(documents), sign * length, profile),
        )


class NameRegistry:
    """Creates the ids of names while a batch is written, and assigns positions in sessions."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._profiles: dict[str, int] = {}
        self._projects: dict[tuple[int, str], int] = {}
        self._sessions: dict[tuple[int, str, int], int] = {}
        self._next: dict[int, int] = {}
        self._known_homes: dict[tuple[int, str], list[int]] = {}

    def scope_ids(self, memory: Memory, *, exact: bool = False) -> ScopeIds:
        """The ids of a memory's names, created where they are new.

        Unless `exact`, one without a project goes into the session of its name that `home_of` chooses.
        """
        profile = self.profile(memory.profile)
        project = self.project(profile, memory.project) if memory.project is not None else 0
        session = 0
        if memory.session is not None:
            if not project and not exact:
                project = home_of(memory.session, project, self._homes(profile, memory.session))
            session = self._session(profile, memory.session, project)
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

    def _session(self, profile: int, name: str, project: int) -> int:
        """The id of a session of a project; project 0 is none."""
        key = (profile, name, project)
        if key not in self._sessions:
            statement = "INSERT OR IGNORE INTO sessions (profile, name, project) VALUES (?, ?, nullif(?, 0))"
            self._connection.execute(statement, key)
            statement = "SELECT id FROM sessions WHERE profile = ? AND name = ? AND coalesce(project, 0) = ?"
            self._sessions[key] = self._connection.execute(statement, key).get
            self._known_homes.pop((profile, name), None)
        return self._sessions[key]

    def _homes(self, profile: int, name: str) -> list[int]:
        """The projects of two sessions of a name; 0 is none and comes first."""
        key = (profile, name)
        if key not in self._known_homes:
            statement = "SELECT coalesce(project, 0) FROM sessions WHERE profile = ? AND name = ? ORDER BY 1 LIMIT 2"
            self._known_homes[key] = [project for (project,) in self._connection.execute(statement, key)]
        return self._known_homes[key]
