"""The rules of paging that are the same in every store: how long a page is, and the cursor of a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from retentive.errors import Invalid
from retentive.models import Memory
from retentive.stores.sql_codec import to_micros

PAGE_BYTES = 8_000_000
"""A page ends after this many bytes of text, whatever its limit: a memory can have a million characters."""

_LAST = 2**63 - 1


class ListCursor(NamedTuple):
    """The last memory of a page: its time in microseconds since 1970, and its id. Lists go on after it."""

    time: int = _LAST
    id: str = ""

    def __str__(self) -> str:
        return f"{self.time}_{self.id}"


def cursor_of(memory: Memory) -> ListCursor:
    """The cursor after a memory."""
    return ListCursor(to_micros(memory.when) or 0, memory.id)


def parse_cursor(text: str | None) -> ListCursor:
    """The cursor that a page returned; None starts before the newest memory. `Invalid` if it is no cursor."""
    if text is None:
        return ListCursor()
    time, _, id = text.partition("_")
    try:
        cursor = ListCursor(int(time), str(UUID(id)))
        if str(cursor) == text and abs(cursor.time) <= _LAST:
            return cursor
    except ValueError:
        pass
    raise Invalid(f"cursor: {text!r:.80} was not returned with a page; leave it out to start with the newest memory")


def page_length(sizes: Iterable[int], limit: int) -> int:
    """How many memories of these sizes make a page: at most `limit`, at least one, and no more after `PAGE_BYTES`."""
    count = total = 0
    for size in sizes:
        if count == limit or (count and total + size > PAGE_BYTES):
            break
        count, total = count + 1, total + size
    return count
