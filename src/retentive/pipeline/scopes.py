"""Whether a value is a scope, and whether a memory is in the scope of a query."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from retentive.errors import Invalid
from retentive.models import Memory, Scope
from retentive.stores.base import Store


def check_scope(scope: Any) -> None:
    """Raise `Invalid` unless this is a scope."""
    if not isinstance(scope, Scope):
        raise Invalid(f"scope: a Scope, which engine.scope() builds, not {type(scope).__name__}")


class ScopeTest:
    """Tells which memories are in a scope. What the store knows of the scope is read once, for the first that needs it.

    A search of a project also finds the identity memories of the profile that belong to no project.
    """

    def __init__(self, scope: Scope, store: Store) -> None:
        self._scope = scope
        self._store = store

    def difference(self, memory: Memory) -> tuple[str, str, str] | None:
        """The part that a memory is outside of, the memory's value and the scope's; None if a search finds it."""
        scope = self._scope
        if memory.profile != scope.profile:
            return "profile", f"'{memory.profile}'", f"'{scope.profile}'"
        if scope.kinds is not None and memory.kind not in scope.kinds:
            return "kind", memory.kind, " or ".join(scope.kinds) or "none"
        if scope.outside_projects and memory.project is not None:
            return "project", quoted(memory.project), "none"
        shared = memory.kind == "identity" and memory.project is None
        if scope.sessions is None:
            if scope.project in (None, memory.project) or (shared and not scope.is_empty and self._has_project):
                return None
            return "project", quoted(memory.project), f"'{scope.project}'"
        projects = self._projects
        if shared and projects:
            return None
        if scope.project not in (None, memory.project):
            return "project", quoted(memory.project), f"'{scope.project}'"
        if memory.session in scope.sessions or memory.project in projects:
            return None
        wanted = " or ".join(f"'{name}'" for name in scope.sessions) or "none"
        return (
            "session",
            quoted(memory.session),
            wanted + (f" (project {quoted(*sorted(projects))})" if projects else ""),
        )

    @cached_property
    def _has_project(self) -> bool:
        return any(one.name == self._scope.project for one in self._store.projects(self._scope.profile))

    @cached_property
    def _projects(self) -> set[str]:
        """The projects of the named sessions, if the scope has them whole."""
        scope = self._scope
        if scope.only_sessions or scope.outside_projects:
            return set()
        found = self._store.sessions(scope.profile, project=scope.project)
        return {one.project for one in found if one.project is not None and one.name in (scope.sessions or ())}


def quoted(*names: str | None) -> str:
    """Names for a sentence."""
    return ", ".join("none" if name is None else f"'{name}'" for name in names)
