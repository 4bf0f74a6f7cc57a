"""Return the space of what was deleted to the file system, while others read and write."""

from __future__ import annotations

import logging
from collections.abc import Callable

from retentive.errors import RetentiveError
from retentive.stores.sqlite.block_reclaim import reclaim, reclaimable_blocks
from retentive.stores.sqlite.connections import Connections
from retentive.stores.sqlite.vector_blocks import BLOCK
from retentive.stores.values import Compaction

log = logging.getLogger(__name__)

STEP = 1000
"""Pages that one transaction moves to the end of the file and cuts off."""

MANY_FREE = 1024
"""Up to this many free pages, or a quarter of the file, stay in it: later writes use them."""

_MERGE_PAGES = 500
_INCREMENTAL = 2


def tidy(connections: Connections) -> None:
    """After a deletion: return some pages if many are free, and truncate the log. A failure is logged."""
    try:
        with connections.read() as connection:
            free, pages = connection.pragma("freelist_count"), connection.pragma("page_count")
        if free > max(MANY_FREE, pages // 4):
            _return_pages(connections)
    except RetentiveError as error:
        log.warning("the deletion has succeeded, but its space was not returned to the file system: %s", error)
    connections.truncate_log()


def compact(connections: Connections, progress: Callable[[int], None]) -> Compaction:
    """Return all free space, in transactions of bounded duration. `progress` is called with the number of steps done.

    A file that was created before free pages could be returned is rewritten once; then writers wait.
    """
    before = connections.size()
    _merge_keyword_index(connections, progress)
    with connections.read() as connection:
        blocks = reclaimable_blocks(connection)
        incremental = connection.pragma("auto_vacuum") == _INCREMENTAL
    for block in blocks:
        with connections.write() as connection:
            reclaim(connection, [block], most=BLOCK // 2)
        progress(1)
    if not incremental:
        with connections.alone() as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("VACUUM")
        progress(1)
    while _return_pages(connections):
        progress(1)
    connections.truncate_log()
    return Compaction(before, connections.size())


def _merge_keyword_index(connections: Connections, progress: Callable[[int], None]) -> None:
    """Rewrite all segments of the FTS5 index as one."""
    with connections.write() as connection:
        # FTS5 rewrites no segment that is alone, however empty its pages are. An entry of its own makes a second one.
        entry = (0, "compacting", "")  # no memory has the key 0
        connection.execute("INSERT INTO words (rowid, terms, scope) VALUES (?, ?, ?)", entry)
        connection.execute("SAVEPOINT written; RELEASE written")  # FTS5 writes what it has collected
        # A negative number includes segments that FTS5 would leave as they are.
        connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (-_MERGE_PAGES,))
        connection.execute("INSERT INTO words (words, rowid, terms, scope) VALUES ('delete', ?, ?, ?)", entry)
    merged = True
    while merged:
        progress(1)
        with connections.write() as connection:
            changes = connection.total_changes()
            connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (_MERGE_PAGES,))
            merged = connection.total_changes() - changes >= 2  # as FTS5 documents it


def _return_pages(connections: Connections) -> bool:
    """Return up to `STEP` free pages; False if there were none, or the file cannot return them."""
    with connections.write() as connection:
        free = connection.pragma("freelist_count")
        if free:
            connection.execute(f"PRAGMA incremental_vacuum({STEP})").fetchall()
        return bool(connection.pragma("freelist_count") < free)
