"""BM25 of many documents at once, by the compiled library, is that of each alone, to the last bit."""

from __future__ import annotations

import random

import pytest

from retentive.native import library
from retentive.text.bm25 import BM25

LONG = ["international-space-station", "international-space-shuttle"]
WORDS = ["tea", "interact", "interaction", "interactive", "interactions", "inter", *LONG]
WORDS += ["crème", "brûlée", "東京", "东京", "𝔘nicode-letter", "#4711", "a", "aa", "aaa", "🍵", "the", "of"]


def scorer(terms: list[str]) -> BM25:
    return BM25(terms, {term: 1 + len(term) for term in terms}, memories=1000, mean_length=60.0)


def documents(words: int, *, seed: int) -> list[str]:
    chosen = random.Random(seed)
    return [" ".join(chosen.choices([*WORDS, "other", "words", "elsewhere"], k=words + at)) for at in range(12)]


@pytest.fixture(autouse=True, params=["python", "library"] if library() else ["python"])
def computed_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Every test here runs without the library, and with it where it can be used."""
    if request.param == "python":
        monkeypatch.setattr("retentive.text.bm25.library", lambda: None)


@pytest.mark.parametrize("terms", [WORDS[:1], WORDS[:7], WORDS, ["interaction", "aa"], []])
@pytest.mark.parametrize("words", [3, 80, 300])
def test_scores_of_many_texts_equal_those_of_each(terms: list[str], words: int):
    bm25, texts = scorer(terms), documents(words, seed=words)

    assert bm25.score_texts(texts, extra_length=4) == [bm25.score_text(text, extra_length=4) for text in texts]


def test_an_empty_text_among_long_ones_scores_nothing():
    bm25, texts = scorer(WORDS), ["", *documents(300, seed=1), ""]

    scores = bm25.score_texts(texts)

    assert scores == [bm25.score_text(text) for text in texts]
    assert scores[0] == scores[-1] == 0.0 < min(scores[1:-1])


def test_texts_that_the_library_cannot_read_have_the_same_scores():
    many = [f"term-{at}" for at in range(1500)]
    texts = [" ".join(many[::3]), "two\nlines of tea", "a NUL\0 character", ""]
    for bm25 in (scorer(WORDS), scorer(many)):
        assert bm25.score_texts(texts) == [bm25.score_text(text) for text in texts]


def test_no_texts_have_no_scores():
    assert scorer(WORDS).score_texts([]) == []


def test_a_term_alone_scores_as_a_document_of_it():
    bm25 = scorer(WORDS)

    assert [bm25.score_alone(term) for term in WORDS] == [bm25([term]) for term in WORDS]
