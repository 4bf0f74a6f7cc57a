"""Haystack: a pipeline of a BM25 and an embedding retriever on the in-memory store, joined by `DocumentJoiner`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("haystack-ai",)
CONFIGURATION = (
    "DocumentJoiner (reciprocal_rank_fusion) over both retrievers of InMemoryDocumentStore; projects by a filter"
)


class Haystack:
    def __init__(self) -> None:
        self._store = InMemoryDocumentStore(embedding_similarity_function="cosine")
        self._pipeline = Pipeline()
        self._pipeline.add_component("keyword", InMemoryBM25Retriever(self._store))
        self._pipeline.add_component("semantic", InMemoryEmbeddingRetriever(self._store))
        self._pipeline.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=LIMIT))
        for name in ("keyword", "semantic"):
            self._pipeline.connect(name, "joiner")

    def add(self, memories: Sequence[PeerMemory]) -> None:
        documents = [
            Document(id=m.id, content=m.text, embedding=list(m.vector), meta={"project": m.project}) for m in memories
        ]
        self._store.write_documents(documents)

    def finish(self) -> None:
        """Do nothing: the store indexes what it gets."""

    def search(self, query: PeerQuery) -> list[str]:
        shared: dict[str, Any] = {"top_k": LIMIT}
        if query.project:
            shared["filters"] = {"field": "meta.project", "operator": "==", "value": query.project}
        inputs = {
            "keyword": {"query": query.text, **shared},
            "semantic": {"query_embedding": list(query.vector), **shared},
        }
        return [document.id for document in self._pipeline.run(inputs)["joiner"]["documents"]]

    def close(self) -> None:
        """Do nothing: everything is in memory."""


def open(_: Setup) -> Haystack:
    return Haystack()
