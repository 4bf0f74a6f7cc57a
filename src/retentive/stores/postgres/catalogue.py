"""Profiles, projects and sessions: what is in them, and the move of a session."""

from __future__ import annotations

from collections import Counter
from datetime import date

from retentive.models import KINDS, Kind, Memory
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.memories import active_model
from retentive.stores.postgres.placement import project_ids
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.search_stats import CountName, append_changes
from retentive.stores.postgres.sql import Statements
from retentive.stores.postgres.transaction import PostgresTransaction
from retentive.stores.postgres.validity import memories_with_keys
from retentive.stores.rules import home_of, no_session, taken_name
from retentive.stores.sql_codec import KIND_NUMBERS, from_micros
from retentive.stores.values import Day, Profile, Progress, Project, Session, Stats, no_progress
from retentive.stores.writes import Slot, settle_moved

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
    transaction = PostgresTransaction(connection)
    keyed: dict[Slot, list[Memory]] = {}
    for memory in memories_with_keys(connection, session):
        keyed.setdefault((memory.key or "", profile, old), []).append(memory)
    settled = settle_moved(transaction, keyed, new, name)
    moved = connection.execute(
        "UPDATE memories SET project = nullif(%s, 0) WHERE session = %s RETURNING kind", (new, session)
    ).fetchall()
    connection.execute("UPDATE vectors SET project = nullif(%s, 0) WHERE session = %s", (new, session))
    transaction.retire(settled)
    changes: Counter[CountName] = Counter()
    for kind, count in Counter(kind for (kind,) in moved).items():
        for project, sign in ((old, -1), (new, +1)):
            if project:
                changes[profile, f"=r{project}k{kind}"] += sign * count
    append_changes(connection, changes)
