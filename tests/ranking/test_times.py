"""Memories that happened when the query asks about gain the share of the time retriever."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.models import Period
from retentive.ranking import pick, rank
from retentive.ranking.fusion import fuse
from retentive.ranking.lists import Ranking, closeness
from tests.ranking.build import FUSIONS, NOW, days_ago, hit, ids, memory, plain, retriever, scores

# From ten to eight days ago, give or take two.
PERIOD = Period(days_ago(10), days_ago(8), "nine days ago", timedelta(days=2))


def test_within_the_period_closeness_is_1_and_outside_it_falls_as_a_bell_does():
    near = [closeness(days_ago(age), PERIOD) for age in (10, 9, 8, 6, 12, 14)]

    assert near == pytest.approx([1, 1, 1, math.exp(-1 / 2), math.exp(-1 / 2), math.exp(-4 / 2)])


def test_a_period_without_blur_ends_sharply():
    sharp = PERIOD._replace(blur=timedelta(0))

    assert (closeness(days_ago(8), sharp), closeness(days_ago(7.99), sharp)) == (1.0, 0.0)


ages = st.floats(-1e4, 1e5)


@given(ages, ages)
def test_the_nearer_the_closer(one, other):
    near, far = sorted((one, other), key=lambda age: max(8 - age, age - 10, 0))

    assert 0 <= closeness(days_ago(far), PERIOD) <= closeness(days_ago(near), PERIOD) <= 1


def timed(*found, weight: float = 1.0, **fields):
    return retriever("time", *found, weight=weight, note="in the period “{0}”", **fields)


def test_the_share_is_the_closeness_times_the_weight_beside_the_others():
    keyword = retriever("keyword", ("a", 4.0), ("b", 2.0), weight=1.4)
    near = timed(("b", 1.0), ("c", 1.0), weight=0.7, elsewhere={"a": 0.5})

    fused = fuse([keyword, near], plain(fusion="relative", keyword_scaling="max", min_lead=0))

    assert scores(fused) == pytest.approx({"a": 1.0 + 0.25, "b": 0.5 + 0.5, "c": 0.5})
    [reason] = [one for one in fused[-1].why if one.step == "time"]
    assert reason.note == "0.500 × 1.000 in the period “{0}”"


@pytest.mark.parametrize("fusion", FUSIONS)
def test_no_score_falls_and_the_others_keep_their_shares(fusion):
    keyword, semantic = retriever("keyword", "a", "b"), retriever("semantic", "b", "d")
    tuning = plain(fusion=fusion)

    without, found = (fuse(lists, tuning) for lists in ([keyword, semantic], [keyword, semantic, timed("d", "e")]))

    shares = {one.id: sum(reason.change for reason in one.why if reason.step != "time") for one in found}
    assert {id: shares[id] for id in "abd"} == pytest.approx(scores(without))
    assert all(scores(found)[id] >= scores(without)[id] for id in "abd")


def test_of_two_memories_of_that_time_the_more_relevant_stays_ahead():
    better, worse = memory("better", created=days_ago(8.5)), memory("worse", created=days_ago(9))

    ranking = rank(
        [retriever("keyword", better, worse), timed((worse, 1.0), (better, 1.0))], plain(), limit=10, now=NOW
    )

    assert ids(ranking) == ["better", "worse"]


def listed(limit: int, **fields):
    hits = [hit(memory(str(age), created=days_ago(age)), 1 / age) for age in (1, 8.2, 8.8, 9.4, 9.9, 7)]
    period = PERIOD._replace(alone=True, **fields)
    return ids(pick(Ranking(tuple(hits)), plain(), limit=limit, period=period))


def test_if_the_query_has_nothing_else_the_period_is_listed_in_order_before_all_others():
    assert listed(0) == ["9.9", "9.4", "8.8", "8.2", "1", "7"]
    assert listed(2) == ["9.9", "8.8"], "evenly chosen"


def test_without_a_memory_in_the_period_those_within_its_blur_are_listed():
    assert listed(0, start=days_ago(7.9), end=days_ago(7.5)) == ["9.9", "9.4", "8.8", "8.2", "7", "1"]
    assert listed(1, start=days_ago(99), end=days_ago(98)) == ["1"]
