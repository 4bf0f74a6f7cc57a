"""Find memories that another program has changed, and repair a store: index the texts as they are, and count again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from retentive.models import Memory
from retentive.stores.damage import NOT_ITS_TEXT, Damage, Repair
from retentive.stores.postgres.memories import scan_page
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.search_stats import ScopedTerms, record_changes
from retentive.stores.postgres.sql import Statements
from retentive.stores.postgres.validity import COLUMNS
from retentive.stores.sql_codec import SCOPE_TOKENS, ScopeIds, to_memories
from retentive.text.normal_form import content_hash
from retentive.text.terms import index_terms

_SQL = Statements("repair")
_TEXT_HASH = 5 + 18
"""The place of the hash of the text in a row: after the terms and the scope, where `to_memories` has it."""

_ROWS = _SQL("rows", columns=COLUMNS)


def find_damage(connection: Connection) -> list[Damage]:
    """Return all memories that cannot be decoded, or whose text is not the one that was stored."""
    damaged: list[Damage] = []
    for rows in _pages(connection):
        memories = to_memories((row[5:] for row in rows), damaged)
        damaged += [Damage(memories[row[5]].id, NOT_ITS_TEXT) for row in rows if _differs(row, memories.get(row[5]))]
    return damaged


def _differs(row: Sequence[Any], memory: Memory | None) -> bool:
    """Whether a memory that was stored without a hash of its text has neither its content hash nor its terms."""
    if memory is None or row[_TEXT_HASH] is not None or not memory.content_hash:
        return False
    return content_hash(memory.text) != memory.content_hash and _joined(memory) != row[0]


def _joined(memory: Memory) -> str:
    return " ".join(index_terms(memory.indexed_text))


def _pages(connection: Connection) -> Iterator[list[Sequence[Any]]]:
    """Yield pages of rows: the terms and the scope of a memory, then its columns."""
    cursor: str | None = None
    while True:
        keys, cursor = scan_page(connection, cursor=cursor, limit=500)
        yield connection.execute(_ROWS, (keys,), binary=True).fetchall()
        if cursor is None:
            return


def repair(connection: Connection) -> Repair:
    """Index every text as it is, and count all terms and memories again. Other writers wait.

    A text that was changed loses its vectors, and waits to be embedded. A row that cannot be decoded stays as it is.
    """
    connection.execute(_SQL("lock"))
    connection.execute(_SQL("lock_counts"))
    connection.execute("DELETE FROM counts")
    connection.execute("DELETE FROM count_changes")
    changed: list[str] = []
    count = 0
    for rows in _pages(connection):
        damaged: list[Damage] = []
        intact = to_memories((row[5:] for row in rows), damaged)
        unchecked = to_memories(([*row[5:_TEXT_HASH], None, *row[_TEXT_HASH + 1 :]] for row in rows), [])
        entries = [_repair_row(connection, row, unchecked.get(row[5]), row[5] in intact) for row in rows]
        changed += [memory.id for key, memory in unchecked.items() if key not in intact]
        record_changes(connection, added=entries)
        count += len(entries)
    connection.execute(_SQL("move_vectors"))
    removed = connection.execute(_SQL("remove_vectors")).rowcount
    return Repair(count, tuple(changed), (), removed)


def _repair_row(connection: Connection, row: Sequence[Any], memory: Memory | None, intact: bool) -> ScopedTerms:
    """Index one memory as it is, and return its scope and terms."""
    terms, *scope, key = row[:6]
    if memory is None:
        return ScopeIds(*scope), terms.split()
    found = index_terms(memory.indexed_text)
    joined, hash = " ".join(found), content_hash(memory.text) if not intact else memory.content_hash
    if not intact:
        connection.execute("DELETE FROM vectors WHERE memory = %s", (key,))
    if (joined, hash, memory.text_hash) != (terms, memory.content_hash, row[_TEXT_HASH]):
        values = (joined, len(found) + SCOPE_TOKENS, hash, memory.text_hash, key)
        connection.execute(_SQL("update"), values)
    return ScopeIds(*scope), found
