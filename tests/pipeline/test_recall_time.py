"""Queries that name a time, asked of the real engine. Now is Monday, 1 June 2026."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from retentive.errors import Invalid
from retentive.settings import Settings
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
    assert [reason.note for reason in answer.hits[0].why if reason.step == "time"] == [
        f"0.208 × 1.000 in the period “{words}”"
    ]
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


@pytest.fixture
def diary(engine):
    """An engine with 40 notes of other days about a subject, and three sessions of five notes each."""
    for number in range(40):
        engine.remember(f"We talked about the garden, part {number}", occurred=NOW - timedelta(days=40 + number))
    for session, days in (("first", 20), ("second", 10), ("third", 1)):
        for number in range(5):
            text, occurred = f"{session} {number}", NOW - timedelta(days=days, minutes=-number)
            engine.remember(text, session=session, occurred=occurred)
    return engine


def texts(answer) -> list[str]:
    return [hit.memory.text for hit in answer.hits]


def test_a_query_that_asks_for_nothing_but_a_day_lists_that_day_in_order(diary):
    answer = diary.recall("What did we talk about on 22 May?", limit=6)

    assert texts(answer)[:5] == [f"second {number}" for number in range(5)]
    assert [round(hit.relevance, 2) for hit in answer.hits[:5]] == [0.9] * 5
    assert answer.relevance >= 0.9
    assert answer.hits[0].why[-2].note == "one of 5 in the period “on 22 May”, in order"


def test_a_long_period_is_listed_across_its_sessions(diary):
    answer = diary.recall("What happened in May?", limit=5)

    assert {hit.memory.session for hit in answer.hits} == {"first", "second", "third"}
    assert [hit.memory.when for hit in answer.hits] == sorted(hit.memory.when for hit in answer.hits)


@pytest.mark.parametrize(
    ("words", "session"),
    [
        ("in our first conversation", "first"),
        ("two sessions ago", "second"),
        ("in our last conversation", "third"),
        ("the last time we talked", "third"),
        ("in session 2", "second"),
    ],
)
def test_sessions_are_counted_in_the_scope(diary, words, session):
    answer = diary.recall(f"What did we discuss {words}?", limit=5)

    assert texts(answer) == [f"{session} {number}" for number in range(5)]


def test_there_is_no_session_beyond_the_first(diary):
    answer = diary.recall("What did we discuss nine sessions ago?")

    assert "time" not in {reason.step for hit in answer.hits for reason in hit.why}


def test_a_memory_of_the_day_is_found_though_a_hundred_others_have_the_words(engine):
    for number in range(100):
        engine.remember(f"Ana told me about the garden and its roses, {number}", occurred=NOW - timedelta(days=90))
    engine.remember("The roof leaks", occurred=NOW - timedelta(days=10))

    answer = engine.recall("What did Ana tell me about the garden on 22 May?", tuning={"time_weight": 5})

    assert texts(answer)[0] == "The roof leaks"


def test_the_period_is_searched_in_the_scope_and_within_the_conditions(engine):
    day = NOW - timedelta(days=10)
    for name in ("a", "b"):
        engine.remember(f"note of {name}", project=name, occurred=day, metadata={"kept": name})
    excluded = engine.remember("another note of a", project="a", occurred=day, metadata={"kept": "a"})

    answer = engine.recall("what did I do on 22 May?", project="a", exclude=[excluded.id])

    assert texts(answer) == ["note of a"]
    assert texts(engine.recall("what did I do on 22 May?", metadata={"kept": "b"})) == ["note of b"]


def test_a_period_without_memories_hides_nothing(diary):
    assert len(diary.recall("What did we talk about on 3 January 2020?").hits) == 10


def test_what_is_of_another_year_is_not_listed_for_last_year(engine):
    engine.remember("said in March", occurred=NOW.replace(month=3, day=2))

    answer = engine.recall("what did we do last year?", now=NOW, tuning={"judge": "off"})

    assert answer.period.since.year == NOW.year - 1
    assert all(hit.relevance < 0.9 for hit in answer.hits)


def test_a_day_is_widened_by_its_blur_if_it_has_no_memory(engine):
    engine.remember("said at noon", occurred=NOW.replace(hour=13, minute=30))
    engine.remember("said long ago", occurred=NOW - timedelta(days=99))

    answer = engine.recall("what did we talk about this morning?", now=NOW.replace(hour=15))

    assert texts(answer)[0] == "said at noon"
    assert answer.hits[0].relevance == 0.9


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [
        ("yesterday", None, {"third"}),
        ("in May", "two weeks ago", {"first"}),
        ("2026-05", "2026-05", {"first", "second", "third"}),
        ("2026", "last week", {"first", "second", "third"}),
        (None, "2025", set()),
    ],
)
def test_since_and_until_take_phrases_and_until_includes_the_whole_period(diary, since, until, found):
    answer = diary.recall("first second third", since=since, until=until, limit=0)

    assert {hit.memory.session for hit in answer.hits if hit.memory.session} == found


def test_a_phrase_that_is_no_past_time_is_refused_with_an_example(engine):
    with pytest.raises(Invalid, match=r"2026-05-08.* or as 'last spring', 2025 or 2025-10"):
        engine.recall("tea", since="next spring")


@pytest.mark.parametrize(("numeric_dates", "month"), [("day-first", 8), ("month-first", 5)])
def test_a_setting_says_which_number_of_a_date_is_the_month(engine, numeric_dates, month):
    engine.settings = Settings(store="", numeric_dates=numeric_dates)
    for day in (datetime(2025, 8, 5, 12, tzinfo=UTC), datetime(2025, 5, 8, 12, tzinfo=UTC)):
        engine.remember(f"tea in month {day.month}", occurred=day)

    asked = engine.recall("what happened on 5/8/2025?")
    filtered = engine.recall("tea", since="5/8/2025", until="5/8/2025")
    listed = engine.list(since="5/8/2025", until="5/8/2025")

    assert [hit.memory.when.month for hit in asked][:1] == [month]
    assert [hit.memory.when.month for hit in filtered] == [month]
    assert [memory.when.month for memory in listed.memories] == [month]
