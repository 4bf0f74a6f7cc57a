from __future__ import annotations

import pytest

from retentive.errors import Invalid
from retentive.ranking import PRESETS, Tuning, preset, rank
from retentive.ranking.lists import RankedList
from tests.ranking.build import NOW, ids, retriever, scores


def deep_retrievers() -> list[RankedList]:
    """Two deep pools: one memory is first in one retriever alone, another is twentieth in both."""
    semantic = retriever("semantic", "first", *(f"s{place}" for place in range(2, 20)), "middling")
    keyword = retriever("keyword", *(f"k{place}" for place in range(1, 20)), "middling")
    return [semantic, keyword]


def test_the_default_preset_is_the_default_tuning():
    assert preset("default") == Tuning()


def test_classic_rrf_ranks_from_1_with_k_60():
    retrievers = [retriever("semantic", "a", "b"), retriever("keyword", "c", "d", "e", "f", "a")]

    ranked = scores(rank(retrievers, preset("classic-rrf"), limit=0, now=NOW))

    assert ranked["a"] == pytest.approx(1 / 61 + 1 / 65) == pytest.approx(0.03178, abs=1e-5)
    assert ranked["b"] == pytest.approx(1 / 62)


def test_steep_rrf_ranks_from_0_with_k_5():
    ranked = scores(
        rank([retriever("semantic", "a", "b"), retriever("keyword", "b")], preset("steep-rrf"), limit=0, now=NOW)
    )

    assert ranked == {"b": pytest.approx(1 / 6 + 1 / 5), "a": pytest.approx(1 / 5)}


def test_with_classic_rrf_middling_places_in_both_retrievers_beat_a_first_place_in_one():
    assert 2 / (60 + 20) > 1 / (60 + 1)
    assert ids(rank(deep_retrievers(), preset("classic-rrf"), limit=1, now=NOW)) == ["middling"]


def test_with_steep_rrf_a_first_place_in_one_retriever_beats_middling_places_in_both():
    ranked = scores(rank(deep_retrievers(), preset("steep-rrf"), limit=0, now=NOW))

    assert ranked["first"] == pytest.approx(1 / 5)
    assert ranked["middling"] == pytest.approx(2 / (5 + 19))
    assert 1 / 5 > 2 / (5 + 19)


def test_relative_score_is_min_max_half_and_half():
    tuning = preset("relative-score")
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.6), ("c", 0.5), weight=tuning.semantic_weight)
    keyword = retriever("keyword", ("c", 12.0), ("b", 9.0), ("a", 2.0), weight=tuning.keyword_weight)

    ranked = scores(rank([semantic, keyword], tuning, limit=0, now=NOW))

    assert ranked == {
        "a": pytest.approx(0.5),
        "b": pytest.approx(0.5 * 0.1 / 0.4 + 0.5 * 0.7),
        "c": pytest.approx(0.5),
    }


def test_weighted_is_seven_tenths_cosine_and_three_tenths_saturated_bm25():
    tuning = preset("weighted")
    retrievers = [
        retriever("semantic", ("a", 0.8), weight=tuning.semantic_weight),
        retriever("keyword", ("a", 1.0), weight=tuning.keyword_weight),
    ]

    assert scores(rank(retrievers, tuning, limit=0, now=NOW)) == {"a": pytest.approx(0.7 * 0.8 + 0.3 * 1 / 2)}


@pytest.mark.parametrize(("name", "found"), [("semantic-only", ["s"]), ("keyword-only", ["k"])])
def test_a_preset_of_one_retriever_takes_nothing_from_the_other(name: str, found: list[str]):
    tuning = preset(name)
    retrievers = [
        retriever("semantic", "s", weight=tuning.semantic_weight),
        retriever("keyword", "k", weight=tuning.keyword_weight),
    ]

    assert ids(rank(retrievers, tuning, limit=0, now=NOW)) == found


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "default"])
def test_the_ways_of_other_systems_are_left_pure(name: str):
    tuning = preset(name)

    assert (tuning.quality, tuning.decay, tuning.diversity, tuning.min_score) == ("off", False, 0.0, 0.0)


@pytest.mark.parametrize("name", PRESETS)
def test_a_memory_found_by_words_alone_passes_the_floors_of_every_preset_that_searches_words(name: str):
    tuning = preset(name)
    retrievers = [
        retriever("semantic", ("s", 0.9), weight=tuning.semantic_weight),
        retriever("keyword", ("k", 0.2), weight=tuning.keyword_weight),
    ]

    assert ("k" in ids(rank(retrievers, tuning, limit=0, now=NOW))) == (tuning.keyword_weight > 0)


def test_an_unknown_preset_is_answered_with_the_known_ones():
    with pytest.raises(Invalid, match=r"no preset 'borda'; the presets are default, classic-rrf, steep-rrf"):
        preset("borda")
