"""Profiles, projects and sessions: their ids, their memories, and the placement of new memories in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date

from retentive.errors import Conflict, NotFound
from retentive.models import KINDS, Kind, Memory
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.memories import active_model
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.search_stats import CountName, append_changes
from retentive.stores.postgres.sql import Statements
from retentive.stores.postgres.validity import settle_moved
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds, from_micros
from retentive.stores.values import Day, Profile, Progress, Project, Session, Stats, no_progress

Name = tuple[int, str]
"""The id of a profile, and the name of a project or session in it."""

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
        self, profile: str, session: str, *, project: str | None, progress: Progress = no_progress
    ) -> Session:
        def work(connection: Connection) -> Session:
            row = connection.execute(_SQL("lock_session"), (profile, session)).fetchone()
            if row is None:
                raise NotFound(f"there is no session '{session}' in profile '{profile}'; see: retentive sessions")
            number, owner, old = row
            new = 0 if project is None else project_ids(connection, [(owner, project)])[owner, project]
            if new != old:
                _move(connection, number, owner, old, new)
            return _sessions(connection, profile, session=session)[0]

        # One transaction: it locks only the rows of this session, and other writers do not wait for them.
        moved = self._connections.write(work)
        progress(moved.memories)
        return moved


def _sessions(
    connection: Connection, profile: str, project: str | None = None, session: str | None = None
) -> list[Session]:
    rows = connection.execute(
        _SQL("sessions"), {"profile": profile, "project": project, "session": session}, binary=True
    )
    return [
        Session(name, owner, home, memories, from_micros(first), from_micros(last))
        for name, owner, home, memories, first, last in rows
    ]


def _move(connection: Connection, session: int, profile: int, old: int, new: int) -> None:
    """Set the project of a session, of its memories and of their vectors."""
    connection.execute("UPDATE sessions SET project = nullif(%s, 0) WHERE id = %s", (new, session))
    keyed = "SELECT key FROM memories WHERE session = %s AND fact_key IS NOT NULL AND valid_to IS NULL"
    keys = [key for (key,) in connection.execute(keyed, (session,))]
    if keys:
        settle_moved(connection, keys, profile=profile, project=new)
    moved = connection.execute(
        "UPDATE memories SET project = nullif(%s, 0) WHERE session = %s RETURNING kind", (new, session)
    ).fetchall()
    connection.execute("UPDATE vectors SET project = nullif(%s, 0) WHERE session = %s", (new, session))
    changes: Counter[CountName] = Counter()
    for kind, count in Counter(kind for (kind,) in moved).items():
        for project, sign in ((old, -1), (new, +1)):
            if project:
                changes[profile, f"=r{project}k{kind}"] += sign * count
    append_changes(connection, changes)


# Placement of memories


def place(connection: Connection, memories: Sequence[Memory]) -> list[ScopeIds]:
    """Return the ids of each memory's scope, created where they are new.

    The sessions are locked until the end of the transaction, so that no other writer takes a position in them.
    """
    profiles = _profile_ids(connection, {memory.profile for memory in memories})
    named = {(profiles[one.profile], one.project) for one in memories if one.project is not None}
    projects = project_ids(connection, named)
    given = [0 if one.project is None else projects[profiles[one.profile], one.project] for one in memories]
    homes: dict[Name, int] = {}
    for one, project in zip(memories, given, strict=True):
        if one.session is not None:  # a new session belongs to the project of its first memory
            homes.setdefault((profiles[one.profile], one.session), project)
    sessions = _session_ids(connection, homes)
    placed = []
    for one, project in zip(memories, given, strict=True):
        profile, session, home = profiles[one.profile], 0, project
        if one.session is not None:
            session, home = sessions[profile, one.session]
        if project and home != project:
            raise Conflict(
                f"session '{one.session}' does not belong to project '{one.project}'; leave the project out, "
                f"or move it: retentive sessions move '{one.session}' --project '{one.project}'"
            )
        placed.append(ScopeIds(profile, home, session, KIND_NUMBERS[one.kind]))
    return placed


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


def _session_ids(connection: Connection, homes: Mapping[Name, int]) -> dict[Name, tuple[int, int]]:
    """Return the id of each session and of its project; a new one is created in the project given."""

    def find() -> dict[Name, tuple[int, int]]:
        rows = connection.execute(_SQL("lock_sessions"), _columns(homes), binary=True)
        return {(profile, name): (id, project) for profile, name, id, project in rows}

    found = find() if homes else {}
    if len(found) < len(homes):
        new = sorted(name for name in homes if name not in found)
        connection.execute(_SQL("create_sessions"), (*_columns(new), [homes[name] for name in new]))
        found = find()
    return found


def _columns(names: Iterable[Name]) -> tuple[list[int], list[str]]:
    ordered = sorted(names)
    return [profile for profile, _ in ordered], [name for _, name in ordered]
