from __future__ import annotations

import pickle

import pytest

from retentive.ranking import Tuning, rank
from tests.ranking.build import NOW, days_ago, ids, memory, plain, retriever, scores, unit


def test_the_best_come_first_and_are_numbered_from_1():
    ranking = rank([retriever("semantic", "a", "b", "c")], plain(), limit=10, now=NOW)

    assert [(hit.rank, hit.id) for hit in ranking.hits] == [(1, "a"), (2, "b"), (3, "c")]


def test_only_the_limit_comes_back_and_what_lies_behind_it_is_dropped_with_its_rank():
    ranking = rank([retriever("semantic", "a", "b", "c")], plain(), limit=2, now=NOW)

    assert ids(ranking) == ["a", "b"]
    assert [(hit.id, hit.rank) for hit in ranking.dropped] == [("c", 3)]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_0_or_less_means_all(limit: int):
    ranking = rank([retriever("semantic", *"abcdefgh")], plain(), limit=limit, now=NOW)

    assert ids(ranking) == list("abcdefgh")
    assert ranking.dropped == ()


def test_no_retrievers_give_an_empty_answer():
    ranking = rank([], Tuning(), limit=5, now=NOW)

    assert (ranking.hits, ranking.dropped) == ((), ())


def test_the_steps_run_from_fusion_over_source_age_and_quality_to_diversity():
    old = memory("a", source="notes/1", created=days_ago(30), accessed=NOW, importance=1.0)
    tuning = plain(source_weights={"notes/*": 2.0}, decay=True, quality="multiply", diversity=0.5)

    top = rank([retriever("semantic", old), retriever("keyword", old, "b")], tuning, limit=5, now=NOW).hits[0]

    assert [reason.step for reason in top.why] == ["keyword", "semantic", "source", "decay", "quality", "diversity"]
    assert top.score == pytest.approx((1 / 61 + 1 / 61) * 2.0 * 0.5 * 1.0)


def test_a_boost_can_change_the_order():
    retrievers = [retriever("semantic", memory("mail", source="mail/1"), memory("note", source="notes/1"))]

    assert 2 / 62 > 1 / 61
    assert ids(rank(retrievers, plain(source_weights={"notes/*": 2.0}), limit=5, now=NOW)) == ["note", "mail"]


def test_decay_brings_the_newer_memory_forward():
    retrievers = [retriever("semantic", memory("old", created=days_ago(30)), memory("new", created=NOW))]

    ranking = rank(retrievers, plain(decay=True), limit=5, now=NOW)

    assert scores(ranking) == {"new": pytest.approx(1 / 62), "old": pytest.approx(0.5 / 61)}
    assert ids(ranking) == ["new", "old"]


def test_scores_that_become_equal_after_the_boosts_keep_their_order():
    retrievers = [retriever("semantic", "z"), retriever("keyword", "b")]

    assert ids(rank(retrievers, plain(quality="multiply"), limit=5, now=NOW)) == ["b", "z"]


def test_age_is_measured_against_the_time_passed_in():
    retrievers = [retriever("semantic", memory("a", created=days_ago(60)))]

    then, now = (rank(retrievers, plain(decay=True), limit=5, now=time) for time in (days_ago(30), NOW))

    assert scores(then) == {"a": pytest.approx(0.5 / 61)}
    assert scores(now) == {"a": pytest.approx(0.25 / 61)}


# --- Floors ----------------------------------------------------------------------------------------------------------


def test_a_memory_less_similar_than_the_semantic_floor_is_not_found_by_meaning():
    retrievers = [retriever("semantic", ("near", 0.5), ("at the floor", 0.3), ("far", 0.29))]

    assert ids(rank(retrievers, plain(min_cosine=0.3), limit=5, now=NOW)) == ["near", "at the floor"]


def test_a_pool_in_which_nothing_is_similar_gives_an_empty_answer_although_min_max_would_flatter_it():
    retrievers = [retriever("semantic", ("best of a bad lot", 0.12), ("worse", 0.05))]
    tuning = plain(fusion="relative", semantic_scaling="min-max")

    assert scores(rank(retrievers, tuning, limit=5, now=NOW))["best of a bad lot"] == 1.0
    assert rank(retrievers, tuning.with_parameters(min_cosine=0.2), limit=5, now=NOW).hits == ()


def test_the_semantic_floor_holds_for_the_semantic_retriever_alone():
    retrievers = [retriever("semantic", ("a", 0.9)), retriever("keyword", ("k", 0.1))]

    assert ids(rank(retrievers, plain(min_cosine=0.5), limit=5, now=NOW)) == ["k", "a"]


def test_a_memory_under_the_semantic_floor_can_still_come_in_by_its_words():
    retrievers = [retriever("semantic", ("a", 0.9), ("both", 0.2)), retriever("keyword", ("both", 7.0))]

    ranking = rank(retrievers, plain(min_cosine=0.5), limit=5, now=NOW)

    assert scores(ranking)["both"] == pytest.approx(1 / 61)


def test_a_semantic_floor_of_minus_1_lets_every_memory_in():
    retrievers = [retriever("semantic", ("a", 0.9), ("opposite", -1.0))]

    assert ids(rank(retrievers, plain(min_cosine=-1), limit=5, now=NOW)) == ["a", "opposite"]


def test_the_default_semantic_floor_keeps_out_what_points_the_other_way():
    retrievers = [retriever("semantic", ("a", 0.9), ("unrelated", 0.0), ("opposite", -0.1))]

    assert ids(rank(retrievers, Tuning(), limit=5, now=NOW)) == ["a", "unrelated"]


def test_of_two_memories_alike_in_words_the_less_similar_never_wins_by_the_semantic_floor():
    # "returned" is below the floor of the semantic retriever; "fetched" was not in its pool and is less similar.
    semantic = retriever(
        "semantic", ("top", 0.9), ("returned", 0.25), depth_scores=(0.9, 0.25, 0.1), elsewhere={"fetched": 0.2}
    )
    keyword = retriever("keyword", ("fetched", 5.0), ("returned", 5.0))

    ranking = rank([semantic, keyword], plain(fusion="full", min_cosine=0.3), limit=5, now=NOW)

    assert scores(ranking)["returned"] >= scores(ranking)["fetched"]


def test_a_hit_under_the_score_floor_is_dropped_and_says_so():
    ranking = rank([retriever("semantic", "a", "b")], plain(rrf_k=4, min_score=0.18), limit=5, now=NOW)

    assert ids(ranking) == ["a"]  # 1/5, and 1/6 is less than 0.18
    assert [(hit.id, hit.why[-1].step, hit.why[-1].note) for hit in ranking.dropped] == [
        ("b", "floor", "scores below 0.18")
    ]


def test_a_hit_that_just_reaches_the_score_floor_stays():
    ranking = rank([retriever("semantic", "a", "b")], plain(rrf_k=4, min_score=0.2), limit=5, now=NOW)

    assert ids(ranking) == ["a"]
    assert ranking.hits[0].score == 0.2


def test_the_score_floor_is_held_against_the_score_after_the_boosts():
    retrievers = [retriever("semantic", memory("a", created=days_ago(30)))]

    assert rank(retrievers, plain(decay=True, min_score=0.01), limit=5, now=NOW).hits == ()  # 0.5/61 = 0.0082


def test_a_score_floor_that_nobody_reaches_gives_an_empty_answer():
    assert rank([retriever("semantic", "a", "b")], plain(min_score=5), limit=5, now=NOW).hits == ()


def test_a_score_floor_of_0_is_off_even_for_scores_below_zero():
    retrievers = [retriever("semantic", ("a", 0.9), ("b", 0.5), ("c", 0.1))]
    tuning = plain(fusion="relative", semantic_scaling="z-score", min_score=0)

    assert scores(rank(retrievers, tuning, limit=5, now=NOW))["c"] < 0


def test_no_hit_shows_less_than_the_score_floor_after_diversity_either():
    retrievers = [retriever("semantic", ("a", 0.9), ("twin", 0.8), ("other", 0.7))]
    vectors = {"a": unit(1, 0), "twin": unit(1, 0), "other": unit(0, 1)}

    ranking = rank(
        retrievers, plain(fusion="weighted", diversity=0.5, min_score=0.6), limit=5, now=NOW, vectors=vectors
    )

    assert min(scores(ranking).values()) >= 0.6  # the twin's 0.8 - 0.5 × 1 × 0.9 = 0.35 is below


# --- Duplicates and diversity ----------------------------------------------------------------------------------------


def test_a_repetition_is_left_out_and_its_place_is_filled():
    retrievers = [retriever("semantic", memory("a", "Likes tea"), memory("b", "likes tea!"), "c", "d")]

    ranking = rank(retrievers, plain(dedup=True), limit=2, now=NOW)

    assert ids(ranking) == ["a", "c"]
    assert [(hit.id, hit.rank, hit.why[-1].step) for hit in ranking.dropped] == [
        ("d", 3, "semantic"),
        ("b", 0, "duplicate"),
    ]


def test_the_repetition_that_stays_is_the_one_that_ranks_higher_in_the_end():
    retrievers = [
        retriever("semantic", memory("mail", "tea", source="mail/1"), memory("note", "tea", source="notes/1"))
    ]

    ranking = rank(retrievers, plain(dedup=True, source_weights={"notes/*": 2.0}), limit=5, now=NOW)

    assert ids(ranking) == ["note"]


def test_without_dedup_repetitions_stay():
    retrievers = [retriever("semantic", memory("a", "tea"), memory("b", "tea"))]

    assert ids(rank(retrievers, plain(dedup=False), limit=5, now=NOW)) == ["a", "b"]


def test_dedup_is_on_by_default():
    assert ids(rank([retriever("semantic", memory("a", "tea"), memory("b", "tea"))], Tuning(), limit=5, now=NOW)) == [
        "a"
    ]


def test_diversity_uses_the_vectors_given():
    retrievers = [retriever("semantic", "a", "twin", "different")]
    vectors = {"a": unit(1, 0), "twin": unit(1, 0), "different": unit(0, 1)}

    plainly, diversely = (
        rank(retrievers, plain(diversity=diversity), limit=2, now=NOW, vectors=vectors) for diversity in (0.0, 0.5)
    )

    assert ids(plainly) == ["a", "twin"]
    assert ids(diversely) == ["a", "different"]
    assert ids(diversely.dropped) == ["twin"]


def test_the_reasons_of_a_dropped_hit_are_made_when_they_are_read_and_equal_plain_ones():
    ranking = rank([retriever("semantic", ("a", 0.9), ("b", 0.5))], Tuning(quality="multiply"), limit=1, now=NOW)
    [late] = ranking.dropped

    made = pickle.loads(pickle.dumps(late.why))

    assert isinstance(made, tuple)
    assert late == late._replace(why=made)
    assert (hash(late.why), repr(late.why), len(late.why)) == (hash(made), repr(made), len(made))
    assert late.why[1:] == made[1:]
    assert late.why != made[1:]
    assert [reason.step for reason in late.why] == ["semantic", "quality"]
    assert sum(reason.change for reason in late.why) == pytest.approx(late.score)
