"""The small tables beside the memories: idempotency keys, key-value entries and relevance judgements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import apsw

from retentive.errors import NotFound
from retentive.stores.rules import is_sent_again
from retentive.stores.sql_codec import from_micros, to_micros
from retentive.stores.sqlite.memory_table import is_storable, storable_ids
from retentive.stores.sqlite.row_changes import NameRegistry
from retentive.stores.values import IdempotencyKey, Judgement

# Idempotency keys


def written_before(connection: apsw.Connection, key: IdempotencyKey) -> list[str] | None:
    """The ids that the request with this key wrote; None if it is new. `Conflict` if it was another request."""
    row = connection.execute("SELECT ids, fingerprint, made FROM requests WHERE name = ?", (key.name,)).get
    return json.loads(row[0]) if row is not None and is_sent_again(key, *row[1:]) else None


def record_write(connection: apsw.Connection, key: IdempotencyKey, ids: Sequence[str]) -> None:
    """Record what a request wrote, in its own transaction, and delete expired keys."""
    connection.execute("DELETE FROM requests WHERE made < ?", (to_micros(key.expires_before),))
    connection.execute(
        "INSERT INTO requests VALUES (?, ?, ?, ?)", (key.name, key.fingerprint, json.dumps(ids), to_micros(key.at))
    )


# Key-value entries


def list_values(connection: apsw.Connection, prefix: str) -> dict[str, str]:
    """All entries whose name starts with the prefix."""
    rows = connection.execute(
        "SELECT name, value FROM kept WHERE substr(name, 1, length(:prefix)) = :prefix ORDER BY name",
        {"prefix": prefix},
    )
    return dict(rows)


def compare_and_set(
    connection: apsw.Connection, changes: Mapping[str, str | None], expected: Mapping[str, str | None]
) -> bool:
    """Write all changes if every expected value still holds."""
    for name, value in expected.items():
        if connection.execute("SELECT value FROM kept WHERE name = ?", (name,)).get != value:
            return False
    for name, value in changes.items():
        if value is None:
            connection.execute("DELETE FROM kept WHERE name = ?", (name,))
        else:
            connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, value))
    return True


# Relevance judgements

_KEY = """
    SELECT m.key, m.profile FROM memories AS m JOIN profiles AS p ON p.id = m.profile WHERE m.id = ? AND p.name = ?
"""

_INSERT = """
    INSERT INTO judgements (profile, project, question, memory, relevance, asked_at, created)
    VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?)
    ON CONFLICT (memory, profile, coalesce(project, 0), question)
    DO UPDATE SET relevance = excluded.relevance, asked_at = excluded.asked_at, created = excluded.created
"""

_LIST = """
    SELECT j.question, m.id, j.relevance, j.created, p.name, r.name, j.asked_at
    FROM judgements AS j JOIN profiles AS p ON p.id = j.profile JOIN memories AS m ON m.key = j.memory
    LEFT JOIN projects AS r ON r.id = j.project
    WHERE p.name = :profile AND (:project IS NULL OR r.name = :project)
    ORDER BY j.id
"""

_DELETE = """
    DELETE FROM judgements
    WHERE question = :query AND profile = (SELECT id FROM profiles WHERE name = :profile)
      AND project IS (SELECT id FROM projects WHERE profile = judgements.profile AND name = :project)
      AND (project IS NULL) = (:project IS NULL)
      AND memory = (SELECT key FROM memories WHERE id = :memory)
"""


def add_judgements(connection: apsw.Connection, judgements: Sequence[Judgement]) -> None:
    """Store judgements; each replaces an earlier one of the same query and memory."""
    names = NameRegistry(connection)
    for judgement in judgements:
        known = storable_ids([judgement.memory])
        found = connection.execute(_KEY, (judgement.memory, judgement.profile)).get if known else None
        if found is None:
            raise NotFound(
                f"there is no memory {judgement.memory} in profile '{judgement.profile}'; nothing was judged"
            )
        key, profile = found
        project = names.project(profile, judgement.project) if judgement.project is not None else 0
        times = (to_micros(judgement.asked_at), to_micros(judgement.created))
        connection.execute(_INSERT, (profile, project, judgement.query, key, judgement.relevance, *times))


def list_judgements(connection: apsw.Connection, profile: str, project: str | None) -> list[Judgement]:
    """The judgements of a profile or of one of its projects, in the order in which they were first given."""
    found = []
    rows = connection.execute(_LIST, {"profile": profile, "project": project})
    for query, memory, relevance, created, owner, of_project, asked_at in rows:
        at = from_micros(created)
        assert at is not None
        found.append(Judgement(query, memory, relevance, at, owner, of_project, from_micros(asked_at)))
    return found


def remove_judgements(connection: apsw.Connection, judgements: Sequence[Judgement]) -> int:
    """Delete judgements and return how many existed."""
    removed = 0
    for judgement in judgements:
        names = {name: getattr(judgement, name) for name in ("query", "profile", "project", "memory")}
        if all(name is None or is_storable(name) for name in names.values()):
            connection.execute(_DELETE, names)
            removed += connection.changes()
    return removed
