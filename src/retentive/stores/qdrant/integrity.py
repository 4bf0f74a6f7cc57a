"""Check that the memories, terms, vectors and names of a store agree."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any, cast

from qdrant_client import models as q

from retentive.models import counted
from retentive.stores.damage import NOT_ITS_TEXT, Damage, Repair, damage_sentences
from retentive.stores.qdrant.connection import Connection, matching, payload_of
from retentive.stores.qdrant.listing import FEW
from retentive.stores.qdrant.model_collections import CollectionState, ModelCollection, without_dense_vector
from retentive.stores.qdrant.points import NewPoint, has_changed_text, has_stale_vectors, memory_of, point_of
from retentive.stores.qdrant.sessions import NameRegistry
from retentive.stores.qdrant.sparse import WORDS, weights
from retentive.stores.rules import stale_vectors
from retentive.text.analysis import content_hash

_PROBLEMS = (
    ("memory has another id than its point", "memories have another id than their point"),
    (
        "memory is indexed with other terms than those of its text",
        "memories are indexed with other terms than those of their text",
    ),
    ("memory has another number of vectors than recorded", "memories have another number of vectors than recorded"),
    ("memory is in another project than its session", "memories are in another project than their session"),
)


def find_problems(connection: Connection, names: NameRegistry, state: CollectionState) -> list[str]:
    """Return one sentence for each problem."""
    sessions = set(names.sessions())
    found: list[str] = []
    for collection in state.all:
        found += _check_collection(connection, collection, sessions)
    counts = {collection.name: connection.count(collection.name) for collection in state.all}
    if len(set(counts.values())) > 1:
        found.append(f"the collections hold different numbers of memories ({counts}); run: retentive reembed")
    known = {connection.memories, *counts}
    for one in connection.call(connection.client.get_collections).collections:
        if one.name.startswith(f"{connection.memories}_") and one.name not in known:
            found.append(f"the collection {one.name} is not in use; delete it if no re-embedding is running")
    return found


def _check_collection(
    connection: Connection, collection: ModelCollection, sessions: Set[tuple[str, str | None, str]]
) -> list[str]:
    wrong = dict.fromkeys(_PROBLEMS, 0)
    stale = 0
    changed: list[Damage] = []
    for record in connection.scroll(collection.name, vectors=True):
        memory = memory_of(payload_of(record))
        is_changed = has_changed_text(payload_of(record))
        changed += [Damage(memory.id, NOT_ITS_TEXT)] if is_changed else []
        vectors: Any = record.vector or {}
        checked = (
            point_of(memory.id) == record.id,
            is_changed or _same_terms(vectors.get(WORDS), weights(memory.indexed_text)),
            len(vectors.get(collection.vector) or ()) == payload_of(record)["parts"],
            memory.session is None or (memory.profile, memory.project, memory.session) in sessions,
        )
        for sentence, right in zip(wrong, checked, strict=True):
            wrong[sentence] += not right
        stale += not is_changed and has_stale_vectors(payload_of(record))
    problems = [counted(count, *sentence) for sentence, count in wrong.items() if count]
    return [*problems, *damage_sentences(changed), *stale_vectors(stale)]


def remove_stale_vectors(connection: Connection, collection: ModelCollection) -> set[str]:
    """Delete vectors that were made of another text, unless they are written meanwhile; return the points."""
    found = connection.scroll(collection.name, vectors=[WORDS])
    stale = [record for record in found if has_stale_vectors(payload_of(record))]
    for record in stale:
        points = q.PointsList(
            points=[without_dense_vector(record)],
            update_mode=q.UpdateMode.UPDATE_ONLY,
            update_filter=matching(written=payload_of(record)["written"]),
        )
        connection.update(collection.name, [q.UpsertOperation(upsert=points)])
    return {str(record.id) for record in stale}


def repair(connection: Connection, state: CollectionState) -> Repair:
    """Index texts that were changed as they are now; they lose their vectors and wait to be embedded."""
    changed: dict[str, None] = {}
    for collection in state.all:
        for record in connection.scroll(collection.name, vectors=[WORDS], page=FEW):
            payload, vectors = payload_of(record), cast("Any", record.vector or {})
            memory = memory_of(payload)
            if has_changed_text(payload) or not _same_terms(vectors.get(WORDS), weights(memory.indexed_text)):
                changed[memory.id] = None
                memory = memory._replace(content_hash=content_hash(memory.text))
                point = NewPoint.of(memory, payload["born"], connection.clock.take(), None, None)
                connection.upsert(collection.name, [point.encode(collection)])
    return Repair(connection.count(connection.memories), tuple(changed))


def _same_terms(stored: q.SparseVector | None, expected: q.SparseVector | None) -> bool:
    found, wanted = (dict(zip(one.indices, one.values, strict=True)) if one else {} for one in (stored, expected))
    return found.keys() == wanted.keys() and all(
        math.isclose(found[index], value, rel_tol=1e-5) for index, value in wanted.items()
    )
