"""Queries that name a time, asked of the real engine. Now is Monday, 1 June 2026."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conftest import NOW

DINNERS = {"two days ago": 2, "three weeks ago": 21, "in February": 100, "in 2024": 700}
QUERY = "What did we have for dinner?"


@pytest.fixture
def dinners(engine):
    """An engine that remembers one dinner of each time, all alike but for the dish."""
    dishes = ("curry", "soup", "pasta", "stew")
    for days, dish in zip(DINNERS.values(), dishes, strict=True):
        engine.remember(f"For dinner we had {dish}", occurred=NOW - timedelta(days=days))
    return engine


def ages(answer) -> list[int]:
    return [(NOW - hit.memory.when).days for hit in answer.hits]


@pytest.mark.parametrize("words", DINNERS)
def test_the_dinner_of_that_time_comes_first_and_the_others_follow(dinners, words):
    answer = dinners.recall(f"What did we have for dinner {words}?")

    assert ages(answer)[0] == DINNERS[words]
    assert sorted(ages(answer)) == sorted(DINNERS.values()), "a time is a wish and no filter"
    assert [reason.note for reason in answer.hits[0].why if reason.step == "time"] == [f"× 1.500 for “{words}”"]
    assert sum(reason.change for reason in answer.hits[0].why) == pytest.approx(answer.hits[0].score)


def test_what_is_meant_depends_on_when_it_is_asked(dinners):
    asked = NOW - timedelta(days=79)

    assert ages(dinners.recall(f"{QUERY} Three weeks ago?", now=asked))[0] == 100


@pytest.mark.parametrize("query", [QUERY, "What may we have for dinner?", "May I have dinner? March on!"])
def test_a_query_that_names_no_time_is_answered_as_without_the_parameter(dinners, query):
    with_time, without = (dinners.recall(query, tuning={"time_weight": weight}) for weight in (5, 0))

    assert [(hit.id, hit.score, hit.why) for hit in with_time.hits] == [
        (hit.id, hit.score, hit.why) for hit in without.hits
    ]


@pytest.mark.parametrize("tuning", [{"time_weight": 0}, "classic-rrf", "keyword-only"])
def test_time_can_be_switched_off_and_is_off_in_the_plain_presets(dinners, tuning):
    answer = dinners.recall("What did we have for dinner three weeks ago?", tuning=tuning)

    assert len(answer.hits) == 4
    assert "time" not in {reason.step for hit in answer.hits for reason in hit.why}
