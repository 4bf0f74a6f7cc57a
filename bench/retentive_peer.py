"""Retentive, through its normal write path and read path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from bench.corpus import BenchQuery, Corpus
from bench.measured import ReadyEmbedder
from bench.progress import Progress
from retentive.engine import Engine
from retentive.inference.embedders import Embedder
from retentive.inference.judge import LocalJudge
from retentive.models import Memory, Model, Query, Recall, Scope
from retentive.pipeline.query_options import QueryOptions
from retentive.pipeline.remember import Draft
from retentive.ranking import Tuning
from retentive.settings import Settings
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.values import KnownVector, SearchRequest

BATCH = 1_000
HALVES = ("first", "second")
"""Every second memory has one of these in its metadata."""


class FilledStore:
    """A store with the corpus, and the seconds that filling it took."""

    def __init__(
        self, address: str, corpus: Corpus, model: Model, progress: Progress, *, name: str = "Retentive"
    ) -> None:
        self.address = address
        self.store: Store = open_store(address)
        embedder = ReadyEmbedder(model, corpus.texts, corpus.vectors)
        self.engine = Engine(self.store, embedder, settings=Settings(store=address))
        self.judged = Engine(self.store, embedder, judge=LocalJudge(), settings=Settings(store=address))
        self.rows: dict[str, int] = {}
        self.seconds = 0.0
        with progress.task(f"{name}: remember everything", total=len(corpus.texts)) as advance:
            for at in range(0, len(corpus.texts), BATCH):
                part = slice(at, at + BATCH)
                memories = self._remember(corpus.texts[part], corpus.sessions[part])
                self.rows |= {memory.id: at + index for index, memory in enumerate(memories)}
                advance(len(memories))

    def _remember(self, texts: Sequence[str], sessions: Sequence[str]) -> Sequence[Memory]:
        started = perf_counter()
        drafts = [
            Draft(text, session=session, metadata={"half": HALVES[at % 2]})
            for at, (text, session) in enumerate(zip(texts, sessions, strict=True))
        ]
        memories = self.engine.remember_many(drafts)
        self.seconds += perf_counter() - started
        return memories

    @property
    def path(self) -> Path:
        """The path of the store, if it is a file."""
        return Path(self.address)

    def singles_per_second(self, corpus: Corpus, count: int) -> float:
        """Return how many memories per second are stored one by one, each durable before the next."""
        texts = corpus.texts[:count]
        started = perf_counter()
        for text in texts:
            self.engine.remember(text, session="one by one")
        return len(texts) / (perf_counter() - started)

    def memories(self, count: int) -> list[Memory]:
        """Return some memories of the store."""
        return list(self.engine.list(limit=count).memories)

    def with_embedder(self, embedder: Embedder) -> Engine:
        """Open another engine on the same store, with a real embedder."""
        return Engine(self.store, embedder, settings=Settings(store=self.address))

    def close(self) -> None:
        """Close the store, which writes everything into its file."""
        self.engine.close()


class RetentivePeer:
    """A store searched with one tuning."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        rows: Mapping[str, int],
        *,
        tuning: str | None = None,
        name: str | None = None,
        options: QueryOptions | None = None,
    ) -> None:
        self.name = name or f"Retentive, {tuning or 'default'}"
        self._engine = engine
        self._store = store
        self._rows = rows
        self._options: QueryOptions = {"tuning": tuning, **(options or {})}

    def search(self, query: BenchQuery, *, scoped: bool) -> Recall:
        session = query.session if scoped else None
        return self._engine.recall(
            query.text, vector=query.vector, limit=10, session=session, only_session=scoped, **self._options
        )

    def nearest(self, query: BenchQuery, *, scoped: bool, limit: int) -> list[int]:
        scope = Scope(sessions=(query.session,), only_sessions=True) if scoped else Scope()
        built = Query(query.text, scope, Tuning(), datetime.now(UTC), limit)
        request = SearchRequest(built, semantic=limit, vector=KnownVector(query.vector))
        found = self._store.search(request).candidates["semantic"]
        return [self._rows[candidate.memory.id] for candidate in found]
