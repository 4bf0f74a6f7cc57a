"""Find the period that a query is about: "three weeks ago", "in May 2023", "last Saturday".

English only, by hand-made patterns; docs/decisions.md says why not by a library. A word that is also a verb or a name
(may, march, june) is a month only next to a day, a year or a preposition. A time without a year is the latest one that
has begun, because memories lie in the past. Seasons are those of the northern hemisphere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from retentive.models import Period
from retentive.text.temporal import calendar, relative
from retentive.text.temporal.interval import Expression, Interval, pattern

MAX_LENGTH = 20_000
"""The length of a query up to which times are searched for."""

BLUR_BY_LENGTH, BLUR_BY_AGE = 0.5, 0.1
"""The blur of an interval: a share of its length, and for "ago" also of how long ago it was."""

_READERS = (*calendar.READERS, *relative.READERS)
_CUES = calendar.CUES | relative.CUES
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
