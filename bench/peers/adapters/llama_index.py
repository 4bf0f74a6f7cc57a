"""LlamaIndex: `QueryFusionRetriever` over a `VectorStoreIndex` and `BM25Retriever`, one pair for each project."""

from __future__ import annotations

from collections.abc import Sequence

import Stemmer
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.retrievers.bm25 import BM25Retriever

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("llama-index-core", "llama-index-retrievers-bm25", "bm25s")
CONFIGURATION = (
    "QueryFusionRetriever (reciprocal_rerank, one query, no LLM) over VectorStoreIndex and BM25Retriever, in memory"
)


class LlamaIndex:
    def __init__(self, setup: Setup) -> None:
        self._embedder = MockEmbedding(setup.dimensions)  # never asked: every node and query has its vector
        self._nodes: dict[str | None, list[TextNode]] = {}
        self._retrievers: dict[str | None, QueryFusionRetriever] = {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            node = TextNode(id_=memory.id, text=memory.text, embedding=list(memory.vector))
            self._nodes.setdefault(memory.project, []).append(node)

    def finish(self) -> None:
        stemmer = Stemmer.Stemmer("english")
        for project, nodes in self._nodes.items():
            index = VectorStoreIndex(nodes, embed_model=self._embedder)
            keyword = BM25Retriever.from_defaults(
                nodes=nodes, similarity_top_k=LIMIT, stemmer=stemmer, language="english"
            )
            self._retrievers[project] = QueryFusionRetriever(
                [index.as_retriever(similarity_top_k=LIMIT), keyword],
                llm=MockLLM(),
                mode="reciprocal_rerank",
                similarity_top_k=LIMIT,
                num_queries=1,
                use_async=False,
            )
        self._nodes.clear()

    def search(self, query: PeerQuery) -> list[str]:
        asked = QueryBundle(query.text, embedding=list(query.vector))
        return [found.node.node_id for found in self._retrievers[query.project].retrieve(asked)][:LIMIT]

    def close(self) -> None:
        """Do nothing: everything is in memory."""


def open(setup: Setup) -> LlamaIndex:
    return LlamaIndex(setup)
