"""Insert, replace and delete memories in the tables and indexes."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from retentive.models import Memory
from retentive.stores.rules import stays_in_session
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds
from retentive.stores.sqlite import keyword_index, keyword_separators, memory_table, validity, vector_blocks
from retentive.stores.sqlite.block_reclaim import reclaim
from retentive.stores.sqlite.memory_table import NameRegistry


def insert_rows(
    connection: apsw.Connection, memories: Sequence[Memory], terms: Sequence[list[str]], *, exact: bool
) -> tuple[range, list[ScopeIds]]:
    """Insert memories with their terms, but without vectors; return their keys and scopes."""
    names = NameRegistry(connection)
    count = len(memories)
    statement = "UPDATE state SET next_key = next_key + ? RETURNING next_key - ?"
    first: int = connection.execute(statement, (count, count)).get
    keys = range(first, first + count)
    scopes = [names.scope_ids(memory, exact=exact) for memory in memories]
    if any(memory.key is not None for memory in memories):
        memories = validity.settle(connection, memories, scopes)
    connection.executemany(
        memory_table.INSERT,
        [
            memory_table.to_row(key, memory, scope, names.position(memory, scope.session), of_text)
            for key, memory, scope, of_text in zip(keys, memories, scopes, terms, strict=True)
        ],
    )
    keyword_index.add(connection, list(zip(keys, terms, scopes, strict=True)))
    return keys, scopes


def updated_scope(connection: apsw.Connection, key: int, memory: Memory, current: Memory) -> ScopeIds:
    """The scope of a memory that is updated. One that stays in its session follows it, if it is being moved."""
    if not stays_in_session(memory, current):
        return NameRegistry(connection).scope_ids(memory)
    profile, project, session = connection.execute(
        "SELECT s.profile, coalesce(s.project, 0), s.id FROM memories AS m JOIN sessions AS s ON s.id = m.session "
        "WHERE m.key = ?",
        (key,),
    ).get
    return ScopeIds(profile, project, session, KIND_NUMBERS[memory.kind])


def replace_row(connection: apsw.Connection, key: int, memory: Memory, scope: ScopeIds, terms: list[str]) -> None:
    """Replace the row of a memory and its entry in the keyword index."""
    replaced = keyword_index.entries(connection, [key])
    keyword_index.remove(connection, replaced)
    connection.execute("DELETE FROM memories WHERE key = ?", (key,))
    position = memory.position if scope.session else None
    connection.execute(memory_table.INSERT, memory_table.to_row(key, memory, scope, position, terms))
    keyword_index.add(connection, [(key, terms, scope)])
    keyword_separators.clear(connection, replaced)


def remove_rows(connection: apsw.Connection, keys: Sequence[int]) -> None:
    """Delete memories with their terms, vectors and judgements."""
    for at in range(0, len(keys), 1000):
        some = keys[at : at + 1000]
        removed = keyword_index.entries(connection, some)
        keyword_index.remove(connection, removed)
        keyword_separators.clear(connection, removed)
        emptied = vector_blocks.remove_vectors(connection, some) + vector_blocks.remove_turns(connection, some)
        reclaim(connection, emptied)
        connection.executemany("DELETE FROM judgements WHERE memory = ?", [(key,) for key in some])
        connection.executemany("DELETE FROM memories WHERE key = ?", [(key,) for key in some])
