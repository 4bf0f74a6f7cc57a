"""`ToolScope`: the memories that the tools of an MCP server can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from retentive.engine import Engine
from retentive.errors import Invalid, NotFound
from retentive.models import Memory, Query, Scope
from retentive.pipeline.explain import Explanation
from retentive.pipeline.query_options import QueryOptions
from retentive.pipeline.remember import check_name
from retentive.pipeline.similar import Similar
from retentive.stores.rules import home_of
from retentive.stores.values import Profile
from retentive.tenancy import ProfileView


@dataclass(frozen=True, slots=True)
class ToolScope:
    """One profile, one project of it, or one session without a project.

    New memories go into the session. In a project, the session does not limit what can be read.
    """

    view: ProfileView
    session: str | None = None
    record_use: bool = True

    @property
    def within(self) -> Scope:
        """The scope of all reads and writes."""
        if self.session is None or self.view.project is not None:
            return self.view.within
        return replace(self.view.within, sessions=(self.session,), only_sessions=True)

    def query(self, text: str, **options: Unpack[QueryOptions]) -> Query:
        """Build a query in this scope."""
        options["session"], options["only_session"] = self.within.sessions, self.within.only_sessions
        return self.view.query(text, **options)

    def explain(self, query: Query, id: str) -> Explanation:
        """Explain why a memory ranks where it does for a query, or why it does not appear."""
        return self.view.explain(query, id, within=self.within)

    def remember(self, drafts: Sequence[Mapping[str, Any]], *, session: str | None = None) -> Sequence[Memory]:
        """Store memories in a session of the scope, by default in its own, and return them."""
        if session not in (None, self.session) and self.within.sessions is not None:
            raise Invalid(f"session: this memory is limited to the session '{self.session}'; leave the session out")
        return self.view.remember([{**draft, "session": session or self.session} for draft in drafts])

    def get(self, id: str) -> Memory:
        """Return a memory."""
        return self.view.get(id, within=self.within)

    def update(self, id: str, changes: Any, *, if_version: str | None = None) -> Memory:
        """Change some fields of a memory and return it."""
        return self.view.update(id, if_version=if_version, within=self.within, **changes)

    def similar(self, id: str) -> Sequence[Similar]:
        """Return the memories that are most like one."""
        return self.view.similar(id, within=self.within)

    def revise(self, action: str, id: str, by: str, reason: str | None) -> Sequence[Memory]:
        """Retire or restore a memory and return it, or return its history; or decide on a suggestion."""
        view, within = self.view, self.within
        if action in ("confirm", "dismiss", "undo"):
            decided = view.review(id, action, actor="mcp", within=within)
            return [view.get(decided.old, within=within), view.get(decided.new, within=within)]
        if action == "history":
            return view.history(id, within=within)
        if action == "restore":
            return [view.restore(id, within=within)]
        if action == "supersede":
            return [view.supersede(id, by, reason=reason, actor="mcp", within=within)]
        return [view.retract(id, reason=reason, actor="mcp", within=within)]

    def forget(self, ids: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Delete memories; return the ids that existed and those that did not. `NotFound` if none existed."""
        unique = list(dict.fromkeys(ids))
        forgotten = self.view.forget(*unique, within=self.within)
        existed = set(forgotten)
        missing = [id for id in unique if id not in existed]
        if not forgotten:
            raise NotFound(f"there is no memory {', '.join(missing)}; nothing was forgotten")
        return forgotten, missing

    def latest(self, limit: int) -> Sequence[Memory]:
        """Return the latest memories, newest first."""
        within = self.within
        return self.view.list(session=within.sessions, only_session=within.only_sessions, limit=limit).memories

    def counts(self) -> Profile:
        """Return the number of projects, sessions and memories."""
        profile = self.view.profile
        if self.within.sessions is not None:
            memories = sum(one.memories for one in self.view.sessions() if one.name == self.session)
            return Profile(profile, 0, int(memories > 0), memories)
        if self.view.project is None:
            return self.view.counts()
        found = self.view.projects()
        return Profile(profile, len(found), sum(one.sessions for one in found), sum(one.memories for one in found))


def open_scope(
    engine: Engine, *, project: str | None = None, session: str | None = None, read_only: bool = False
) -> ToolScope:
    """Return a scope in the engine's profile. A session that belongs to a project includes the project.

    `Conflict` if several projects have a session of this name, and none is named.
    """
    profile = engine.settings.profile
    check_name("session", session)
    if session is not None and project is None:
        projects = [one.project for one in engine.sessions(profile=profile) if one.name == session]
        project = home_of(session, None, projects)
    return ToolScope(ProfileView(engine, profile, project=project), session, record_use=not read_only)
