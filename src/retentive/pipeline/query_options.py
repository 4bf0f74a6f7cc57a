"""`QueryOptions`: the options of a recall as a caller gives them; scopes, filters and queries built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid
from retentive.models import KINDS, Filter, Kind, Model, Period, Query, Scalar, Scope, canonical_id, check_unicode
from retentive.pipeline.remember import check_metadata, to_time
from retentive.pipeline.tuning_history import SavedTuning
from retentive.ranking import Tuning
from retentive.stores.base import Store
from retentive.stores.values import Vector
from retentive.text.temporal import period

ID_LENGTH = 36
"""Characters of the id of a memory."""


class QueryOptions(TypedDict, total=False):
    """The options of a recall beside its text; see `Engine.query`."""

    limit: int
    profile: str | None
    project: str | None
    session: str | Sequence[str] | None
    only_session: bool
    kinds: Sequence[Kind] | None
    exclude: Sequence[str]
    since: date | str | None
    until: date | str | None
    metadata: Mapping[str, Scalar] | None
    as_of: date | str | None
    include_retired: bool
    tuning: Tuning | Mapping[str, Any] | str | None
    now: datetime | str | None
    vector: Sequence[float] | npt.NDArray[np.floating[Any]] | None


def build_query(
    text: str,
    options: QueryOptions,
    *,
    profile: str,
    month_first: bool,
    tuning: SavedTuning,
    store: Store,
    clock: Callable[[], datetime],
) -> Query:
    """Build a query; see `Engine.query`."""
    unknown = sorted(options.keys() - QueryOptions.__annotations__.keys())
    if unknown:
        valid = ", ".join(QueryOptions.__annotations__)
        raise TypeError(f"recall() got an unexpected option '{unknown[0]}'; valid options: {valid}")
    vector, as_of = options.get("vector"), options.get("as_of")
    now, limit, exclude = options.get("now"), options.get("limit", 10), options.get("exclude")
    if type(text) is not str or type(limit) is not int:
        _check_query(text, limit)
    since, until, metadata = options.get("since"), options.get("until"), options.get("metadata")
    unfiltered = since is None and until is None and metadata in (None, {})
    at = (to_time(now, "now") if now is not None else None) or clock()
    return Query(
        text=text,
        scope=build_scope(
            profile if (named := options.get("profile")) is None else named,
            options.get("project"),
            options.get("session"),
            only_session=options.get("only_session", False),
            kinds=options.get("kinds"),
        ),
        tuning=tuning.current(options.get("tuning")),
        now=at,
        limit=int(limit),
        exclude=to_excluded(exclude) if exclude else (),
        vector=None if vector is None else unit_vector(vector, store.model()),
        filter=Filter() if unfiltered else to_filter(since, until, metadata, now=at, month_first=month_first),
        as_of=to_as_of(as_of) if as_of is not None else None,
        include_retired=bool(options.get("include_retired", False)),
    )


def build_scope(
    profile: str,
    project: str | None,
    session: str | Sequence[str] | None,
    *,
    only_session: bool,
    kinds: Sequence[Kind] | None,
) -> Scope:
    """Build a scope; see `Engine.scope`."""
    sessions = (session,) if isinstance(session, str) else None if session is None else _to_names("session", session)
    chosen = None if kinds is None else _to_kinds(kinds)
    for name, value in (
        ("profile", profile),
        ("project", project),
        *(("session", session_name) for session_name in sessions or ()),
    ):
        if value is not None and (type(value) is not str or not value.isascii()):
            check_unicode(name, value)
    return Scope(profile, project, sessions, chosen, only_session)


def _check_query(text: Any, limit: Any) -> None:
    """Raise `Invalid` unless a query is text and its limit a whole number, of Python or of numpy."""
    if not isinstance(text, str):
        raise Invalid(f"query: it must be text or a Query, not {type(text).__name__}")
    if not hasattr(limit, "__index__"):
        raise Invalid(f"limit: a whole number, not {limit!r:.80}")


def to_excluded(given: Any) -> tuple[str, ...]:
    """The ids to leave out, from one id or several."""
    if not isinstance(given, Iterable):
        raise Invalid(f"exclude: ids of memories, not {type(given).__name__}")
    ids = (given,) if isinstance(given, str) else tuple(given)
    for id in ids:
        if not isinstance(id, str) or len(canonical_id(id)) != ID_LENGTH:
            raise Invalid(f"exclude: {id!r:.80} is not the id of a memory")
    return tuple(map(canonical_id, ids))


def _to_names(name: str, given: Any) -> tuple[str, ...]:
    """Several names; `name` is the option that has them."""
    if not isinstance(given, Iterable):
        raise Invalid(f"{name}: a name or several names, not {type(given).__name__}")
    return tuple(given)


def _to_kinds(given: Any) -> tuple[Kind, ...]:
    """The kinds to search in."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise Invalid(f"kinds: a list such as ['semantic', 'identity'], not {given!r:.80}")
    unknown = [kind for kind in given if kind not in KINDS]
    if unknown:
        raise Invalid(f"there is no kind '{unknown[0]}'; the kinds are episodic, semantic and identity")
    return tuple(given)


def to_filter(
    since: date | str | None,
    until: date | str | None,
    metadata: Mapping[str, Scalar] | None,
    *,
    now: datetime,
    month_first: bool = False,
) -> Filter:
    """A filter from plain values. Times are as in `to_time`, or phrases such as "last spring", 2025 or 2025-10.

    A date is the whole day and a phrase the whole period, so `until` includes it. `month_first`: 5/8/2023 is in May.
    """
    start, _ = _span(since, "since", now, month_first)
    _, end = _span(until, "until", now, month_first)
    if start is not None and end is not None and start >= end:
        raise Invalid("until: must be after since")
    given = {} if metadata is None else metadata
    check_metadata(given)
    for key, value in given.items():
        if value is not None and not isinstance(value, str | int | float):
            raise Invalid(f"metadata: the value of '{key}' must be text, a number, true, false or null")
    return Filter(start, end, tuple(sorted(given.items())))


def to_as_of(value: date | str | None) -> datetime | None:
    """The time of `as_of`. A date is the end of its day."""
    time = _to_bound(value, "as_of")
    if time is None or not _is_date(value):
        return time
    try:
        return time + timedelta(days=1, microseconds=-1)
    except OverflowError:
        return time


PHRASES = ", or as 'last spring', 2025 or 2025-10"
"""What else `since` and `until` accept."""


def _span(value: Any, name: str, now: datetime, month_first: bool) -> tuple[datetime | None, datetime | None]:
    """The start and the end of a time, a day or a period; no end if it is too late to be stored."""
    named = _named_period(value, now, month_first) if isinstance(value, str) else None
    if named is not None:
        return named.start.astimezone(UTC), named.end.astimezone(UTC)
    start = _to_bound(value, name, also=PHRASES)
    if start is None or not _is_date(value):
        return start, start
    try:
        return start, start + timedelta(days=1)
    except OverflowError:
        return start, None


def _named_period(text: str, now: datetime, month_first: bool) -> Period | None:
    """The period that a text which is not in ISO 8601 names."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return next(filter(None, (period(one, now=now, month_first=month_first) for one in (text, f"in {text}"))), None)
    return None


def _to_bound(value: Any, name: str, *, also: str = "") -> datetime | None:
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    time = to_time(value.isoformat() if is_day else value, name, also=also)
    return None if time is None else time.astimezone(UTC)


def _is_date(value: date | str | None) -> bool:
    if isinstance(value, str):
        return len(value.strip()) <= len("2026-05-08")
    return not isinstance(value, datetime)


def unit_vector(vector: Sequence[float] | npt.NDArray[np.floating[Any]], model: Model | None) -> Vector:
    """A caller's vector, normalised. `Invalid` if it cannot be compared with the vectors of this model."""
    try:
        row = np.asarray(vector, np.float64)  # the squares of large numbers would overflow in float32
    except (TypeError, ValueError) as error:
        raise Invalid(f"vector: a list of numbers ({error})") from None
    norm = float(np.linalg.norm(row))
    if row.ndim != 1 or not 0 < norm < np.inf or (model is not None and len(row) != model.dimension):
        length = model.dimension if model else "some"
        raise Invalid(f"vector: {length} finite numbers that are not all 0, not an array of shape {row.shape}")
    return (row / norm).astype(np.float32)
