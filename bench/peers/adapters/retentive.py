"""Retentive through its library, with the default tuning and the default embedder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup
from retentive.engine import Engine
from retentive.inference.embedders import CachedEmbedder, Embedder, open_embedder
from retentive.inference.embedders.disk_cache import DiskCachedEmbedder
from retentive.inference.judge import LocalJudge
from retentive.pipeline.remember import Draft
from retentive.settings import EmbedderSettings, Settings
from retentive.stores import open_store

PACKAGES = ("retentive", "onnxruntime", "apsw")
CONFIGURATION = "defaults: SQLite, the judge reads the best ten; a short turn is embedded with the turn before it"


class Retentive:
    def __init__(self, folder: Path, embedder: Embedder, judge: LocalJudge | None = None) -> None:
        store, self._embedder = str(folder / "memories.db"), embedder
        self._engine = Engine(open_store(store), embedder, judge=judge, settings=Settings(store=store))
        self._ids: dict[str, str] = {}
        self._last: dict[str | None, str] = {}

    def prepare(self, memories: Sequence[PeerMemory]) -> None:
        """Read every vector into memory, also those of parts and of turns with the one before them."""
        for memory in memories:
            before = self._last.get(memory.session)
            pair = self._embedder.in_context(memory.text, before) if before else None
            self._embedder.embed([*self._embedder.split(memory.text), *filter(None, [pair])])
            self._last |= {memory.session: memory.text} if memory.session else {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        named = [{"project": m.project, "session": m.session, "speaker": m.speaker} for m in memories]
        drafts = [Draft(m.text, occurred=m.occurred_at, **names) for m, names in zip(memories, named, strict=True)]
        self._ids |= {one.id: m.id for one, m in zip(self._engine.remember_many(drafts), memories, strict=True)}

    def finish(self) -> None:
        """Do nothing: a memory is searchable when it is stored."""

    def search(self, query: PeerQuery) -> list[str]:
        options = {"project": query.project, "now": query.asked_at or None, "limit": LIMIT, "record_use": False}
        found = self._engine.recall(query.text, vector=np.asarray(query.vector, np.float32), **options)
        return [self._ids[hit.id] for hit in found]

    def close(self) -> None:
        self._engine.close()


def open(setup: Setup, *, judged: bool = True) -> Retentive:
    embedder = open_embedder(EmbedderSettings())
    kept = DiskCachedEmbedder(embedder, Path(setup.cache)) if setup.cache else embedder
    return Retentive(setup.path, CachedEmbedder(kept, size=1_000_000), LocalJudge() if judged else None)
