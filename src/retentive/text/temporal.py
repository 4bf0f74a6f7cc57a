"""Find the period that a query is about: "three weeks ago", "in May 2023", "last Saturday", "seit Ostern".

A query is read in the one of six languages of which it has most words. Each word of time becomes one letter, its sort
(`time_words`); the patterns of this module are over these letters and so the same for every language. A word that is
also a verb or a name (may, march, june) is a month only next to a day, a year or a preposition. A time without a year
is the latest one that has begun, because memories lie in the past. Seasons are those of the northern hemisphere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import NamedTuple

from retentive.models import Period
from retentive.text.normal_form import folded_text
from retentive.text.terms import informative_terms
from retentive.text.time_tokens import Word, tokens
from retentive.text.time_words import Table

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
UNITS = (1 / 1440, 1 / 24, 1.0, 7.0, 30.44, 365.25)
"""The length in days of the units of the tables."""

HOUR, WHOLE_DAY, WEEKS, MONTH, YEAR = range(1, 6)
"""The places of the units in the tables."""

MAX_LENGTH = 20_000
"""The length of a query up to which times are searched for."""

BLUR_BY_LENGTH, BLUR_BY_AGE = 0.5, 0.1
"""The blur of an interval: a share of its length, and for "ago" also of how long ago it was."""


# What the words mean


class Interval(NamedTuple):
    """The time that an expression means. `grain` is its nominal length in days, `ago` whether it counts from now."""

    start: datetime
    end: datetime
    grain: float
    ago: bool = False


class Expression(NamedTuple):
    """A time expression in a query: the words that matched a pattern, and those around them."""

    text: str
    words: list[Word]
    match: re.Match[str]
    table: Table
    now: datetime

    def word(self, sorts: str) -> Word | None:
        """The first of its words of one of these sorts."""
        return next((word for word in self.matched if word.sort in sorts), None)

    def number(self, sorts: str) -> int:
        """The value of this word; 0 if there is none."""
        word = self.word(sorts)
        return int(word.value) if word else 0

    @property
    def matched(self) -> list[Word]:
        """Its words."""
        return self.words[self.match.start() : self.match.end()]

    @property
    def before(self) -> str:
        """The sorts of the words before it."""
        return self.match.string[: self.match.start()]

    @property
    def lead(self) -> str:
        """The sort of the word before it and its article; a blank if there is none."""
        led = self.before.rstrip("t")
        if led.endswith("j"):  # "au printemps", "desde a Páscoa"
            return led[-2:-1] if led[-2:-1] in ("s", "u", "b", "f") else "i"
        return led[-1:] or " "

    @property
    def after(self) -> str:
        """The sorts of the words after it."""
        return self.match.string[self.match.end() :]

    @property
    def next(self) -> str:
        """The word after it."""
        at = self.match.end()
        return self.words[at].written if at < len(self.words) else ""

    @property
    def opens(self) -> bool:
        """Whether it begins a sentence."""
        return self.before == "" or self.before[-1] == "." or self.words[self.match.start() - 1].written in "?!"

    @property
    def is_last(self) -> bool:
        """Whether "last" stands before or after it."""
        return self.lead in "Lp" or self.word("Lp") is not None


def midnight(at: datetime) -> datetime:
    """The start of the day."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def first_of(now: datetime, year: int, month: int) -> datetime:
    """The first of a month; 13 is January of the next year, 0 is December of the one before."""
    return midnight(now).replace(year=year + (month - 1) // 12, month=(month - 1) % 12 + 1, day=1)


def begin_of(unit: int, at: datetime) -> datetime:
    """The start of the day, week, month or year."""
    if unit == WHOLE_DAY:
        return midnight(at)
    if unit == WEEKS:
        return midnight(at) - at.weekday() * DAY
    return first_of(at, at.year, at.month if unit == MONTH else 1)


_VERBS = frozenset(
    [
        "be",
        "have",
        "not",
        "also",
        "well",
        "i",
        "you",
        "we",
        "he",
        "she",
        "it",
        "they",
        "go",
        "come",
        "take",
        "need",
        "want",
        "seem",
        "get",
        "make",
    ]
)
_TITLED = re.compile(r"[A-Z][a-z]+ [A-Z][a-z]")
_MONTH_LEADS = "subfVgiLpTE"
_RANGE_BEFORE = re.compile(r"[iBsgLT]t?[Mm][-&u]$")


def _read_date(expression: Expression) -> Interval | None:
    """8 May, May 8th, 8 May 2023."""
    now, month = expression.now, expression.number("Mm")
    if not _is_date(expression):
        return None
    days = [int(word.value) for word in expression.matched if word.sort in "no"]
    day, until = days[0], days[-1]
    if year := expression.number("yY"):
        start = midnight(now).replace(year=year, month=month, day=day)
        return Interval(start, start.replace(day=until) + DAY, 1.0)
    for year in range(now.year, now.year - 9, -1):  # the 29th of February may be eight years back
        if day == 29 and month == 2 and (year % 4 or year % 400 in (100, 200, 300)):
            continue
        start = midnight(now).replace(year=year, month=month, day=day)
        if start <= now:
            return Interval(start, start.replace(day=until) + DAY, 1.0)
    return None


def _is_date(expression: Expression) -> bool:
    """Whether a month beside a number is a date: "12 may come" and "March 12 miles" are not."""
    name = expression.word("Mm")
    assert name
    written = name.written
    if folded_text(written) not in ("may", "march", "mar") or expression.word("yYo"):
        return True
    if not written.istitle() and expression.next.lower() in _VERBS:
        return False
    opens = expression.matched[0] is name and expression.opens
    return expression.lead in "subfeg" or (written.istitle() and not opens) or not expression.next[:1].isalnum()


def _read_numeric(expression: Expression) -> Interval:
    """2023-05-08, 8.5.2023."""
    year, month, day = expression.matched[0].date
    start = midnight(expression.now).replace(year=year, month=month, day=day)
    return Interval(start, start + DAY, 1.0)


def _read_numeric_month(expression: Expression) -> Interval:
    """2023-05."""
    year, month, _ = expression.matched[0].date
    start = first_of(expression.now, year, month) if 1 <= month <= 12 else expression.now.replace(month=month)
    return Interval(start, first_of(start, year, month + 1), UNITS[MONTH])


def _read_month(expression: Expression) -> Interval | None:
    """In May, last May, May 2023."""
    year, month, now = expression.number("yY"), expression.number("Mm"), expression.now
    if not year and not _is_month(expression):
        return None
    start = first_of(now, year or now.year, month)
    if not year and start > first_of(now, now.year, now.month - expression.is_last):
        start = first_of(now, now.year - 1, month)
    return Interval(start, first_of(now, start.year, month + 1), UNITS[MONTH])


def _is_month(expression: Expression) -> bool:
    """Whether a month's name without day or year means the month: "this may help" and "May said" do not."""
    name = expression.word("Mm")
    assert name
    lead = expression.lead
    if expression.next in ("'", "\u2019"):
        return False
    if name.written in ("may", "MAY", "march", "MARCH") and (lead == "T" or expression.next.lower() in _VERBS):
        return False
    if name.sort == "M" or lead in _MONTH_LEADS or expression.word("Lp") or _RANGE_BEFORE.search(expression.before):
        return True
    return lead == "B" and re.match("[-&uj][Mm]", expression.after) is not None


def _read_season(expression: Expression) -> Interval | None:
    """Last summer, in the fall, spring of 2023. "The Spring Fling" is no season."""
    now, year, month = expression.now, expression.number("yY"), 3 + 3 * expression.number("S")
    if not year and not (expression.lead in "ieswLpTEubfV" or expression.word("Lp")):
        return None
    if not year and _TITLED.match(expression.text, expression.matched[0].start):
        return None
    start = first_of(now, year or now.year, month)
    over = timedelta(days=91 if expression.is_last else 0)
    # The winter of a year is the one that begins in it, or before it if that is still to come.
    if (not year or month == 12) and start + over > now:
        start = first_of(now, start.year - 1, month)
    return Interval(start, first_of(now, start.year, month + 3), 91.0)


def _read_year(expression: Expression) -> Interval | None:
    """In 2023."""
    year = expression.word("yY")
    assert year
    if not (year.sort == "Y" or expression.lead in "subfViEBU" or re.search(r"E[gt]+$|[yY][-&]$", expression.before)):
        return None
    number = int(year.value)
    return Interval(first_of(expression.now, number, 1), first_of(expression.now, number + 1, 1), UNITS[YEAR])


def _read_holiday(expression: Expression) -> Interval | None:
    """At Christmas, since Easter, Halloween 2022."""
    now, which, year = expression.now, expression.number("H"), expression.number("yY")
    if not (year or expression.lead in "isekLpTubfV" or expression.word("Lp") or " " in expression.table.days):
        return None
    for one in (year,) if year else (now.year, now.year - 1):
        first, last = _holiday(which, one)
        start, end = (midnight(now).replace(year=at.year, month=at.month, day=at.day) for at in (first, last))
        if start <= now and not (expression.is_last and end + DAY > now):
            return Interval(start, end + DAY, 1.0)
    return None


_FIXED = {0: (12, 24, 26), 1: (12, 24, 24), 2: (12, 31, 31), 3: (1, 1, 1), 6: (2, 14, 14), 7: (10, 31, 31)}
"""The month and the days of the holidays that are not moved."""


def _holiday(which: int, year: int) -> tuple[date, date]:
    """The first and the last day of a holiday; the places are those of `HOLIDAYS`."""
    if which in _FIXED:
        month, day, last = _FIXED[which]
        return date(year, month, day), date(year, month, last)
    if which == 8:  # the fourth Thursday of November
        thursday = 22 + (3 - date(year, 11, 22).weekday()) % 7
        return date(year, 11, thursday), date(year, 11, thursday)
    easter = _easter(year)
    if which == 5:
        return easter + 49 * DAY, easter + 50 * DAY
    return easter - 2 * DAY, easter + DAY


def _easter(year: int) -> date:
    """Easter Sunday, by the anonymous Gregorian algorithm."""
    a, b, c = year % 19, year // 100, year % 100
    d = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    e = (32 + 2 * (b % 4) + 2 * (c // 4) - d - c % 4) % 7
    f = d + e - 7 * ((a + 11 * d + 22 * e) // 451) + 114
    return date(year, f // 31, f % 31 + 1)


def _read_week_of_month(expression: Expression) -> Interval | None:
    """The first week of June, the last week of 2022."""
    if expression.number("U") != WEEKS:
        return None
    year, month, now = expression.number("yY"), expression.number("Mm"), expression.now
    if not month:
        start, end = first_of(now, year, 1), first_of(now, year + 1, 1)
    else:
        start = first_of(now, year or now.year, month)
        start = first_of(now, now.year - 1, month) if not year and start > now else start
        end = first_of(now, start.year, month + 1)
    number = expression.number("o")
    first = start + (number - 1) * WEEK if number else end - WEEK
    return Interval(first, min(first + WEEK, end), 7.0)


def _read_ago(expression: Expression) -> Interval:
    """Three weeks ago, a couple of years ago: a day exactly, months by the calendar, others give or take half."""
    now, number = expression.now, expression.word("nvah")
    assert number
    if expression.word("w"):
        saturday = midnight(now) - ((now.weekday() - 6) % 7 + 1 + 7 * (int(number.value) - 1)) * DAY
        return Interval(saturday, saturday + 2 * DAY, 2.0, ago=True)
    which = expression.number("U")
    unit, vague = UNITS[which], number.sort == "v"
    count = 0.5 if number.sort == "h" else number.value
    if count <= 0:
        raise ValueError("no time ago is no time")
    if which == MONTH and not vague and count > 1:
        start = first_of(now, now.year, now.month - int(count))
        return Interval(start, first_of(now, start.year, start.month + 1), unit, ago=True)
    middle = now - timedelta(days=count * unit)
    if which == WHOLE_DAY and not vague:
        return Interval(midnight(middle), midnight(middle) + DAY, unit, ago=True)
    # "A year ago" is said of a quarter to either side rather than of a half.
    about = timedelta(days=unit * (count / 2 if vague else 0.25 if which == YEAR else 0.5))
    return Interval(middle - about, middle + about, unit, ago=True)


def _read_last_units(expression: Expression) -> Interval:
    """The last two weeks: up to now."""
    number = expression.number("nv")
    if not number:
        raise ValueError("no time is no time")
    return _up_to_now(number, expression.number("U"), expression.now)


def _up_to_now(number: int, which: int, now: datetime) -> Interval:
    """From the start of the day, unless the unit is shorter."""
    start = now - timedelta(days=number * UNITS[which])
    return Interval(midnight(start) if which >= WHOLE_DAY else start, now, UNITS[which], ago=True)


def _read_last(expression: Expression) -> Interval | None:
    """Last week, month or year by the calendar; the past month up to now. Not "the last days"."""
    now, which, last, rolling = expression.now, expression.number("U"), expression.word("Lp"), expression.table.rolling
    unit = expression.word("U")
    assert unit is not None
    assert last is not None
    if re.fullmatch(r"days|weeks|months|years|hours|minutes", unit.written) or expression.after.startswith("g"):
        return None  # "The last week of school" is no time of its own.
    first = unit.start >= last.end
    if last.sort == "p" or (first and which >= WEEKS and (expression.before[-1:] + "L").endswith(rolling)):
        return _up_to_now(1, which, now)
    if which < WEEKS:  # "the last day at school"
        return None
    this = begin_of(which, now)
    return Interval(begin_of(which, this - DAY), this, UNITS[which], ago=True)


def _read_this(expression: Expression) -> Interval | None:
    """This week, month or year."""
    which = expression.number("U")
    if which < WHOLE_DAY or (which == WHOLE_DAY and expression.matched[0].written == "this"):
        return None
    return Interval(begin_of(which, expression.now), expression.now, UNITS[which], ago=True)


def _read_weekday(expression: Expression) -> Interval | None:
    """Last Saturday, on Monday, last weekend: the latest that is over."""
    lead, leads = expression.lead, expression.table.days
    article = expression.words[expression.match.start() - 1].written.lower() if expression.before.endswith("t") else ""
    weekend = expression.word("w") is not None
    led = lead in leads + ("ik" if weekend else "") or " " in leads or ("t" in leads and bool(article))
    if article in ("los", "les", "os", "as") or not (led or expression.word("Lp")):
        return None
    today = midnight(expression.now)
    first, days = (5, 2) if weekend else (expression.number("W"), 1)
    back = (today.weekday() - first - days) % 7 + days
    if lead == "T":  # of this week, and so perhaps still to come
        back = today.weekday() - first
    start = today - back * DAY
    return Interval(start, start + days * DAY, days, ago=True)


def _read_day_of_last_week(expression: Expression) -> Interval | None:
    """Tuesday of last week."""
    if expression.number("U") != WEEKS:
        return None
    start = begin_of(WEEKS, expression.now) - WEEK + expression.number("W") * DAY
    return Interval(start, start + DAY, 1.0, ago=True)


def _read_near(expression: Expression) -> Interval:
    """Today, yesterday, the day before it; this morning."""
    start = midnight(expression.now) - expression.number("D") * DAY
    return Interval(start, start + DAY, 1.0, ago=True)


def _read_recent(expression: Expression) -> Interval:
    """The other day."""
    today = midnight(expression.now)
    return Interval(today - 5 * DAY, today, 7.0, ago=True)


_YEAR = "[cgt]*[yY]"
_NUMERAL = "[nvah]"

Reader = Callable[[Expression], Interval | None]

_READERS: tuple[tuple[re.Pattern[str], Reader], ...] = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        ("d", _read_numeric),
        ("q", _read_numeric_month),
        (f"(?:[no][-&j])?[no]g?t?[Mm](?:{_YEAR})?", _read_date),
        (f"[Mm]t?[no](?:{_YEAR})?|Y[Mm]n", _read_date),
        (f"[Mm](?:{_YEAR}|L(?!U))?|Y[gi]?[Mm]", _read_month),
        (f"S(?:{_YEAR}|L(?!U))?|Y[gi]?t?S", _read_season),
        (f"H(?:{_YEAR}|L(?!U))?|Y[gik]?t?H", _read_holiday),
        ("[yY]", _read_year),
        (f"[oL]U[gi]t?(?:[Mm](?:{_YEAR})?|[yY])|(?:[yY]g?)?[Mm]g?oU", _read_week_of_month),
        (f"{_NUMERAL}[Uw]A|V{_NUMERAL}[Uw]", _read_ago),
        ("(?:[Lp][nv]|[nv][Lp])U(?!A)|[nv]U[Lp]", _read_last_units),
        ("[Lp]U|UL", _read_last),
        ("TU", _read_this),
        ("[Ww]L?", _read_weekday),
        ("(?:LU|UL)[ge]?t?W|Wg?t?(?:LU|UL)", _read_day_of_last_week),
        ("D", _read_near),
        ("T(?=P)", _read_near),
        ("R", _read_recent),
    )
)


# The period of a query

_TOLD = "iesLTpubfVEkO"
_PARTS = ((0, 12), (12, 18), (17, 24), (18, 30))
"""From which hour to which the parts of a day last."""

_PART = re.compile("[iegtkcj]{0,2}P")
_YEARS = re.compile("[LT]U|U[LT]")
_SESSIONS = re.compile("[nva]NA|V[nva]N|[Lp][nv]?N|[nv][Lp]N|NL|Nn(?:[-&uj]n)?|(?:o[-&uj]t?)?oN(?!g)")
_OF_YEAR = re.compile("[MmSH][cgite]*$"), re.compile("[cgite]*[MmSH]")


class Read(NamedTuple):
    """An expression that was read, and the places of its words."""

    interval: Interval
    first: int
    end: int
    expression: Expression
    reader: Reader
    joined: bool = False

    @property
    def lead(self) -> str:
        """The sort of the word before it, which bounds it."""
        return " " if self.joined else self.expression.lead

    def is_within(self, other: Read) -> bool:
        """Whether its words are only some of those of another one."""
        return other.first <= self.first and self.end <= other.end and self.end - self.first < other.end - other.first


class SessionSpan(NamedTuple):
    """Sessions that a query is about, from the first to the last: 1 is the oldest, -1 the newest of the scope.

    `alone` is set if the query has nothing else.
    """

    first: int
    last: int
    text: str
    alone: bool


def named_time(query: str, *, now: datetime, month_first: bool = False) -> Period | SessionSpan | None:
    """Return the past period or the sessions that a query is about, the most specific; None if it names none.

    Several periods of one kind ("in January and March") make one from the first to the last. `month_first`: 5/8/2023
    is in May.
    """
    query = query[:MAX_LENGTH]
    read = tokens(query, month_first=month_first)
    if read is None:
        return None
    words = _with_years(read.words, now)
    sorts = "".join(word.sort for word in words)
    found = [
        (one, interval)
        for one in _ranges(list(_read(query, words, sorts, read.table, now)), sorts, now)
        if (interval := _bounded(one, now)) and interval.start <= now
    ]
    finest = min(((interval.grain, interval.ago) for _, interval in found), default=None)
    sessions = _SESSIONS.search(sorts)
    if sessions and (finest is None or finest[0] > 1.0):
        return _session_span(query, words, sessions)
    if finest is None:
        return None
    found = [one for one in found if not any(one[0].is_within(other) for other, _ in found)]
    # Of "last Friday on 23 January 2022", both a day, the date is what counts.
    finest = min((interval.grain, interval.ago) for _, interval in found)
    same = [(one, interval) for one, interval in found if (interval.grain, interval.ago) == finest]
    same.sort(key=lambda one: one[0].first)
    told = list(dict.fromkeys(_told(query, words, _lead(sorts, one.first), one.end) for one, _ in same))
    spans = [(one.first, one.end) for one, _ in found]
    return Period(
        min(interval.start for _, interval in same),
        max(interval.end for _, interval in same),
        told[0] if len(told) == 1 else f"{told[0]} … {told[-1]}",
        max(_blur(interval, now) for _, interval in same),
        _is_alone(words, spans),
    )


def period(query: str, *, now: datetime, month_first: bool = False) -> Period | None:
    """Return the past period that a query is about; None if it names none, or sessions."""
    named = named_time(query, now=now, month_first=month_first)
    return named if isinstance(named, Period) else None


def _session_span(query: str, words: list[Word], match: re.Match[str]) -> SessionSpan:
    """Our first conversation, sessions 2 to 4, three sessions ago, the last two conversations."""
    first, end = match.span()
    numbers = [int(word.value) for word in words[first:end] if word.sort in "nov"]
    if "A" in match[0] or "V" in match[0]:
        span = (-(numbers or [1])[0], -(numbers or [1])[0])
    elif "L" in match[0] or "p" in match[0]:
        span = (-(numbers or [1])[0], -1)
    else:
        span = (numbers[0], numbers[-1])
    return SessionSpan(*span, _told(query, words, first, end), _is_alone(words, [(first, end)]))


def _is_alone(words: list[Word], spans: list[tuple[int, int]]) -> bool:
    """Whether a query has no word outside these that tells what it is about."""
    others = [
        word.written
        for at, word in enumerate(words)
        if word.sort == "x" and word.written[:1].isalnum() and not any(first <= at < end for first, end in spans)
    ]
    return not informative_terms(" ".join(others))


def _lead(sorts: str, first: int) -> int:
    """The place of the word before an expression that belongs to it, or else its first."""
    led = first - 1 if first and sorts[first - 1] in "tj" else first
    return led - 1 if led and sorts[led - 1] in _TOLD else first


def _told(query: str, words: list[Word], first: int, end: int) -> str:
    """The words of the query."""
    return " ".join(query[words[first].start : words[end - 1].end].split())


def _with_years(words: list[Word], now: datetime) -> list[Word]:
    """The words with "last year" and "this year" next to a month, season or holiday as that year."""
    sorts = "".join(word.sort for word in words)
    for match in reversed(list(_YEARS.finditer(sorts))):
        pair = words[match.start() : match.end()]
        unit = next(word for word in pair if word.sort == "U")
        beside = _OF_YEAR[0].search(sorts[: match.start()]) or _OF_YEAR[1].match(sorts[match.end() :])
        if unit.value == YEAR and beside:
            written = " ".join(word.written for word in pair)
            year = Word("Y", now.year - ("L" in match[0]), pair[0].start, pair[1].end, written)
            words = [*words[: match.start()], year, *words[match.end() :]]
    return words


def _read(text: str, words: list[Word], sorts: str, table: Table, now: datetime) -> Iterator[Read]:
    """Every expression, with the part of the day that it names."""
    for pattern, reader in _READERS:
        for match in pattern.finditer(sorts):
            expression = Expression(text, words, match, table, now)
            if expression.lead == "X" or expression.after.startswith("X"):
                continue
            interval, end = _interval(expression, reader), match.end()
            if interval is None:
                continue
            if interval.grain == 1.0 and (part := _PART.match(sorts, end)):
                end = part.end()
                interval = _part(interval, int(words[end - 1].value))
            yield Read(interval, match.start(), end, expression, reader)


def _interval(expression: Expression, reader: Reader) -> Interval | None:
    try:
        return reader(expression)
    except (ValueError, OverflowError):  # 31 June; 9,000 years ago
        return None


def _part(day: Interval, which: int) -> Interval:
    first, last = _PARTS[which]
    return Interval(day.start + first * DAY / 24, day.start + last * DAY / 24, 0.5, day.ago)


def _ranges(found: list[Read], sorts: str, now: datetime) -> Iterator[Read]:
    """The expressions, with those that "between … and", "from … to" or "since … until" join as one."""
    joined: list[Read] = []
    used: set[int] = set()
    for b in found:
        for a in found:
            between = sorts[a.end : b.first]
            if a.first >= b.first or not re.fullmatch("[-uj][ite]*|&[ite]*", between):
                continue
            if (between[0] == "&" and a.lead != "B") or b.interval.start > now:
                continue
            start = a.interval
            if start.start > b.interval.start:
                start = _interval(a.expression._replace(now=b.interval.start), a.reader) or start
            if start.start < b.interval.end:
                grain = max(start.grain, b.interval.grain)
                whole = Interval(start.start, b.interval.end, grain, b.interval.ago)
                joined.append(Read(whole, a.first, b.end, b.expression, b.reader, joined=True))
                used |= {id(a), id(b)}
    yield from joined
    yield from (read for read in found if id(read) not in used)


def _bounded(read: Read, now: datetime) -> Interval | None:
    """The interval as bounded by the word before it.

    "Before" and "after" a day mean the week next to it. "Before" a longer interval is no period at all.
    """
    interval, lead = read.interval, read.lead
    if lead == "s":
        return interval._replace(end=max(now, interval.end))
    if lead not in ("b", "u", "f", "V"):
        return interval
    if interval.ago or interval.grain > 1:
        return None
    if lead == "f":
        return interval._replace(end=interval.end + WEEK)
    return interval._replace(start=interval.start - WEEK)


def _blur(interval: Interval, now: datetime) -> timedelta:
    back = max(now - interval.end, timedelta(0)) if interval.ago else timedelta(0)
    return BLUR_BY_LENGTH * timedelta(days=interval.grain) + BLUR_BY_AGE * back
