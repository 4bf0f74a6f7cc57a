"""Types shared by the readers of time expressions: the expression in its query and the interval it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

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
