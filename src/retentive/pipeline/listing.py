"""List the memories of a scope that match a filter, in pages. Stores list whole scopes, ordered by time."""

from __future__ import annotations

from datetime import datetime

from retentive.models import Filter, Memory, Scope
from retentive.stores.base import Memories
from retentive.stores.damage import Damage
from retentive.stores.rules import ListCursor, cursor_of, parse_cursor
from retentive.stores.sql_codec import to_micros
from retentive.stores.values import Page

PAGE = 1000
MOST_READ = 20_000
"""A page ends when so many memories were compared with the metadata, however few of them match."""

_FIRST_ID = "00000000-0000-0000-0000-000000000000"


def list_matching(
    store: Memories,
    scope: Scope,
    wanted: Filter,
    *,
    cursor: str | None,
    limit: int,
    current_at: datetime | None,
    started_by: datetime | None,
) -> Page:
    """Return one page of the memories that match a filter, newest first.

    A time is a position in the list, so that nothing outside the period is read. The store finds standing rules by an
    index. Other metadata is compared memory by memory: a page may have fewer memories than `limit`, or none, and yet a
    cursor.
    """
    start = _start(cursor, wanted.until)
    matching, damaged = list[Memory](), list[Damage]()
    rules = any(key == "rule" and value is True for key, value in wanted.metadata)
    size = PAGE if wanted.metadata and not rules else limit
    for _ in range(0, MOST_READ, size):
        page = store.list(scope, cursor=start, limit=size, current_at=current_at, started_by=started_by, rules=rules)
        damaged += page.damaged
        for memory in page.memories:
            if wanted.since is not None and memory.when < wanted.since:
                return Page(tuple(matching), None, tuple(damaged))
            if wanted.unmet_by(memory) is None:
                matching.append(memory)
                if len(matching) == limit:
                    return _ended(matching, page, damaged)
        start = page.next_cursor
        if start is None or not wanted.metadata:
            break
    return Page(tuple(matching), start, tuple(damaged))


def _ended(matching: list[Memory], page: Page, damaged: list[Damage]) -> Page:
    """The page whose last memory is the last that fits; there are no more if it is the last of the scope."""
    last = matching[-1]
    is_last = page.next_cursor is None and last is page.memories[-1]
    return Page(tuple(matching), None if is_last else str(cursor_of(last)), tuple(damaged))


def _start(cursor: str | None, until: datetime | None) -> str | None:
    """The later of two positions: the given cursor, and the one after which all memories are from before `until`."""
    if until is None:
        return cursor
    return str(min(parse_cursor(cursor), ListCursor(to_micros(until) or 0, _FIRST_ID)))
