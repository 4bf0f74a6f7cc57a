"""Which memories are current: keys with one open memory each, and the condition of a search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from hashlib import blake2b

from retentive.models import Memory
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.sql import Statements
from retentive.stores.sql_codec import FACT_COLUMNS, ScopeIds, to_memories, to_micros
from retentive.stores.validity import concerns_keys, settle_keys, settle_session, settle_update

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

_Slot = tuple[str, int, int]


def settle(connection: Connection, memories: Sequence[Memory], scopes: Sequence[ScopeIds]) -> Sequence[Memory]:
    """Memories of these scopes as they are to be stored. Stored ones that they replace by their keys are retired."""
    own = {memory.id for memory in memories}
    slots = [(memory.key or "", ids.profile, ids.project) for memory, ids in zip(memories, scopes, strict=True)]
    keyed = {slot for slot, memory in zip(slots, memories, strict=True) if memory.key is not None}
    _lock(connection, keyed)
    stored = {slot: [one for one in _of_key(connection, slot) if one.id not in own] for slot in keyed}
    final, changed = settle_keys(list(zip(slots, memories, strict=True)), stored)
    retire(connection, changed)
    return final


def settle_updated(
    connection: Connection, current: Memory, memory: Memory, scope: ScopeIds, fields: Collection[str] | None
) -> Memory:
    """An updated memory as it is to be stored. Others of its key, and of the one that it had, change with it."""
    if not concerns_keys(current, memory):
        return memory
    rows = connection.execute(
        "SELECT coalesce(fact_key, ''), profile, coalesce(project, 0) FROM memories WHERE id = %s", (memory.id,)
    )
    [before] = rows.fetchall()
    slot = (memory.key or "", scope.profile, scope.project)
    _lock(connection, [one for one in {slot, before} if one[0]])
    others, former = (
        [one for one in _of_key(connection, of) if one.id != memory.id] if of[0] else [] for of in (slot, before)
    )
    settled, changed = settle_update(current, memory, fields, others, former if before != slot else ())
    if changed:  # until its own row is written, its key is free
        values = (to_micros(memory.start), memory.id)
        connection.execute("UPDATE memories SET valid_to = %s WHERE id = %s", values)
    retire(connection, changed)
    return settled


def settle_moved(
    connection: Connection, session: int, *, profile: int, old: int, new: int, project: str | None
) -> list[Memory]:
    """The memories with keys that change when a session moves to a project.

    They are closed until they are written: a key has at most one open memory in a project. `old` and `new` are the ids
    of the session's projects, and `project` is the name of the new one.
    """
    by_key: dict[str, list[Memory]] = {}
    for memory in to_memories(connection.execute(_KEYED, (session,), binary=True), []).values():
        by_key.setdefault(memory.key or "", []).append(memory)
    _lock(connection, [(key, profile, home) for key in by_key for home in (old, new)])
    changed: list[Memory] = []
    for key, moved in by_key.items():
        ids = {memory.id for memory in moved}
        former = [one for one in _of_key(connection, (key, profile, old)) if one.id not in ids]
        here = _of_key(connection, (key, profile, new))
        changed += settle_session(moved, project, here=here, former=former)
    for memory in changed:
        connection.execute("UPDATE memories SET valid_to = %s WHERE id = %s", (to_micros(memory.start), memory.id))
    return changed


def _lock(connection: Connection, slots: Iterable[_Slot]) -> None:
    """Wait for other transactions that write these keys."""
    hashes = {blake2b(repr(slot).encode(errors="replace"), digest_size=8).digest() for slot in slots}
    ids = sorted(int.from_bytes(hash, signed=True) for hash in hashes)
    connection.execute(_SQL("lock_keys"), (ids,))


def _of_key(connection: Connection, slot: _Slot) -> list[Memory]:
    return list(to_memories(connection.execute(_OF_KEY, slot, binary=True), []).values())


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


class ReplacedBy:
    """Gives what has replaced a memory. After the first call, other transactions that ask for it wait for this one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._locked = False

    def __call__(self, id: str) -> str | None:
        if not self._locked:
            self._connection.execute(_SQL("lock_replacements"))
            self._locked = True
        row = self._connection.execute("SELECT superseded_by FROM memories WHERE id = %s", (id,)).fetchone()
        found: str | None = row[0] if row else None
        return found


def replacements(connection: Connection) -> dict[str, str]:
    """The id of what has replaced each memory that was replaced."""
    return dict(connection.execute("SELECT id, superseded_by FROM memories WHERE superseded_by IS NOT NULL").fetchall())


def expired_ids(connection: Connection, before: datetime, *, limit: int, profile: str | None) -> list[str]:
    """The ids of memories that expired before a time, locked."""
    parameters = {"before": to_micros(before), "limit": limit, "profile": profile}
    return [id for (id,) in connection.execute(_SQL("expired"), parameters, binary=True)]
