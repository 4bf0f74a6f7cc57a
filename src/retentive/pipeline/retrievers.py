"""Further retrievers of an engine, beside the keyword and the semantic one."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from math import isnan
from time import perf_counter
from typing import NamedTuple, Protocol

from retentive.errors import Invalid
from retentive.models import Candidate, Query
from retentive.pipeline.recall import InlineExecutor
from retentive.pipeline.scopes import scope_difference
from retentive.pipeline.search import RetrieverResult
from retentive.stores.base import Store
from retentive.stores.values import Retrieved

OWN_NAMES = ("semantic", "keyword")

THREADS = 16
"""How many retrievers run at once on threads of their own."""


class Retriever(Protocol):
    """Finds memories by ids of the engine's store: by a graph, by tags, by another index."""

    @property
    def name(self) -> str:
        """The name of its share in the reasons of a hit."""
        ...

    @property
    def weight(self) -> float:
        """The weight in fusion; 0 does not run it. Those of the other two are tuning parameters."""
        ...

    def retrieve(self, query: Query, limit: int) -> Sequence[tuple[str, float]]:
        """Return ids with scores (larger is better), best first.

        Those outside the query's scope and those whose score is NaN are left out.
        """
        ...


class Started(NamedTuple):
    """A retriever that runs, and when it was started."""

    retriever: Retriever
    future: Future[RetrieverResult]
    at: float


class FurtherRetrievers:
    """Runs the further retrievers of an engine on other threads, while its own two search."""

    def __init__(self, retrievers: Sequence[Retriever], store: Store) -> None:
        names = [retriever.name for retriever in retrievers]
        for name in names:
            if not name or name in OWN_NAMES or names.count(name) > 1:
                raise Invalid(f"retriever '{name}': each needs a name of its own, other than {' and '.join(OWN_NAMES)}")
        self._retrievers = tuple(retrievers)
        self._store = store
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="retentive-retriever")

    def start(self, query: Query, threads: Executor) -> list[Started]:
        """Start the retrievers that have a weight, on these threads; on others if these are the caller's own.

        On the thread of the caller, one that hangs could not be given up.
        """
        if isinstance(threads, InlineExecutor):
            threads = self._threads
        asked = [one for one in self._retrievers if one.weight > 0 and query.text.strip()]
        return [Started(one, threads.submit(self._run, one, query), perf_counter()) for one in asked]

    def close(self) -> None:
        """Start none any more. One that runs is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, retriever: Retriever, query: Query) -> RetrieverResult:
        started = perf_counter()
        scores = {id: score for id, score in retriever.retrieve(query, query.pool) if not isnan(score)}
        excluded = set(query.exclude)
        candidates = [
            Candidate(memory, float(scores[memory.id]))
            for memory in self._store.get([id for id in scores if id not in excluded])
            if scope_difference(memory, query.scope, self._store) is None
            and (query.current_at is None or memory.is_current(query.current_at))
            and query.filter.unmet_by(memory) is None
        ]
        candidates.sort(key=lambda candidate: (-candidate.score, candidate.memory.id))
        found = Retrieved(candidates[: query.pool])
        return RetrieverResult(retriever.name, retriever.weight, found, elapsed_ms=(perf_counter() - started) * 1000)

    def finish(self, started: Sequence[Started], *, seconds: float) -> tuple[RetrieverResult, ...]:
        """Wait for them until so many seconds after their start.

        One that fails or takes too long is reported and left out: the others answer without it.
        """
        results = []
        for retriever, future, at in started:
            try:
                results.append(future.result(timeout=max(at + seconds - perf_counter(), 0.0)))
                continue
            except TookTooLong:
                failure = f"it did not answer within {seconds:g} seconds"
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
            results.append(RetrieverResult(retriever.name, retriever.weight, ran=False, failure=failure))
        return tuple(results)
