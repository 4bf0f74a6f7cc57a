"""Custom retrievers of an engine, beside the keyword and the semantic one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from math import isnan
from time import perf_counter
from typing import NamedTuple, Protocol

from retentive.errors import Invalid
from retentive.models import Candidate, Query, canonical_id
from retentive.pipeline.scopes import ScopeTest
from retentive.pipeline.search import RetrieverResult
from retentive.stores.base import Store

OWN_NAMES = ("semantic", "keyword", "time")

MOST_UNANSWERED = 4
"""With so many searches that were given up and still run, a retriever is not asked again until one of them ends."""


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
        """Return ids with scores (larger is better), best first. Concurrent recalls call it on several threads.

        Those outside the query's scope and those whose score is NaN are left out.
        """
        ...


class Started(NamedTuple):
    """A retriever that runs, and when it was started; no future if it was not started."""

    retriever: Retriever
    future: Future[RetrieverResult] | None
    at: float


class CustomRetrievers:
    """Runs the custom retrievers of an engine on threads of their own, while its own two search.

    Each call has a thread, for which the end of the process does not wait: one that hangs holds nothing else.
    """

    def __init__(self, retrievers: Sequence[Retriever], store: Store) -> None:
        names = [retriever.name for retriever in retrievers]
        for name in names:
            if not name or name in OWN_NAMES or names.count(name) > 1:
                raise Invalid(f"retriever '{name}': each needs a name of its own, other than {', '.join(OWN_NAMES)}")
        self._retrievers = tuple(retrievers)
        self._store = store
        self._guard = threading.Lock()
        self._unanswered: dict[str, list[Future[RetrieverResult]]] = {name: [] for name in names}

    def start(self, query: Query) -> list[Started]:
        """Start the retrievers that have a weight, except those with too many searches that were given up."""
        asked = [one for one in self._retrievers if one.weight > 0 and query.text.strip()]
        return [Started(one, self._submit(one, query), perf_counter()) for one in asked]

    def _submit(self, retriever: Retriever, query: Query) -> Future[RetrieverResult] | None:
        with self._guard:
            running = [future for future in self._unanswered[retriever.name] if not future.done()]
            self._unanswered[retriever.name] = running
            if len(running) >= MOST_UNANSWERED:
                return None
        future: Future[RetrieverResult] = Future()

        def work() -> None:
            try:
                future.set_result(self._run(retriever, query))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name=f"retentive-{retriever.name}", daemon=True).start()
        return future

    def _run(self, retriever: Retriever, query: Query) -> RetrieverResult:
        started = perf_counter()
        scores: dict[str, float] = {}
        for given, score in retriever.retrieve(query, query.pool):
            id = canonical_id(given)
            if not isnan(score) and score >= scores.get(id, score):
                scores[id] = score
        excluded = set(query.exclude)
        scope = ScopeTest(query.scope, self._store)
        candidates = [
            Candidate(memory, float(scores[memory.id]))
            for memory in self._store.get([id for id in scores if id not in excluded])
            if scope.difference(memory) is None
            and (query.current_at is None or memory.is_current(query.current_at))
            and query.filter.unmet_by(memory) is None
        ]
        candidates.sort(key=lambda candidate: (-candidate.score, candidate.memory.id))
        elapsed = (perf_counter() - started) * 1000
        return RetrieverResult(retriever.name, retriever.weight, candidates[: query.pool], elapsed_ms=elapsed)

    def finish(self, started: Sequence[Started], *, seconds: float) -> tuple[RetrieverResult, ...]:
        """Wait for them until so many seconds after their start.

        One that fails or takes too long is reported and left out: the others answer without it.
        """
        results = []
        for retriever, future, at in started:
            if future is None:
                failure = f"{MOST_UNANSWERED} earlier searches have not ended"
            elif not wait([future], timeout=max(at + seconds - perf_counter(), 0.0)).done:
                failure = f"it did not answer within {seconds:g} seconds"
                with self._guard:
                    self._unanswered[retriever.name].append(future)
            elif error := future.exception():
                failure = f"{type(error).__name__}: {error}"
            else:
                results.append(future.result())
                continue
            results.append(RetrieverResult(retriever.name, retriever.weight, ran=False, failure=failure))
        return tuple(results)
