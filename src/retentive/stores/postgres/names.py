"""Names of profiles, projects and sessions as numbers, made where they are new, and the places of memories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retentive.errors import Conflict
from retentive.models import Memory
from retentive.stores.postgres.pools import Connection
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds

_SESSIONS = """
    SELECT s.profile, s.name, s.id, coalesce(s.project, 0)
    FROM sessions AS s JOIN unnest(%s::integer[], %s::text[]) AS wanted (profile, name)
      ON s.profile = wanted.profile AND s.name = wanted.name
    ORDER BY s.id FOR NO KEY UPDATE OF s
"""

_PROJECTS = """
    SELECT p.profile, p.name, p.id
    FROM projects AS p JOIN unnest(%s::integer[], %s::text[]) AS wanted (profile, name)
      ON p.profile = wanted.profile AND p.name = wanted.name
"""

_FREE = """
    SELECT session, (SELECT max(position) FROM memories AS m WHERE m.session = wanted.session)
    FROM unnest(%s::integer[]) AS wanted (session)
"""

# New names are inserted in one order by everybody: two who make the same ones wait, and do not lock each other out.
_NEW_PROFILES = "INSERT INTO profiles (name) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING"
_NEW_PROJECTS = """
    INSERT INTO projects (profile, name) SELECT * FROM unnest(%s::integer[], %s::text[]) ON CONFLICT DO NOTHING
"""
_NEW_SESSIONS = """
    INSERT INTO sessions (profile, name, project)
    SELECT profile, name, nullif(project, 0) FROM unnest(%s::integer[], %s::text[], %s::integer[])
      AS new (profile, name, project)
    ON CONFLICT DO NOTHING
"""

Named = tuple[int, str]


def place(connection: Connection, memories: Sequence[Memory]) -> list[ScopeIds]:
    """Where each memory belongs. Its session is locked, so that nobody else takes a place in it meanwhile."""
    profiles = _profiles(connection, {memory.profile for memory in memories})
    projects = known_projects(
        connection, {(profiles[one.profile], one.project) for one in memories if one.project is not None}
    )
    wanted: dict[Named, int] = {}
    for one in memories:
        if one.session is not None:
            profile = profiles[one.profile]
            # A new session belongs to the project of its first memory.
            wanted.setdefault((profile, one.session), projects[profile, one.project] if one.project is not None else 0)
    sessions = _sessions(connection, wanted)
    placed = []
    for one in memories:
        profile = profiles[one.profile]
        project = projects[profile, one.project] if one.project is not None else 0
        session = 0
        if one.session is not None:
            session, home = sessions[profile, one.session]
            if project and home != project:
                raise Conflict(
                    f"session '{one.session}' does not belong to project '{one.project}'; leave the project out, "
                    f"or move it: retentive sessions move '{one.session}' --project '{one.project}'"
                )
            project = home
        placed.append(ScopeIds(profile, project, session, KIND_NUMBERS[one.kind]))
    return placed


def positions(connection: Connection, memories: Sequence[Memory], placed: Sequence[ScopeIds]) -> list[int | None]:
    """The place of each memory in its session: the one it was given, or the next free one."""
    sessions = sorted({numbers.session for numbers in placed if numbers.session})
    free = {}
    if sessions:
        for session, highest in connection.execute(_FREE, (sessions,), binary=True):
            free[session] = -1 if highest is None else highest
    found: list[int | None] = []
    for memory, numbers in zip(memories, placed, strict=True):
        if not numbers.session:
            found.append(None)
            continue
        position = free[numbers.session] + 1 if memory.position is None else memory.position
        free[numbers.session] = max(free[numbers.session], position)
        found.append(position)
    return found


def _profiles(connection: Connection, names: set[str]) -> dict[str, int]:
    wanted = sorted(names)

    def known() -> dict[str, int]:
        statement = "SELECT name, id FROM profiles WHERE name = ANY (%s)"
        return dict(connection.execute(statement, (wanted,), binary=True).fetchall())

    found = known()
    if len(found) < len(wanted):
        connection.execute(_NEW_PROFILES, ([name for name in wanted if name not in found],))
        found = known()
    return found


def known_projects(connection: Connection, wanted: Iterable[Named]) -> dict[Named, int]:
    """The numbers of these projects, made where they are new."""
    names = sorted(wanted)
    if not names:
        return {}

    def known() -> dict[Named, int]:
        rows = connection.execute(_PROJECTS, _columns(names), binary=True)
        return {(profile, name): number for profile, name, number in rows}

    found = known()
    if len(found) < len(names):
        connection.execute(_NEW_PROJECTS, _columns([name for name in names if name not in found]))
        found = known()
    return found


def _sessions(connection: Connection, wanted: dict[Named, int]) -> dict[Named, tuple[int, int]]:
    """The number of each session and of its project."""
    names = sorted(wanted)
    if not names:
        return {}

    def known() -> dict[Named, tuple[int, int]]:
        rows = connection.execute(_SESSIONS, _columns(names), binary=True)
        return {(profile, name): (number, project) for profile, name, number, project in rows}

    found = known()
    if len(found) < len(names):
        new = [name for name in names if name not in found]
        connection.execute(_NEW_SESSIONS, (*_columns(new), [wanted[name] for name in new]))
        found = known()
    return found


def _columns(names: Sequence[Named]) -> tuple[list[int], list[str]]:
    return [profile for profile, _ in names], [name for _, name in names]
