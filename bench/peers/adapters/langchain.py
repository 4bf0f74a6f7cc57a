"""LangChain: `EnsembleRetriever` over `BM25Retriever` and a FAISS store, one pair for each project."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.embeddings import Embeddings

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("langchain-classic", "langchain-community", "rank-bm25", "faiss-cpu")
CONFIGURATION = "EnsembleRetriever (weights 0.5 and 0.5, c = 60) over BM25Retriever and FAISS, in memory"


class Given(Embeddings):
    """Returns the vectors that the runner gave."""

    def __init__(self) -> None:
        self.vectors: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.vectors[text]


class LangChain:
    def __init__(self) -> None:
        self._given = Given()
        self._projects: dict[str | None, list[PeerMemory]] = {}
        self._retrievers: dict[str | None, EnsembleRetriever] = {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            self._projects.setdefault(memory.project, []).append(memory)

    def finish(self) -> None:
        for project, memories in self._projects.items():
            pairs = [(memory.text, list(memory.vector)) for memory in memories]
            ids = [{"id": memory.id} for memory in memories]
            keyword = BM25Retriever.from_texts([text for text, _ in pairs], metadatas=ids, k=LIMIT)
            semantic = FAISS.from_embeddings(pairs, self._given, metadatas=ids).as_retriever(search_kwargs={"k": LIMIT})
            self._retrievers[project] = EnsembleRetriever(retrievers=[keyword, semantic], weights=[0.5, 0.5])
        self._projects.clear()

    def search(self, query: PeerQuery) -> list[str]:
        self._given.vectors = {query.text: list(query.vector)}
        return [document.metadata["id"] for document in self._retrievers[query.project].invoke(query.text)]

    def close(self) -> None:
        """Do nothing: everything is in memory."""


def open(_: Setup) -> LangChain:
    return LangChain()
