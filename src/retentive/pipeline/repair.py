"""Check a store, and repair what can be repaired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from retentive.errors import Conflict
from retentive.pipeline.embeddings import Embeddings
from retentive.pipeline.facts import VALIDITY
from retentive.stores.base import Store
from retentive.stores.damage import Repair
from retentive.stores.validity import rings
from retentive.stores.values import Record


def check_store(store: Store) -> Sequence[str]:
    """Check a store and return one sentence for each problem."""
    ring = sum(map(len, rings(store.replacements())))
    problem = "have replaced one another, so that none of them is current; run: retentive doctor --repair"
    return [*store.check(), *([f"{ring:,} memories {problem}"] if ring else [])]


def repair_store(store: Store, embeddings: Embeddings, *, at: datetime, progress: Callable[[int], None]) -> Repair:
    """Repair a store; see `Engine.repair`."""
    done = store.repair(at=at)
    _open_rings(store)
    if embeddings.problem() is not None:
        return done
    stale = store.remove_stale_vectors()
    embeddings.reembed(progress=progress)
    return replace(done, stale_vectors=stale)


def _open_rings(store: Store) -> None:
    """Open, of memories that have replaced one another, the one that starts last."""
    for ring in rings(store.replacements()):
        last = max(store.get(ring), key=lambda one: (one.start, one.created, one.id))
        opened = last._replace(valid_to=None, superseded_by=None, reason=None, actor=None)
        try:
            store.update(Record(opened), model=None, fields=VALIDITY)
        except Conflict:  # another one has its key
            store.update(Record(opened._replace(valid_to=last.valid_to)), model=None, fields=VALIDITY)
