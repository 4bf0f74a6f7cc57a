from __future__ import annotations

import numpy as np
import pytest

from tests.ranking.build import hit, ids, in_mmr_order, memory, scores, unit

EAST, NORTH = unit(1, 0), unit(0, 1)
NORTH_EAST = unit(1, 1)


def test_diversity_0_gives_the_hits_back_as_they_are():
    hits = [hit("a", 0.9), hit("b", 0.8)]

    assert in_mmr_order(hits, 0.0, {"a": EAST, "b": EAST}, limit=2) == hits


def test_a_hit_like_a_higher_one_gives_way_to_a_different_one():
    hits = [hit("a", 1.0), hit("twin", 0.9), hit("different", 0.8)]

    chosen = in_mmr_order(hits, 0.5, {"a": EAST, "twin": EAST, "different": NORTH}, limit=3)

    # After a: twin is worth 0.5 × 0.9 - 0.5 × 1, different 0.5 × 0.8 - 0.5 × 0.
    assert 0.5 * 0.9 - 0.5 * 1 < 0.5 * 0.8
    assert ids(chosen) == ["a", "different", "twin"]


def test_the_best_hit_always_comes_first():
    hits = [hit("a", 1.0), hit("b", 0.2)]

    assert ids(in_mmr_order(hits, 1.0, {"a": EAST, "b": NORTH}, limit=2))[0] == "a"


def test_likeness_is_that_to_the_nearest_hit_already_chosen():
    hits = [hit("east", 1.0), hit("north", 0.9), hit("like north", 0.8), hit("between", 0.7)]
    vectors = {"east": EAST, "north": NORTH, "like north": NORTH, "between": NORTH_EAST}

    chosen = in_mmr_order(hits, 0.5, vectors, limit=4)

    assert ids(chosen) == ["east", "north", "between", "like north"]
    assert [h.why[-1].value for h in chosen] == pytest.approx([0.0, 0.0, 2**-0.5, 1.0], abs=1e-6)


def test_relevance_is_divided_by_the_best_so_that_the_trade_is_the_same_on_any_scale():
    vectors = {"a": EAST, "twin": EAST, "different": NORTH}

    def order(scale: float) -> list[str]:
        hits = [hit("a", 1.0 * scale), hit("twin", 0.9 * scale), hit("different", 0.1 * scale)]
        return ids(in_mmr_order(hits, 0.3, vectors, limit=3))

    # 0.7 × 0.9 - 0.3 × 1 = 0.33 against 0.7 × 0.1 = 0.07: the twin stays, in RRF's range as well.
    assert order(1.0) == order(1 / 61) == order(40.0) == ["a", "twin", "different"]


def test_without_vectors_likeness_is_the_overlap_of_words():
    hits = [
        hit(memory("a", "Ann drinks green tea"), 1.0),
        hit(memory("b", "ann drinks black tea!"), 0.9),
        hit(memory("c", "Bob owns a dog"), 0.8),
    ]

    chosen = in_mmr_order(hits, 0.5, {}, limit=3)

    assert ids(chosen) == ["a", "c", "b"]
    assert chosen[2].why[-1].value == pytest.approx(3 / 5)  # ann, drinks, tea of ann, drinks, green, black, tea


def test_a_vector_on_one_side_only_falls_back_to_words():
    hits = [hit(memory("a", "green tea"), 1.0), hit(memory("b", "green tea"), 0.9)]

    assert in_mmr_order(hits, 0.5, {"a": EAST}, limit=2)[1].why[-1].value == pytest.approx(1.0)


def test_opposite_memories_are_not_rewarded_for_it():
    hits = [hit("a", 1.0), hit("opposite", 0.5)]

    chosen = in_mmr_order(hits, 0.5, {"a": EAST, "opposite": -EAST}, limit=2)

    assert scores(chosen) == {"a": 1.0, "opposite": 0.5}
    assert chosen[1].why[-1].value == 0.0


def test_similarity_lowers_the_score_with_a_reason():
    hits = [hit("a", 0.8), hit("twin", 0.6)]

    chosen = in_mmr_order(hits, 0.25, {"a": EAST, "twin": EAST}, limit=2)

    reason = chosen[1].why[-1]
    assert chosen[1].score == pytest.approx(0.6 - 0.25 * 1 * 0.8)
    assert (reason.step, reason.note) == ("diversity", "similarity 1.00 to a higher hit")
    assert reason.change == pytest.approx(-0.25 * 0.8)


def test_scores_never_rise_down_the_list_although_later_picks_may_be_worth_more():
    hits = [hit("a", 1.0), hit("twin", 0.99), hit("b", 0.2), hit("c", 0.15)]
    vectors = {"a": unit(1, 0, 0), "twin": unit(1, 0, 0), "b": unit(0, 1, 0), "c": unit(0, 0, 1)}

    chosen = in_mmr_order(hits, 0.6, vectors, limit=4)

    shown = [h.score for h in chosen]
    assert ids(chosen) == ["a", "b", "c", "twin"]
    assert 0.99 - 0.6 * 1 > 0.15  # what the twin would have shown, below 0.15
    assert shown == pytest.approx([1.0, 0.2, 0.15, 0.15])


def test_only_as_many_as_the_limit_are_chosen_and_the_rest_follow_unchanged():
    hits = [hit("a", 1.0), hit("twin", 0.9), hit("b", 0.8), hit("c", 0.7)]

    chosen = in_mmr_order(hits, 0.5, {"a": EAST, "twin": EAST, "b": NORTH, "c": NORTH}, limit=2)

    assert ids(chosen) == ["a", "b", "twin", "c"]
    assert chosen[2:] == [hits[1], hits[3]]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_0_or_less_chooses_among_all(limit: int):
    hits = [hit("a", 1.0), hit("twin", 0.9), hit("b", 0.8)]

    chosen = in_mmr_order(hits, 0.5, {"a": EAST, "twin": EAST, "b": NORTH}, limit=limit)

    assert ids(chosen) == ["a", "b", "twin"]
    assert all(h.why[-1].step == "diversity" for h in chosen)


@pytest.mark.parametrize("top", [0.0, -0.5])
def test_hits_without_relevance_keep_their_order_where_nothing_is_alike(top: float):
    hits = [hit("a", top), hit("b", top - 1), hit("c", top - 2)]
    vectors = {name: np.eye(3, dtype=np.float32)[at] for at, name in enumerate("abc")}

    assert ids(in_mmr_order(hits, 0.5, vectors, limit=3)) == ["a", "b", "c"]


def test_one_hit_and_none_come_back_as_they_are():
    assert in_mmr_order([], 0.5, {}, limit=3) == []
    assert in_mmr_order([hit("a", 0.4)], 0.5, {}, limit=3) == [hit("a", 0.4)]
