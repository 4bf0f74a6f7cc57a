"""Text into terms, and BM25 over them."""

from __future__ import annotations

import math
import string
import threading
import unicodedata

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retentive.text.bm25 import BM25, rare_terms
from retentive.text.language import STOP_WORDS
from retentive.text.normal_form import normalised
from retentive.text.terms import (
    MAX_QUERY_TERMS,
    MAX_TERM,
    _any_chunk,
    _chunks,
    has_specific_terms,
    index_terms,
    written_words,
)
from retentive.text.terms import query_terms as terms_asked_for


def query_terms(text: str) -> list[str]:
    return list(terms_asked_for(text))


def bm25(terms, document, *, found_in, memories, mean_length, extra_length=0) -> float:
    score = BM25(terms, found_in, memories=memories, mean_length=mean_length, k1=1.2)
    return score(document, extra_length=extra_length)


# Index terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running runs RUN", ["run", "run", "run"]),
        ("ponies, pony!", ["poni", "poni"]),
        ("Café CAFE\u0301 cafe", ["cafe", "cafe", "cafe"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("Übergrößenträger", ["ubergrossentrag"]),
        ("Привет МИР", ["привет", "мир"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σισυφοσ", "σισυφοσ", "σισυφ", "σισυφ"]),
        ("ﬁne ＡＢＣ", ["fine", "abc"]),
        ("Caroline's dog", ["carolin", "dog"]),
        ("Caroline’s dog", ["carolin", "dog"]),
        ("don't won’t", ["dont", "wont"]),
        ("l'amour rock'n'roll", ["l", "amour", "rock", "n", "roll"]),
        ("ERR_CONN_42", ["err_conn_42", "err", "conn", "42"]),
        ("v2.13.0", ["v2.13.0", "v2", "13", "0"]),
        ("auth-service/login", ["auth-service/login", "auth", "servic", "login"]),
        ("https://example.com/a", ["https", "example.com/a", "exampl", "com", "a"]),
        ("C++ and c#", ["c++", "c", "and", "c#", "c"]),
        ("end. Start-", ["end", "start"]),
        ("snake_", ["snake"]),
        ("1,000.50", ["1", "000.50", "000", "50"]),
        ("abc123", ["abc123"]),
        ("東京都", ["東", "京", "都", "東京", "京都"]),
        ("本", ["本"]),
        ("Python入門2", ["python", "入", "門", "入門", "2"]),
        ("서울", ["서", "울", "서울"]),
        ("go 🚀🚀 now", ["go", "🚀", "🚀", "now"]),
        ("👍🏽", ["👍", "🏽"]),
        ('"quoted" (and) {braced}', ["quot", "and", "brace"]),
        ("a\0b\u00a0c\u3000d", ["a", "b", "c", "d"]),
        ("\ud83d half", ["half"]),
        ("", []),
        (" \t\n", []),
        ("!?… “”", []),
    ],
)
def test_a_text_gives_these_terms(text: str, terms: list[str]):
    assert index_terms(text) == terms


def test_a_text_has_the_same_terms_whether_or_not_something_in_it_is_not_ascii():
    text = "Don't panic: ERR_CONN_42 in auth-service/login (v2.13.0), c++ & snake_case_ it's"

    assert index_terms(f"{text} é")[:-1] == index_terms(text)


def test_a_very_long_word_is_cut_alike_in_texts_and_queries():
    word = "x" * 500

    assert index_terms(word) == query_terms(word)
    assert len(index_terms(word)[0]) == MAX_TERM


def test_the_stemmer_may_be_used_by_many_threads_at_once():
    words = [f"{stem}{ending}" for stem in ("walk", "talk", "jump", "paint") for ending in ("s", "ed", "ing", "er")]
    expected = [index_terms(word) for word in words]
    results: list[bool] = []

    def work(thread: int) -> None:
        fresh = [index_terms(f"{word} q{thread}x{turn}ing") for turn in range(50) for word in words]
        results.append([terms[:1] for terms in fresh] == expected * 50)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [True] * 4


# Query terms


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Where did Caroline go running?", ["carolin", "go", "run"]),
        ("running run ran", ["run", "ran"]),
        ("to be or not to be", ["to", "be", "or", "not"]),
        ("what's that", ["what", "that"]),
        ("What's on, who's there, it's Tom's, I'm sure we'll see", ["tom", "sure", "see"]),
        ("who wasn't at l'amour", ["l", "amour"]),
        ("the-who", ["the-who", "the", "who"]),
        ("東京都", ["東京", "京都"]),
        ("京", ["京"]),
        ("京 and 東京", ["京", "東京"]),
        ("🚀 launch", ["🚀", "launch"]),
        ("is ERR_CONN_42 fixed", ["err_conn_42", "err", "conn", "42", "fix"]),
        ("", []),
        ("?!", []),
    ],
)
def test_a_query_asks_for_these_terms(query: str, terms: list[str]):
    assert query_terms(query) == terms


def test_stop_words_are_what_their_own_folding_makes_of_them():
    assert all(word == word.lower() and word.isalpha() for word in STOP_WORDS)
    assert all(query_terms(f"{word} zebra") == ["zebra"] for word in STOP_WORDS)


def test_an_endless_query_has_a_bounded_number_of_terms():
    endless = " ".join(f"word{number}" for number in range(100_000))

    assert len(query_terms(endless)) <= 8 * MAX_QUERY_TERMS


# Rare terms


def test_rarer_terms_come_first_and_unknown_ones_not_at_all():
    found_in = {"tea": 50, "green": 3, "cup": 3}

    assert rare_terms(["tea", "green", "cup", "ufo"], found_in, memories=100, common=1.0) == ["cup", "green", "tea"]


def test_terms_in_more_than_the_share_of_memories_are_left_out():
    found_in = {"tea": 501, "green": 500, "cup": 3}

    assert rare_terms(found_in, found_in, memories=1000, common=0.5) == ["cup", "green"]


def test_the_rarest_known_term_always_stays():
    assert rare_terms(["tea", "the"], {"tea": 900, "the": 1000}, memories=1000, common=0.01) == ["tea"]


def test_in_a_small_store_no_term_is_common():
    assert rare_terms(["tea"] * 2, {"tea": 10}, memories=12, common=0.0) == ["tea", "tea"]


def test_no_more_terms_are_searched_than_the_most():
    found_in = {f"word{number}": number + 1 for number in range(500)}

    terms = rare_terms(found_in, found_in, memories=1000, common=1.0)

    assert terms == [f"word{number}" for number in range(MAX_QUERY_TERMS)]


@given(
    found_in=st.dictionaries(st.text("abc", min_size=1), st.integers(0, 1000), max_size=8),
    memories=st.integers(0, 1000),
    common=st.floats(0, 1),
)
def test_rare_terms_keeps_at_least_one_known_term_if_there_is_one(
    found_in: dict[str, int], memories: int, common: float
):
    kept = rare_terms(found_in, found_in, memories=memories, common=common)

    assert bool(kept) == any(found_in.values())
    assert set(kept) <= {term for term, count in found_in.items() if count}


# BM25


def test_bm25_is_the_formula_written_out():
    score = bm25(["tea"], ["tea", "tea", "milk"], found_in={"tea": 2}, memories=10, mean_length=5.0, extra_length=1)

    rarity = math.log((10 - 2 + 0.5) / (2 + 0.5))
    assert score == pytest.approx(rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 5)))


def test_bm25_is_0_where_no_term_occurs_and_above_it_even_for_a_term_that_all_have():
    found_in = {"tea": 10, "ufo": 1}

    assert bm25(["ufo"], ["tea"], found_in=found_in, memories=10, mean_length=1.0) == 0
    assert bm25(["tea"], ["tea"], found_in=found_in, memories=10, mean_length=1.0) > 0


def test_bm25_survives_a_store_without_lengths():
    assert bm25(["tea"], ["tea"], found_in={"tea": 1}, memories=1, mean_length=0.0) > 0


CORPUS = [
    "green tea and more green tea",
    "black tea",
    "coffee with milk and a very long sentence that goes on about nothing at all for some time",
    "milk",
    "tea tea tea tea",
    "ERR_CONN_42 in the auth-service",
    "err conn 42",
    "東京でお茶を飲む",
    "the tea in Tokyo 🚀",
    "nothing of it",
]


@pytest.mark.parametrize(
    "query", ["green tea", "milk", "tea", "the tea of ERR_CONN_42", "auth-service", "東京", "お茶 🚀", "and the of"]
)
def test_bm25_gives_the_scores_of_fts5(query: str):
    documents = [index_terms(text) for text in CORPUS]
    terms = query_terms(query)
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (terms, tokenize = \"ascii tokenchars '-_./:@#+'\")")
    connection.executemany(
        "INSERT INTO words (rowid, terms) VALUES (?, ?)",
        [(number, " ".join(document)) for number, document in enumerate(documents)],
    )
    match = " OR ".join(f'"{term}"' for term in terms)

    theirs = dict(connection.execute("SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?", (match,)).fetchall())

    found_in = {term: sum(term in document for document in documents) for term in terms}
    mean = sum(map(len, documents)) / len(documents)
    ours = {
        number: bm25(terms, document, found_in=found_in, memories=len(documents), mean_length=mean)
        for number, document in enumerate(documents)
    }
    assert theirs
    assert {number: score for number, score in ours.items() if score} == pytest.approx(theirs, abs=1e-6)


# Laws

ANYTHING = st.text(max_size=60)
LIKELY = st.text(alphabet=[*string.printable, *"éßİıſΣςǅ’ʼ́̈東京ーがｶﾞ한ㅎ🚀👍🏽ﬁ²½™ \u200b\0"], max_size=40)


@given(st.one_of(ANYTHING, LIKELY))
@example("\ud83d")
@example("ⅷ ㎏ ﷺ ㌀")
def test_any_text_gives_terms_without_white_space_or_quotes_that_an_engine_takes_as_one_token(text: str):
    for term in [*index_terms(text), *query_terms(text)]:
        assert term
        assert term.split() == [term]
        assert '"' not in term
        assert "'" not in term
        assert "\0" not in term
        assert term == term.lower()


@given(st.one_of(ANYTHING, LIKELY))
@example("京 東京")
def test_every_term_of_a_query_is_among_the_terms_of_the_same_text(text: str):
    assert set(query_terms(text)) <= set(index_terms(text))


@given(st.one_of(ANYTHING, LIKELY))
def test_a_text_is_found_by_its_own_words_in_other_case_or_form(text: str):
    import unicodedata

    for form in ("NFC", "NFD", "NFKC"):
        assert index_terms(unicodedata.normalize(form, text)) == index_terms(text)


@given(st.lists(st.sampled_from(["green", "tea", "milk", "cup"]), max_size=12), st.integers(1, 5))
def test_more_of_a_term_in_as_long_a_document_never_scores_less(document: list[str], extra: int):
    def score(terms: list[str]) -> float:
        return bm25(["tea"], terms, found_in={"tea": 3}, memories=20, mean_length=8.0)

    assert score([*document, *["tea"] * extra]) > score([*document, *["filler"] * extra])


@given(LIKELY)
def test_fts5_takes_each_term_as_one_token(text: str):
    terms = index_terms(text)
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (terms, tokenize = \"ascii tokenchars '-_./:@#+'\")")
    connection.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, row)")
    connection.execute("INSERT INTO words VALUES (?)", (" ".join(terms),))

    tokens = dict(connection.execute("SELECT term, cnt FROM vocabulary").fetchall())

    assert tokens == {term: terms.count(term) for term in terms}


@pytest.mark.parametrize(
    "query",
    [
        "ERR_CONN_42", "what was v2.13.0 about?", "who paid INV-39142?", "vitamin B12", "call 5551234", "Lindqvist",
        "where is max_connections set?", "我们什么时候去北京？他说了吗", "wann kommt der Handwerker und wohin?",
    ],
)  # fmt: skip
def test_one_word_an_identifier_or_another_language_tells_what_is_meant(query: str) -> None:
    assert has_specific_terms(query)


@pytest.mark.parametrize(
    "query",
    [
        "what happened in 2023?", "on 2026-05-08 or 8/5/2026", "the 21st at 5pm", "a 2-year-old, 3.5 km away",
        "how do I get into the house?", "the auth-service is down", "", "50 % of 10,000",
    ],
)  # fmt: skip
def test_numbers_dates_and_plain_english_do_not(query: str) -> None:
    assert not has_specific_terms(query)


def test_a_term_is_shown_by_the_word_that_it_comes_from() -> None:
    found = written_words("Coffee every morning: Ana's coffee, v2 of auth-service, 咖啡店")

    assert {term: found[term] for term in index_terms("coffee morning ana service")} == {
        "coffe": "Coffee", "morn": "morning", "ana": "Ana's", "servic": "service"
    }  # fmt: skip
    assert (found["v2"], found["咖啡"]) == ("v2", "咖啡")


@given(st.text(max_size=60))
def test_texts_in_ascii_have_the_chunks_that_the_pattern_for_all_scripts_finds(text: str) -> None:
    lower = text.encode("ascii", "ignore").decode().lower()

    assert [match[0] for match in _chunks(lower)] == [match[0] for match in _any_chunk().finditer(lower)]


def test_a_character_that_this_unicode_does_not_know_is_no_blank():
    """Two texts that differ in a letter of a newer Unicode are two texts."""
    unknown, other = "\U0003fff0", "\U0003fff1"
    assert unicodedata.category(unknown) == "Cn"

    assert normalised(f"drinks {unknown} tea") != normalised("drinks tea")
    assert normalised(f"drinks {unknown} tea") != normalised(f"drinks {other} tea")
    assert normalised("drinks\u00a0tea") == normalised("drinks tea")
