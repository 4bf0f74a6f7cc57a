"""Which memories are current: keys with one open memory each, and the condition of a search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import blake2b

from retentive.models import Memory
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.sql import Statements
from retentive.stores.sql_codec import FACT_COLUMNS, to_memories, to_micros
from retentive.stores.writes import Slot

# Names are looked up by id for each row: a join could be planned as a scan of all sessions.
COLUMNS = f"""
    m.key, m.id, m.text, m.created, (SELECT name FROM profiles WHERE id = m.profile),
    (SELECT name FROM projects WHERE id = m.project), (SELECT name FROM sessions WHERE id = m.session),
    m.position, m.kind, m.speaker, m.importance, m.metadata, m.source, m.occurred, m.accessed, m.access_count,
    m.evergreen, m.content_hash, m.text_hash, {FACT_COLUMNS}
"""  # noqa: S608 - columns
"""The columns that `to_memories` takes, of the table memories AS m."""

CURRENT = """
    (valid_from IS NULL OR valid_from <= %(current_at)s) AND (valid_to IS NULL OR valid_to > %(current_at)s)
    AND (expires IS NULL OR expires > %(current_at)s)
"""
"""The condition that a memory is current at a time."""

CURRENT_VECTOR = """
    (valid_from IS NULL OR valid_from <= %(current_at)s) AND (valid_until IS NULL OR valid_until > %(current_at)s)
"""
"""The same condition for the memory of a vector."""

CURRENT_NEIGHBOUR = """
    (n.valid_from IS NULL OR n.valid_from <= %(current_at)s) AND (n.valid_to IS NULL OR n.valid_to > %(current_at)s)
    AND (n.expires IS NULL OR n.expires > %(current_at)s)
"""
"""The same condition for a neighbour."""

_SQL = Statements("validity")
_OF_KEY, _SUPERSEDED, _KEYED = (_SQL(name, columns=COLUMNS) for name in ("of_key", "superseded", "keyed"))


def memories_of_keys(connection: Connection, slots: Collection[Slot]) -> dict[Slot, list[Memory]]:
    """The memories of each key, in the order of arrival. Other transactions that write these keys wait."""
    hashes = {blake2b(repr(slot).encode(errors="replace"), digest_size=8).digest() for slot in slots}
    ids = sorted(int.from_bytes(hash, signed=True) for hash in hashes)
    connection.execute(_SQL("lock_keys"), (ids,))
    return {slot: list(to_memories(connection.execute(_OF_KEY, slot, binary=True), []).values()) for slot in slots}


def memories_with_keys(connection: Connection, session: int) -> list[Memory]:
    """The memories of a session that have a key."""
    return list(to_memories(connection.execute(_KEYED, (session,), binary=True), []).values())


def retire(connection: Connection, memories: Sequence[Memory]) -> None:
    """Store when memories end and what replaces them. Those that are open come last: another one may have to end."""
    for one in sorted(memories, key=lambda one: one.valid_to is None):
        values = (to_micros(one.valid_to), one.superseded_by, one.reason, one.actor, one.id)
        connection.execute(_SQL("retire"), values)
    if memories:
        date_vectors(connection, [one.id for one in memories])


def date_vectors(connection: Connection, ids: Sequence[str]) -> None:
    """Give the vectors of memories the validity of their memories."""
    connection.execute(_SQL("date_vectors"), (list(ids),))


def is_dated(memory: Memory) -> bool:
    """Whether the validity of a memory has an end or a given start."""
    return memory.valid_from is not None or memory.valid_to is not None or memory.expires is not None


def superseded(connection: Connection, ids: Sequence[str]) -> list[Memory]:
    """The memories that these have replaced, and those with the same key."""
    return list(to_memories(connection.execute(_SUPERSEDED, {"ids": list(ids)}, binary=True), []).values())


def lock_replacements(connection: Connection) -> None:
    """Wait for other transactions that ask what has replaced a memory."""
    connection.execute(_SQL("lock_replacements"))


def replaced_by(connection: Connection, id: str) -> str | None:
    """The id of what has replaced a memory."""
    row = connection.execute("SELECT superseded_by FROM memories WHERE id = %s", (id,)).fetchone()
    found: str | None = row[0] if row else None
    return found


def replacements(connection: Connection) -> dict[str, str]:
    """The id of what has replaced each memory that was replaced."""
    return dict(connection.execute("SELECT id, superseded_by FROM memories WHERE superseded_by IS NOT NULL").fetchall())


def expired_ids(connection: Connection, before: datetime, *, limit: int, profile: str | None) -> list[str]:
    """The ids of memories that expired before a time, locked."""
    parameters = {"before": to_micros(before), "limit": limit, "profile": profile}
    return [id for (id,) in connection.execute(_SQL("expired"), parameters, binary=True)]
