"""LanceDB: a table with a full-text and a scalar index, searched by its hybrid search with RRF.

There is no vector index: below some 50,000 rows LanceDB advises a search of every vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import lancedb
import pyarrow as pa
from lancedb.index import FTS, BTree
from lancedb.rerankers import RRFReranker

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("lancedb",)
CONFIGURATION = (
    "hybrid search, full-text index with its defaults, every vector, cosine, RRFReranker; projects by a filter"
)


class LanceDb:
    def __init__(self, setup: Setup) -> None:
        vector = pa.list_(pa.float32(), setup.dimensions)
        fields = [("id", pa.string()), ("text", pa.string()), ("project", pa.string()), ("vector", vector)]
        self._table = lancedb.connect(setup.folder).create_table("memories", schema=pa.schema(fields))
        self._reranker = RRFReranker()

    def add(self, memories: Sequence[PeerMemory]) -> None:
        rows = [{"id": m.id, "text": m.text, "project": m.project or "", "vector": list(m.vector)} for m in memories]
        self._table.add(rows)

    def finish(self) -> None:
        self._table.optimize()
        self._table.create_index("text", config=FTS())
        self._table.create_index("project", config=BTree())

    def search(self, query: PeerQuery) -> list[str]:
        asked = self._table.search(query_type="hybrid").vector(list(query.vector)).text(query.text)
        asked = asked.distance_type("cosine").limit(LIMIT).rerank(self._reranker)
        if query.project:
            project = query.project.replace("'", "''")
            asked = asked.where(f"project = '{project}'", prefilter=True)
        return [row["id"] for row in asked.select(["id", "text"]).to_list()]

    def close(self) -> None:
        """Do nothing: everything is on disk."""


def open(setup: Setup) -> LanceDb:
    return LanceDb(setup)
