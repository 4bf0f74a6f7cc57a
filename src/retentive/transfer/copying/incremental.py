"""A finished copy brought up to date: what has changed in its source, has been forgotten or was moved meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from retentive.errors import Conflict
from retentive.models import Memory
from retentive.stores import Record, Store, Vector
from retentive.transfer.copying.canonical import rounded, written, written_use
from retentive.transfer.copying.checkpoint import made_from


def move_sessions(source: Store, target: Store) -> None:
    """Have every session that both stores know in the source's project."""
    for profile in source.profiles():
        there = {session.name: session.project for session in target.sessions(profile.name)}
        for session in source.sessions(profile.name):
            if there.get(session.name, session.project) != session.project:
                target.move_session(profile.name, session.name, project=session.project)


def changed_records(target: Store, records: Sequence[Record], *, vectors: bool) -> list[Record]:
    """Those that the target has, but not as they are here, use and vectors among it."""
    keys = target.keys([record.memory.id for record in records])
    theirs = {memory.id: memory for memory in target.get(list(keys))}
    rows = target.vectors(list(keys.values())) if vectors else {}
    return [
        record
        for record in records
        if record.memory.id in theirs
        and not (
            _alike(record.memory, theirs[record.memory.id])
            and (not vectors or _same(record.vectors, rows.get(keys[record.memory.id])))
        )
    ]


def _alike(ours: Memory, theirs: Memory) -> bool:
    return written(ours) == written(theirs) and written_use(ours) == written_use(theirs)


def _same(ours: Vector | None, first: Vector | None) -> bool:
    """Whether a memory's vectors begin alike: they are made together, so one of them tells."""
    if ours is None or first is None:
        return ours is None and first is None
    return rounded(ours[0]) == rounded(first)


def forget_gone(source: Store, target: Store, *, limit: int) -> int:
    """How many memories the target had that the source has no more; they are gone there too.

    `Conflict` if one of them came into the target after it was copied: then it is a store of its own by now.
    """
    gone, cursor, finished = 0, None, made_from(target)[1]
    while True:
        stretch = target.walk(cursor=cursor, limit=limit)
        memories = [record.memory for record in stretch.records]
        known = source.keys([memory.id for memory in memories])
        missing = [memory for memory in memories if memory.id not in known]
        own = [memory.id for memory in missing if memory.created > finished]
        if own:
            raise Conflict(
                f"the copy has {len(own)} memories of its own, which --again would forget ({own[0]} is the first); "
                "use it as it is, or forget them there first"
            )
        if missing:
            gone += target.remove([memory.id for memory in missing])
        cursor = stretch.next_cursor
        if cursor is None:
            return gone
