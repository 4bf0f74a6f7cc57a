"""Sessions, projects and totals of a PostgreSQL store."""

from __future__ import annotations

from collections import Counter
from datetime import date

from retentive.errors import NotFound
from retentive.models import KINDS, Day, Kind, Profile, Project, Session, Stats
from retentive.stores.postgres import counts, models
from retentive.stores.postgres.names import known_projects
from retentive.stores.postgres.pools import Connection
from retentive.stores.sql_codec import from_micros

_SESSIONS = """
    SELECT s.name, p.name, r.name, count(m.key),
           min(coalesce(m.occurred, m.created)), max(coalesce(m.occurred, m.created))
    FROM sessions AS s JOIN profiles AS p ON p.id = s.profile
    LEFT JOIN projects AS r ON r.id = s.project LEFT JOIN memories AS m ON m.session = s.id
    WHERE p.name = %(profile)s AND (%(project)s::text IS NULL OR r.name = %(project)s)
      AND (%(session)s::text IS NULL OR s.name = %(session)s)
    GROUP BY s.id, p.name, r.name ORDER BY s.name
"""

# Days since 1970, rounded down also before it.
_DAYS = """
    SELECT (floor(coalesce(m.occurred, m.created) / 86400000000.0))::bigint AS day, m.kind, count(*)
    FROM memories AS m JOIN profiles AS p ON p.id = m.profile LEFT JOIN projects AS r ON r.id = m.project
    WHERE p.name = %(profile)s AND (%(project)s::text IS NULL OR r.name = %(project)s)
    GROUP BY 1, 2 ORDER BY 1, 2
"""

_PROJECTS = """
    SELECT r.name, p.name, (SELECT count(*) FROM sessions AS s WHERE s.project = r.id),
           (SELECT count(*) FROM memories AS m WHERE m.profile = p.id AND m.project = r.id)
    FROM projects AS r JOIN profiles AS p ON p.id = r.profile WHERE p.name = %s ORDER BY r.name
"""

_PROFILES = """
    SELECT p.name, (SELECT count(*) FROM projects AS r WHERE r.profile = p.id),
           (SELECT count(*) FROM sessions AS s WHERE s.profile = p.id), m.memories
    FROM profiles AS p JOIN (SELECT profile, count(*) AS memories FROM memories GROUP BY profile) AS m
      ON m.profile = p.id
    ORDER BY p.name
"""

_TOTALS = """
    SELECT
      (SELECT count(*) FROM profiles), (SELECT count(*) FROM projects), (SELECT count(*) FROM sessions),
      (SELECT count(*) FROM vectors, state WHERE model = active_model),
      (SELECT count(DISTINCT memory) FROM vectors, state WHERE model = active_model),
      (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
       WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r')
"""

_FIRST_DAY = date(1970, 1, 1).toordinal()


def sessions(
    connection: Connection, profile: str, project: str | None = None, session: str | None = None
) -> list[Session]:
    """The sessions of a profile, of a project, or the one of that name."""
    rows = connection.execute(_SESSIONS, {"profile": profile, "project": project, "session": session}, binary=True)
    return [
        Session(name, owner, home, memories, from_micros(first), from_micros(last))
        for name, owner, home, memories, first, last in rows
    ]


def projects(connection: Connection, profile: str) -> list[Project]:
    """The projects of a profile."""
    return [Project(*row) for row in connection.execute(_PROJECTS, (profile,), binary=True)]


def profiles(connection: Connection) -> list[Profile]:
    """Everybody who has memories here."""
    return [Profile(*row) for row in connection.execute(_PROFILES, binary=True)]


def days(connection: Connection, profile: str, project: str | None) -> list[Day]:
    """How much a profile or one of its projects has of each day."""
    found: dict[date, dict[Kind, int]] = {}
    for day, kind, count in connection.execute(_DAYS, {"profile": profile, "project": project}, binary=True):
        found.setdefault(date.fromordinal(_FIRST_DAY + day), {})[KINDS[kind - 1]] = count
    return [Day(day, by_kind) for day, by_kind in found.items()]


def move_session(connection: Connection, profile: str, session: str, project: str | None) -> Session:
    """Put a session and all its memories into another project, in every index."""
    row = connection.execute(
        "SELECT s.id, p.id, coalesce(s.project, 0) FROM sessions AS s JOIN profiles AS p ON p.id = s.profile "
        "WHERE p.name = %s AND s.name = %s FOR NO KEY UPDATE OF s",
        (profile, session),
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no session '{session}' in profile '{profile}'; see: retentive sessions")
    number, owner, old = row
    home = known_projects(connection, [(owner, project)])[owner, project] if project is not None else 0
    if home != old:
        connection.execute("UPDATE sessions SET project = nullif(%s, 0) WHERE id = %s", (home, number))
        moved = connection.execute(
            "UPDATE memories SET project = nullif(%s, 0) WHERE session = %s RETURNING kind", (home, number)
        ).fetchall()
        connection.execute("UPDATE vectors SET project = nullif(%s, 0) WHERE session = %s", (home, number))
        changes: Counter[str] = Counter()
        for kind, count in Counter(kind for (kind,) in moved).items():
            for place, sign in ((old, -1), (home, +1)):
                if place:
                    changes[f"=r{place}k{kind}"] += sign * count
        counts.write(connection, changes)
    return sessions(connection, profile, session=session)[0]


def stats(connection: Connection) -> Stats:
    """What the store holds."""
    kinds = dict(connection.execute("SELECT kind, count(*) FROM memories GROUP BY kind").fetchall())
    [(owners, homes, conversations, vectors, embedded, size)] = connection.execute(_TOTALS).fetchall()
    memories = sum(kinds.values())
    return Stats(
        memories=memories,
        by_kind={kind: kinds.get(number, 0) for number, kind in enumerate(KINDS, 1)},
        profiles=owners,
        projects=homes,
        sessions=conversations,
        vectors=vectors,
        unembedded=memories - embedded,
        model=models.active_model(connection),
        bytes=size,
    )
