"""Profiles, projects and sessions: their ids, their memories, and the placement of new memories in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from datetime import date

from retentive.models import KINDS, Kind, Memory
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.memories import active_model
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.search_stats import CountName, append_changes
from retentive.stores.postgres.sql import Statements
from retentive.stores.postgres.validity import retire, settle_moved
from retentive.stores.rules import home_of, no_session, taken_name
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds, from_micros
from retentive.stores.values import Day, Profile, Progress, Project, Session, Stats, no_progress

Name = tuple[int, str]
"""The id of a profile, and the name of a project or session in it."""

SessionName = tuple[int, str, int]
"""The id of a profile, the name of a session in it, and the id of its project; 0 is none."""

_TRIES = 5
"""How often the sessions of memories without a project are looked up, while others move them."""

_SQL = Statements("catalogue")
_FIRST_DAY = date(1970, 1, 1).toordinal()


class CatalogueTables:
    """The part `retentive.stores.base.Catalogue` of a PostgreSQL store, and its statistics."""

    _connections: Connections

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        return self._connections.read(lambda connection: _sessions(connection, profile, project))

    def projects(self, profile: str) -> list[Project]:
        return [Project(*row) for row in self._connections.fetch(_SQL("projects"), (profile,))]

    def profiles(self) -> list[Profile]:
        return [Profile(*row) for row in self._connections.fetch(_SQL("profiles"))]

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        found: dict[date, dict[Kind, int]] = {}
        for day, kind, count in self._connections.fetch(_SQL("days"), {"profile": profile, "project": project}):
            found.setdefault(date.fromordinal(_FIRST_DAY + day), {})[KINDS[kind - 1]] = count
        return [Day(day, by_kind) for day, by_kind in found.items()]

    def stats(self) -> Stats:
        def work(connection: Connection) -> Stats:
            kinds = dict(connection.execute("SELECT kind, count(*) FROM memories GROUP BY kind").fetchall())
            [(profiles, projects, sessions, vectors, embedded, size, last)] = connection.execute(
                _SQL("totals")
            ).fetchall()
            memories = sum(kinds.values())
            return Stats(
                memories=memories,
                by_kind={kind: kinds.get(number, 0) for kind, number in KIND_NUMBERS.items()},
                profiles=profiles,
                projects=projects,
                sessions=sessions,
                vectors=vectors,
                unembedded=memories - embedded,
                model=active_model(connection),
                bytes=size,
                last_stored=from_micros(last),
            )

        return self._connections.read(work)

    def move_session(
        self,
        profile: str,
        session: str,
        *,
        project: str | None,
        from_project: str | None = None,
        progress: Progress = no_progress,
    ) -> Session:
        def work(connection: Connection) -> Session:
            rows = connection.execute(_SQL("lock_name"), (profile, session))
            named: dict[str | None, tuple[int, int, int]] = {home: (id, owner, old) for home, id, owner, old in rows}
            known = [home for home in named if from_project in (None, home)]
            if not known:
                raise no_session(session, profile, from_project)
            home = home_of(session, from_project, known)
            if home != project and project in named and not _drop(connection, named[project][0]):
                raise taken_name(session, project)
            number, owner, old = named[home]
            new = 0 if project is None else project_ids(connection, [(owner, project)])[owner, project]
            if new != old:
                _move(connection, number, owner, old, new, project)
            return _sessions(connection, profile, id=number)[0]

        # One transaction: it locks only the rows of this session, and other writers do not wait for them.
        moved = self._connections.write(work)
        progress(moved.memories)
        return moved

    def drop_session(self, profile: str, session: str, *, project: str | None) -> bool:
        def work(connection: Connection) -> bool:
            rows = connection.execute(_SQL("lock_name"), (profile, session))
            return any(_drop(connection, id) for home, id, *_ in rows if home == project)

        return self._connections.write(work)


def _drop(connection: Connection, session: int) -> bool:
    """Delete a session that is locked and has no memories; return whether it had none."""
    return connection.execute(_SQL("drop_session"), (session,)).fetchone() is not None


def _sessions(connection: Connection, profile: str, project: str | None = None, id: int | None = None) -> list[Session]:
    rows = connection.execute(_SQL("sessions"), {"profile": profile, "project": project, "id": id}, binary=True)
    return [
        Session(name, owner, home, memories, from_micros(first), from_micros(last))
        for name, owner, home, memories, first, last in rows
    ]


def _move(connection: Connection, session: int, profile: int, old: int, new: int, name: str | None) -> None:
    """Set the project of a session, of its memories and of their vectors."""
    connection.execute("UPDATE sessions SET project = nullif(%s, 0) WHERE id = %s", (new, session))
    settled = settle_moved(connection, session, profile=profile, old=old, new=new, project=name)
    moved = connection.execute(
        "UPDATE memories SET project = nullif(%s, 0) WHERE session = %s RETURNING kind", (new, session)
    ).fetchall()
    connection.execute("UPDATE vectors SET project = nullif(%s, 0) WHERE session = %s", (new, session))
    retire(connection, settled)
    changes: Counter[CountName] = Counter()
    for kind, count in Counter(kind for (kind,) in moved).items():
        for project, sign in ((old, -1), (new, +1)):
            if project:
                changes[profile, f"=r{project}k{kind}"] += sign * count
    append_changes(connection, changes)


# Placement of memories


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
