"""Sessions, projects and statistics of a store in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date

from retentive.models import KINDS, Kind, Memory, Scope
from retentive.stores.in_memory.entries import Contents, Slot, session_of, slot_of
from retentive.stores.in_memory.entries import Session as SessionName
from retentive.stores.rules import home_of, no_session, taken_name
from retentive.stores.validity import settle_session
from retentive.stores.values import Day, Profile, Progress, Project, Session, Stats, no_progress


class InMemoryCatalogue(Contents):
    """See `retentive.stores.base.Catalogue`, and `Memories.stats`."""

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        with self._lock:
            found = [
                self._session(profile, its_project, name)
                for owner, its_project, name in self.containers.sessions
                if owner == profile and project in (None, its_project)
            ]
            return sorted(found, key=lambda one: (one.name, one.project or ""))

    def _session(self, profile: str, project: str | None, name: str) -> Session:
        times = [memory.when for memory in self._of_session((profile, project, name))]
        return Session(name, profile, project, len(times), min(times, default=None), max(times, default=None))

    def _of_session(self, session: SessionName) -> list[Memory]:
        return [entry.memory for entry in self.entries.values() if session_of(entry.memory) == session]

    def projects(self, profile: str) -> list[Project]:
        with self._lock:
            sessions = Counter(its for owner, its, _ in self.containers.sessions if owner == profile)
            memories = Counter(entry.memory.project for entry in self._in_scope(Scope(profile)))
            names = sorted(name for owner, name in self.containers.projects if owner == profile)
            return [Project(name, profile, sessions[name], memories[name]) for name in names]

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
            source = (profile, self._home(profile, session, from_project), session)
            target = (profile, project, session)
            if source != target and self._of_session(target):
                raise taken_name(session, project)
            self.containers.sessions -= {source}
            self.containers.sessions |= {target}
            if project is not None:
                self.containers.projects.add((profile, project))
            moved = self._of_session(source)
            for one in self._settled(moved, project) if source != target else ():
                self._replace_memory(one)
            for memory in moved:
                self._replace_memory(self.entries[memory.id].memory._replace(project=project))
                progress(1)
            return self._session(*target)

    def _home(self, profile: str, session: str, project: str | None) -> str | None:
        """Return the project of the session that is to be moved."""
        known = [one for one in self.containers.projects_of(profile, session) if project in (None, one)]
        if not known:
            raise no_session(session, profile, project)
        return home_of(session, project, known)

    def drop_session(self, profile: str, session: str, *, project: str | None) -> bool:
        with self._lock:
            name = (profile, project, session)
            if name not in self.containers.sessions or self._of_session(name):
                return False
            self.containers.sessions -= {name}
            return True

    def _settled(self, moved: Sequence[Memory], project: str | None) -> list[Memory]:
        """Return the memories with keys that change when these move to a project."""
        slots: dict[Slot, list[Memory]] = {}
        for memory in moved:
            if memory.key is not None:
                slots.setdefault(slot_of(memory), []).append(memory)
        changed = []
        for of_slot in slots.values():
            ids = {memory.id for memory in of_slot}
            former = [one for one in self._of_slot(slot_of(of_slot[0])) if one.id not in ids]
            here = self._of_slot(slot_of(of_slot[0]._replace(project=project)))
            changed += settle_session(of_slot, project, here=here, former=former)
        return changed

    def profiles(self) -> list[Profile]:
        with self._lock:
            counts = Counter(entry.memory.profile for entry in self.entries.values())
            return [
                Profile(name, len(self.projects(name)), len(self.sessions(name)), counts[name])
                for name in sorted(counts)
            ]

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        with self._lock:
            days: dict[date, Counter[Kind]] = {}
            for entry in self._in_scope(Scope(profile, project)):
                days.setdefault(entry.memory.when.date(), Counter())[entry.memory.kind] += 1
            return [Day(day, dict(days[day])) for day in sorted(days)]

    def stats(self) -> Stats:
        with self._lock:
            kinds = Counter(entry.memory.kind for entry in self.entries.values())
            parts = [entry.parts(self.current_model) for entry in self.entries.values()]
            return Stats(
                memories=len(self.entries),
                by_kind={kind: kinds[kind] for kind in KINDS},
                profiles=len(self.containers.profiles),
                projects=len(self.containers.projects),
                sessions=len(self.containers.sessions),
                vectors=sum(len(rows) for rows in parts if rows is not None),
                unembedded=sum(rows is None for rows in parts),
                model=self.current_model,
                bytes=0,
                last_stored=max((entry.memory.created for entry in self.entries.values()), default=None),
            )
