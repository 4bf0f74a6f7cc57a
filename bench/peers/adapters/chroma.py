"""Chroma: a persistent collection with cosine distance, searched by vector.

Its search that fuses keyword and vector results is offered in its cloud only, so this is the vector search.
"""

from __future__ import annotations

from collections.abc import Sequence

import chromadb
from chromadb.config import Settings

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("chromadb",)
CONFIGURATION = "persistent client, cosine, HNSW, vectors only; projects by a metadata filter"


class Chroma:
    def __init__(self, setup: Setup) -> None:
        settings = Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(path=setup.folder, settings=settings)
        configuration = {"hnsw": {"space": "cosine"}}
        self._memories = client.create_collection("memories", configuration=configuration, embedding_function=None)

    def add(self, memories: Sequence[PeerMemory]) -> None:
        self._memories.add(
            ids=[memory.id for memory in memories],
            documents=[memory.text for memory in memories],
            embeddings=[list(memory.vector) for memory in memories],
            metadatas=[{"project": memory.project or ""} for memory in memories],
        )

    def finish(self) -> None:
        """Do nothing: the index is built as memories are added."""

    def search(self, query: PeerQuery) -> list[str]:
        where = {"project": query.project} if query.project else None
        return self._memories.query(query_embeddings=[list(query.vector)], n_results=LIMIT, where=where)["ids"][0]

    def close(self) -> None:
        """Do nothing: everything is on disk."""


def open(setup: Setup) -> Chroma:
    return Chroma(setup)
