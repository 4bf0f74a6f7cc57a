"""Whether a value is a scope, and whether a memory is in the scope of a query."""

from __future__ import annotations

from typing import Any

from retentive.errors import Invalid
from retentive.models import Memory, Scope
from retentive.stores.base import Store


def check_scope(scope: Any) -> None:
    """Raise `Invalid` unless this is a scope."""
    if not isinstance(scope, Scope):
        raise Invalid(f"scope: a Scope, which engine.scope() builds, not {type(scope).__name__}")


def scope_difference(memory: Memory, scope: Scope, store: Store) -> tuple[str, str, str] | None:
    """The part of a scope that a memory is outside of, the memory's value and the scope's; None if a search finds it.

    A search of a project also finds the identity memories of the profile that belong to no project.
    """
    if memory.profile != scope.profile:
        return "profile", f"'{memory.profile}'", f"'{scope.profile}'"
    if scope.kinds is not None and memory.kind not in scope.kinds:
        return "kind", memory.kind, " or ".join(scope.kinds) or "none"
    if scope.outside_projects and memory.project is not None:
        return "project", quoted(memory.project), "none"
    shared = memory.kind == "identity" and memory.project is None
    if scope.sessions is None:
        if scope.project in (None, memory.project) or (shared and not scope.is_empty and _has_project(store, scope)):
            return None
        return "project", quoted(memory.project), f"'{scope.project}'"
    named = [one for one in store.sessions(scope.profile, project=scope.project) if one.name in scope.sessions]
    whole = not (scope.only_sessions or scope.outside_projects)
    projects = {one.project for one in named if one.project is not None and whole}
    if shared and projects:
        return None
    if scope.project not in (None, memory.project):
        return "project", quoted(memory.project), f"'{scope.project}'"
    if memory.session in scope.sessions or memory.project in projects:
        return None
    wanted = " or ".join(f"'{name}'" for name in scope.sessions) or "none"
    return "session", quoted(memory.session), wanted + (f" (project {quoted(*sorted(projects))})" if projects else "")


def _has_project(store: Store, scope: Scope) -> bool:
    return any(one.name == scope.project for one in store.projects(scope.profile))


def quoted(*names: str | None) -> str:
    """Names for a sentence."""
    return ", ".join("none" if name is None else f"'{name}'" for name in names)
