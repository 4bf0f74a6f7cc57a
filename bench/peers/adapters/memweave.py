"""memweave: one Markdown file for each memory, indexed in SQLite and searched by its hybrid search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from memweave import EmbeddingConfig, MemoryConfig, MemWeave

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("memweave", "sqlite-vec", "litellm")
CONFIGURATION = (
    "defaults: hybrid search (0.7 vectors, 0.3 BM25); min_score=0, as in its examples; one file for each memory, "
    "vectors over HTTP; projects as namespaces"
)


class Memweave:
    def __init__(self, setup: Setup) -> None:
        self._root = setup.path
        embedding = EmbeddingConfig("openai/given", api_base=setup.embeddings_url, api_key="none")
        self._memory = MemWeave(MemoryConfig(workspace_dir=str(setup.path), embedding=embedding))
        self._runner = asyncio.Runner()
        self._names: dict[str | None, str] = {}
        self._ids: dict[str, str] = {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            name = self._names.setdefault(memory.project, f"project_{len(self._names)}")
            file = f"memory/{name}/{len(self._ids)}.md"
            (self._root / file).parent.mkdir(parents=True, exist_ok=True)
            (self._root / file).write_text(memory.text, encoding="utf-8")
            self._ids[file] = memory.id

    def finish(self) -> None:
        self._runner.run(self._memory.index())
        mode = self._runner.run(self._memory.status()).search_mode
        if mode != "hybrid":
            raise RuntimeError(f"it searches by {mode}")

    def search(self, query: PeerQuery) -> list[str]:
        scope = self._names[query.project]
        asked = self._memory.search(query.text, max_results=LIMIT, min_score=0.0, source_filter=scope)
        return [self._ids[found.path] for found in self._runner.run(asked)]

    def close(self) -> None:
        self._runner.run(self._memory.close())
        self._runner.close()


def open(setup: Setup) -> Memweave:
    return Memweave(setup)
