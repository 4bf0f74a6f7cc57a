"""Read memories by their ids, and list those of a scope in pages, also those that match a filter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from retentive.errors import Invalid, NotFound
from retentive.models import Filter, Memory, Scope, canonical_id
from retentive.pipeline.scopes import ScopeTest
from retentive.stores.base import Memories, Store
from retentive.stores.damage import Damage, damaged_error
from retentive.stores.rules import ListCursor, cursor_of, parse_cursor
from retentive.stores.sql_codec import to_micros
from retentive.stores.values import Page

PAGE = 1000
MOST_READ = 20_000
"""A page ends when so many memories were compared with the metadata, however few of them match."""

_FIRST_ID = "00000000-0000-0000-0000-000000000000"


def get_memory(store: Store, id: str, *, within: Scope | None) -> Memory:
    """Return a memory; see `Engine.get`."""
    if not isinstance(id, str):
        raise Invalid(f"id: it must be text, not {type(id).__name__}")
    id = canonical_id(id)
    memories = store.get([id], within=within)
    if memories:
        return memories[0]
    for damage in store.damaged([id], within=within):
        raise damaged_error(damage)
    if within is not None and within.project is not None:
        for memory in store.get([id], within=Scope(within.profile, kinds=("identity",))):
            if memory.project is None and ScopeTest(within, store).difference(memory) is None:
                return memory
    raise NotFound(f"there is no memory {id}")


def get_memories(store: Store, ids: Sequence[str], *, within: Scope | None) -> Sequence[Memory]:
    """Return the memories with these ids that exist, in the order of the ids."""
    given: Any = ids
    if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(id, str) for id in given):
        raise Invalid("ids: a list of ids, each of which is text")
    return store.get([canonical_id(id) for id in ids], within=within)


def list_memories(
    store: Memories,
    scope: Scope,
    wanted: Filter,
    *,
    cursor: str | None,
    limit: int,
    current_at: datetime | None,
    started_by: datetime | None,
) -> Page:
    """Return one page of the memories of a scope, newest first, or of those that match a filter."""
    if not hasattr(limit, "__index__") or not 1 <= limit <= 1000:
        raise Invalid(f"limit: a number from 1 to 1000, not {limit!r:.80}")
    limit = int(limit)  # SQLite does not accept the integers of numpy
    if cursor is not None and not isinstance(cursor, str):
        raise Invalid(f"cursor: it must be text, not {type(cursor).__name__}")
    if not wanted:
        return store.list(scope, cursor=cursor, limit=limit, current_at=current_at, started_by=started_by)
    return _list_matching(
        store, scope, wanted, cursor=cursor, limit=limit, current_at=current_at, started_by=started_by
    )


def _list_matching(
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
