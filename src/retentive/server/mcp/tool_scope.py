"""Where the tools of a server work: inside one profile, perhaps one project of it, perhaps one session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retentive.engine import Engine
from retentive.errors import NotFound
from retentive.models import Explanation, Kind, Memory, Profile, Recall
from retentive.pipeline.remember import check_name
from retentive.tenancy import ProfileView


@dataclass(frozen=True, slots=True)
class Place:
    """What a model can reach.

    In a project, that is all of the project, and a session is where new memories go. A session without a project is
    all there is.
    """

    inside: ProfileView
    session: str | None = None
    leaves_traces: bool = True

    @property
    def _only(self) -> dict[str, Any]:
        """The part of a scope that goes beyond what `Confined` holds to by itself."""
        alone = self.session is not None and self.inside.project is None
        return {"session": self.session, "only_session": True} if alone else {}

    def recall(self, query: str, *, limit: int, kinds: Sequence[Kind] | None = None) -> Recall:
        """The memories that answer a query."""
        return self.inside.recall(query, limit=limit, kinds=kinds, record_use=self.leaves_traces, **self._only)

    def explain(self, query: str, id: str, *, limit: int, kinds: Sequence[Kind] | None = None) -> Explanation:
        """Why a memory ranks where it does for a query, or does not appear."""
        self.get(id)
        return self.inside.explain(query, id, limit=limit, kinds=kinds, **self._only)

    def remember(self, drafts: Sequence[Mapping[str, Any]]) -> Sequence[Memory]:
        """The memories as stored, in this place."""
        return self.inside.remember([{**draft, "session": self.session} for draft in drafts])

    def get(self, id: str) -> Memory:
        """The memory of that id, if it is here."""
        memory = self.inside.get(id)
        if self._only and memory.session != self.session:
            raise NotFound(f"there is no memory {id}")
        return memory

    def update(self, id: str, changes: Mapping[str, Any]) -> Memory:
        """The memory with some fields changed."""
        self.get(id)
        return self.inside.update(id, **changes)

    def forget(self, ids: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Which of these are gone now, and which were not here; `NotFound` if not one was."""
        here = [id for id in dict.fromkeys(ids) if self._here(id)]
        missing = [id for id in dict.fromkeys(ids) if id not in here]
        if not here:
            raise NotFound(f"there is no memory {', '.join(missing)}; nothing was forgotten")
        self.inside.forget(*here)
        return here, missing

    def recent(self, limit: int) -> Sequence[Memory]:
        """The latest memories, newest first."""
        return self.inside.list(limit=limit, **self._only).memories

    def counted(self) -> Profile:
        """How much there is here."""
        project, session = self.inside.project, self.session
        if self._only:
            held = sum(one.memories for one in self.inside.sessions() if one.name == session)
            return Profile(self.inside.profile, 0, int(held > 0), held)
        if project is None:
            return self.inside.counts()
        found = self.inside.projects()
        return Profile(self.inside.profile, len(found), sum(p.sessions for p in found), sum(p.memories for p in found))

    def _here(self, id: str) -> bool:
        try:
            self.get(id)
        except NotFound:
            return False
        return True


def open_scope(
    engine: Engine, *, project: str | None = None, session: str | None = None, read_only: bool = False
) -> Place:
    """A place in the engine's own profile. A session that belongs to a project brings its project with it."""
    profile = engine.settings.profile
    check_name("session", session)
    if session is not None and project is None:
        project = next((one.project for one in engine.sessions(profile=profile) if one.name == session), None)
    return Place(ProfileView(engine, profile, project=project), session, leaves_traces=not read_only)
