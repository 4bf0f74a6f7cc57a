"""The time retriever: finds the memories of the period, or of the sessions, that a query names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from time import perf_counter
from typing import NamedTuple

from retentive.models import Candidate, Memory, Period, Query
from retentive.pipeline.search import RetrieverResult
from retentive.ranking.lists import FAR, TIME, WIDENED, RankedList, closeness
from retentive.stores.base import Store
from retentive.stores.rules import ListCursor
from retentive.stores.sql_codec import to_micros
from retentive.text.keyword_syntax import parse_keyword_query
from retentive.text.temporal import SessionSpan, named_time

MOST = 60
"""Up to so many memories of a period are read. In a longer one, the other retrievers find what the query says."""

PARTS = 10
"""A longer period that is all that the query asks for is read in so many parts, some memories of each."""

FIRST_ID = "00000000-0000-0000-0000-000000000000"
"""Before every other id."""


class TimedResult(NamedTuple):
    """The period that a query names, and its memories in order."""

    period: Period
    result: RetrieverResult

    def ranked_list(self, memories: Sequence[Memory]) -> RankedList:
        """The list for fusion: how close these memories are to the period, whichever retriever found them."""
        near = {one.id: near for one in memories if (near := closeness(one.when, self.period)) >= FAR}
        return RankedList(
            TIME, tuple(self.result.candidates), self.result.weight, elsewhere=near, note=self.result.note
        )


def retrieve_period(query: Query, store: Store, *, month_first: bool) -> TimedResult | None:
    """Find the memories of the period that a query names; None if it names none, or if the weight is 0."""
    weight = query.tuning.time_weight
    named = named_time(_asked(query), now=query.now, month_first=month_first) if weight > 0 else None
    if named is None:
        return None
    started = perf_counter()
    period = _period_of(named, query, store) if isinstance(named, SessionSpan) else named
    if period is None:
        return None
    memories, where = list(_memories(period, query, store)), "in"
    if not memories and period.blur:  # "this morning" of what was said at noon
        more = min(period.blur, WIDENED)
        memories = list(_memories(period._replace(start=period.start - more, end=period.end + more), query, store))
        where = "near" if memories else "in"
    found = sorted(memories, key=lambda one: (one.when, one.session or "", one.position or 0))
    candidates = [Candidate(memory, closeness(memory.when, period)) for memory in found]
    note = f"{where} the period “{period.text}”"
    elapsed = (perf_counter() - started) * 1000
    return TimedResult(period, RetrieverResult(TIME, weight, candidates, note=note, elapsed_ms=elapsed))


def _asked(query: Query) -> str:
    """The text without what its operators exclude."""
    keywords = parse_keyword_query(query.text) if query.tuning.semantic_weight <= 0 else None
    return keywords.text if keywords and keywords.text else query.text


def _period_of(named: SessionSpan, query: Query, store: Store) -> Period | None:
    """The time of some sessions of the scope; None if it has not so many."""
    scope = query.scope
    sessions = [
        (one.first, one.last)
        for one in store.sessions(scope.profile, project=scope.project)
        if one.first and one.last and (scope.sessions is None or one.name in scope.sessions)
    ]
    sessions.sort()
    count = len(sessions)
    first, last = (place - 1 if place > 0 else count + place for place in (named.first, named.last))
    if not (0 <= first <= last and first < count):
        return None
    end = max(end for _, end in sessions[first : last + 1])
    return Period(sessions[first][0], end + timedelta(microseconds=1), named.text, timedelta(0), named.alone)


def _memories(period: Period, query: Query, store: Store) -> Iterator[Memory]:
    """The memories of the period in the scope that match the query's conditions; of many, some of each part."""
    newest, is_whole = _page(period.start, period.end, MOST, query, store)
    if is_whole or not period.alone:
        yield from newest
        return
    length = (period.end - period.start) / PARTS
    for number in range(PARTS):
        start = period.start + number * length
        yield from _page(start, start + length, MOST // PARTS, query, store)[0]


def _page(start: datetime, end: datetime, limit: int, query: Query, store: Store) -> tuple[list[Memory], bool]:
    """The newest memories between two times, and whether these are all."""
    cursor = str(ListCursor(to_micros(end) or 0, FIRST_ID))
    at = query.current_at
    page = store.list(query.scope, cursor=cursor, limit=limit, current_at=at, started_by=query.filter.started_by)
    excluded = set(query.exclude)
    found = [one for one in page.memories if one.when >= start]
    is_whole = page.next_cursor is None or len(found) < len(page.memories)
    return [one for one in found if one.id not in excluded and query.filter.unmet_by(one) is None], is_whole
