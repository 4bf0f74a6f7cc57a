"""The profiles, projects and sessions of the store in memory, and which memories a scope has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from retentive.errors import Conflict
from retentive.models import Memory, Scope
from retentive.stores.base import is_within


@dataclass(slots=True)
class Containers:
    """The profiles, projects and sessions that exist, and the project of each session."""

    profiles: set[str] = field(default_factory=set)
    projects: set[tuple[str, str]] = field(default_factory=set)
    sessions: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def copy(self) -> Containers:
        """Return a copy, which is dropped if a write fails."""
        return Containers(set(self.profiles), set(self.projects), dict(self.sessions))

    def register(self, memory: Memory) -> Memory:
        """Add the names of a memory, and return the memory with the project of its session."""
        self.profiles.add(memory.profile)
        if memory.project is not None:
            self.projects.add((memory.profile, memory.project))
        if memory.session is None:
            return memory._replace(position=None)
        project = self.sessions.setdefault((memory.profile, memory.session), memory.project)
        if memory.project not in (None, project):
            raise Conflict(f"session '{memory.session}' does not belong to project '{memory.project}'")
        return memory._replace(project=project)

    def matcher(self, scope: Scope) -> Callable[[Memory], bool]:
        """Return a function that tells whether a memory is in a scope.

        A session of a project stands for all memories of that project, unless the scope has `only_sessions`.
        """
        if scope.sessions is None:
            return lambda memory: is_within(memory, scope)
        known = {name: self.sessions.get((scope.profile, name)) for name in scope.sessions}
        projects = set() if scope.only_sessions else set(known.values()) - {None}
        without_sessions = replace(scope, sessions=None)
        return lambda memory: (
            is_within(memory, without_sessions) and (memory.session in known or memory.project in projects)
        )

    def search_matcher(self, scope: Scope) -> Callable[[Memory], bool]:
        """Return a function that tells whether a search of a scope finds a memory.

        In a project it finds the identity memories of the profile without a project, too.
        """
        inside = self.matcher(scope)
        names = (scope.project,) if scope.sessions is None else self._projects_of(scope)
        if not any((scope.profile, name) in self.projects for name in names if name is not None):
            return inside
        shared = Scope(scope.profile, kinds=("identity",))
        wanted = scope.kinds is None or "identity" in scope.kinds
        return lambda memory: inside(memory) or (wanted and memory.project is None and is_within(memory, shared))

    def _projects_of(self, scope: Scope) -> set[str | None]:
        """Return the projects that the sessions of a scope stand for."""
        found = {self.sessions.get((scope.profile, name)) for name in scope.sessions or ()}
        return set() if scope.only_sessions else found & {scope.project} if scope.project is not None else found
