"""The mistakes that other memory systems are known for, each with a test that fails where it is made again.

Numbers are those of the list of pitfalls in the design; the ones that need a store or an embedder are tested there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from retentive.ranking import PRESETS, Tuning, preset, rank
from retentive.ranking.fusion import fuse, saturate, scale_all
from retentive.ranking.lists import RankedList
from tests.ranking.build import FUSIONS, NOW, SCALINGS, days_ago, ids, memory, plain, retriever, scores, unit


def test_pitfall_1_a_rank_is_the_place_in_its_own_retriever_and_not_in_the_concatenated_list():
    semantic, keyword = retriever("semantic", "s1", "s2", "s3"), retriever("keyword", "k1", "k2")

    fused = fuse([keyword, semantic], plain(rrf_k=60))

    assert scores(fused)["s1"] == scores(fused)["k1"] == pytest.approx(1 / 61)
    assert scores(fused)["s2"] == scores(fused)["k2"] == pytest.approx(1 / 62)
    assert {hit.id: hit.why[0].rank for hit in fused} == {"k1": 1, "s1": 1, "k2": 2, "s2": 2, "s3": 3}


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("quality", ["off", "add", "multiply"])
def test_pitfall_2_a_memory_found_by_words_alone_passes_the_default_floors(fusion: str, quality: str):
    semantic = retriever("semantic", ("s", 0.9), ("t", 0.5), elsewhere={"exact word": -0.2})
    keyword = retriever("keyword", ("exact word", 0.05))

    ranking = rank([semantic, keyword], Tuning(fusion=fusion, quality=quality), limit=10, now=NOW)

    assert "exact word" in ids(ranking)


def test_pitfall_2_a_memory_found_by_words_alone_passes_where_nothing_at_all_is_similar():
    semantic = retriever("semantic", ("opposite", -0.3))

    assert ids(rank([semantic, retriever("keyword", ("exact word", 0.05))], Tuning(), limit=10, now=NOW)) == [
        "exact word"
    ]


def test_pitfall_3_additive_terms_do_not_outweigh_the_whole_range_of_rrf():
    first = memory("first in both", importance=0.0, created=days_ago(1000))
    filler = [f"filler {place}" for place in range(48)]
    important = memory("important but fiftieth", importance=1.0, created=NOW)
    retrievers = [retriever("semantic", first, *filler, important), retriever("keyword", first)]

    ranking = rank(retrievers, plain(quality="add"), limit=0, now=NOW)

    # All of RRF's range is 2/61 = 0.033; added as it is, an importance of 0.15 would bury it.
    assert 0.15 > 2 / 61
    assert scores(ranking)["first in both"] == pytest.approx(0.80 * 1)
    assert scores(ranking)["important but fiftieth"] == pytest.approx(0.80 * (1 / 110) / (2 / 61) + 0.05 + 0.15)
    assert ids(ranking)[0] == "first in both"


def test_pitfall_4_a_negative_bm25_of_fts5_saturates_like_a_positive_one():
    assert saturate(-4.0) == saturate(4.0) == pytest.approx(4 / 5)
    assert saturate(-8.0) > saturate(-1.0)  # FTS5: the smaller the better
    assert scale_all("saturate", [-8.0, -1.0]) == pytest.approx([8 / 9, 1 / 2])


def test_pitfall_4_weighted_fusion_ranks_by_negative_bm25_the_right_way_round():
    retrievers = [retriever("keyword", ("best", -8.0), ("weak", -1.0))]

    assert scores(fuse(retrievers, plain(fusion="weighted"))) == {
        "best": pytest.approx(8 / 9),
        "weak": pytest.approx(1 / 2),
    }


@pytest.mark.parametrize("fusion", FUSIONS)
def test_pitfall_5_a_retriever_of_weight_0_lets_no_memory_in_with_score_0(fusion: str):
    retrievers = [
        retriever("semantic", "wanted"),
        retriever("keyword", "noise", "wanted", weight=0.0, elsewhere={"wanted": 9.0}),
    ]

    ranking = rank(retrievers, plain(fusion=fusion), limit=0, now=NOW)

    assert ids(ranking) == ["wanted"]
    assert ranking.dropped == ()
    assert [reason.step for reason in ranking.hits[0].why] == ["semantic"]


@pytest.mark.parametrize("scaling", ["min-max", "sum", "spread"])
@pytest.mark.parametrize("scored", [[0.4], [0.4, 0.4, 0.4], [0.0, 0.0]])
def test_pitfall_6_scaling_one_result_or_equal_scores_divides_by_nothing(scaling: str, scored: list[float]):
    assert scale_all(scaling, scored) == [1.0] * len(scored)


@pytest.mark.parametrize("fusion", ["relative", "full"])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_pitfall_6_one_result_alone_fuses_to_a_score_of_0_or_more_on_every_scale(fusion: str, scaling: str):
    retrievers = [retriever("semantic", ("a", 0.4)), retriever("keyword", ("a", 3.0))]

    tuning = plain(fusion=fusion, semantic_scaling=scaling, keyword_scaling=scaling)

    assert scores(rank(retrievers, tuning, limit=0, now=NOW))["a"] >= 0.0


@pytest.mark.parametrize("fusion", FUSIONS)
def test_pitfall_7_ties_come_in_one_order_however_the_retrievers_are_given(fusion: str):
    retrievers = [
        retriever(name, *((f"{name}{place}", 1.0) for place in (2, 1))) for name in ("keyword", "graph", "names")
    ]

    orders = {tuple(ids(rank(given, plain(fusion=fusion), limit=0, now=NOW))) for given in permutations(retrievers)}

    by_place = ("graph2", "keyword2", "names2", "graph1", "keyword1", "names1")
    by_retriever = ("graph2", "graph1", "keyword2", "keyword1", "names2", "names1")
    assert orders == {by_place if fusion == "rrf" else by_retriever}


def test_pitfall_13_mmr_is_off_unless_chosen():
    retrievers = [retriever("semantic", ("a", 0.9), ("twin", 0.8), ("different", 0.7))]
    vectors = {"a": unit(1, 0), "twin": unit(1, 0), "different": unit(0, 1)}

    for name in PRESETS:
        ranking = rank(retrievers, preset(name), limit=2, now=NOW, vectors=vectors)
        assert "diversity" not in {reason.step for hit in ranking.hits for reason in hit.why}
    assert ids(rank(retrievers, Tuning(), limit=2, now=NOW, vectors=vectors)) == ["a", "twin"]


def test_pitfall_14_many_retrievers_are_fused_flat_so_that_a_first_place_counts_the_same_in_each():
    expansions = [retriever(f"expansion {number}", f"e{number}", "m", "n") for number in range(4)]
    keyword = retriever("keyword", "exact")

    fused = scores(fuse([*expansions, keyword], plain(rrf_k=60)))

    # Fused two by two, the list of the expansions would be ranked again and count once.
    assert fused["exact"] == fused["e0"] == fused["e3"] == pytest.approx(1 / 61)
    assert fused["m"] == pytest.approx(4 / 62)
    assert fused["n"] == pytest.approx(4 / 63)


def renamed(given: RankedList, names: dict[str, str]) -> RankedList:
    """The same retriever from a store that gives other ids."""
    swapped = (pair._replace(memory=pair.memory._replace(id=names[pair.memory.id])) for pair in given.candidates)
    return replace(given, candidates=tuple(swapped))


@pytest.mark.parametrize("name", PRESETS)
def test_pitfall_16_the_same_retrievers_give_the_same_order_whatever_ids_a_store_gives(name: str):
    letters = "qwertyuiopasdfghjklzxcvbnm"
    retrievers = [
        retriever("semantic", *((x, 0.5) for x in letters)),
        retriever("keyword", *((x, 2.0) for x in letters[::-1])),
    ]
    names = {letter: f"{97 * at % 101:03d}" for at, letter in enumerate(letters)}

    here = rank(retrievers, preset(name), limit=0, now=NOW)
    there = rank([renamed(given, names) for given in retrievers], preset(name), limit=0, now=NOW)

    assert [names[id] for id in ids(here)] == ids(there)


def test_pitfall_16_ranking_is_a_pure_function_that_leaves_its_retrievers_as_they_were():
    retrievers = [retriever("semantic", "a", "b", "c", elsewhere={"d": 0.1}), retriever("keyword", "d", "b")]
    tuning = Tuning(diversity=0.5, decay=True, min_score=0.01, source_weights={"*": 1.1})
    before = [replace(given, elsewhere=dict(given.elsewhere)) for given in retrievers]

    first, second = (rank(retrievers, tuning, limit=2, now=NOW) for _ in range(2))

    assert first == second
    assert retrievers == before


def test_pitfall_18_the_score_shown_falls_with_the_rank_even_where_mmr_reorders():
    retrievers = [retriever("semantic", ("a", 1.0), ("twin", 0.99), ("b", 0.2), ("c", 0.15))]
    vectors = {"a": unit(1, 0, 0), "twin": unit(1, 0, 0), "b": unit(0, 1, 0), "c": unit(0, 0, 1)}

    ranking = rank(retrievers, plain(fusion="weighted", diversity=0.6), limit=0, now=NOW, vectors=vectors)

    shown = [hit.score for hit in ranking.hits]
    assert ids(ranking) == ["a", "b", "c", "twin"]
    assert shown == sorted(shown, reverse=True)


def test_pitfall_18_the_score_shown_falls_with_the_rank_after_boosts_that_turn_the_order_round():
    retrievers = [retriever("semantic", *(memory(f"{age} days", created=days_ago(age)) for age in (90, 60, 30, 0)))]

    ranking = rank(retrievers, plain(decay=True, quality="add"), limit=0, now=NOW)

    shown = [hit.score for hit in ranking.hits]
    assert ids(ranking) == ["0 days", "30 days", "60 days", "90 days"]
    assert shown == sorted(shown, reverse=True)
