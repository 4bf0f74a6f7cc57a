"""The table of judgements."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from retentive.errors import NotFound
from retentive.models import Judgement
from retentive.stores.sql_codec import from_micros, to_micros
from retentive.stores.sqlite.rows import storable, storable_ids
from retentive.stores.sqlite.scopes import NameRegistry

_KEY = """
    SELECT m.key, m.profile FROM memories AS m JOIN profiles AS p ON p.id = m.profile WHERE m.id = ? AND p.name = ?
"""

_INSERT = """
    INSERT INTO judgements (profile, project, question, memory, relevance, asked_at, created)
    VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?)
    ON CONFLICT (memory, profile, coalesce(project, 0), question)
    DO UPDATE SET relevance = excluded.relevance, asked_at = excluded.asked_at, created = excluded.created
"""

_LISTING = """
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


def add(connection: apsw.Connection, judgements: Sequence[Judgement]) -> None:
    """Write these, each over an earlier one of the same query and memory."""
    registrar = NameRegistry(connection)
    for judgement in judgements:
        known = storable_ids([judgement.memory])
        found = connection.execute(_KEY, (judgement.memory, judgement.profile)).get if known else None
        if found is None:
            raise NotFound(
                f"there is no memory {judgement.memory} in profile '{judgement.profile}'; nothing was judged"
            )
        key, profile = found
        project = registrar.project(profile, judgement.project) if judgement.project is not None else 0
        times = (to_micros(judgement.asked_at), to_micros(judgement.created))
        connection.execute(_INSERT, (profile, project, judgement.query, key, judgement.relevance, *times))


def listed(connection: apsw.Connection, profile: str, project: str | None) -> list[Judgement]:
    """The judgements of a profile, or of one of its projects, in the order in which they were first given."""
    found = []
    for query, memory, relevance, created, owner, home, asked_at in connection.execute(
        _LISTING, {"profile": profile, "project": project}
    ):
        at = from_micros(created)
        assert at is not None
        found.append(Judgement(query, memory, relevance, at, owner, home, from_micros(asked_at)))
    return found


def remove(connection: apsw.Connection, judgements: Sequence[Judgement]) -> int:
    """How many of these there were."""
    gone = 0
    for judgement in judgements:
        names = {name: getattr(judgement, name) for name in ("query", "profile", "project", "memory")}
        if all(name is None or storable(name) for name in names.values()):
            connection.execute(_DELETE, names)
            gone += connection.changes()
    return gone


def remove_of(connection: apsw.Connection, keys: Sequence[int]) -> None:
    """Take out all judgements of these memories."""
    connection.executemany("DELETE FROM judgements WHERE memory = ?", [(key,) for key in keys])
