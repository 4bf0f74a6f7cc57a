"""memsearch: one Markdown file for each memory, indexed in Milvus Lite and searched by its hybrid search with RRF."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from memsearch import MemSearch

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("memsearch", "pymilvus", "milvus-lite")
CONFIGURATION = (
    "defaults: Milvus Lite, BM25 and vectors, RRF; one file for each memory, vectors over HTTP; projects as folders"
)


class Memsearch:
    def __init__(self, setup: Setup) -> None:
        self._files = setup.path / "memory"
        self._files.mkdir()
        self._search = MemSearch(
            [str(self._files)],
            embedding_base_url=setup.embeddings_url,
            embedding_api_key="none",
            embedding_model="given",
            milvus_uri=str(setup.path / "milvus.db"),
        )
        self._runner = asyncio.Runner()
        self._folders: dict[str | None, Path] = {}
        self._ids: dict[str, str] = {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            folder = self._folders.setdefault(memory.project, self._files / f"project-{len(self._folders):05}")
            folder.mkdir(exist_ok=True)
            file = folder / f"{len(self._ids):07}.md"
            file.write_text(memory.text, encoding="utf-8")
            self._ids[str(file.resolve())] = memory.id

    def finish(self) -> None:
        report = self._runner.run(self._search.index_with_report())
        if report.failed_files:
            raise RuntimeError(f"it was not indexed: {report.failed_files[0]}")

    def search(self, query: PeerQuery) -> list[str]:
        asked = self._search.search(query.text, top_k=LIMIT, source_prefix=self._folders[query.project])
        return [self._ids[found["source"]] for found in self._runner.run(asked)]

    def close(self) -> None:
        self._search.close()
        self._runner.close()


def open(setup: Setup) -> Memsearch:
    return Memsearch(setup)
