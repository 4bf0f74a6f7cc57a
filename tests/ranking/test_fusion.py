from __future__ import annotations

import math
from dataclasses import replace

import pytest

from retentive.ranking import preset, ranked_list
from retentive.ranking.fusion import distinctness, fuse
from retentive.ranking.tuning import Tuning
from tests.ranking.build import FUSIONS, ids, memory, plain, retriever, scores

# --- Ranks -----------------------------------------------------------------------------------------------------------


def test_rrf_adds_one_over_k_plus_rank_for_each_retriever():
    semantic = retriever("semantic", "both", "b", "c", "d", "e")
    keyword = retriever("keyword", "p", "q", "r", "s", "both")

    fused = scores(fuse([semantic, keyword], plain(rrf_k=60)))

    assert fused["both"] == pytest.approx(1 / 61 + 1 / 65)
    assert fused["both"] == pytest.approx(0.03178, abs=1e-5)


def test_rrf_gives_a_memory_nothing_from_a_retriever_that_did_not_find_it():
    fused = scores(fuse([retriever("semantic", "alone"), retriever("keyword", "other")], plain(rrf_k=60)))

    assert fused["alone"] == pytest.approx(1 / 61)
    assert fused["alone"] == pytest.approx(0.01639, abs=1e-5)


def test_rrf_of_a_first_and_a_second_place_is_the_sum_of_both():
    fused = scores(fuse([retriever("semantic", "a", "b"), retriever("keyword", "b", "a")], plain(rrf_k=60)))

    assert fused == {"a": pytest.approx(1 / 61 + 1 / 62), "b": pytest.approx(1 / 61 + 1 / 62)}


def test_rrf_multiplies_a_share_by_the_weight_of_its_retriever():
    retrievers = [retriever("semantic", "a", "b", weight=0.5), retriever("keyword", "b", weight=2.0)]

    fused = scores(fuse(retrievers, plain(rrf_k=60)))

    assert fused == {"b": pytest.approx(0.5 / 62 + 2 / 61), "a": pytest.approx(0.5 / 61)}


def test_a_memory_found_by_both_retrievers_outranks_the_head_of_either():
    fused = fuse([retriever("semantic", "s", "both"), retriever("keyword", "k", "both")], plain(rrf_k=60))

    assert 2 / 62 > 1 / 61
    assert ids(fused)[0] == "both"


def test_rrf_does_not_look_at_scores():
    close = [retriever("semantic", ("a", 0.51), ("b", 0.50))]
    far = [retriever("semantic", ("a", 900.0), ("b", -3.0))]

    assert scores(fuse(close, plain())) == scores(fuse(far, plain()))


def test_any_number_of_lists_is_fused():
    retrievers = [retriever(name, "everywhere") for name in "abcdefg"]

    assert scores(fuse(retrievers, plain(rrf_k=60))) == {"everywhere": pytest.approx(7 / 61)}


@pytest.mark.parametrize("fusion", FUSIONS)
def test_no_retrievers_and_empty_retrievers_give_no_hits(fusion: str):
    assert fuse([], plain(fusion=fusion)) == []
    assert fuse([retriever("semantic"), retriever("keyword")], plain(fusion=fusion)) == []


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_memory_that_several_retrievers_found_comes_back_once(fusion: str):
    fused = fuse([retriever("semantic", "a", "b"), retriever("keyword", "b", "a")], plain(fusion=fusion))

    assert sorted(ids(fused)) == ["a", "b"]


def test_a_memory_listed_twice_by_one_retriever_keeps_its_better_place_and_takes_no_other():
    fused = scores(fuse([retriever("semantic", "a", "a", "b")], plain(rrf_k=60)))

    assert fused == {"a": pytest.approx(1 / 61), "b": pytest.approx(1 / 62)}


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_retriever_of_weight_0_brings_no_memory_and_no_score(fusion: str):
    found, silent = retriever("semantic", "a"), retriever("keyword", "a", "noise", weight=0.0)

    assert fuse([found, silent], plain(fusion=fusion)) == fuse([found], plain(fusion=fusion))
    assert ids(fuse([found, silent], plain(fusion=fusion))) == ["a"]


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_order_in_which_retrievers_are_given_changes_nothing(fusion: str):
    first, second = retriever("semantic", "a", "b", "c"), retriever("keyword", "c", "d", "a")

    assert fuse([first, second], plain(fusion=fusion)) == fuse([second, first], plain(fusion=fusion))


def test_equal_scores_keep_the_order_first_met_with_retrievers_taken_by_name():
    semantic, keyword = retriever("semantic", "z", "y"), retriever("keyword", "b", "a")

    fused = fuse([semantic, keyword], plain())

    assert ids(fused) == ["b", "z", "a", "y"]


def test_each_retriever_leaves_a_reason_with_rank_score_and_arithmetic():
    retrievers = [retriever("semantic", ("x", 0.9), ("a", 0.8)), retriever("keyword", ("a", 7.0), weight=2.0)]

    [keyword, semantic] = fuse(retrievers, plain(rrf_k=60))[0].why

    assert (keyword.step, keyword.rank, keyword.value, keyword.note) == ("keyword", 1, 7.0, "2 / (60 + 1)")
    assert (semantic.step, semantic.rank, semantic.value, semantic.note) == ("semantic", 2, 0.8, "1 / (60 + 2)")
    assert keyword.change == pytest.approx(2 / 61)
    assert semantic.change == pytest.approx(1 / 62)
    assert semantic.score == pytest.approx(2 / 61 + 1 / 62)


def test_a_retriever_that_added_nothing_leaves_no_reason():
    [found, other] = fuse([retriever("semantic", "a"), retriever("keyword", "b", "c")], plain())[:2]

    assert [reason.step for reason in found.why] == ["keyword"]
    assert [reason.step for reason in other.why] == ["semantic"]


# --- Scores ----------------------------------------------------------------------------------------------------------

RELATIVE = plain(fusion="relative", semantic_scaling="min-max", keyword_scaling="min-max")


def test_relative_fusion_scales_each_list_from_1_for_its_best_to_0_for_its_worst():
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.6), ("c", 0.5))
    keyword = retriever("keyword", ("c", 12.0), ("b", 9.0), ("a", 2.0))

    fused = scores(fuse([semantic, keyword], RELATIVE))

    assert fused["a"] == pytest.approx(0.5 * 1 + 0.5 * 0)
    assert fused["b"] == pytest.approx(0.5 * (0.6 - 0.5) / (0.9 - 0.5) + 0.5 * (9 - 2) / (12 - 2))
    assert fused["c"] == pytest.approx(0.5 * 0 + 0.5 * 1)


def test_relative_fusion_with_alpha_weighs_the_retrievers_alpha_to_one_minus_alpha():
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.1), weight=0.4)
    keyword = retriever("keyword", ("b", 5.0), ("a", 1.0), weight=0.6)

    assert scores(fuse([semantic, keyword], RELATIVE)) == {"b": pytest.approx(0.6), "a": pytest.approx(0.4)}


def test_relative_fusion_of_retrievers_without_a_weight_of_their_own_is_half_and_half():
    semantic, keyword = retriever("semantic", ("a", 0.9), ("x", 0.1)), retriever("keyword", ("b", 5.0), ("y", 1.0))

    assert scores(fuse([semantic, keyword], RELATIVE)) == {"b": 0.5, "a": 0.5, "y": 0.0, "x": 0.0}


def test_relative_scores_that_tie_keep_the_order_first_met():
    fused = fuse(
        [retriever("semantic", ("z", 0.9), ("y", 0.9)), retriever("keyword", ("b", 3.0), ("a", 3.0))], RELATIVE
    )

    assert ids(fused) == ["b", "a", "z", "y"]


def test_only_the_proportion_of_the_weights_counts_when_scores_are_fused():
    def fused_with(semantic_weight: float, keyword_weight: float):
        semantic = retriever("semantic", ("a", 0.9), ("b", 0.1), weight=semantic_weight)
        return scores(fuse([semantic, retriever("keyword", ("b", 5.0), ("a", 1.0), weight=keyword_weight)], RELATIVE))

    assert fused_with(4.0, 1.0) == pytest.approx(fused_with(0.8, 0.2))


def test_relative_fusion_does_not_use_a_true_score_from_elsewhere():
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.1), elsewhere={"k": 0.8})

    assert scores(fuse([semantic, retriever("keyword", ("k", 2.0))], RELATIVE))["k"] == pytest.approx(0.5 * 1)


def test_z_scores_count_absence_as_the_lowest_scaled_score_of_the_retriever():
    semantic = retriever("semantic", ("a", 3.0), ("b", 1.0))  # mean 2, deviation 1: a is +1, b is -1
    keyword = retriever("keyword", ("k", 30.0), ("a", 10.0))  # mean 20, deviation 10: k is +1, a is -1

    fused = scores(
        fuse([semantic, keyword], plain(fusion="relative", semantic_scaling="z-score", keyword_scaling="z-score"))
    )

    assert fused["a"] == pytest.approx(0.5 * 1 + 0.5 * -1)
    assert fused["k"] == pytest.approx(0.5 * -1 + 0.5 * 1)
    assert fused["b"] == pytest.approx(0.5 * -1 + 0.5 * -1)


def test_absence_costs_a_reason_when_it_costs_score():
    tuning = plain(fusion="relative", semantic_scaling="z-score", keyword_scaling="z-score")

    fused = fuse(
        [retriever("semantic", ("a", 3.0), ("b", 1.0)), retriever("keyword", ("k", 30.0), ("a", 10.0))], tuning
    )

    absence = next(hit for hit in fused if hit.id == "k").why[1]
    assert (absence.step, absence.note, absence.rank, absence.value) == ("semantic", "not found", None, None)
    assert absence.change == pytest.approx(-0.5)


def test_weighted_fusion_adds_seven_tenths_cosine_and_three_tenths_saturated_bm25():
    retrievers = [
        retriever("semantic", ("a", 0.8), weight=0.7),
        retriever("keyword", ("a", 3.0), ("k", 1.0), weight=0.3),
    ]

    fused = scores(fuse(retrievers, plain(fusion="weighted")))

    assert fused["a"] == pytest.approx(0.7 * 0.8 + 0.3 * 3 / (1 + 3))
    assert fused["k"] == pytest.approx(0.3 * 1 / (1 + 1))


def test_lists_without_weights_of_their_own_have_those_of_the_tuning():
    semantic, keyword = ranked_list("semantic", [("a", 0.5)]), ranked_list("keyword", [("b", 1.0)])

    fused = scores(fuse([semantic, keyword], preset("weighted")))
    assert fused == {"a": pytest.approx(0.7 * 0.5), "b": pytest.approx(0.3 * 1.0 / 2.0)}
    assert ids(fuse([semantic, keyword], preset("keyword-only"))) == ["b"]
    assert ids(fuse([semantic, keyword], preset("semantic-only"))) == ["a"]

    own = [ranked_list("semantic", [("a", 0.5)], weight=1.0), ranked_list("keyword", [("b", 1.0)], weight=1.0)]
    assert scores(fuse(own, preset("weighted"))) == {"a": pytest.approx(0.25), "b": pytest.approx(0.25)}


def test_weighted_fusion_takes_a_negative_cosine_for_no_likeness_at_all():
    retrievers = [retriever("semantic", ("a", -0.4)), retriever("keyword", ("a", 1.0))]

    assert scores(fuse(retrievers, plain(fusion="weighted"))) == {"a": pytest.approx(0.5 * 0 + 0.5 * 0.5)}


@pytest.mark.parametrize("cosine", [math.nan, -math.inf])
def test_weighted_fusion_takes_a_cosine_that_is_no_number_for_no_likeness_at_all(cosine: float):
    retrievers = [retriever("semantic", ("a", cosine)), retriever("keyword", ("a", 1.0))]

    assert scores(fuse(retrievers, plain(fusion="weighted"))) == {"a": pytest.approx(0.5 * 0 + 0.5 * 0.5)}


def test_full_fusion_gives_a_memory_its_true_score_in_a_retriever_that_did_not_return_it():
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.4), elsewhere={"k": 0.65})
    keyword = retriever("keyword", ("k", 8.0), ("a", 4.0))
    tuning = plain(fusion="full", semantic_scaling="min-max", keyword_scaling="max")

    fused = scores(fuse([semantic, keyword], tuning))

    assert fused["k"] == pytest.approx(0.5 * (0.65 - 0.4) / (0.9 - 0.4) + 0.5 * 8 / 8)
    assert fused["a"] == pytest.approx(0.5 * 1 + 0.5 * 4 / 8)


def test_full_fusion_counts_absence_as_nothing_only_where_no_true_score_is_known():
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.4))
    tuning = plain(fusion="full", semantic_scaling="min-max", keyword_scaling="max")

    assert scores(fuse([semantic, retriever("keyword", ("k", 8.0))], tuning))["k"] == pytest.approx(0.5 * 0 + 0.5 * 1)


def test_a_true_score_from_elsewhere_is_explained_without_a_rank():
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.4), elsewhere={"k": 0.65})

    fused = fuse([semantic, retriever("keyword", ("k", 8.0))], plain(fusion="full", semantic_scaling="min-max"))

    reason = next(hit for hit in fused if hit.id == "k").why[1]
    assert (reason.step, reason.rank, reason.value) == ("semantic", None, 0.65)


def test_a_true_score_alone_brings_no_memory_into_the_result():
    semantic = retriever("semantic", "a", elsewhere={"nobody returned this": 0.99})

    assert ids(fuse([semantic], plain(fusion="full"))) == ["a"]


def test_the_scale_is_fitted_to_the_depth_of_the_retriever_where_that_is_known():
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.7), depth_scores=(0.9, 0.7, 0.5))

    fused = scores(fuse([semantic], RELATIVE))

    assert fused == {"a": pytest.approx(1.0), "b": pytest.approx((0.7 - 0.5) / (0.9 - 0.5))}


def test_the_semantic_scaling_serves_the_semantic_retriever_and_the_keyword_scaling_all_others():
    retrievers = [retriever(name, ("a", 4.0), ("b", 2.0)) for name in ("semantic", "keyword", "graph")]
    tuning = plain(fusion="relative", semantic_scaling="min-max", keyword_scaling="max")

    shares = {reason.step: reason.change for hit in fuse(retrievers, tuning) if hit.id == "b" for reason in hit.why}

    assert shares == {"semantic": 0.0, "keyword": pytest.approx(0.5 / 3), "graph": pytest.approx(0.5 / 3)}


def test_a_standout_score_wins_when_scores_are_fused_and_agreement_when_ranks_are():
    semantic = retriever("semantic", ("standout", 0.95), ("agreed", 0.40), ("s", 0.38))
    keyword = retriever("keyword", ("k", 0.35), ("agreed", 0.3), ("x", 0.2))

    assert 0.5 * 0.95 > 0.5 * 0.40 + 0.5 * 0.3 / 1.3
    assert 2 / 62 > 1 / 61
    assert ids(fuse([semantic, keyword], plain(fusion="weighted")))[0] == "standout"
    assert ids(fuse([semantic, keyword], plain(fusion="rrf")))[0] == "agreed"


def ten(best: float, others: float) -> list[tuple[str, float]]:
    return [("best", best), *((f"other{n}", others) for n in range(9))]


@pytest.mark.parametrize(("others", "trust"), [(2.0, 1.0), (6.0, 1.0), (8.0, 0.5), (10.0, 0.0)])
def test_words_count_by_how_far_their_best_match_is_ahead_of_the_tenth(others: float, trust: float):
    retrievers = [retriever("keyword", *ten(10.0, others)), retriever("semantic", "close")]

    fused = scores(fuse(retrievers, plain(fusion="full", min_lead=0.4)))

    assert fused["best"] == pytest.approx(0.5 * trust)  # of the two retrievers' weights, half


@pytest.mark.parametrize(("words", "share"), [(10, 0.2), (50, 0.2), (100, 0.8), (5000, 1.0)])
def test_the_keyword_weight_is_smaller_where_memories_are_short(words: int, share: float):
    long = memory("best", " ".join(["word"] * words))
    retrievers = [retriever("keyword", (long, 3.0)), retriever("semantic", "close")]

    fused = scores(fuse(retrievers, plain(fusion="full", short_keyword_share=0.2)))

    assert fused["best"] == pytest.approx(0.5 * share, abs=1e-3)


@pytest.mark.parametrize(("best", "share"), [(2.2, 0.25), (4.4, 1.0), (9.0, 1.0)])
def test_in_long_memories_words_count_less_where_the_best_match_is_weak_for_so_many_terms(best: float, share: float):
    long = " ".join(["word"] * 8000)
    found = retriever("keyword", (memory("best", long), best), (memory("other", long), 0.5))

    fused = fuse([replace(found, terms=2), retriever("semantic", "close")], plain(fusion="full", min_match=2.2))

    assert scores(fused)["best"] == pytest.approx(0.5 * share, abs=1e-3)


def test_in_short_memories_the_strength_of_a_match_changes_nothing():
    found = replace(retriever("keyword", (memory("best", "one word"), 0.1)), terms=2)

    fused = scores(fuse([found, retriever("semantic", "close")], plain(fusion="full", min_match=2.2)))

    assert fused["best"] == pytest.approx(0.5)


def test_the_keyword_weight_stays_whole_where_the_terms_tell_what_is_meant():
    found = replace(retriever("keyword", (memory("best", "ERR_CONN_42 again"), 3.0)), specific=True)

    fused = scores(fuse([found, retriever("semantic", "close")], plain(fusion="full", short_keyword_share=0.2)))

    assert fused["best"] == pytest.approx(0.5)


def test_words_that_fewer_than_ten_memories_have_stand_out():
    retrievers = [retriever("keyword", *ten(10.0, 10.0)[:9]), retriever("semantic", "close")]

    assert scores(fuse(retrievers, plain(fusion="full", min_lead=0.4)))["best"] == pytest.approx(0.5)


def test_words_alone_have_no_other_search_to_stand_back_for():
    assert scores(fuse([retriever("keyword", *ten(10.0, 10.0))], plain(fusion="full")))["best"] == pytest.approx(1.0)


@pytest.mark.parametrize("score", [math.nan, math.inf, 0.0, -1.0])
def test_how_far_words_stand_out_is_a_number_whatever_the_scores(score: float):
    trust = distinctness([score] * 12, 0.4)

    assert 0.0 <= trust <= 1.0


def test_the_memory_of_a_hit_is_the_one_the_retriever_returned():
    full = memory("a", "the whole text", project="p", session="s")

    assert fuse([retriever("semantic", full)], Tuning())[0].memory is full


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_order_of_lists_of_one_name_changes_nothing(fusion: str):
    first = retriever("listed", ("a", 1.0), ("b", 0.5))
    second = retriever("listed", ("c", 1.0), ("b", math.nan), weight=0.5)
    tuning = plain(fusion=fusion)

    assert ids(fuse([first, second], tuning)) == ids(fuse([second, first], tuning))


def test_a_score_from_elsewhere_below_the_list_counts_as_nothing_when_scores_are_scaled_by_their_sum():
    semantic = retriever("semantic", ("a", 0.9), ("b", 0.8))
    keyword = retriever("keyword", ("b", 9.0), ("c", 8.0), ("d", 7.5), elsewhere={"a": -50.0})

    found = fuse([semantic, keyword], plain(fusion="full", keyword_scaling="sum", semantic_scaling="sum"))

    assert all(hit.score >= 0 for hit in found)
