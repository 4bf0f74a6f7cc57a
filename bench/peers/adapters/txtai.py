"""txtai: an index with `hybrid` and `content` on, whose vectors are given by an external transform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from txtai import Embeddings

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("txtai", "faiss-cpu")
CONFIGURATION = "hybrid index with content, BM25 and Faiss, equal weights; one index for each project"


class Txtai:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._vectors: dict[str, Sequence[float]] = {}
        self._memories: dict[str, list[PeerMemory]] = {}
        self._indexes: dict[str, Embeddings] = {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            self._memories.setdefault(memory.project or "", []).append(memory)

    def finish(self) -> None:
        for number, (project, memories) in enumerate(self._memories.items()):
            self._vectors = {memory.text: memory.vector for memory in memories}
            # txtai would call a method without arguments, as if it were a class.
            embed = lambda texts: np.asarray([self._vectors[text] for text in texts], np.float32)  # noqa: E731
            index = Embeddings(method="external", transform=embed, hybrid=True, content=True)
            index.index([(memory.id, memory.text, None) for memory in memories])
            index.save(str(self._setup.path / str(number)))
            self._indexes[project] = index
        self._memories.clear()

    def search(self, query: PeerQuery) -> list[str]:
        self._vectors = {query.text: query.vector}
        return [found["id"] for found in self._indexes[query.project or ""].search(query.text, LIMIT)]

    def close(self) -> None:
        for index in self._indexes.values():
            index.close()


def open(setup: Setup) -> Txtai:
    return Txtai(setup)
