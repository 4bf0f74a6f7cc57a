"""What every store promises about the keyword retriever: any text is a safe query, and scores are those of BM25."""

from __future__ import annotations

import pytest

from retentive.models import Scope
from retentive.stores.base import Store
from tests.stores.build import (
    MODEL,
    axis,
    find_keyword,
    id_of,
    keyword_ids,
    keyword_scores,
    nearest_ids,
    record,
    rows,
    scores_by_id,
)

LIBRARY = {
    "deploy": "we deploy the billing service on fridays",
    "quotes": 'she said "never again" and left',
    "hyphen": "the auth-service/login endpoint is slow",
    "apostrophe": "Caroline's dog doesn't bark",
    "emoji": "launch day 🚀 at noon",
    "tokyo": "私は東京に住んでいます",
    "seoul": "서울에서 만났다",
    "cafe": "a naïve café in Zürich",
    "running": "she was running to catch trains",
    "c++": "legacy code in C++ and C#",
    "nul": "before\0after",
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"deploy"', ["deploy"]),
        ('"never again', ["quotes"]),
        ("deploy NOT billing", ["deploy"]),
        ("deploy AND OR NOT", ["deploy"]),
        ("deploy*", ["deploy"]),
        ("^deploy", ["deploy"]),
        ("NEAR(deploy billing, 1)", ["deploy"]),
        ("NEAR(", []),
        ("terms : deploy", ["deploy"]),
        ("{terms scope} : (deploy) - + ^", ["deploy"]),
        ("'; DROP TABLE memories; -- deploy", ["deploy"]),
        ("deploy\0billing", ["deploy"]),
        ("\0", []),
        ("after", ["nul"]),
        ("auth-service", ["hyphen", "deploy"]),
        ("auth-service/login", ["hyphen", "deploy"]),
        ("Caroline", ["apostrophe"]),
        ("Caroline's", ["apostrophe"]),
        ("Caroline’s dogs", ["apostrophe"]),
        ("🚀", ["emoji"]),
        ("🚀🚀?", ["emoji"]),
        ("🙈", []),
        ("東京", ["tokyo"]),
        ("京", ["tokyo"]),
        ("京東", []),
        ("東京に住む", ["tokyo"]),
        ("서울", ["seoul"]),
        ("NAIVE CAFÉ zurich", ["cafe"]),
        ("cafe\u0301", ["cafe"]),
        ("ＺＵＲＩＣＨ", ["cafe"]),
        ("runs", ["running"]),
        ("train catching", ["running"]),
        ("C++", ["c++"]),
        ("c#", ["c++"]),
        ("", []),
        (" \t\n\u3000", []),
        ('"', []),
        ('"""', []),
        ("'", []),
        ("-", []),
        ("()", []),
        ("the", ["deploy", "hyphen"]),
        ("where did the trains go", ["running"]),
        ("deploy " * 150_000, ["deploy"]),
        ("x" * 1_000_000, []),
        ('"' * 1_000_000, []),
        (" ".join(f"word{n}" for n in range(3_000)) + " deploy", []),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, str) else "",
)
def test_pitfall_10_any_text_is_a_safe_query_and_finds_what_it_should(store: Store, query: str, expected: list[str]):
    names = {id_of(number): name for number, name in enumerate(LIBRARY)}
    store.add([record(number, text) for number, text in enumerate(LIBRARY.values())], model=None)

    found = [names[id] for id in keyword_ids(store, query)]

    assert found[:1] == expected[:1]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("identifier", "pieces"),
    [
        ("ERR_CONN_42", "err conn 42"),
        ("v2.13.0", "v2 13 0"),
        ("auth-service/login", "auth service login"),
        ("user@example.com", "user example com"),
        ("10.0.0.1:8080", "10 0 0 1 8080"),
        ("src/main.py#L10", "src main py l10"),
    ],
)
def test_an_identifier_as_typed_ranks_its_memory_above_those_with_only_its_pieces(
    store: Store, identifier: str, pieces: str
):
    store.add([record(number, f"the one with {pieces} in a sentence") for number in range(3)], model=None)
    store.add([record(9, f"the one with {identifier} in a sentence that is longer by some words")], model=None)
    store.add([record(number) for number in range(20, 30)], model=None)

    assert keyword_ids(store, f"what about {identifier.lower()}?")[0] == id_of(9)
    assert set(keyword_ids(store, identifier)) == {id_of(number) for number in (0, 1, 2, 9)}


def test_a_memory_is_found_by_its_speaker(store: Store):
    store.add([record(1, "hello there", speaker="Melanie"), record(2, "hello there", speaker="Tom")], model=None)

    assert keyword_ids(store, "melanie") == [id_of(1)]


def test_pitfall_4_keyword_scores_are_positive_and_larger_is_better(store: Store):
    store.add([record(1, "tea tea tea milk"), record(2, "tea milk milk milk"), record(3, "tea")], model=None)
    store.add([record(number, "something else entirely") for number in range(10, 20)], model=None)

    found = find_keyword(store, "tea", limit=10)

    assert len(found) == 3
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found[-1].score > 0
    assert keyword_ids(store, "tea", limit=1) == [id_of(1)]
    assert keyword_ids(store, "tea")[-1] == id_of(2)


def test_a_term_that_every_memory_has_still_scores_above_0(store: Store):
    store.add([record(number, "tea") for number in range(30)], model=None)

    assert all(found.score > 0 for found in find_keyword(store, "tea"))
    assert len(keyword_ids(store, "tea")) == 30


def test_memories_of_equal_score_are_in_the_order_of_writing(store: Store):
    store.add([record(number, "tea", vectors=rows(axis(0))) for number in (5, 3, 9, 1)], model=MODEL)

    expected = [id_of(number) for number in (5, 3, 9, 1)]

    assert keyword_ids(store, "tea") == nearest_ids(store, axis(0)) == expected
    assert keyword_ids(store, "tea", limit=2) == nearest_ids(store, axis(0), limit=2) == expected[:2]


def test_terms_above_the_document_frequency_do_not_retrieve_unless_there_is_no_rarer_one(store: Store):
    store.add([record(number, "tea and coffee" if number < 3 else "tea") for number in range(40)], model=None)

    assert len(keyword_ids(store, "tea coffee", max_document_frequency=0.5)) == 3
    assert len(keyword_ids(store, "tea coffee", max_document_frequency=1.0)) == 40
    assert len(keyword_ids(store, "tea", max_document_frequency=0.5)) == 40


def test_terms_that_do_not_retrieve_still_score(store: Store):
    texts = {1: "coffee with milk", 2: "coffee with tea"} | dict.fromkeys(range(3, 40), "tea")
    store.add([record(number, text) for number, text in texts.items()], model=None)

    assert keyword_ids(store, "tea coffee", max_document_frequency=0.5) == [id_of(2), id_of(1)]


def test_keyword_scores_are_those_of_the_retriever_and_0_where_no_term_matches(store: Store):
    texts = ["tea with milk", "green tea green cup", "milk", "coffee", "tea " * 30, "a cup"]
    store.add([record(number, f"{texts[number % 6]} note{number}") for number in range(36)], model=None)
    store.remove([id_of(0), id_of(7)])
    query = "green tea note8"
    found = scores_by_id(find_keyword(store, query))
    few = scores_by_id(find_keyword(store, query, max_document_frequency=0.3))
    everyone = keyword_ids(store, " ".join(texts))

    scores = keyword_scores(store, query, everyone)

    assert len(everyone) == 34
    assert scores == {id: pytest.approx(found.get(id, 0.0), abs=1e-6) for id in everyone}
    assert 0 < len(few) < len(found)
    assert few == {id: pytest.approx(scores[id], abs=1e-6) for id in few}
    assert keyword_scores(store, "!?", everyone) == dict.fromkeys(everyone, 0.0)


def test_a_term_that_every_memory_of_a_scope_has_weighs_little_there_and_much_in_another_scope(store: Store):
    store.add([record(number, f"ana note{number}", project="p") for number in range(1, 9)], model=None)
    store.add([record(9, "ana garden", project="q")], model=None)
    store.add([record(number, f"garden note{number}", project="q") for number in range(10, 40)], model=None)

    def best(project: str) -> float:
        return find_keyword(store, "ana", Scope(project=project), limit=1)[0].score

    assert best("p") == pytest.approx(0.0, abs=1e-4)
    assert best("q") > 2
    found = scores_by_id(find_keyword(store, "ana garden", Scope(project="q"), limit=5))
    scores = keyword_scores(store, "ana garden", list(found), Scope(project="q"))
    assert scores == {id: pytest.approx(score, abs=1e-6) for id, score in found.items()}
