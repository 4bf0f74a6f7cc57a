"""Sessions, projects, profiles, days and totals, each counted by the server in a fixed number of requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime
from uuid import UUID

from qdrant_client import models as q

from retentive.models import KINDS, Kind
from retentive.stores.qdrant.connection import first_by, matching, payload_of
from retentive.stores.qdrant.points import encodable
from retentive.stores.qdrant.session_notes import in_project, in_session
from retentive.stores.qdrant.sessions import StoreParts
from retentive.stores.qdrant.validity import Slot
from retentive.stores.sql_codec import from_micros
from retentive.stores.values import Day, Profile, Progress, Project, Session, Stats, no_progress

_Session = tuple[str, str | None]
"""The name of a session and its project."""

SESSION_BATCH = 250
"""For how many sessions one request finds the first and the last time."""


class QdrantCatalogue(StoreParts):
    """See `retentive.stores.base.Catalogue`, and `Memories.stats`."""

    def close_others(self, slots: Collection[Slot]) -> None:
        """Retire all open memories of each slot but the last. Another part of the store does it."""
        raise NotImplementedError

    def settle_moved(self, session: str, source: str | None, slots: Collection[Slot]) -> None:
        """Change what a session changes that was moved into these slots. Another part of the store does it."""
        raise NotImplementedError

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        found = [(name, its_project) for _, its_project, name in self._names.sessions(profile, project)]
        return self._sessions(profile, sorted(found, key=lambda one: (one[0], one[1] or "")))

    def move_session(
        self,
        profile: str,
        session: str,
        *,
        project: str | None,
        from_project: str | None = None,
        progress: Progress = no_progress,
    ) -> Session:
        with self._lock:
            source = self._names.move(profile, session, from_project, project)
            where = in_session(profile, project, session)
            keyed = self._connection.facet(self._connection.memories, "key", where)
            slots = [(profile, project, str(key)) for key in keyed]
            if source != project:
                self.settle_moved(session, source, slots)
            self.close_others(slots)
            moved = self._sessions(profile, [(session, project)])[0]
        progress(moved.memories)
        return moved

    def drop_session(self, profile: str, session: str, *, project: str | None) -> bool:
        with self._lock:
            return self._names.drop(profile, session, project)

    def _sessions(self, profile: str, sessions: Sequence[_Session]) -> list[Session]:
        if not sessions:
            return []
        counts = self._session_counts(profile, sessions)
        times = self._times(profile, [session for session in sessions if counts[session]])
        return [
            Session(name, profile, project, counts[name, project], *times.get((name, project), (None, None)))
            for name, project in sessions
        ]

    def _session_counts(self, profile: str, sessions: Sequence[_Session]) -> dict[_Session, int]:
        """Count the memories of sessions in one request, and one more for each project if names occur in several."""
        projects = dict.fromkeys(project for _, project in sessions)
        names = [name for name, _ in sessions]
        if len(projects) > 1 and len(set(names)) == len(names):
            counted = self._counts("session", matching(profile=profile), names)
            return {(name, project): counted[name] for name, project in sessions}
        found: dict[_Session, int] = {}
        for one in projects:
            of_project = [name for name, project in sessions if project == one]
            counted = self._counts("session", in_project(profile, one), of_project)
            found |= {(name, one): count for name, count in counted.items()}
        return found

    def _times(self, profile: str, sessions: Sequence[_Session]) -> dict[_Session, list[datetime | None]]:
        """Find the first and the last time of each session."""
        found: dict[_Session, list[datetime | None]] = {}
        for at in range(0, len(sessions), SESSION_BATCH):
            batch = sessions[at : at + SESSION_BATCH]
            scopes = [in_session(profile, project, name) for name, project in batch]
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
        of_sessions = [project for _, project, _ in self._names.sessions(profile)]
        counts = self._counts("project", matching(profile=profile), names)
        return [Project(name, profile, of_sessions.count(name), counts[name]) for name in names]

    def profiles(self) -> list[Profile]:
        names = sorted(note["name"] for note in self._names.notes("profile"))
        counts = self._counts("profile", None, names)
        projects = [note["profile"] for note in self._names.notes("project")]
        sessions = [profile for profile, _, _ in self._names.sessions()]
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
            sessions=self._names.count_sessions(),
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
