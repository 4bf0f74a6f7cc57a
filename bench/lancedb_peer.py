"""LanceDB as its documentation sets it up: full-text, scalar and vector index, hybrid search with RRF.

The full-text index has LanceDB's defaults (stems, no stop words, no positions). Results are Python dicts without their
vectors, as Retentive's are memories without theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import lancedb
import pyarrow as pa
from lancedb.index import FTS, BTree, IvfHnswSq
from lancedb.rerankers import RRFReranker

from bench.corpus import Corpus, Query
from bench.progress import Progress

BATCH = 1_000
INDEXED_FROM = 50_000
"""Below, searching every vector is fast, and LanceDB itself advises against a vector index."""

_TABLE = "memories"
_COLUMNS = ["row", "text", "session"]


@dataclass(frozen=True, slots=True)
class Search:
    """How vectors are searched: all of them, or by the index with some settings."""

    name: str
    flat: bool = False
    nprobes: int | None = None
    ef: int | None = None
    refine_factor: int | None = None

    def apply(self, query: Any) -> Any:
        """The query, searched this way."""
        query = query.distance_type("cosine")
        if self.flat:
            return query.bypass_vector_index()
        for setting in ("nprobes", "ef", "refine_factor"):
            value = getattr(self, setting)
            query = query if value is None else getattr(query, setting)(value)
        return query


FLAT = Search("LanceDB, every vector", flat=True)
INDEXED = (
    Search("LanceDB, IVF_HNSW_SQ"),
    Search("LanceDB, IVF_HNSW_SQ, ef 200", ef=200),
    Search("LanceDB, IVF_HNSW_SQ, ef 200, refine 4", ef=200, refine_factor=4),
    Search("LanceDB, IVF_HNSW_SQ, ef 500, refine 10", ef=500, refine_factor=10),
)
"""From the defaults on, in the order in which they grow slower: the first that finds enough is measured."""


class Filled:
    """A table with the corpus in it, and how long each part of that took."""

    def __init__(self, path: Path, corpus: Corpus, progress: Progress) -> None:
        self.path = path
        self.seconds: dict[str, float] = {}
        size, dimension = corpus.vectors.shape
        schema = pa.schema(
            [
                ("row", pa.int64()),
                ("text", pa.string()),
                ("session", pa.string()),
                ("vector", pa.list_(pa.float32(), dimension)),
            ]
        )
        self.table = lancedb.connect(path).create_table(_TABLE, schema=schema)
        with progress.task("LanceDB: add everything", total=size) as advance:
            for at in range(0, size, BATCH):
                self._timed("insert", self.table.add, _batch(corpus, slice(at, at + BATCH), schema))
                advance(BATCH)
        with progress.task("LanceDB: compact, index words and sessions"):
            self._timed("compact", self._compact)
            self._timed("words", self.table.create_index, "text", config=FTS())
            self._timed("sessions", self.table.create_index, "session", config=BTree())
        self.indexed = size >= INDEXED_FROM
        if self.indexed:
            with progress.task("LanceDB: index vectors"):
                self._timed("vectors", self.table.create_index, "vector", config=IvfHnswSq(distance_type="cosine"))
        self._compact()

    def _timed(self, part: str, work: Any, *arguments: Any, **named: Any) -> None:
        started = perf_counter()
        work(*arguments, **named)
        self.seconds[part] = self.seconds.get(part, 0.0) + perf_counter() - started

    def _compact(self) -> None:
        # It warns of other processes that use the table; there are none.
        with warnings.catch_warnings(action="ignore"):
            self.table.optimize(cleanup_older_than=timedelta(0))


class LancePeer:
    """A table asked in one way."""

    def __init__(self, table: Any, search: Search) -> None:
        self.name = search.name
        self.search = search
        self._table = table
        self._reranker = RRFReranker()

    def ask(self, query: Query, *, scoped: bool) -> list[dict[str, Any]]:
        asked = self._table.search(query_type="hybrid").vector(query.vector).text(query.text)
        asked = self.search.apply(asked).select(_COLUMNS).limit(10).rerank(self._reranker)
        found: list[dict[str, Any]] = _within(asked, query, scoped).to_list()
        return found

    def nearest(self, query: Query, *, scoped: bool, limit: int) -> Sequence[int]:
        asked = self.search.apply(self._table.search(query.vector)).select(["row"]).limit(limit)
        rows: list[int] = _within(asked, query, scoped).to_arrow()["row"].to_pylist()
        return rows


def open_peer(path: Path, search: Search) -> LancePeer:
    """The table that was filled before, in another process."""
    return LancePeer(lancedb.connect(path).open_table(_TABLE), search)


def version() -> str:
    """LanceDB's version."""
    return str(lancedb.__version__)


def _within(asked: Any, query: Query, scoped: bool) -> Any:
    return asked.where(f"session = '{query.session}'", prefilter=True) if scoped else asked


def _batch(corpus: Corpus, part: slice, schema: pa.Schema) -> pa.Table:
    rows = corpus.vectors[part]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    numbers = pa.array(range(part.start, part.start + len(rows)), pa.int64())
    return pa.Table.from_arrays(
        [numbers, pa.array(corpus.texts[part]), pa.array(corpus.sessions[part]), vectors], schema=schema
    )
