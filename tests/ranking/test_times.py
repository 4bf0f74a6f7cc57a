"""Memories that happened when the query asks about are lifted, softly."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.models import Period
from retentive.ranking import rank
from retentive.ranking.rank import by_time, closeness
from retentive.ranking.tuning import Tuning
from tests.ranking.build import NOW, applied, days_ago, hit, ids, memory, plain, retriever, scores

# From ten to eight days ago, give or take two.
PERIOD = Period(days_ago(10), days_ago(8), "nine days ago", timedelta(days=2))


def dated(id: str, age: float, score: float = 0.5):
    return hit(memory(id, occurred=days_ago(age)), score)


def test_a_memory_of_that_time_gains_the_whole_weight():
    hits = [dated("first", 10), dated("middle", 9), dated("last", 8)]

    assert scores(applied(by_time, hits, PERIOD, Tuning(time_weight=0.6))) == pytest.approx(
        {"first": 0.5 * 1.6, "middle": 0.5 * 1.6, "last": 0.5 * 1.6}
    )


def test_outside_the_gain_falls_as_a_bell_does_to_either_side():
    hits = [dated("one blur later", 6), dated("one blur earlier", 12), dated("two earlier", 14)]

    assert scores(applied(by_time, hits, PERIOD, Tuning(time_weight=0.6))) == pytest.approx(
        {
            "one blur later": 0.5 * (1 + 0.6 * math.exp(-1 / 2)),
            "one blur earlier": 0.5 * (1 + 0.6 * math.exp(-1 / 2)),
            "two earlier": 0.5 * (1 + 0.6 * math.exp(-4 / 2)),
        }
    )


def test_far_from_it_nothing_changes_and_nothing_is_told():
    hits = [dated("now", 0), dated("long ago", 3000)]

    assert applied(by_time, hits, PERIOD, Tuning(time_weight=1)) == hits


def test_what_happened_is_dated_by_when_it_happened_and_else_by_when_it_was_stored():
    told_late = hit(memory("told late", created=NOW, occurred=days_ago(9)), 0.5)
    stored = hit(memory("stored", created=days_ago(9)), 0.5)
    older = hit(memory("older", created=days_ago(9), occurred=days_ago(90)), 0.5)

    lifted = scores(applied(by_time, [told_late, stored, older], PERIOD, Tuning(time_weight=1)))

    assert lifted == {"told late": 1.0, "stored": 1.0, "older": 0.5}


def test_the_lift_is_told_in_the_words_of_the_query():
    [lifted] = applied(by_time, [dated("a", 9)], PERIOD, Tuning(time_weight=0.6))

    [reason] = lifted.why
    assert (reason.step, reason.note, reason.value) == ("time", "× 1.600 for “nine days ago”", 1.0)
    assert reason.change == pytest.approx(0.3)


def test_words_with_braces_do_not_break_the_note():
    [lifted] = applied(by_time, [dated("a", 9)], PERIOD._replace(text="{0} {oops}"), Tuning(time_weight=1))

    assert lifted.why[0].note == "× 2.000 for “{0} {oops}”"


def test_a_period_without_blur_ends_sharply():
    sharp = PERIOD._replace(blur=timedelta(0))

    assert (closeness(days_ago(8), sharp), closeness(days_ago(7.99), sharp)) == (1.0, 0.0)


def test_a_memory_below_zero_is_lifted_too():
    assert scores(applied(by_time, [dated("a", 9, -0.5)], PERIOD, Tuning(time_weight=1))) == {"a": -0.25}


ages, values = st.floats(-1e4, 1e5), st.floats(-10, 10)


@given(st.lists(st.tuples(ages, values), max_size=8), st.floats(0, 5))
def test_no_score_falls_and_nothing_is_lost(pairs, weight):
    hits = [dated(str(at), age, score) for at, (age, score) in enumerate(pairs)]

    lifted = applied(by_time, hits, PERIOD, Tuning(time_weight=weight))

    assert ids(lifted) == ids(hits)
    assert all(new.score >= old.score and math.isfinite(new.score) for new, old in zip(lifted, hits, strict=True))


@given(st.lists(st.tuples(ages, values), max_size=8))
def test_a_weight_of_0_or_no_period_is_identity(pairs):
    hits = [dated(str(at), age, score) for at, (age, score) in enumerate(pairs)]

    assert (
        applied(by_time, hits, PERIOD, Tuning(time_weight=0))
        == applied(by_time, hits, None, Tuning(time_weight=5))
        == hits
    )


@given(ages, ages)
def test_the_nearer_the_closer(one, other):
    near, far = sorted((one, other), key=lambda age: max(8 - age, age - 10, 0))

    assert 0 <= closeness(days_ago(far), PERIOD) <= closeness(days_ago(near), PERIOD) <= 1


def test_ranking_prefers_the_memory_of_that_time_and_keeps_all_others():
    found = retriever(
        "keyword", memory("today"), memory("then", created=days_ago(9)), memory("ever", created=days_ago(900))
    )
    tuning = plain(fusion="weighted", time_weight=1.5)

    assert ids(rank([found], tuning, limit=10, now=NOW)) == ["today", "then", "ever"]
    assert ids(rank([found], tuning, limit=10, now=NOW, period=PERIOD)) == ["then", "today", "ever"]


def test_of_two_memories_of_that_time_the_more_relevant_stays_ahead():
    found = retriever("keyword", memory("better", created=days_ago(8.5)), memory("worse", created=days_ago(9)))

    ranking = rank([found], plain(fusion="weighted", time_weight=5), limit=10, now=NOW, period=PERIOD)

    assert ids(ranking) == ["better", "worse"]
