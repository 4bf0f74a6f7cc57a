"""LanceDB as its documentation sets it up: full-text, scalar and vector index, hybrid search with RRF.

The full-text index has LanceDB's defaults (stems, no stop words, no positions). Results are Python dicts
without vectors, as Retentive's are memories without vectors.
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

from bench.corpus import BenchQuery, Corpus
from bench.progress import Progress

BATCH = 1_000
INDEXED_FROM = 50_000
"""With fewer vectors a full scan is fast, and LanceDB advises against a vector index."""

_TABLE = "memories"
_COLUMNS = ["row", "text", "session"]


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """How vectors are searched: by a full scan, or with the index and some settings."""

    name: str
    flat: bool = False
    nprobes: int | None = None
    ef: int | None = None
    refine_factor: int | None = None

    def apply(self, query: Any) -> Any:
        """Return the query with these settings."""
        query = query.distance_type("cosine")
        if self.flat:
            return query.bypass_vector_index()
        for setting in ("nprobes", "ef", "refine_factor"):
            value = getattr(self, setting)
            query = query if value is None else getattr(query, setting)(value)
        return query


FLAT = VectorSearch("LanceDB, every vector", flat=True)
INDEXED = (
    VectorSearch("LanceDB, IVF_HNSW_SQ"),
    VectorSearch("LanceDB, IVF_HNSW_SQ, ef 200", ef=200),
    VectorSearch("LanceDB, IVF_HNSW_SQ, ef 200, refine 4", ef=200, refine_factor=4),
    VectorSearch("LanceDB, IVF_HNSW_SQ, ef 500, refine 10", ef=500, refine_factor=10),
)
"""From the defaults on, fastest first: the first whose recall is high enough is measured."""


class FilledTable:
    """A table with the corpus, and the seconds that each part of filling it took."""

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

    def _timed(self, part: str, work: Any, *arguments: Any, **options: Any) -> None:
        started = perf_counter()
        work(*arguments, **options)
        self.seconds[part] = self.seconds.get(part, 0.0) + perf_counter() - started

    def _compact(self) -> None:
        # It warns about other processes that use the table; there are none.
        with warnings.catch_warnings(action="ignore"):
            self.table.optimize(cleanup_older_than=timedelta(0))


class LancePeer:
    """A table with one way of searching vectors."""

    def __init__(self, table: Any, search: VectorSearch) -> None:
        self.name = search.name
        self.settings = search
        self._table = table
        self._reranker = RRFReranker()

    def search(self, query: BenchQuery, *, scoped: bool) -> list[dict[str, Any]]:
        built = self._table.search(query_type="hybrid").vector(query.vector).text(query.text)
        built = self.settings.apply(built).select(_COLUMNS).limit(10).rerank(self._reranker)
        found: list[dict[str, Any]] = _within(built, query, scoped).to_list()
        return found

    def nearest(self, query: BenchQuery, *, scoped: bool, limit: int) -> Sequence[int]:
        built = self.settings.apply(self._table.search(query.vector)).select(["row"]).limit(limit)
        rows: list[int] = _within(built, query, scoped).to_arrow()["row"].to_pylist()
        return rows


def open_peer(path: Path, search: VectorSearch) -> LancePeer:
    """Open a table that another process has filled."""
    return LancePeer(lancedb.connect(path).open_table(_TABLE), search)


def version() -> str:
    """LanceDB's version."""
    return str(lancedb.__version__)


def _within(built: Any, query: BenchQuery, scoped: bool) -> Any:
    return built.where(f"session = '{query.session}'", prefilter=True) if scoped else built


def _batch(corpus: Corpus, part: slice, schema: pa.Schema) -> pa.Table:
    rows = corpus.vectors[part]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    numbers = pa.array(range(part.start, part.start + len(rows)), pa.int64())
    return pa.Table.from_arrays(
        [numbers, pa.array(corpus.texts[part]), pa.array(corpus.sessions[part]), vectors], schema=schema
    )
