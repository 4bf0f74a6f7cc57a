"""Sessions, projects, profiles and statistics of a SQLite store."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple

import apsw

from retentive.errors import Conflict
from retentive.models import KINDS, Kind, Memory, Model, Scope
from retentive.stores.rules import home_of, no_session, taken_name
from retentive.stores.sql_codec import from_micros
from retentive.stores.sqlite import memory_table, vector_blocks
from retentive.stores.sqlite.memory_table import resolve, sessions_named
from retentive.stores.sqlite.row_changes import Entry, NameRegistry, add_keywords, keyword_entries, remove_keywords
from retentive.stores.sqlite.transaction import SqliteTransaction
from retentive.stores.values import Day, Profile, Project, Session, Stats
from retentive.stores.writes import Slot, settle_moved

_LAST_STORED = "SELECT created FROM memories ORDER BY key DESC LIMIT 1"
_KEYED = """
    SELECT key, fact_key, profile, coalesce(project, 0) FROM memories
    WHERE key IN carray(?) AND fact_key IS NOT NULL ORDER BY key
"""
_SESSIONS = """
    SELECT s.name, p.name, r.name, count(m.key),
           min(coalesce(m.occurred, m.created)), max(coalesce(m.occurred, m.created))
    FROM sessions AS s JOIN profiles AS p ON p.id = s.profile
    LEFT JOIN projects AS r ON r.id = s.project LEFT JOIN memories AS m ON m.session = s.id
    WHERE p.name = :profile AND (:project IS NULL OR r.name = :project) AND (:id IS NULL OR s.id = :id)
    GROUP BY s.id ORDER BY s.name, r.name
"""


# Days since 1970, rounded down also before it.
_DAYS = """
    SELECT (time - CASE WHEN time < 0 THEN 86399999999 ELSE 0 END) / 86400000000 AS day, kind, count(*)
    FROM (
        SELECT coalesce(occurred, created) AS time, kind FROM memories
        WHERE profile = :profile AND (:project IS NULL OR project = :project)
    )
    GROUP BY day, kind ORDER BY day, kind
"""

_FIRST_DAY = date(1970, 1, 1).toordinal()


def sessions(
    connection: apsw.Connection, profile: str, project: str | None = None, id: int | None = None
) -> list[Session]:
    """The sessions of a profile, of a project, or the one with this id."""
    rows = connection.execute(_SESSIONS, {"profile": profile, "project": project, "id": id})
    return [
        Session(name, owner, of_project, memories, from_micros(first), from_micros(last))
        for name, owner, of_project, memories, first, last in rows
    ]


def projects(connection: apsw.Connection, profile: str) -> list[Project]:
    """The projects of a profile."""
    rows = connection.execute(
        """
        SELECT r.name, p.name, (SELECT count(*) FROM sessions AS s WHERE s.project = r.id),
               (SELECT count(*) FROM memories AS m WHERE m.profile = p.id AND m.project = r.id)
        FROM projects AS r JOIN profiles AS p ON p.id = r.profile WHERE p.name = ? ORDER BY r.name
        """,
        (profile,),
    )
    return [Project(*row) for row in rows]


def profiles(connection: apsw.Connection) -> list[Profile]:
    """All profiles that have memories."""
    rows = connection.execute(
        """
        SELECT p.name, (SELECT count(*) FROM projects AS r WHERE r.profile = p.id),
               (SELECT count(*) FROM sessions AS s WHERE s.profile = p.id),
               (SELECT count(*) FROM memories AS m WHERE m.profile = p.id) AS memories
        FROM profiles AS p WHERE memories > 0 ORDER BY p.name
        """
    )
    return [Profile(*row) for row in rows]


def days(connection: apsw.Connection, profile: str, project: str | None) -> list[Day]:
    """The number of memories of each day, by kind."""
    scope = resolve(connection, Scope(profile, project))
    if scope is None:
        return []
    project_id = scope.containers.projects[0] if scope.containers else None
    found: dict[date, dict[Kind, int]] = {}
    for day, kind, count in connection.execute(_DAYS, {"profile": scope.profile, "project": project_id}):
        found.setdefault(date.fromordinal(_FIRST_DAY + day), {})[KINDS[kind - 1]] = count
    return [Day(day, by_kind) for day, by_kind in found.items()]


class Move(NamedTuple):
    """A session that is being moved: its id, its new project, and the keys of its memories that are not there yet."""

    session: int
    project: int | None
    keys: Sequence[int]


def begin_move(
    connection: apsw.Connection, profile: str, session: str, source: str | None, project: str | None
) -> Move:
    """Set the project of a session, which new memories follow; `move_memories` moves those that exist.

    If it was interrupted before, the session is in its new project, and some of its memories are not.
    """
    found = sessions_named(connection, profile, session, source)
    there = _session_in(connection, profile, session, project)
    if found:
        home = home_of(session, source, found)
        if home != project and there is not None and not drop_session(connection, profile, session, project):
            raise taken_name(session, project)
        id = found[home]
    elif there is not None and _scattered(connection, there):
        id = there
    else:
        raise no_session(session, profile, source)
    owner: int = connection.execute("SELECT profile FROM sessions WHERE id = ?", (id,)).get
    target = NameRegistry(connection).project(owner, project) if project is not None else None
    connection.execute("UPDATE sessions SET project = ? WHERE id = ?", (target, id))
    keys = connection.execute("SELECT key FROM memories WHERE session = ? AND project IS NOT ?", (id, target))
    return Move(id, target, [key for (key,) in keys])


def drop_session(connection: apsw.Connection, profile: str, session: str, project: str | None) -> bool:
    """Delete a session without memories."""
    id = _session_in(connection, profile, session, project)
    connection.execute(
        "DELETE FROM sessions WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM memories WHERE session = ?1)", (id,)
    )
    return bool(connection.changes())


def _session_in(connection: apsw.Connection, profile: str, session: str, project: str | None) -> int | None:
    """The id of the session of a project, or of that in no project."""
    return sessions_named(connection, profile, session, project).get(project)


def _scattered(connection: apsw.Connection, session: int) -> bool:
    """Whether some memories of a session are not in its project, because its move was interrupted."""
    statement = """
        SELECT 1 FROM sessions AS s JOIN memories AS m ON m.session = s.id
        WHERE s.id = ? AND m.project IS NOT s.project LIMIT 1
    """
    return connection.execute(statement, (session,)).get is not None


def move_memories(connection: apsw.Connection, move: Move, keys: Sequence[int]) -> None:
    """Move these memories to the project of their session, in every index.

    `Conflict` if the session has been moved elsewhere meanwhile.
    """
    if connection.execute("SELECT project FROM sessions WHERE id = ?", (move.session,)).get != move.project:
        raise Conflict("another process moved this session at the same time; it is where that one has moved it")
    if not keys:  # an empty array has no address that SQLite accepts
        return
    wanted = apsw.carray(array("q", keys))
    here = connection.execute(
        "SELECT key FROM memories WHERE key IN carray(?) AND session = ? AND project IS NOT ?",
        (wanted, move.session, move.project),
    )
    entries = keyword_entries(connection, [key for (key,) in here])
    if not entries:  # others have changed all of them meanwhile, which moves them too
        return
    remove_keywords(connection, entries)
    moved = [(key, terms, replace(old, project=move.project or 0)) for key, terms, old in entries]
    transaction = SqliteTransaction(connection)
    name = connection.execute("SELECT name FROM projects WHERE id = ?", (move.project,)).get
    settled = settle_moved(transaction, _of_keys(connection, moved), move.project or 0, name)
    connection.executemany(
        "UPDATE memories SET project = ? WHERE key = ?", ((move.project, key) for key, _, _ in moved)
    )
    transaction.retire(settled)
    add_keywords(connection, moved)
    vector_blocks.move_vectors(connection, {key: new for key, _, new in moved})


def _of_keys(connection: apsw.Connection, entries: Sequence[Entry]) -> dict[Slot, list[Memory]]:
    """Those of these memories that have a key, by it, their profile and their project."""
    rows: list[Any] = connection.execute(_KEYED, (apsw.carray(array("q", [key for key, _, _ in entries])),)).fetchall()
    memories = memory_table.by_keys(connection, [row[0] for row in rows])
    found: dict[Slot, list[Memory]] = {}
    for key, name, profile, project in rows:
        if key in memories:
            found.setdefault((name, profile, project), []).append(memories[key])
    return found


def stats(connection: apsw.Connection, model: Model | None, *, size: int) -> Stats:
    """Statistics of the store."""
    kinds = dict(connection.execute("SELECT kind, count(*) FROM memories GROUP BY kind"))
    embedded: int = connection.execute(
        """
        SELECT count(DISTINCT v.memory) FROM vectors AS v, state
        WHERE v.slot >= state.active_model << 40 AND v.slot < (state.active_model + 1) << 40
        """
    ).get
    vectors: int = connection.execute(
        "SELECT count(*) FROM vectors, state WHERE slot >= active_model << 40 AND slot < (active_model + 1) << 40"
    ).get
    memories = sum(kinds.values())
    return Stats(
        memories=memories,
        by_kind={kind: kinds.get(number, 0) for number, kind in enumerate(KINDS, 1)},
        profiles=connection.execute("SELECT count(*) FROM profiles").get,
        projects=connection.execute("SELECT count(*) FROM projects").get,
        sessions=connection.execute("SELECT count(*) FROM sessions").get,
        vectors=vectors,
        unembedded=memories - embedded,
        model=model,
        bytes=size,
        last_stored=from_micros(connection.execute(_LAST_STORED).get),
    )
