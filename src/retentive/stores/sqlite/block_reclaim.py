"""Give back the space of blocks of vectors that are mostly empty.

Slots are never used twice, so a block in which most memories were forgotten stays as large as it was. Its last vectors
move to new slots, and its bytes are deleted. The row stays, without bytes: a process that holds the block in memory
notices by its sequence number that it is empty.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import numpy as np

from retentive.stores.sqlite.vector_blocks import (
    BLOCK,
    MODEL_SHIFT,
    clear_slots,
    next_slots,
    raise_sequence,
    read_block,
    read_records,
    slots_of,
    write_records,
)

SPARSE = BLOCK // 8
"""A block with this many vectors or fewer is emptied. Every vector that moves makes room for at least seven."""

_BLOCK_SHIFT = MODEL_SHIFT - 10


def reclaim(connection: apsw.Connection, blocks: Iterable[int], *, most: int = SPARSE) -> int:
    """Empty those of the blocks that have at most this many vectors and receive no new ones; return how many."""
    return sum(_reclaim_block(connection, block, most) for block in dict.fromkeys(blocks))


def reclaimable_blocks(connection: apsw.Connection) -> list[int]:
    """The blocks that have bytes and receive no new vectors, of every model."""
    rows = connection.execute(
        "SELECT b.id FROM blocks AS b JOIN models AS m ON m.id = b.model "
        "WHERE length(b.slots) > 0 AND b.id < (m.id << ?) + (m.next_slot >> 10) ORDER BY b.id",
        (_BLOCK_SHIFT,),
    )
    return [block for (block,) in rows]


def _reclaim_block(connection: apsw.Connection, block: int, most: int) -> bool:
    model = block >> _BLOCK_SHIFT
    row = connection.execute(
        "SELECT m.dimension, m.next_slot, length(b.slots) FROM blocks AS b JOIN models AS m ON m.id = b.model "
        "WHERE b.id = ?",
        (block,),
    ).get
    if row is None:
        return False
    dimension, following, size = row
    if not size or block >= (model << _BLOCK_SHIFT) + following // BLOCK:
        return False
    owners = read_block(connection, block * BLOCK, dimension)["memory"]
    left = np.unique(owners[owners != 0])
    if np.count_nonzero(owners) > most:
        return False
    if len(left):
        _move(connection, model, dimension, left.tolist())
    connection.execute(
        "UPDATE blocks SET slots = zeroblob(0), sequence = ? WHERE id = ?", (raise_sequence(connection), block)
    )
    return True


def _move(connection: apsw.Connection, model: int, dimension: int, keys: Iterable[int]) -> None:
    """Move all vectors of these memories to new slots, in their order, which is that of the parts of a text."""
    found = slots_of(connection, keys)
    old = [slot for slots in found.values() for slot in sorted(slots) if slot >> MODEL_SHIFT == model]
    records = np.concatenate([read_records(connection, np.array([slot], np.int64), dimension) for slot in old])
    first = next_slots(connection, model, len(old))
    new = range(first, first + len(old))
    connection.executemany("UPDATE vectors SET slot = ? WHERE slot = ?", zip(new, old, strict=True))
    clear_slots(connection, old)
    write_records(connection, model, np.arange(first, first + len(old)), records)
