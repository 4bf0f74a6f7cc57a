"""Expressions relative to now: three weeks ago, last month, the past two years, on Saturday, yesterday."""

from __future__ import annotations

from datetime import timedelta

from retentive.text.temporal.interval import DAY, DAYS, Expression, Interval, Reader, begin_of, midnight, pattern

_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_VAGUE = {"couple": 2, "few": 3, "several": 4}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CUES = frozenset(("ago", "yesterday", "today", "tonight", "last", "past", "previous", "this", "other", *_WEEKDAYS))

_COUNT = rf"(?P<count>(?:a )?(?:couple|few)(?: of)?|several|half an?|an?|{'|'.join(_NUMBERS)}|[1-9]\d{{0,3}})"
_UNIT = r"(?P<unit>minute|hour|day|week|month|year)"


def _read_ago(expression: Expression) -> Interval:
    """Three weeks ago, a couple of months ago: a day exactly, anything longer give or take half of it."""
    unit = DAYS[expression.match["unit"].lower()]
    count, vague = _number(expression.match["count"])
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
        count, _ = _number(match["count"] or "a")
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


def _number(words: str) -> tuple[float, bool]:
    """The number, and whether it is a vague one."""
    spelled = words.lower().split()
    for word in spelled:
        if word in _VAGUE:
            return _VAGUE[word], True
    if words.isdigit():
        return int(words), False
    return (0.5 if spelled[0] == "half" else _NUMBERS.index(spelled[0]) + 1 if spelled[0] in _NUMBERS else 1), False


READERS: tuple[Reader, ...] = (
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
