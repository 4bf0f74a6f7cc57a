"""A store that takes both searches in one request: the same answers in a fixed number of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

import pytest
from retentive.stores.at_once import Asked, AtOnce, Both, Seen

from retentive.errors import Unavailable
from retentive.models import Key, Recall, Scope
from retentive.pipeline.recall import Query, recall
from retentive.ranking import Tuning
from retentive.stores import Found, Store, Vector
from retentive.stores.in_memory import InMemoryStore
from tests.stores.build import HERE, MODEL, NOW, embedded, record, vector


class Distant:
    """A store that is asked from afar: every request to it is noted, and there are only these three."""

    def __init__(self) -> None:
        self.here = InMemoryStore()
        self.requests: list[str] = []

    def search_both(self, asked: Asked) -> Both:
        self.requests.append("search_both")
        words: list[Found] = []
        vectors: list[Found] = []
        if asked.query is not None:
            words = self.here.search_words(
                asked.query, asked.scope, limit=asked.limit, exclude=asked.exclude, common=asked.common
            )
        if asked.vector is not None:
            vectors = self.here.search_vectors(asked.vector, asked.scope, limit=asked.depth, exclude=asked.exclude)
        best = [found.key for found in (*words, *vectors[: asked.limit])]
        return Both(words, vectors, self._seen(asked, best))

    def look(self, asked: Asked, keys: Sequence[Key]) -> Seen:
        self.requests.append("look")
        return self._seen(asked, keys)

    def _seen(self, asked: Asked, keys: Sequence[Key]) -> Seen:
        seen = Seen(dict(self.here.fetch(keys)))
        if asked.query is not None:
            seen.by_words.update(self.here.score_words(asked.query, asked.scope, keys))
        if asked.vector is not None:
            seen.by_vector.update(self.here.score_vectors(asked.vector, keys))
        return seen

    def neighbours(self, keys: Sequence[Key]) -> Mapping[Key, tuple[Key | None, Key | None]]:
        self.requests.append("neighbours")
        return self.here.neighbours(keys)

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        self.requests.append("vectors")
        return self.here.vectors(keys)

    def _not_alone(self, *asked: Any, **options: Any) -> Any:
        raise AssertionError("a request of its own")

    search_words = search_vectors = fetch = keys = score_words = score_vectors = _not_alone


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def fill(store: Store) -> None:
    texts = ["green tea", "black tea with milk", "coffee", "the deploy failed", "milk", "who drinks tea?"]
    store.add(
        [
            embedded(number, f"{texts[number % 6]} {number}", session=f"s{number % 5}", speaker="AB"[number % 2])
            for number in range(120)
        ],
        model=MODEL,
    )
    store.add([record(500, "tea without a vector", occurred=NOW - timedelta(days=1))], model=None)
    return store


def ask(
    store: Store, threads: ThreadPoolExecutor, *, scope: Scope = HERE, text: str = "green tea", **parameters: Any
) -> Recall:
    query = Query(text, scope, Tuning(**parameters), 5, NOW, (), vector(3) if text.strip() else None)
    return recall(query, store, lambda: None, threads)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"fusion": "rrf"}, {"semantic_weight": 0}, {"keyword_weight": 0}, {"diversity": 0.3}, {"neighbour_weight": 0}],
    ids=lambda parameters: ",".join(parameters) or "default",
)
@pytest.mark.parametrize(
    "scope", [HERE, Scope(sessions=("s1",)), Scope(profile="nobody")], ids=["all", "session", "none"]
)
def test_the_answer_is_that_of_separate_requests(threads: ThreadPoolExecutor, scope: Scope, parameters: dict[str, Any]):
    distant = Distant()
    fill(distant.here)
    assert isinstance(distant, AtOnce)
    assert not isinstance(distant.here, AtOnce)

    answers = [ask(store, threads, scope=scope, **parameters) for store in (distant, distant.here)]

    assert answers[0].hits == answers[1].hits
    assert [
        (retriever.name, retriever.ran, retriever.found, retriever.note) for retriever in answers[0].retrievers
    ] == [(retriever.name, retriever.ran, retriever.found, retriever.note) for retriever in answers[1].retrievers]


@pytest.mark.parametrize("text", ["green tea", "tea milk coffee deploy who", "tea " * 50])
def test_a_recall_is_three_requests_however_much_it_finds(threads: ThreadPoolExecutor, text: str):
    store = Distant()
    fill(store.here)

    assert ask(store, threads, text=text).hits

    assert store.requests == ["search_both", "neighbours", "look"]


def test_a_query_without_a_word_asks_nothing(threads: ThreadPoolExecutor):
    store = Distant()
    fill(store.here)

    assert ask(store, threads, text="  ").hits == ()

    assert store.requests == []


def test_without_an_embedder_the_words_answer_alone_and_say_so(threads: ThreadPoolExecutor):
    def broken() -> None:
        raise Unavailable("the embedder is away")

    store = Distant()
    fill(store.here)

    answer = recall(Query("green tea", HERE, Tuning(), 5, NOW), cast("Store", store), broken, threads)

    assert answer.hits
    assert (answer.degraded, answer.degraded_reason) == ("keyword-only", "the embedder is away")
