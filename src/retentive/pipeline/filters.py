"""Build the filter of a recall from plain values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

from retentive.errors import Invalid
from retentive.models import Filter, Scalar
from retentive.pipeline.remember import check_metadata, to_time


def to_filter(since: date | str | None, until: date | str | None, metadata: Mapping[str, Scalar] | None) -> Filter:
    """A filter from plain values. Times are as in `to_time`; a date is the whole day, so `until` includes it."""
    start, end = (_to_bound(value, name) for value, name in ((since, "since"), (until, "until")))
    if end is not None and _is_date(until):
        try:
            end += timedelta(days=1)
        except OverflowError:
            end = None
    if start is not None and end is not None and start >= end:
        raise Invalid("until: must be after since")
    given = metadata or {}
    check_metadata(given)
    for key, value in given.items():
        if value is not None and not isinstance(value, str | int | float):
            raise Invalid(f"metadata: the value of '{key}' must be text, a number, true, false or null")
    return Filter(start, end, tuple(sorted(given.items())))


def _to_bound(value: date | str | None, name: str) -> datetime | None:
    time = to_time(value if isinstance(value, str | datetime | None) else value.isoformat(), name)
    return None if time is None else time.astimezone(UTC)


def _is_date(value: date | str | None) -> bool:
    if isinstance(value, str):
        return len(value.strip()) <= len("2026-05-08")
    return not isinstance(value, datetime)
