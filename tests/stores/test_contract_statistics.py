"""What every store promises about the statistics of the keyword retriever: they are those of the scope alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retentive.models import Scope
from retentive.stores.base import Store
from tests.stores.build import (
    find_keyword,
    id_of,
    keyword_ids,
    keyword_scores,
    make_query,
    record,
    scores_by_id,
    search,
)

ADA = Scope("ada")
COMMON = 0.05
"""The default of `max_document_frequency`."""


def ada_memories() -> Iterator[tuple[int, str, str, str]]:
    """Numbers, texts, projects and sessions of 200 memories, 160 about tea. No two are of the same length."""
    for number in range(200):
        topic = "coffee" if number % 5 == 3 else "green tea" if number % 4 else "tea and a spoon"
        yield (
            number,
            f"{topic} {'milk' * (number % 3)} {'cup ' * number}note{number}",
            f"p{number % 2}",
            f"s{number % 10}",
        )


@pytest.mark.parametrize("common", [1.0, COMMON])
def test_what_another_profile_writes_changes_neither_hits_nor_their_order_nor_their_scores(store: Store, common: float):
    records = [
        record(number, text, profile="ada", project=project, session=f"{project}{session}")
        for number, text, project, session in ada_memories()
    ]
    store.add(records, model=None)
    scopes = [ADA, Scope("ada", project="p1"), Scope("ada", sessions=("p1s3",), only_sessions=True)]
    queries = ["green tea with milk", "a spoon for note7", "coffee or tea"]

    def answers() -> list[tuple[list[str], dict[str, float]]]:
        found = []
        for scope in scopes:
            for text in queries:
                candidates = find_keyword(store, text, scope, limit=30, max_document_frequency=common)
                every = keyword_scores(store, text, [id_of(number) for number in range(0, 200, 9)], scope)
                found.append(([one.memory.id for one in candidates], scores_by_id(candidates) | dict(every)))
        return found

    before = answers()
    store.add([record(1000 + n, f"green {'tea ' * 20} coffee {n}", profile="bob") for n in range(500)], model=None)
    after = answers()

    assert len(before[0][0]) == 30
    assert [ids for ids, _ in after] == [ids for ids, _ in before]
    for (_, changed), (_, expected) in zip(after, before, strict=True):
        assert changed == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("home", [{"profile": "bob"}, {"profile": "ada", "session": "elsewhere"}])
def test_terms_that_are_common_elsewhere_find_the_one_memory_of_a_session(store: Store, home: dict[str, str]):
    store.add([record(number, f"invoice payment refund {number}", **home) for number in range(200)], model=None)
    store.add([record(900, "the invoice payment is late", profile="ada", session="desk")], model=None)

    scope = Scope("ada", sessions=("desk",))

    assert keyword_ids(store, "invoice payment refund", scope, max_document_frequency=COMMON) == [id_of(900)]


def test_a_term_that_is_rare_in_the_scope_retrieves_there_although_the_profile_has_many(store: Store):
    store.add([record(n, f"kettle {n}", project="shop") for n in range(100)], model=None)
    store.add([record(n, f"tea {n}", project="home") for n in range(200, 260)], model=None)
    store.add([record(300, "the kettle", project="home")], model=None)

    assert keyword_ids(store, "kettle", Scope(project="home"), max_document_frequency=COMMON) == [id_of(300)]
    assert id_of(300) in keyword_ids(store, "tea kettle", Scope(project="home"), max_document_frequency=COMMON)


def test_of_thousands_with_one_of_two_words_the_memory_with_both_comes_first(store: Store):
    texts = [f"{'hello' if number % 2 else 'world'} {number}" for number in range(3300)]
    store.add([record(number, text) for number, text in enumerate(texts)], model=None)
    store.add([record(9000, "hello my whole wide world")], model=None)

    for common in (1.0, COMMON):
        assert keyword_ids(store, "hello world", limit=30, max_document_frequency=common)[0] == id_of(9000)


def test_a_search_knows_how_many_memories_the_profile_has_whatever_its_scope_is(store: Store):
    def size(scope: Scope) -> int:
        return search(store, make_query("tea", scope), keyword=1).size

    assert size(ADA) == 0
    store.add(
        [record(number, f"tea {number}", profile="ada", session=f"s{number % 2}") for number in range(20)], model=None
    )
    assert size(ADA) == size(Scope("ada", sessions=("s1",), only_sessions=True)) == 20

    store.remove([id_of(number) for number in range(5)])

    assert size(ADA) == 15
