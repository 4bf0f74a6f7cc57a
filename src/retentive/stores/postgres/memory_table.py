"""The table of memories: writing rows, listing and finding them, taking them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retentive.errors import Conflict, NotFound
from retentive.models import Memory
from retentive.stores.postgres import counts
from retentive.stores.postgres.pools import Connection
from retentive.stores.postgres.rows import COPIED_TYPES, COPY, values
from retentive.stores.postgres.search_stats import ResolvedScope
from retentive.stores.sql_codec import SCOPE_TOKENS, ScopeIds

_UPDATE = """
    UPDATE memories SET
      profile = %s, project = nullif(%s, 0), session = nullif(%s, 0), kind = %s, position = %s,
      speaker = %s, importance = %s, metadata = %s, source = %s, created = %s, occurred = %s, accessed = %s,
      access_count = %s, evergreen = %s, content_hash = %s, text = %s, terms = %s, length = %s
    WHERE key = %s
"""

_NEIGHBOURS = """
    SELECT
      m.key,
      (SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position < m.position
       ORDER BY n.position DESC LIMIT 1),
      (SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position > m.position
       ORDER BY n.position LIMIT 1)
    FROM unnest(%s::bigint[]) AS wanted (key) JOIN memories AS m ON m.key = wanted.key
    WHERE m.session IS NOT NULL
"""

_TOUCH = """
    UPDATE memories AS m SET access_count = m.access_count + t.times, accessed = greatest(m.accessed, %s)
    FROM (SELECT id, count(*) AS times FROM unnest(%s::text[]) AS u (id) GROUP BY id) AS t
    WHERE m.key = (SELECT key FROM memories WHERE id = t.id)
"""


def new_keys(connection: Connection, count: int) -> list[int]:
    """Keys that nobody else has, in the order of writing."""
    statement = "SELECT nextval(pg_get_serial_sequence('memories', 'key')) FROM generate_series(1, %s)"
    return [key for (key,) in connection.execute(statement, (count,), binary=True)]


def refuse_known(connection: Connection, ids: Sequence[str]) -> None:
    """`Conflict` if one of these ids is taken, or given twice."""
    if len(set(ids)) < len(ids):
        raise Conflict("two of these memories have the same id; nothing was stored")
    statement = "SELECT id FROM memories WHERE id = ANY (%s) ORDER BY id LIMIT 1"
    known = connection.execute(statement, (list(ids),)).fetchone()
    if known is not None:
        raise Conflict(f"there is a memory with the id {known[0]} already; update it instead, nothing was stored")


def insert(
    connection: Connection,
    keys: Sequence[int],
    memories: Sequence[Memory],
    placed: Sequence[ScopeIds],
    positions: Sequence[int | None],
    terms: Sequence[Sequence[str]],
) -> None:
    """Write these memories."""
    with connection.cursor() as cursor, cursor.copy(COPY) as copy:
        copy.set_types(COPIED_TYPES)
        for key, memory, at, position, words in zip(keys, memories, placed, positions, terms, strict=True):
            scope = (at.profile, at.project or None, at.session or None, position, at.kind)
            copy.write_row((key, memory.id, *scope, *values(memory), " ".join(words), len(words) + SCOPE_TOKENS))


def replace(connection: Connection, key: int, memory: Memory, at: ScopeIds, terms: Sequence[str]) -> None:
    """Write a memory over the one that has this key."""
    scope = (at.profile, at.project, at.session, at.kind, memory.position if at.session else None)
    connection.execute(_UPDATE, (*scope, *values(memory), " ".join(terms), len(terms) + SCOPE_TOKENS, key))


def locked(connection: Connection, id: str) -> tuple[int, counts.Entry]:
    """The key of a memory, where it is and its terms; nobody else changes it until we are done."""
    row = connection.execute(
        "SELECT key, profile, coalesce(project, 0), coalesce(session, 0), kind, terms FROM memories WHERE id = %s "
        "FOR UPDATE",
        (id,),
        binary=True,
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no memory {id}")
    key, *scope, terms = row
    return key, (ScopeIds(*scope), terms.split())


def list_keys(
    connection: Connection, reach: ResolvedScope, *, cursor: str | None = None, limit: int | None = None
) -> list[int]:
    """The keys of the memories in reach, newest first, from behind the cursor on."""
    behind = " AND id < %(cursor)s" if cursor is not None else ""
    statement = f"SELECT key FROM memories WHERE {reach.condition}{behind} ORDER BY id DESC LIMIT %(limit)s"  # noqa: S608 - names of columns and parameters
    parameters = {**reach.parameters, "cursor": cursor, "limit": limit}
    return [key for (key,) in connection.execute(statement.encode(), parameters, binary=True)]


def walk_keys(connection: Connection, *, cursor: str | None, limit: int) -> list[int]:
    """The keys of all memories by id, from behind the cursor on."""
    statement = "SELECT key FROM memories WHERE id > %s ORDER BY id LIMIT %s"
    return [key for (key,) in connection.execute(statement, (cursor or "", limit), binary=True)]


def keys_by_id(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """The keys of these memories that exist, by their ids."""
    if not ids:
        return {}
    return dict(connection.execute("SELECT id, key FROM memories WHERE id = ANY (%s)", (list(ids),), binary=True))


def neighbours(connection: Connection, keys: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
    """The memories just before and behind each of these in its session; none for one that has no session."""
    if not keys:
        return {}
    rows = connection.execute(_NEIGHBOURS, (list(keys),), binary=True)
    return {key: (before, behind) for key, before, behind in rows}


def touch(connection: Connection, ids: Sequence[str], micros: int) -> None:
    """Count a use of each of these, as often as it is named."""
    connection.execute(_TOUCH, (micros, sorted(ids)))


def remove(connection: Connection, keys: Iterable[int]) -> int:
    """How many of these memories there were; they are gone with their words, vectors and judgements."""
    wanted = sorted(keys)
    removed = 0
    for at in range(0, len(wanted), 1000):
        rows = connection.execute(
            "DELETE FROM memories WHERE key = ANY (%s) "
            "RETURNING profile, coalesce(project, 0), coalesce(session, 0), kind, terms",
            (wanted[at : at + 1000],),
            binary=True,
        ).fetchall()
        counts.note(connection, gone=[(ScopeIds(*scope), terms.split()) for *scope, terms in rows])
        removed += len(rows)
    return removed
