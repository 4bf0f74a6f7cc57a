"""How many memories hold each term and are in each place, kept without any writer waiting for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from retentive.stores.postgres.pools import Connection
from retentive.stores.sql_codec import SCOPE_TOKENS, ScopeIds

FOLDED_EVERY = 1024
"""After so many memories, by their keys, whoever wrote the last of them folds the changes."""

Entry = tuple[ScopeIds, Sequence[str]]
"""Where a memory is, and its terms."""

_COPY = b"COPY count_changes (name, memories, length) FROM STDIN (FORMAT BINARY)"

_FOLD = """
    WITH gone AS (DELETE FROM count_changes RETURNING name, memories, length)
    INSERT INTO counts AS c (name, memories, length)
    SELECT name, sum(memories), sum(length) FROM gone GROUP BY name ORDER BY name
    ON CONFLICT (name) DO UPDATE SET memories = c.memories + excluded.memories, length = c.length + excluded.length
"""


def places(numbers: ScopeIds) -> list[str]:
    """The names under which a memory is counted by where it is."""
    named = [f"=p{numbers.profile}k{numbers.kind}"]
    if numbers.project:
        named.append(f"=r{numbers.project}k{numbers.kind}")
    if numbers.session:
        named.append(f"=s{numbers.session}k{numbers.kind}")
    return named


def note(connection: Connection, come: Iterable[Entry] = (), gone: Iterable[Entry] = ()) -> None:
    """Write down which memories came and went."""
    changes: Counter[str] = Counter()
    length = 0
    for sign, entries in ((+1, list(come)), (-1, list(gone))):
        counted = Counter(chain.from_iterable({*terms, *places(numbers)} for numbers, terms in entries))
        for name, count in counted.items():
            changes[name] += sign * count
        changes["="] += sign * len(entries)
        length += sign * sum(len(terms) + SCOPE_TOKENS for _, terms in entries)
    write(connection, changes, length)


def write(connection: Connection, changes: Counter[str], length: int = 0) -> None:
    """Add these changes to the counts."""
    rows = [(name, count, length if name == "=" else 0) for name, count in sorted(changes.items())]
    rows = [row for row in rows if row[1] or row[2]]
    if rows:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.set_types(("text", "int8", "int8"))
            for row in rows:
                copy.write_row(row)


def fold(connection: Connection) -> None:
    """Add up what has changed, unless somebody is at it already; searches then have fewer rows to add up."""
    with connection.transaction():
        [(ours,)] = connection.execute(
            "SELECT pg_try_advisory_xact_lock(hashtextextended('retentive.fold.' || current_schema(), 0))"
        ).fetchall()
        if ours:
            connection.execute(_FOLD)
            connection.execute("DELETE FROM writes WHERE made < now() - interval '1 hour'")


def sweep(connection: Connection) -> None:
    """Take out the names under which nothing is counted any more."""
    connection.execute("DELETE FROM counts WHERE memories = 0 AND length = 0")
