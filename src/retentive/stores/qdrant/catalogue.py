"""Sessions, projects, profiles, days and totals, each counted by the server in a fixed number of requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from uuid import UUID

from qdrant_client import models as q

from retentive.models import KINDS, Kind
from retentive.stores.qdrant.connection import first_by, matching, payload_of
from retentive.stores.qdrant.points import encodable
from retentive.stores.qdrant.sessions import StoreParts
from retentive.stores.qdrant.validity import Slot
from retentive.stores.sql_codec import from_micros
from retentive.stores.values import Day, Profile, Progress, Project, Session, Stats, no_progress

SESSION_BATCH = 250
"""For how many sessions one request finds the first and the last time."""


class QdrantCatalogue(StoreParts):
    """See `retentive.stores.base.Catalogue`, and `Memories.stats`."""

    def close_others(self, slots: Collection[Slot]) -> None:
        """Retire all open memories of each slot but the last. Another part of the store does it."""
        raise NotImplementedError

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        return self._sessions(
            profile, {note["name"]: note.get("project") for note in self._names.notes("session", profile, project)}
        )

    def move_session(
        self, profile: str, session: str, *, project: str | None, progress: Progress = no_progress
    ) -> Session:
        with self._lock:
            self._names.move(profile, session, project)
            keyed = self._connection.facet(self._connection.memories, "key", matching(profile=profile, session=session))
            self.close_others([(profile, project, str(key)) for key in keyed])
            moved = self._sessions(profile, {session: project})[0]
        progress(moved.memories)
        return moved

    def _sessions(self, profile: str, projects: Mapping[str, str | None]) -> list[Session]:
        if not projects:
            return []
        counts = self._counts("session", matching(profile=profile), projects)
        times = self._times(profile, [name for name in projects if counts[name]])
        return [
            Session(name, profile, projects[name], counts[name], *times.get(name, (None, None)))
            for name in sorted(projects)
        ]

    def _times(self, profile: str, sessions: list[str]) -> dict[str, list[datetime | None]]:
        """Find the first and the last time of each session."""
        found: dict[str, list[datetime | None]] = {}
        for at in range(0, len(sessions), SESSION_BATCH):
            batch = sessions[at : at + SESSION_BATCH]
            scopes = [matching(profile=profile, session=name) for name in batch]
            orders = [q.OrderBy(key="when", direction=one) for one in (q.Direction.ASC, q.Direction.DESC)]
            answers = self._connection.query(
                [first_by(order, scope, fields=["when"]) for scope in scopes for order in orders]
            )
            times = [from_micros(payload_of(point)["when"]) for answer in answers for point in answer.points]
            found |= {name: times[2 * at : 2 * at + 2] for at, name in enumerate(batch)}
        return found

    def projects(self, profile: str) -> list[Project]:
        names = sorted(note["name"] for note in self._names.notes("project", profile))
        if not names:
            return []
        of_sessions = [note.get("project") for note in self._names.notes("session", profile)]
        counts = self._counts("project", matching(profile=profile), names)
        return [Project(name, profile, of_sessions.count(name), counts[name]) for name in names]

    def profiles(self) -> list[Profile]:
        names = sorted(note["name"] for note in self._names.notes("profile"))
        counts = self._counts("profile", None, names)
        projects, sessions = ([note["profile"] for note in self._names.notes(type)] for type in ("project", "session"))
        return [
            Profile(name, projects.count(name), sessions.count(name), counts[name]) for name in names if counts[name]
        ]

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        if not encodable(profile, project):
            return []
        scope = {"profile": profile} if project is None else {"profile": profile, "project": project}
        found: dict[int, dict[Kind, int]] = {}
        for kind in KINDS:
            counts = self._connection.facet(self._connection.memories, "day", matching(kind=kind, **scope))
            for day, count in counts.items():
                found.setdefault(day, {})[kind] = count
        return [Day(date.fromordinal(day), found[day]) for day in sorted(found)]

    def stats(self) -> Stats:
        connection = self._connection
        by_kind = connection.facet(connection.memories, "kind")
        parts = connection.facet(connection.memories, "parts")
        types = connection.facet(connection.notes, "type")
        return Stats(
            memories=sum(by_kind.values()),
            by_kind={kind: by_kind.get(kind, 0) for kind in KINDS},
            profiles=types.get("profile", 0),
            projects=types.get("project", 0),
            sessions=types.get("session", 0),
            vectors=sum(int(count) * points for count, points in parts.items()),
            unembedded=parts.get(0, 0),
            model=self._collections.read().active.model,
            bytes=0,  # the server does not report it
            last_stored=self._last_stored(),
        )

    def _last_stored(self) -> datetime | None:
        """When the memory with the greatest id was stored: ids grow with time, and points are in descending order."""
        newest = next(self._connection.scroll(self._connection.memories, limit=1, fields=["created"]), None)
        return None if newest is None else datetime.fromisoformat(payload_of(newest)["created"])

    def _counts(self, field: str, where: q.Filter | None, names: Iterable[str]) -> dict[str, int]:
        """Count memories by name. The server reports a name that is a UUID in the usual spelling of UUIDs."""
        counted = self._connection.facet(self._connection.memories, field, where)
        return {name: counted.get(name) or counted.get(_usual_spelling(name), 0) for name in names}


def _usual_spelling(name: str) -> str:
    with suppress(ValueError):
        return str(UUID(name))
    return name
