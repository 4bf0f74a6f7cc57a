"""Vectors on disk: one row each as float16, and the data that a search needs of all of them in blocks of 1024.

A block is an array of fixed-size records. Adding a vector writes its record in place, in the same transaction as the
text; deleting it writes zeros. So a process that opens a store of 100,000 memories reads a hundred rows, not 100,000.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid
from retentive.models import Model, hash_text, indexed_text
from retentive.stores.sql_codec import ScopeIds
from retentive.stores.sqlite.memory_table import fetch_json
from retentive.stores.values import PreviousTurn, Record, Vector

BLOCK = 1024
MODEL_SHIFT = 40
"""Slots of model m start at m << 40, blocks at m << 30: models never share a block."""

WRONG_LENGTHS = """
    SELECT v.memory FROM vectors AS v JOIN models AS m ON m.id = v.slot >> 40
    WHERE length(v.embedding) <> 2 * m.dimension
"""
"""The memories with a vector that does not have the length of its model. A search takes it for none."""

Records = npt.NDArray[np.void]
Slots = npt.NDArray[np.int64]


def record_type(dimension: int) -> np.dtype[np.void]:
    """One slot: the key of its memory (0 if unused), its scope, and the sign code of its vector."""
    words = -(-dimension // 64)
    ids = [(name, "<i4") for name in ("profile", "project", "session", "kind")]
    return np.dtype([("memory", "<i8"), *ids, ("code", "<u8", (words,))])


def signs(vectors: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint64]:
    """The sign of each component as a bit, 64 to a word."""
    bits = np.packbits(vectors > 0, axis=1)
    padded = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))
    return np.ascontiguousarray(padded).view("<u8")


def add_vectors(
    connection: apsw.Connection, entries: Iterable[tuple[int, ScopeIds, Record]], *, model: int, dimension: int
) -> range:
    """Store the vectors of these memories, given their keys and scopes; those without vectors are left out.

    Return the blocks that have no unused slot any more.
    """
    embedded = [(key, ids, one) for key, ids, one in entries if one.vectors is not None]
    turns = _stored_turns(connection, [one for _, _, one in embedded])
    embedded = [
        (key, ids, one if one.previous is None or one.memory.id in turns else one.alone()) for key, ids, one in embedded
    ]
    given = [(key, ids, one.memory, one.vectors) for key, ids, one in embedded if one.vectors is not None]
    if not given:
        return range(0)
    if any(vectors.ndim != 2 or vectors.shape[1] != dimension for *_, vectors in given):
        # A vector of another length would make every later search fail.
        raise Invalid(f"every vector of this model has {dimension} numbers, one of these has not; nothing was stored")
    vectors = np.concatenate([vectors for *_, vectors in given])
    owners = [
        (key, ids, bytes.fromhex(memory.text_hash), turns.get(memory.id) if part == len(rows) - 1 else None)
        for key, ids, memory, rows in given
        for part in range(len(rows))
    ]
    first = next_slots(connection, model, len(vectors))
    rounded = vectors.astype("<f2")
    halves, size = rounded.tobytes(), 2 * dimension
    connection.executemany(
        "INSERT INTO vectors (slot, memory, embedding, text_hash, previous) VALUES (?, ?, ?, ?, ?)",
        (
            (first + at, key, halves[at * size : (at + 1) * size], text_hash, previous)
            for at, (key, _, text_hash, previous) in enumerate(owners)
        ),
    )
    records = np.zeros(len(vectors), record_type(dimension))
    records["memory"] = [key for key, *_ in owners]
    for name in ("profile", "project", "session", "kind"):
        records[name] = [getattr(ids, name) for _, ids, *_ in owners]
    records["code"] = signs(rounded)
    write_records(connection, model, np.arange(first, first + len(vectors)), records)
    return range(first // BLOCK, (first + len(vectors)) // BLOCK)


def _stored_turns(connection: apsw.Connection, records: Sequence[Record]) -> dict[str, int]:
    """The keys of the previous turns that are stored with the text of a record's vector, by the record's memory id."""
    wanted = {record.previous.id for record in records if record.previous}
    if not wanted:
        return {}
    rows = connection.execute(
        "SELECT id, key, text_hash FROM memories WHERE id IN carray(?)", (apsw.carray(tuple(wanted)),)
    )
    stored = {(id, text_hash): key for id, key, text_hash in rows}
    return {one.memory.id: stored[one.previous] for one in records if one.previous and one.previous in stored}


def remove_turns(connection: apsw.Connection, keys: Iterable[int]) -> list[int]:
    """Delete the vectors that contain the text of these memories beside another; return the blocks they were in."""
    wanted = array("q", keys)
    if not wanted:
        return []
    rows = connection.execute(
        "SELECT v.slot FROM carray(?) AS wanted CROSS JOIN vectors AS v ON v.previous = wanted.value",
        (apsw.carray(wanted),),
    )
    return _remove_slots(connection, [slot for (slot,) in rows])


def previous_turns(connection: apsw.Connection, keys: Iterable[int], model: int) -> dict[int, PreviousTurn]:
    """The turn whose text is in the last vector of each of these memories."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    rows = connection.execute(
        "SELECT v.memory, m.id, m.text_hash FROM carray(?) AS wanted "
        "CROSS JOIN vectors AS v ON v.memory = wanted.value JOIN memories AS m ON m.key = v.previous "
        "WHERE v.slot >= ? << 40 AND v.slot < ? << 40",
        (apsw.carray(wanted), model, model + 1),
    )
    return {key: PreviousTurn(id, text_hash) for key, id, text_hash in rows}


def next_slots(connection: apsw.Connection, model: int, count: int) -> int:
    """Take slots that were never used; return the first."""
    statement = "UPDATE models SET next_slot = next_slot + ? WHERE id = ? RETURNING next_slot - ?"
    first: int = connection.execute(statement, (count, model, count)).get
    return (model << MODEL_SHIFT) + first


def slots_of(connection: apsw.Connection, keys: Iterable[int]) -> dict[int, list[int]]:
    """The slots of these memories, of every model."""
    wanted = array("q", keys)
    found: dict[int, list[int]] = {key: [] for key in wanted}
    if wanted:
        rows = fetch_json(
            connection,
            "SELECT json_group_array(json_array(v.memory, v.slot)) "
            "FROM carray(?) AS wanted CROSS JOIN vectors AS v ON v.memory = wanted.value",
            (apsw.carray(wanted),),
        )
        for key, slot in rows:
            found[key].append(slot)
    return found


def slots_in_model(connection: apsw.Connection, keys: Sequence[int], model: int) -> tuple[list[int], list[int]]:
    """The slots of these memories in a model, with the key of each: the slots of a memory in ascending order."""
    if not keys:
        return [], []
    owners, slots = fetch_json(
        connection,
        "SELECT json_array(json_group_array(v.memory), json_group_array(v.slot)) "
        "FROM carray(?) AS wanted CROSS JOIN vectors AS v ON v.memory = wanted.value "
        "WHERE v.slot >= ? << 40 AND v.slot < ? << 40",
        (apsw.carray(array("q", keys)), model, model + 1),
    )
    return owners, slots


def stored_vectors(connection: apsw.Connection, keys: Iterable[int], model: int) -> dict[int, Vector]:
    """The vectors of all parts of these memories, of one model; a memory without intact ones is not in the result."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    size = 2 * connection.execute("SELECT dimension FROM models WHERE id = ?", (model,)).get
    rows = connection.execute(
        "SELECT v.memory, v.embedding FROM carray(?) AS wanted CROSS JOIN vectors AS v ON v.memory = wanted.value "
        "WHERE v.slot >= ? << 40 AND v.slot < ? << 40 ORDER BY v.memory, v.slot",
        (apsw.carray(wanted), model, model + 1),
    )
    found: dict[int, list[bytes]] = {}
    for key, embedding in rows:
        found.setdefault(key, []).append(embedding)
    return {
        key: np.stack([np.frombuffer(part, "<f2") for part in parts]).astype(np.float32)
        for key, parts in found.items()
        if all(len(part) == size for part in parts)
    }


def remove_vectors(connection: apsw.Connection, keys: Iterable[int], *, model: int | None = None) -> list[int]:
    """Delete the vectors of these memories, of every model or of one; return the blocks that they were in."""
    slots = [slot for slots in slots_of(connection, keys).values() for slot in slots]
    return _remove_slots(connection, [slot for slot in slots if model in (None, slot >> MODEL_SHIFT)])


def _remove_slots(connection: apsw.Connection, slots: Sequence[int]) -> list[int]:
    clear_slots(connection, slots)
    connection.executemany("DELETE FROM vectors WHERE slot = ?", ((slot,) for slot in slots))
    return [slot // BLOCK for slot in slots]


def clear_slots(connection: apsw.Connection, slots: Iterable[int]) -> None:
    """Write zeros into the records of these slots."""
    _rewrite(connection, dict.fromkeys(slots))


def stale_keys(connection: apsw.Connection) -> list[int]:
    """The keys of memories with a vector that was made of another text."""
    # As bytes: text that is not UTF-8 could not be read otherwise.
    rows = connection.execute(
        """
        SELECT m.key, v.text_hash, CAST(m.text AS BLOB), CAST(m.speaker AS BLOB)
        FROM (SELECT DISTINCT memory, text_hash FROM vectors WHERE text_hash IS NOT NULL) AS v
        JOIN memories AS m ON m.key = v.memory
        """
    )
    stale = {}
    for key, text_hash, text, speaker in rows:
        who = None if speaker is None else speaker.decode(errors="replace")
        if hash_text(indexed_text(text.decode(errors="replace"), who)) != text_hash.hex():
            stale[key] = True
    return list(stale)


def move_vectors(connection: apsw.Connection, scopes: Mapping[int, ScopeIds]) -> None:
    """Change the scope of the vectors of these memories."""
    found = slots_of(connection, scopes)
    _rewrite(connection, {slot: scopes[key] for key, slots in found.items() for slot in slots})


def _rewrite(connection: apsw.Connection, changes: Mapping[int, ScopeIds | None]) -> None:
    """Change the scope of slots, or clear them (None)."""
    for model, group in groupby(sorted(changes), key=lambda slot: slot >> MODEL_SHIFT):
        dimension = connection.execute("SELECT dimension FROM models WHERE id = ?", (model,)).get
        slots = np.fromiter(group, np.int64)
        records = read_records(connection, slots, dimension)
        for at, slot in enumerate(slots):
            ids = changes[int(slot)]
            if ids is None:
                records[at] = np.zeros((), records.dtype)
            else:
                for name in ("profile", "project", "session", "kind"):
                    records[name][at] = getattr(ids, name)
        write_records(connection, model, slots, records)


def raise_sequence(connection: apsw.Connection) -> int:
    """Increment the store's sequence number, by which readers notice that something was written."""
    sequence: int = connection.execute("UPDATE state SET sequence = sequence + 1 RETURNING sequence").get
    return sequence


def write_records(connection: apsw.Connection, model: int, slots: Slots, records: Records) -> None:
    """Write records into their blocks, in place, and mark the blocks as changed."""
    sequence = raise_sequence(connection)
    size = records.dtype.itemsize
    for block, run in _runs(slots):
        connection.execute(
            "INSERT INTO blocks (id, model, sequence, slots) VALUES (?, ?, ?, zeroblob(?)) "
            "ON CONFLICT (id) DO UPDATE SET sequence = excluded.sequence",
            (block, model, sequence, BLOCK * size),
        )
        with connection.blob_open("main", "blocks", "slots", block, True) as blob:
            blob.seek(int(slots[run.start] % BLOCK) * size)
            blob.write(np.ascontiguousarray(records[run]).tobytes())


def read_records(connection: apsw.Connection, slots: Slots, dimension: int) -> Records:
    """The records of these slots."""
    kind = record_type(dimension)
    records = np.zeros(len(slots), kind)
    for block, run in _runs(slots):
        with connection.blob_open("main", "blocks", "slots", block, False) as blob:
            blob.seek(int(slots[run.start] % BLOCK) * kind.itemsize)
            records[run] = np.frombuffer(blob.read((run.stop - run.start) * kind.itemsize), kind)
    return records


def _runs(slots: Slots) -> list[tuple[int, slice]]:
    """The blocks of ascending slots, with the runs of adjacent slots in each."""
    breaks = np.flatnonzero((np.diff(slots) != 1) | (np.diff(slots // BLOCK) != 0)) + 1
    edges = [0, *breaks.tolist(), len(slots)]
    return [(int(slots[a] // BLOCK), slice(a, b)) for a, b in pairwise(edges) if b > a]


def changed_blocks(connection: apsw.Connection, model: int, *, since: int) -> Iterable[Any]:
    """The blocks of a model written after a sequence number: first slot, sequence number and bytes.

    A block that has become empty has no bytes.
    """
    statement = "SELECT id * 1024, sequence, slots FROM blocks WHERE model = ? AND sequence > ? ORDER BY +id"
    return connection.execute(statement, (model, since))


def read_block(connection: apsw.Connection, first: int, dimension: int) -> Records:
    """The records of a block, given its first slot; all zeros if it does not exist."""
    data = connection.execute("SELECT slots FROM blocks WHERE id = ?", (first // BLOCK,)).get
    kind = record_type(dimension)
    return np.frombuffer(data, kind) if data else np.zeros(BLOCK, kind)


def read_vectors(connection: apsw.Connection, slots: Slots, dimension: int) -> tuple[Slots, Vector]:
    """The vectors of these slots that still exist, with their slots. One that has another length is none."""
    rows: list[Any] = connection.execute(
        "SELECT v.slot, v.embedding FROM carray(?) AS wanted CROSS JOIN vectors AS v ON v.slot = wanted.value "
        "WHERE length(v.embedding) = ?",
        (apsw.carray(slots), 2 * dimension),
    ).fetchall()
    there = np.fromiter((slot for slot, _ in rows), np.int64, len(rows))
    halves = np.frombuffer(b"".join(half for _, half in rows), "<f2").reshape(len(rows), dimension)
    return there, halves.astype(np.float32)


def remove_wrong_lengths(connection: apsw.Connection) -> int:
    """Delete the vectors of memories with one of another length than its model; return how many vectors they had."""
    connection.execute(f"DELETE FROM vectors WHERE memory IN ({WRONG_LENGTHS})")  # noqa: S608 - a text of our own
    return connection.changes()


# Models

_UNEMBEDDED = """
    SELECT key FROM memories AS m
    WHERE NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.memory = m.key AND v.slot >= ? << 40 AND v.slot < ? << 40)
    ORDER BY key LIMIT ?
"""


def active_model(connection: apsw.Connection) -> Model | None:
    """The model whose vectors are searched."""
    row = connection.execute(
        "SELECT m.name, m.revision, m.dimension, m.fingerprint FROM state JOIN models AS m ON m.id = active_model"
    ).get
    return None if row is None else Model(*row)


def model_id(connection: apsw.Connection, model: Model) -> int | None:
    """The id of a model in this store; None if it was never used here."""
    found = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (model.fingerprint,)).get
    return None if found is None else int(found)


def register(connection: apsw.Connection, model: Model) -> int:
    """The id of a model, created if it is new. The first model of a store becomes the active one."""
    connection.execute(
        "INSERT OR IGNORE INTO models (name, revision, dimension, fingerprint) VALUES (?, ?, ?, ?)",
        (model.name, model.revision, model.dimension, model.fingerprint),
    )
    id: int = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (model.fingerprint,)).get
    connection.execute("UPDATE state SET active_model = ? WHERE active_model IS NULL", (id,))
    return id


def unembedded_keys(connection: apsw.Connection, model: Model, *, limit: int = -1) -> list[int]:
    """The keys of memories that have no vector of this model."""
    id = model_id(connection, model) or 0
    return [key for (key,) in connection.execute(_UNEMBEDDED, (id, id + 1, limit))]


def switch(connection: apsw.Connection, model: Model, *, without: frozenset[int] = frozenset()) -> bool:
    """Make a model the active one and delete all others; False if a memory has no vector of it.

    The memories with the keys `without` may have none.
    """
    if not without.issuperset(unembedded_keys(connection, model, limit=len(without) + 1)):
        return False
    id = register(connection, model)
    first, end = id << MODEL_SHIFT, (id + 1) << MODEL_SHIFT
    connection.execute("UPDATE state SET active_model = ?", (id,))
    connection.execute("DELETE FROM models WHERE id <> ?", (id,))  # first, so that no trigger notes its vectors
    connection.execute("DELETE FROM vectors WHERE slot < ? OR slot >= ?", (first, end))
    connection.execute("DELETE FROM blocks WHERE model <> ?", (id,))
    return True
