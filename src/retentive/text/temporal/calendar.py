"""Calendar expressions: 8 May, 2023-05-08, in May, last summer, in 2023."""

from __future__ import annotations

import re
from datetime import timedelta

from retentive.text.temporal.interval import DAY, DAYS, Expression, Interval, Reader, first_of, midnight, pattern

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLEAR_MONTHS = {"january", "february", "july", "september", "october", "november", "december"}
"""Names of months that are not also a verb, a first name or an adjective."""
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_SEASON_DAYS = 91.0
CUES = frozenset(("march", "april", "june", "august", "sept", *_CLEAR_MONTHS, *_MONTHS, *_SEASONS))

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
    number = int(month) if month.isdigit() else _number(month)
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
    start = first_of(now, int(year) if year else now.year, _number(name))
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


def _number(month: str) -> int:
    return _MONTHS.index(month[:3].lower()) + 1


READERS: tuple[Reader, ...] = (
    (pattern(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)"), _read_date),
    (pattern(rf"{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?"), _read_date),
    (pattern(rf"{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?"), _read_date),
    (pattern(rf"{_MONTH}(?:,? (?:of )?{_YEAR})?"), _read_month),
    (pattern(rf"\b(?P<season>{'|'.join(_SEASONS)})\b(?:,? (?:of )?{_YEAR})?"), _read_season),
    (pattern(rf"\b{_YEAR}"), _read_year),
)
