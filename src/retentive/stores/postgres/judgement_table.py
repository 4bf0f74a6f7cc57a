"""The table of judgements."""

from __future__ import annotations

from collections.abc import Sequence

from retentive.errors import NotFound
from retentive.models import Judgement
from retentive.stores.postgres.names import known_projects
from retentive.stores.postgres.pools import Connection
from retentive.stores.sql_codec import from_micros, to_micros

_KEY = """
    SELECT m.key, m.profile FROM memories AS m JOIN profiles AS p ON p.id = m.profile
    WHERE m.id = %s AND p.name = %s FOR KEY SHARE OF m
"""

_INSERT = """
    INSERT INTO judgements (profile, project, question, memory, relevance, asked_at, created)
    VALUES (%s, nullif(%s, 0), %s, %s, %s, %s, %s)
    ON CONFLICT (memory, profile, coalesce(project, 0), hashtextextended(question, 0), hashtextextended(question, 1))
    DO UPDATE SET relevance = excluded.relevance, asked_at = excluded.asked_at, created = excluded.created
"""

_LISTING = """
    SELECT j.question, m.id, j.relevance, j.created, p.name, r.name, j.asked_at
    FROM judgements AS j JOIN profiles AS p ON p.id = j.profile JOIN memories AS m ON m.key = j.memory
    LEFT JOIN projects AS r ON r.id = j.project
    WHERE p.name = %(profile)s AND (%(project)s::text IS NULL OR r.name = %(project)s)
    ORDER BY j.id
"""

_DELETE = """
    DELETE FROM judgements AS j USING profiles AS p, memories AS m
    WHERE p.name = %(profile)s AND j.profile = p.id AND m.id = %(memory)s AND j.memory = m.key
      AND j.question = %(query)s
      AND coalesce(j.project, 0) = CASE WHEN %(project)s::text IS NULL THEN 0
        ELSE (SELECT r.id FROM projects AS r WHERE r.profile = p.id AND r.name = %(project)s) END
"""


def add(connection: Connection, judgements: Sequence[Judgement]) -> None:
    """Write these, each over an earlier one of the same query and memory."""
    for one in judgements:
        found = connection.execute(_KEY, (one.memory, one.profile)).fetchone()
        if found is None:
            raise NotFound(f"there is no memory {one.memory} in profile '{one.profile}'; nothing was judged")
        key, profile = found
        project = 0
        if one.project is not None:
            project = known_projects(connection, [(profile, one.project)])[profile, one.project]
        times = (to_micros(one.asked_at), to_micros(one.created))
        connection.execute(_INSERT, (profile, project, one.query, key, one.relevance, *times))


def listed(connection: Connection, profile: str, project: str | None) -> list[Judgement]:
    """The judgements of a profile, or of one of its projects, in the order in which they were first given."""
    found = []
    rows = connection.execute(_LISTING, {"profile": profile, "project": project}, binary=True)
    for query, memory, relevance, created, owner, home, asked_at in rows:
        at = from_micros(created)
        assert at is not None
        found.append(Judgement(query, memory, relevance, at, owner, home, from_micros(asked_at)))
    return found


def remove(connection: Connection, judgements: Sequence[Judgement]) -> int:
    """How many of these there were."""
    gone = 0
    for one in judgements:
        names = {name: getattr(one, name) for name in ("query", "profile", "project", "memory")}
        gone += connection.execute(_DELETE, names).rowcount
    return gone
