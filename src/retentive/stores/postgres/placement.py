"""The placement of new memories: the ids of their profiles, projects and sessions, and their positions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set

from retentive.models import Memory
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.sql import Statements
from retentive.stores.rules import home_of
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds

Name = tuple[int, str]
"""The id of a profile, and the name of a project or session in it."""

SessionName = tuple[int, str, int]
"""The id of a profile, the name of a session in it, and the id of its project; 0 is none."""

_TRIES = 5
"""How often the sessions of memories without a project are looked up, while others move them."""

_SQL = Statements("catalogue")


def place(connection: Connection, memories: Sequence[Memory], *, exact: bool = False) -> list[ScopeIds]:
    """Return the ids of each memory's scope, created where they are new.

    Unless `exact`, one without a project goes into the session of its name that `home_of` chooses. The sessions are
    locked until the end of the transaction, so that no other writer takes a position in them.
    """
    profiles = _profile_ids(connection, {memory.profile for memory in memories})
    named = {(profiles[one.profile], one.project) for one in memories if one.project is not None}
    projects = project_ids(connection, named)
    given = [0 if one.project is None else projects[profiles[one.profile], one.project] for one in memories]
    wanted = [
        None if one.session is None else (profiles[one.profile], one.session, project)
        for one, project in zip(memories, given, strict=True)
    ]
    sessions = _sessions_of(connection, wanted, exact=exact)
    return [
        ScopeIds(profiles[one.profile], *(session or (project, 0)), KIND_NUMBERS[one.kind])
        for one, project, session in zip(memories, given, sessions, strict=True)
    ]


def find_homes(connection: Connection, memories: Sequence[Memory], *, exact: bool) -> list[tuple[int, int]]:
    """Return the ids of the profile and the project into which each memory would go. Nothing is created."""
    with connection.transaction(force_rollback=True):
        placed = place(connection, memories, exact=exact)
    return [(ids.profile, ids.project) for ids in placed]


def _sessions_of(
    connection: Connection, wanted: Sequence[SessionName | None], *, exact: bool
) -> list[tuple[int, int] | None]:
    """Return the ids of the project and of each of these sessions, locked, and created where they are new."""
    unnamed = {one[:2] for one in wanted if one is not None and not one[2] and not exact}
    for _ in range(_TRIES):
        known = _projects_of(connection, unnamed)
        found = {(*name, project) for name, projects in known.items() for project in projects}
        chosen: list[SessionName | None] = []
        for one in wanted:
            if one is None or exact:
                chosen.append(one)
                continue
            projects = known.setdefault(one[:2], set())
            project = home_of(one[1], one[2], projects)
            projects.add(project)
            chosen.append((*one[:2], project))
        names = {one for one in chosen if one is not None}
        ids = _lock_sessions(connection, names)
        if all(name in ids for name in names & found):
            break
        # Another transaction has moved one of them since it was found.
    ids |= _create_sessions(connection, names - ids.keys())
    return [None if one is None else (one[2], ids[one]) for one in chosen]


def positions(connection: Connection, memories: Sequence[Memory], placed: Sequence[ScopeIds]) -> list[int | None]:
    """Return the position of each memory in its session: its own, or the next one; None without a session."""
    sessions = sorted({ids.session for ids in placed if ids.session})
    last = dict(connection.execute(_SQL("last_positions"), (sessions,), binary=True).fetchall()) if sessions else {}
    found: list[int | None] = []
    for memory, ids in zip(memories, placed, strict=True):
        position = None
        if ids.session:
            position = last[ids.session] + 1 if memory.position is None else memory.position
            last[ids.session] = max(last[ids.session], position)
        found.append(position)
    return found


def _profile_ids(connection: Connection, names: set[str]) -> dict[str, int]:
    def find() -> dict[str, int]:
        return dict(connection.execute(_SQL("find_profiles"), (sorted(names),), binary=True).fetchall())

    found = find()
    if len(found) < len(names):
        connection.execute(_SQL("create_profiles"), (sorted(names - found.keys()),))
        found = find()
    return found


def project_ids(connection: Connection, names: Collection[Name]) -> dict[Name, int]:
    """Return the ids of these projects, created where they are new."""

    def find() -> dict[Name, int]:
        rows = connection.execute(_SQL("find_projects"), _columns(names), binary=True)
        return {(profile, name): id for profile, name, id in rows}

    found = find() if names else {}
    if len(found) < len(names):
        connection.execute(_SQL("create_projects"), _columns(name for name in names if name not in found))
        found = find()
    return found


def _projects_of(connection: Connection, names: Collection[Name]) -> dict[Name, set[int]]:
    """Return the projects of two sessions of each name, with 0 if one is in no project."""
    found: dict[Name, set[int]] = {}
    if names:
        for profile, name, project in connection.execute(_SQL("session_projects"), _columns(names), binary=True):
            found.setdefault((profile, name), set()).add(project)
    return found


def _lock_sessions(connection: Connection, names: Collection[SessionName]) -> dict[SessionName, int]:
    """Return the ids of those of these sessions that exist, locked."""
    if not names:
        return {}
    rows = connection.execute(_SQL("lock_sessions"), _session_columns(names), binary=True)
    return {(profile, name, project): id for profile, name, project, id in rows}


def _create_sessions(connection: Connection, names: Set[SessionName]) -> dict[SessionName, int]:
    """Create sessions, unless another transaction has created them meanwhile; return their ids, locked."""
    found: dict[SessionName, int] = {}
    while missing := names - found.keys():  # again if another transaction has created one and moved it
        connection.execute(_SQL("create_sessions"), _session_columns(missing))
        found |= _lock_sessions(connection, missing)
    return found


def _session_columns(names: Collection[SessionName]) -> tuple[list[int], list[str], list[int]]:
    ordered = sorted(names)
    return [one[0] for one in ordered], [one[1] for one in ordered], [one[2] for one in ordered]


def _columns(names: Iterable[Name]) -> tuple[list[int], list[str]]:
    ordered = sorted(names)
    return [profile for profile, _ in ordered], [name for _, name in ordered]
