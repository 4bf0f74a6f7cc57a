"""Find the period that a query is about: "three weeks ago", "in May 2023", "last Saturday".

English only, by hand-made patterns; docs/decisions.md says why not by a library. A word that is also a verb or a name
(may, march, june) is a month only next to a day, a year or a preposition. A time without a year is the latest one that
has begun, because memories lie in the past. Seasons are those of the northern hemisphere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from retentive.models import Period

DAY = timedelta(days=1)
DAYS = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.44, "year": 365.25}


class Expression(NamedTuple):
    """A time expression in a query, with the word before it and whether "the" is between them."""

    match: re.Match[str]
    lead: str
    the: bool
    now: datetime

    @property
    def before(self) -> str:
        """Some text before it."""
        return self.match.string[max(0, self.match.start() - 40) : self.match.start()]

    @property
    def after(self) -> str:
        """Some text after it."""
        return self.match.string[self.match.end() : self.match.end() + 24]


class Interval(NamedTuple):
    """The time that an expression means. `grain` is its nominal length in days, `ago` whether it counts from now."""

    start: datetime
    end: datetime
    grain: float
    ago: bool = False


Reader = tuple[re.Pattern[str], Callable[[Expression], Interval | None]]
"""A pattern, and a function that returns the interval of a match, or None if it is no time expression."""


def pattern(text: str) -> re.Pattern[str]:
    """A case-insensitive pattern. ASCII only: otherwise ſ would match s."""
    return re.compile(text, re.IGNORECASE | re.ASCII)


def midnight(at: datetime) -> datetime:
    """The start of the day."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def first_of(now: datetime, year: int, month: int) -> datetime:
    """The first of a month; 13 is January of the next year, 0 is December of the one before."""
    return midnight(now).replace(year=year + (month - 1) // 12, month=(month - 1) % 12 + 1, day=1)


def begin_of(unit: str, at: datetime) -> datetime:
    """The start of the week, month or year."""
    if unit == "week":
        return midnight(at) - at.weekday() * DAY
    return first_of(at, at.year, at.month if unit == "month" else 1)


# Calendar expressions: 8 May, 2023-05-08, in May, last summer, in 2023

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLEAR_MONTHS = {"january", "february", "july", "september", "october", "november", "december"}
"""Names of months that are not also a verb, a first name or an adjective."""
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_SEASON_DAYS = 91.0
_CALENDAR_CUES = frozenset(("march", "april", "june", "august", "sept", *_CLEAR_MONTHS, *_MONTHS, *_SEASONS))

_BOUNDS = {"since", "until", "till", "before", "after", "by"}
_YEAR_LEADS = _BOUNDS | {"in", "during", "early", "late", "year"}
_MONTH_LEADS = _BOUNDS | {"in", "during", "of", "last", "this", "past", "early", "late", "mid"}
_SEASON_LEADS = {"in", "during", "over", "since", "last", "this", "past", "early", "late"}
_DAY_LEADS = _BOUNDS | {"on", "of", "around"}

_MONTH = (
    r"\b(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b"
)
_DAY = r"(?<![\w.,:/$-])(?P<day>\d{1,2})(?P<th>st|nd|rd|th)?(?![\w%:])"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b(?![-/.:]\d|%)"
_VERB_NEXT = pattern(r" (?:be|have|not|also|well|i|you|we|he|she|it|they|go|come|take|need|want|seem|get|make)\b")
_MONTH_NEXT = pattern(rf" (?:to|and|or|through|until) {_MONTH}")
_MONTH_BEFORE = pattern(rf"\b(?:in|from|between|since|during|of|last) {_MONTH} (?:to|and|or|through|until) $")
_TITLED = re.compile(r"[A-Z][a-z]+ [A-Z][a-z]")


def _read_date(expression: Expression) -> Interval | None:
    """8 May, May 8th, 8 May 2023, 2023-05-08."""
    match, now = expression.match, expression.now
    month, day = match["month"], int(match["day"])
    if not month.isdigit() and not _is_date(expression):
        return None
    number = int(month) if month.isdigit() else _month_number(month)
    if match["year"]:
        start = midnight(now).replace(year=int(match["year"]), month=number, day=day)
        return Interval(start, start + DAY, 1.0)
    for year in range(now.year, now.year - 9, -1):  # the 29th of February may be eight years back
        if day == 29 and number == 2 and (year % 4 or year % 400 in (100, 200, 300)):
            continue
        start = midnight(now).replace(year=year, month=number, day=day)
        if start <= now:
            return Interval(start, start + DAY, 1.0)
    return None


def _is_date(expression: Expression) -> bool:
    """Whether a month beside a number is a date: "12 may come" and "March 12 miles" are not."""
    match, name = expression.match, expression.match["month"]
    if name.lower() not in ("may", "march", "mar") or match["year"] or match["th"]:
        return True
    if not name.istitle() and _VERB_NEXT.match(expression.after):
        return False
    opens = match.start("month") == match.start() and (not expression.before or expression.before[-2:-1] in ".?!")
    return expression.lead in _DAY_LEADS or (name.istitle() and not opens) or not re.match(r" \w", expression.after)


def _read_month(expression: Expression) -> Interval | None:
    """In May, last May, May 2023."""
    name, year, now = expression.match["month"], expression.match["year"], expression.now
    if not year and not _is_month(expression):
        return None
    start = first_of(now, int(year) if year else now.year, _month_number(name))
    newest = first_of(now, now.year, now.month - (expression.lead in ("last", "past")))
    if not year and start > newest:
        start = first_of(now, now.year - 1, start.month)
    return Interval(start, first_of(now, start.year, start.month + 1), DAYS["month"])


def _is_month(expression: Expression) -> bool:
    """Whether a month's name without day or year means the month: "this may help" and "May said" do not."""
    name = expression.match["month"]
    if expression.after[:1] in ("'", "’"):
        return False
    if name in ("may", "MAY", "march", "MARCH") and (expression.lead == "this" or _VERB_NEXT.match(expression.after)):
        return False
    if name.lower() in _CLEAR_MONTHS or expression.lead in _MONTH_LEADS or _MONTH_BEFORE.search(expression.before):
        return True
    return expression.lead in ("from", "between") and _MONTH_NEXT.match(expression.after) is not None


def _read_season(expression: Expression) -> Interval | None:
    """Last summer, in the fall, spring of 2023. "The Spring Fling" is no season."""
    match, now, month = expression.match, expression.now, _SEASONS[expression.match["season"].lower()]
    if not match["year"] and (expression.lead not in _SEASON_LEADS or _TITLED.match(match[0] + expression.after)):
        return None
    start = first_of(now, int(match["year"] or now.year), month)
    over = timedelta(days=_SEASON_DAYS if expression.lead == "last" else 0)
    # The winter of a year is the one that begins in it, or before it if that is still to come.
    if (not match["year"] or month == 12) and start + over > now:
        start = first_of(now, start.year - 1, month)
    return Interval(start, first_of(now, start.year, start.month + 3), _SEASON_DAYS)


def _read_year(expression: Expression) -> Interval | None:
    """In 2023."""
    if expression.lead not in _YEAR_LEADS:
        return None
    year = int(expression.match["year"])
    return Interval(first_of(expression.now, year, 1), first_of(expression.now, year + 1, 1), DAYS["year"])


def _month_number(month: str) -> int:
    return _MONTHS.index(month[:3].lower()) + 1


_CALENDAR: tuple[Reader, ...] = (
    (pattern(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)"), _read_date),
    (pattern(rf"{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?"), _read_date),
    (pattern(rf"{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?"), _read_date),
    (pattern(rf"{_MONTH}(?:,? (?:of )?{_YEAR})?"), _read_month),
    (pattern(rf"\b(?P<season>{'|'.join(_SEASONS)})\b(?:,? (?:of )?{_YEAR})?"), _read_season),
    (pattern(rf"\b{_YEAR}"), _read_year),
)


# Expressions relative to now: three weeks ago, last month, the past two years, on Saturday, yesterday

_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_VAGUE = {"couple": 2, "few": 3, "several": 4}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_RELATIVE_CUES = frozenset(
    ("ago", "yesterday", "today", "tonight", "last", "past", "previous", "this", "other", *_WEEKDAYS)
)

_COUNT = rf"(?P<count>(?:a )?(?:couple|few)(?: of)?|several|half an?|an?|{'|'.join(_NUMBERS)}|[1-9]\d{{0,3}})"
_UNIT = r"(?P<unit>minute|hour|day|week|month|year)"


def _read_ago(expression: Expression) -> Interval:
    """Three weeks ago, a couple of months ago: a day exactly, anything longer give or take half of it."""
    unit = DAYS[expression.match["unit"].lower()]
    count, vague = _count(expression.match["count"])
    middle = expression.now - timedelta(days=count * unit)
    if unit == 1 and not vague:
        return Interval(midnight(middle), midnight(middle) + DAY, unit, ago=True)
    # "A year ago" is said of a quarter to either side rather than of a half.
    about = timedelta(days=unit * (count / 2 if vague else 0.25 if unit > 300 else 0.5))
    return Interval(middle - about, middle + about, unit, ago=True)


def _read_last(expression: Expression) -> Interval | None:
    """Last week, month or year by the calendar; the last two weeks, or the past month, up to now."""
    match, now, unit = expression.match, expression.now, expression.match["unit"].lower()
    past, long = match["which"].lower() == "past", unit in ("week", "month", "year")
    if match["count"] or (not match["many"] and (past or (expression.the and long))):
        count, _ = _count(match["count"] or "a")
        return Interval(now - timedelta(days=count * DAYS[unit]), now, DAYS[unit], ago=True)
    if match["many"] or not long:  # "the last day at school"
        return None
    this = begin_of(unit, now)
    return Interval(begin_of(unit, this - DAY), this, DAYS[unit], ago=True)


def _read_this(expression: Expression) -> Interval:
    """This week, month or year."""
    unit = expression.match["unit"].lower()
    return Interval(begin_of(unit, expression.now), expression.now, DAYS[unit], ago=True)


def _read_weekday(expression: Expression) -> Interval:
    """Last Saturday, on Monday, last weekend: the latest that is over."""
    name, today = expression.match["weekday"].lower(), midnight(expression.now)
    first, days = (5, 2) if name == "weekend" else (_WEEKDAYS.index(name), 1)
    back = (today.weekday() - first - days) % 7 + days
    if expression.match["which"].lower() == "this":  # of this week, and so perhaps still to come
        back = today.weekday() - first
    start = today - back * DAY
    return Interval(start, start + days * DAY, days, ago=True)


def _read_near(expression: Expression) -> Interval:
    """Today, yesterday, the day before it, the other day."""
    words, today = expression.match[0].lower(), midnight(expression.now)
    if words == "the other day":
        return Interval(today - 5 * DAY, today, DAYS["week"], ago=True)
    back = 2 if "before" in words else 1 if words in ("yesterday", "last night") else 0
    start = today - back * DAY
    return Interval(start, start + DAY, 1.0, ago=True)


def _count(words: str) -> tuple[float, bool]:
    """The number, and whether it is a vague one."""
    spelled = words.lower().split()
    for word in spelled:
        if word in _VAGUE:
            return _VAGUE[word], True
    if words.isdigit():
        return int(words), False
    return (0.5 if spelled[0] == "half" else _NUMBERS.index(spelled[0]) + 1 if spelled[0] in _NUMBERS else 1), False


_RELATIVE: tuple[Reader, ...] = (
    (pattern(rf"(?<![\w.,-]){_COUNT} {_UNIT}s?(?: or (?:so|two))? ago\b"), _read_ago),
    # "The last week of school" is no time of its own.
    (pattern(rf"\b(?P<which>last|past|previous) (?:{_COUNT} )?{_UNIT}(?P<many>s?)\b(?! of\b)"), _read_last),
    (pattern(r"\bthis (?P<unit>week|month|year)\b"), _read_this),
    (pattern(rf"\b(?P<which>on|last|past|this) (?P<weekday>weekend|{'|'.join(_WEEKDAYS)})\b"), _read_weekday),
    (
        pattern(
            r"\b(?:the day before yesterday|yesterday|last night|the other day"
            r"|(?:today|tonight|this (?:morning|afternoon|evening))\b(?!['’]))"
        ),
        _read_near,
    ),
)


# The period of a query

MAX_LENGTH = 20_000
"""The length of a query up to which times are searched for."""

BLUR_BY_LENGTH, BLUR_BY_AGE = 0.5, 0.1
"""The blur of an interval: a share of its length, and for "ago" also of how long ago it was."""

_READERS = (*_CALENDAR, *_RELATIVE)
_CUES = _CALENDAR_CUES | _RELATIVE_CUES
_TOKEN = re.compile(r"[a-z]+|(?:19|20)\d\d")
_LEAD = pattern(r"([a-z]+)[ -](the )?$")
_LEAD_LENGTH = 24
_NOT_THEN = {"next", "coming", "upcoming", "every", "each"}
_TOLD = {"in", "on", "last", "this", "since", "before", "after", "until", "during", "early", "late", "mid"}


def period(query: str, *, now: datetime) -> Period | None:
    """Return the past period that a query is about, the most specific if it names several; None if it names none.

    Several of one kind ("from July to October") make one period from the first to the last.
    """
    text = query[:MAX_LENGTH]
    tokens = _TOKEN.findall(text.lower())
    if _CUES.isdisjoint(tokens) and not any(map(str.isdigit, tokens)):
        return None
    read = list(_read(" ".join(text.split()), now))
    if not read:
        return None
    # Of "last Friday on 23 January 2022", both a day, the date is what counts.
    finest = min((interval.grain, interval.ago) for _, interval in read)
    same = [(words, interval) for words, interval in read if (interval.grain, interval.ago) == finest]
    words = list(dict.fromkeys(words for words, _ in same))
    return Period(
        min(interval.start for _, interval in same),
        max(interval.end for _, interval in same),
        words[0] if len(words) == 1 else f"{words[0]} … {words[-1]}",
        max(_blur(interval, now) for _, interval in same),
    )


def _blur(interval: Interval, now: datetime) -> timedelta:
    back = max(now - interval.end, timedelta(0)) if interval.ago else timedelta(0)
    return BLUR_BY_LENGTH * timedelta(days=interval.grain) + BLUR_BY_AGE * back


def _read(text: str, now: datetime) -> Iterator[tuple[str, Interval]]:
    """Every expression of a time that has begun, with its words."""
    for expression, reader in _READERS:
        for match in expression.finditer(text):
            ahead = _LEAD.search(text[max(0, match.start() - _LEAD_LENGTH) : match.start()])
            lead = ahead[1].lower() if ahead else ""
            if lead in _NOT_THEN:
                continue
            try:
                interval = reader(Expression(match, lead, ahead is not None and ahead[2] is not None, now))
                interval = interval and _bounded(interval, lead, now)
            except (ValueError, OverflowError):  # 31 June; 9,000 years ago
                continue
            if interval and interval.start <= now:
                yield (ahead[0] if ahead and lead in _TOLD else "") + match[0], interval


def _bounded(interval: Interval, lead: str, now: datetime) -> Interval | None:
    """The interval as bounded by the word before it.

    "Before" and "after" a day mean the week next to it. "Before" a longer interval is no period at all.
    """
    if lead == "since":
        return interval._replace(end=max(now, interval.end))
    if lead not in ("before", "until", "till", "after"):
        return interval
    if interval.ago or interval.grain > 1:
        return None
    week = timedelta(days=7)
    return (
        interval._replace(end=interval.end + week)
        if lead == "after"
        else interval._replace(start=interval.start - week)
    )
