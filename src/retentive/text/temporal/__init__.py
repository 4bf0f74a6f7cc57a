"""When a query asks about: "three weeks ago", "in May 2023", "last Saturday", as a stretch of time.

English, by hand-made patterns; docs/decisions.md says why not by a library. A word that is also a verb or a name (may,
march, june) is a month only in the company of a day, a year or a preposition. A time without a year is the latest that
has begun, because memories lie in the past, and what lies ahead is no time to look for. Seasons are the northern ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from retentive.models import Period
from retentive.text.temporal import calendar, relative
from retentive.text.temporal.interval import Found, Stretch, pattern

MAX_LENGTH = 20_000
"""How much of a query is looked at."""

BLUR_BY_LENGTH, BLUR_BY_AGE = 0.5, 0.1
"""How far around a stretch is still near it: a share of its length, and for "ago" also of how long ago it was."""

_READERS = (*calendar.READERS, *relative.READERS)
_CUES = calendar.CUES | relative.CUES
_TOKEN = re.compile(r"[a-z]+|(?:19|20)\d\d")
_LEAD = pattern(r"([a-z]+)[ -](the )?$")
_LEAD_LENGTH = 24
_NOT_THEN = {"next", "coming", "upcoming", "every", "each"}
_TOLD = {"in", "on", "last", "this", "since", "before", "after", "until", "during", "early", "late", "mid"}


def period(query: str, *, now: datetime) -> Period | None:
    """The stretch of past time that a query is about, the most specific if it names several; None if it names none.

    Several of one kind ("from July to October") make one stretch from the first to the last.
    """
    text = query[:MAX_LENGTH]
    tokens = _TOKEN.findall(text.lower())
    if _CUES.isdisjoint(tokens) and not any(map(str.isdigit, tokens)):
        return None
    read = list(_read(" ".join(text.split()), now))
    if not read:
        return None
    # Of "last Friday on 23 January 2022", both a day, the date is what counts.
    finest = min((stretch.grain, stretch.ago) for _, stretch in read)
    same = [(words, stretch) for words, stretch in read if (stretch.grain, stretch.ago) == finest]
    words = list(dict.fromkeys(words for words, _ in same))
    return Period(
        min(stretch.start for _, stretch in same),
        max(stretch.end for _, stretch in same),
        words[0] if len(words) == 1 else f"{words[0]} … {words[-1]}",
        max(_blur(stretch, now) for _, stretch in same),
    )


def _blur(stretch: Stretch, now: datetime) -> timedelta:
    back = max(now - stretch.end, timedelta(0)) if stretch.ago else timedelta(0)
    return BLUR_BY_LENGTH * timedelta(days=stretch.grain) + BLUR_BY_AGE * back


def _read(text: str, now: datetime) -> Iterator[tuple[str, Stretch]]:
    """Every expression that means a time which has begun, with its words."""
    for expression, reader in _READERS:
        for match in expression.finditer(text):
            ahead = _LEAD.search(text[max(0, match.start() - _LEAD_LENGTH) : match.start()])
            lead = ahead[1].lower() if ahead else ""
            if lead in _NOT_THEN:
                continue
            try:
                stretch = reader(Found(match, lead, ahead is not None and ahead[2] is not None, now))
                stretch = stretch and _bounded(stretch, lead, now)
            except (ValueError, OverflowError):  # 31 June; 9,000 years ago
                continue
            if stretch and stretch.start <= now:
                yield (ahead[0] if ahead and lead in _TOLD else "") + match[0], stretch


def _bounded(stretch: Stretch, lead: str, now: datetime) -> Stretch | None:
    """The stretch as the word before it bounds it.

    What happened shortly before or after a day is told around that day. Before a year is most of time: no stretch.
    """
    if lead == "since":
        return stretch._replace(end=max(now, stretch.end))
    if lead not in ("before", "until", "till", "after"):
        return stretch
    if stretch.ago or stretch.grain > 1:
        return None
    week = timedelta(days=7)
    return stretch._replace(end=stretch.end + week) if lead == "after" else stretch._replace(start=stretch.start - week)
