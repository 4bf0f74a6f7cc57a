"""Replace and delete memories in every table and index."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from retentive.models import Memory
from retentive.stores.sql_codec import ScopeIds
from retentive.stores.sqlite import keyword_index, keyword_separators, memory_table, vector_blocks
from retentive.stores.sqlite.block_reclaim import reclaim
from retentive.stores.sqlite.memory_table import NameRegistry


def updated_scope(connection: apsw.Connection, memory: Memory, current: Memory) -> ScopeIds:
    """The scope of a memory that is updated. One that stays in its session follows it, if it is being moved."""
    stays = memory.session is not None and (memory.session, memory.project) == (current.session, current.project)
    return NameRegistry(connection).scope_ids(memory._replace(project=None) if stays else memory)


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
        reclaim(connection, vector_blocks.remove_vectors(connection, some))
        connection.executemany("DELETE FROM judgements WHERE memory = ?", [(key,) for key in some])
        connection.executemany("DELETE FROM memories WHERE key = ?", [(key,) for key in some])
