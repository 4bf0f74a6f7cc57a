"""Gives every memory a vector of the embedder's model, and then lets the store search by them.

Each batch is durable on its own, so it can be broken off at any time and goes on where it stopped. Until the last
memory is done the old vectors serve.
"""

from __future__ import annotations

from collections.abc import Callable

from retentive.errors import Unavailable
from retentive.inference.embedders import Embedder
from retentive.pipeline.remember import embed_memories
from retentive.stores import Store

BATCH = 64


def reembed(store: Store, embedder: Embedder, *, progress: Callable[[int], None] = lambda done: None) -> int:
    """How many memories were embedded; `progress` hears of each batch."""
    done = 0
    while True:
        waiting = store.unembedded(embedder.model, limit=BATCH)
        if not waiting:
            # Another process may have stored something between the look and the switch: then look again.
            if store.switch_model(embedder.model):
                return done
            continue
        rows = embed_memories(embedder, list(waiting.values()))
        if rows is None:
            raise Unavailable("the embedder cannot be reached; run it again later, it goes on where it stopped")
        store.attach(dict(zip(waiting, rows, strict=True)), model=embedder.model)
        done += len(waiting)
        progress(len(waiting))
