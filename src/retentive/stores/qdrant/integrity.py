"""Whether memories, words, vectors and names of a Qdrant store agree."""

from __future__ import annotations

import math
from typing import Any

from qdrant_client import models as q

from retentive.stores.qdrant import names
from retentive.stores.qdrant.connection import Connection
from retentive.stores.qdrant.points import memory_of, point_of
from retentive.stores.qdrant.sparse import WORDS, weights
from retentive.stores.qdrant.state import State, Version


def problems(connection: Connection, state: State) -> list[str]:
    """What is wrong, one sentence each."""
    sessions = {(one["profile"], one["name"]): one.get("project") for one in names.listed(connection, "session")}
    found: list[str] = []
    for version in state.versions:
        found += _of_version(connection, version, sessions)
    counts = {version.collection: connection.count(version.collection) for version in state.versions}
    if len(set(counts.values())) > 1:
        found.append(f"the collections hold different numbers of memories ({counts}); run: retentive reembed")
    known = {connection.memories, *counts}
    for one in connection.ask(lambda client: client.get_collections()).collections:
        if one.name.startswith(f"{connection.memories}_") and one.name not in known:
            found.append(f"the collection {one.name} was begun and left; delete it, if no re-embedding is under way")
    return found


def _of_version(connection: Connection, version: Version, sessions: dict[tuple[str, str], str | None]) -> list[str]:
    wrong = {
        "memories are under another id than their own": 0,
        "memories are indexed with other words than their own": 0,
        "memories have another number of vectors than is written down": 0,
        "memories are in another project than their session": 0,
    }
    for record in connection.scroll(version.collection, vectors=True):
        memory = memory_of(record.payload or {})
        home = sessions.get((memory.profile, memory.session or ""))
        checked = (
            point_of(memory.id) == record.id,
            _same_words(record, memory.indexed_text),
            _parts(record, version) == (record.payload or {})["parts"],
            memory.session is None or home == memory.project,
        )
        for sentence, right in zip(wrong, checked, strict=True):
            wrong[sentence] += not right
    return [f"{count} {sentence}" for sentence, count in wrong.items() if count]


def _same_words(record: q.Record, text: str) -> bool:
    vector: Any = record.vector or {}
    expected, stored = weights(text), vector.get(WORDS)
    if expected is None or stored is None:
        return expected is None and (stored is None or not stored.indices)
    there = dict(zip(stored.indices, stored.values, strict=True))
    return set(there) == set(expected.indices) and all(
        math.isclose(there[index], value, rel_tol=1e-5)
        for index, value in zip(expected.indices, expected.values, strict=True)
    )


def _parts(record: q.Record, version: Version) -> int:
    vector: Any = record.vector or {}
    return len(vector.get(version.vector) or ()) if version.vector else 0
