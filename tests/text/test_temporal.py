"""Which time a query is about. Now is always Thursday, 15 June 2023, half past two."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentive.text import temporal
from retentive.text.temporal import MAX_LENGTH, period

NOW = datetime(2023, 6, 15, 14, 30, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def days(found) -> tuple[str, str]:
    """The first day of a period, and the first one behind it."""
    return f"{found.start:%Y-%m-%d}", f"{found.end:%Y-%m-%d}"


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        # Days
        ("What did I do on 8 May?", "2023-05-08", "2023-05-09"),
        ("What did I do on the 8th of May?", "2023-05-08", "2023-05-09"),
        ("What did I do on May 8th, 2021?", "2021-05-08", "2021-05-09"),
        ("what happened on may 8", "2023-05-08", "2023-05-09"),
        ("the call of 12 may", "2023-05-12", "2023-05-13"),
        ("The call on 12 May was long", "2023-05-12", "2023-05-13"),
        ("Who won on March 12?", "2023-03-12", "2023-03-13"),
        ("What did she find on 1 February, 2023?", "2023-02-01", "2023-02-02"),
        ("the party on 24 December", "2022-12-24", "2022-12-25"),
        ("the leap day, 29 February", "2020-02-29", "2020-03-01"),
        ("what was said on 2023-05-08?", "2023-05-08", "2023-05-09"),
        ("Where was I between August 11 and August 15 2022?", "2022-08-11", "2022-08-16"),
        ("yesterday's call", "2023-06-14", "2023-06-15"),
        ("What did we eat last night?", "2023-06-14", "2023-06-15"),
        ("who called the day before yesterday?", "2023-06-13", "2023-06-14"),
        ("what did I decide this morning?", "2023-06-15", "2023-06-15"),
        ("10 days ago", "2023-06-05", "2023-06-06"),
        ("one day ago", "2023-06-14", "2023-06-15"),
        ("what did I do last Saturday?", "2023-06-10", "2023-06-11"),
        ("whom did I meet last Thursday?", "2023-06-08", "2023-06-09"),
        ("when did I reach the clinic on Monday?", "2023-06-12", "2023-06-13"),
        ("what happened this Monday?", "2023-06-12", "2023-06-13"),
        ("What did we cook last weekend?", "2023-06-10", "2023-06-12"),
        # Weeks
        ("What did I say three weeks ago?", "2023-05-22", "2023-05-29"),
        ("a week ago", "2023-06-05", "2023-06-12"),
        ("a couple of weeks ago", "2023-05-25", "2023-06-08"),
        ("last week", "2023-06-05", "2023-06-12"),
        ("this week", "2023-06-12", "2023-06-15"),
        ("in the last two weeks", "2023-06-01", "2023-06-15"),
        ("over the past week", "2023-06-08", "2023-06-15"),
        ("the other day you said", "2023-06-10", "2023-06-15"),
        # Months and seasons
        ("What did Ann buy in May 2023?", "2023-05-01", "2023-06-01"),
        ("in may", "2023-05-01", "2023-06-01"),
        ("What happened in March?", "2023-03-01", "2023-04-01"),
        ("Which events were there in August", "2022-08-01", "2022-09-01"),
        ("last May", "2023-05-01", "2023-06-01"),
        ("last June", "2022-06-01", "2022-07-01"),
        ("this June", "2023-06-01", "2023-07-01"),
        ("the end of April", "2023-04-01", "2023-05-01"),
        ("December of 2021", "2021-12-01", "2022-01-01"),
        ("from July to October", "2022-07-01", "2022-11-01"),
        ("between March and May", "2023-03-01", "2023-06-01"),
        ("two months ago", "2023-04-01", "2023-05-01"),
        ("last month", "2023-05-01", "2023-06-01"),
        ("the past three months", "2023-03-16", "2023-06-15"),
        ("in spring 2023", "2023-03-01", "2023-06-01"),
        ("during the spring of 2021", "2021-03-01", "2021-06-01"),
        ("last summer", "2022-06-01", "2022-09-01"),
        ("this summer", "2023-06-01", "2023-09-01"),
        ("in the fall", "2022-09-01", "2022-12-01"),
        ("in winter 2023", "2022-12-01", "2023-03-01"),
        # Years
        ("last year", "2022-01-01", "2023-01-01"),
        ("this year", "2023-01-01", "2023-06-15"),
        ("in 2021", "2021-01-01", "2022-01-01"),
        ("a year ago", "2022-03-16", "2022-09-14"),
        # Bounds
        ("since 3 April", "2023-04-03", "2023-06-15"),
        ("since March", "2023-03-01", "2023-06-15"),
        ("the week before May 8, 2023", "2023-05-01", "2023-05-09"),
        ("right after 8 May", "2023-05-08", "2023-05-16"),
    ],
)
def test_an_expression_means_this_stretch_of_time(query, start, end):
    found = period(query, now=NOW)

    assert found is not None
    assert days(found) == (start, end)


@pytest.mark.parametrize(
    "query",
    [
        "may I ask who sat in the sun?",
        "I may go",
        "May I?",
        "MAY I ASK",
        "This may be the last time",
        "this may take three weeks",
        "the state we were in may have changed",
        "the 12 may come late",
        "May 12 people come?",
        "a may bush",
        "May said so",
        "What is in May's bag?",
        "What did April and June cook?",
        "march on",
        "they march 12 miles",
        "March 12 miles and rest",
        "the second time",
        "sat down",
        "on sun and moon",
        "Which Monday meeting is it?",
        "what do I do on Mondays?",
        "every Sunday",
        "in 30 days",
        "three weeks from now",
        "next Saturday",
        "next December",
        "this weekend",
        "in 2030",
        "on 1 August 2023",
        "tomorrow",
        "the last time",
        "the last one",
        "the last day at school",
        "the last week of school",
        "How many weeks ago did I call?",
        "years ago",
        "long ago",
        "1.5 years ago",
        "the last 0 years",
        "0 days ago",
        "in today's world",
        "before 2020",
        "I fall in love in springs",
        "the Spring Fling",
        "in the Spring Fling Market",
        "the 5k run took 2000 steps",
        "on 31 June",
        "1/2000 in the UK",
        "port 2023 and error 1999",
        "",
    ],
)
def test_what_only_looks_like_a_time_or_lies_ahead_is_none(query):
    assert period(query, now=NOW) is None


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("What did I do in 2022, on 3 May 2022?", "2022-05-03", "2022-05-04"),
        ("What did she finish last Friday on 23 January, 2022?", "2022-01-23", "2022-01-24"),
        ("last year in August, on the 8th of August", "2022-08-08", "2022-08-09"),
        ("In August, that is last year", "2022-08-01", "2022-09-01"),
    ],
)
def test_of_several_the_most_specific_counts(query, start, end):
    assert days(period(query, now=NOW)) == (start, end)


def test_hours_are_known_too():
    found = period("What did I say two hours ago?", now=NOW)

    assert (found.start, found.end) == (at("2023-06-15T12:00"), at("2023-06-15T13:00"))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("What did Ann buy in May 2023?", "in May 2023"),
        ("And  three\nweeks ago?", "three weeks ago"),
        ("Where were we last summer?", "last summer"),
        ("in January and March", "in January … March"),
    ],
)
def test_a_period_tells_the_words_it_was_read_from(query, text):
    assert period(query, now=NOW).text == text


def test_the_longer_ago_and_the_longer_the_vaguer():
    yesterday, weeks, months, date = (
        period(text, now=NOW).blur / timedelta(days=1)
        for text in ("yesterday", "three weeks ago", "three months ago", "on 8 May 2019")
    )

    assert yesterday == pytest.approx(0.5 * 1 + 0.1 * 14.5 / 24)
    assert weeks == pytest.approx(0.5 * 7 + 0.1 * 17.5)
    assert months == pytest.approx(0.5 * 30.44 + 0.1 * (75 + 14.5 / 24))
    assert date == 0.5, "a date is a date however long ago it was"


def test_days_begin_at_midnight_where_the_query_is_asked():
    tokyo = datetime.fromisoformat("2023-06-15T08:00:00+09:00")

    assert period("yesterday", now=tokyo).start.isoformat() == "2023-06-14T00:00:00+09:00"


@settings(max_examples=300)
@given(st.text(), st.datetimes())
def test_no_text_and_no_time_is_an_error(text, now):
    period(text, now=now)


EXPRESSIONS = "may march 31 29 february 2023 9999 years ago in the last past few on monday this since before , ſ 0 and"


@settings(max_examples=500)
@given(st.lists(st.sampled_from(EXPRESSIONS.split()), max_size=8), st.datetimes())
def test_no_mixture_of_such_words_is_an_error_and_every_period_has_begun(words, now):
    found = period(" ".join(words), now=now)

    assert found is None or (found.start <= now and found.start < found.end and found.blur > timedelta(0))


@pytest.mark.parametrize("text", ["x" * 10**6, "in may " * 150_000, "12 " * 350_000, "last 9 " * 150_000, " " * 10**6])
def test_a_long_query_is_read_only_at_its_head(text):
    found = period(f"{text} on 3 May 2021", now=NOW)

    assert found == period(text[:MAX_LENGTH], now=NOW)
    assert found is None or found.start.year == 2023


def test_the_last_words_that_are_read_end_at_the_limit():
    date = "on 3 May 2021"
    filler = "x" * (MAX_LENGTH - len(date) - 1)

    assert days(period(f"{filler} {date}", now=NOW)) == ("2021-05-03", "2021-05-04")
    assert period(f"x{filler} {date}", now=NOW) != period(f"{filler} {date}", now=NOW)


def test_a_query_without_a_word_of_time_is_compared_with_no_pattern(monkeypatch):
    monkeypatch.setattr(temporal, "_read", lambda *_: pytest.fail("the patterns were tried"))

    query = "What kind of professional experience did Gina get accepted for at the studio in town?"
    assert period(query, now=NOW) is None
