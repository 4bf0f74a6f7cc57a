"""What a cross-encoder says, mixed into the scores: the arithmetic by hand, and laws."""

from __future__ import annotations

from itertools import pairwise
from math import exp, inf, isfinite, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.ranking import pick, rerank
from retentive.ranking.lists import Ranking
from tests.ranking.build import hit, ids, plain, scores

LOGITS = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(allow_nan=True, allow_infinity=True))
HITS = st.lists(st.floats(-5, 5), min_size=1, max_size=8).map(
    lambda values: [hit("abcdefgh"[at], score) for at, score in enumerate(sorted(values, reverse=True))]
)


def test_the_share_of_relevance_is_its_odds_against_the_best_on_the_scale_of_the_scores():
    hits = [hit("a", 0.5), hit("b", 0.4), hit("c", 0.2)]

    after = rerank(hits, {"a": 1.0, "b": 3.0, "c": 2.0}, weight=0.75)

    assert scores(after) == pytest.approx(
        {
            "b": 0.25 * 0.4 + 0.75 * 0.5,
            "c": 0.25 * 0.2 + 0.75 * exp(-1) * 0.5,
            "a": 0.25 * 0.5 + 0.75 * exp(-2) * 0.5,
        }
    )
    assert ids(after) == ["b", "c", "a"]


def test_the_reason_tells_the_logit_the_arithmetic_and_the_change():
    (reason,) = rerank([hit("a", 0.5)], {"a": 4.0}, weight=0.8)[0].why

    assert (reason.step, reason.value, reason.score, reason.change) == ("rerank", 4.0, pytest.approx(0.5), 0)
    assert reason.note == "0.20 × 0.500 + 0.80 × 1.000 × 0.500"


def test_hits_that_were_not_read_stay_below_in_their_order_and_never_score_above():
    hits = [hit("a", 0.9), hit("b", 0.8), hit("c", 0.7), hit("d", 0.6), hit("e", 0.001)]

    after = rerank(hits, {"a": -9.0, "b": 5.0}, weight=1.0)

    assert ids(after) == ["b", "a", "c", "d", "e"]
    lowest = 0.9 * exp(-14)
    assert [one.score for one in after] == pytest.approx([0.9, lowest, lowest, lowest, lowest])
    assert [len(one.why) for one in after] == [1] * 5
    assert after[2].why[0].note == "not reranked"


def test_equal_relevance_leaves_the_order_to_the_scores():
    assert ids(rerank([hit("a", 3), hit("b", 2), hit("c", 1)], dict.fromkeys("abc", -8.0), weight=0.9)) == list("abc")


def test_nothing_known_changes_nothing():
    hits = [hit("a", 2), hit("b", 1)]

    assert rerank(hits, {}, weight=0.8) == hits
    assert rerank([], {"a": 1.0}, weight=0.8) == []


def test_a_score_that_is_no_number_counts_as_irrelevant():
    assert ids(rerank([hit("a", 3), hit("b", 2), hit("c", 1)], {"a": nan, "b": 0.0, "c": inf}, weight=0.8))[0] == "b"


def test_a_hit_that_reranking_put_below_the_floor_is_dropped_with_that_reason():
    ranking = Ranking(tuple(rerank([hit("a", 0.9), hit("b", 0.8)], {"a": -5.0, "b": 5.0}, weight=1.0)))

    picked = pick(ranking, plain(score_floor=0.5), limit=10)

    assert ids(picked) == ["b"]
    assert [(one.id, one.why[-1].step) for one in picked.dropped] == [("a", "floor")]


@given(hits=HITS, logits=LOGITS, weight=st.floats(0, 1))
def test_no_hit_is_lost_scores_fall_and_reasons_add_up(hits, logits, weight):
    after = rerank(hits, logits, weight=weight)

    assert sorted(ids(after)) == sorted(ids(hits))
    assert all(isfinite(one.score) for one in after)
    assert all(higher.score >= lower.score for higher, lower in pairwise(after))
    known = [one.id in logits for one in after]
    assert known == sorted(known, reverse=True)
    before = scores(hits)
    for one in after:
        assert before[one.id] + sum(reason.change for reason in one.why) == pytest.approx(one.score)


@given(hits=HITS, logits=LOGITS)
def test_weight_0_over_all_hits_keeps_order_and_scores(hits, logits):
    after = rerank(hits, {one.id: logits.get(one.id, 0.0) for one in hits}, weight=0)

    assert [(one.id, one.score) for one in after] == [(one.id, one.score) for one in hits]


@given(hits=HITS, logits=LOGITS, shift=st.floats(-5, 5))
def test_only_differences_of_relevance_count(hits, logits, shift):
    known = {id: logit for id, logit in logits.items() if abs(logit) < 20}
    moved = {id: logit + shift for id, logit in known.items()}

    assert scores(rerank(hits, moved, weight=0.8)) == pytest.approx(scores(rerank(hits, known, weight=0.8)), abs=1e-9)
