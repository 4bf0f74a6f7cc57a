"""Sessions, projects and statistics of a store in memory."""

from __future__ import annotations

from collections import Counter
from datetime import date

from retentive.errors import NotFound
from retentive.models import KINDS, Kind, Memory, Scope
from retentive.stores.in_memory.entries import Contents, slot_of
from retentive.stores.validity import settle_update
from retentive.stores.values import Day, Profile, Progress, Project, Session, Stats, no_progress


class InMemoryCatalogue(Contents):
    """See `retentive.stores.base.Catalogue`, and `Memories.stats`."""

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        with self._lock:
            return [
                self._session(profile, name)
                for (owner, name), its_project in sorted(self._containers.sessions.items())
                if owner == profile and project in (None, its_project)
            ]

    def _session(self, profile: str, name: str) -> Session:
        memories = (entry.memory for entry in self._entries.values())
        times = [memory.when for memory in memories if (memory.profile, memory.session) == (profile, name)]
        project = self._containers.sessions[profile, name]
        return Session(name, profile, project, len(times), min(times, default=None), max(times, default=None))

    def projects(self, profile: str) -> list[Project]:
        with self._lock:
            sessions = Counter(its for (owner, _), its in self._containers.sessions.items() if owner == profile)
            memories = Counter(entry.memory.project for entry in self._in_scope(Scope(profile)))
            names = sorted(name for owner, name in self._containers.projects if owner == profile)
            return [Project(name, profile, sessions[name], memories[name]) for name in names]

    def move_session(
        self, profile: str, session: str, *, project: str | None, progress: Progress = no_progress
    ) -> Session:
        with self._lock:
            if (profile, session) not in self._containers.sessions:
                raise NotFound(f"there is no session '{session}' in profile '{profile}'")
            self._containers.sessions[profile, session] = project
            if project is not None:
                self._containers.projects.add((profile, project))
            for id in list(self._entries):
                memory = self._entries[id].memory
                if (memory.profile, memory.session) == (profile, session):
                    for one in self._moved(memory, memory._replace(project=project)):
                        self._replace_memory(one)
                    progress(1)
            return self._session(profile, session)

    def _moved(self, before: Memory, memory: Memory) -> list[Memory]:
        """Return a memory in another project, and those of its key that change with it."""
        if memory.key is None or memory.valid_to is not None or before.project == memory.project:
            return [memory]
        settled, changed = settle_update(before, memory, None, self._of_slot(slot_of(memory)))
        return [settled, *changed]

    def profiles(self) -> list[Profile]:
        with self._lock:
            counts = Counter(entry.memory.profile for entry in self._entries.values())
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
            kinds = Counter(entry.memory.kind for entry in self._entries.values())
            parts = [entry.parts(self._model) for entry in self._entries.values()]
            return Stats(
                memories=len(self._entries),
                by_kind={kind: kinds[kind] for kind in KINDS},
                profiles=len(self._containers.profiles),
                projects=len(self._containers.projects),
                sessions=len(self._containers.sessions),
                vectors=sum(len(rows) for rows in parts if rows is not None),
                unembedded=sum(rows is None for rows in parts),
                model=self._model,
                bytes=0,
                last_stored=max((entry.memory.created for entry in self._entries.values()), default=None),
            )
