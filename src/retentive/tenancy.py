"""`Confined`: the verbs of an engine inside one profile, and one project if that is wished.

This is the wall that every surface for others stands behind. Through it nothing of another profile can be read,
changed, forgotten or even told from what does not exist; there is no argument that names another profile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from retentive.engine import Asked, Engine
from retentive.errors import Invalid, NotFound
from retentive.models import (
    Explanation,
    Judgement,
    Kind,
    Memory,
    Page,
    Profile,
    Project,
    Recall,
    Session,
    Timeline,
    TimelineBy,
)
from retentive.pipeline.remember import check_name


class ProfileView:
    """An engine of which only one profile, or one project of it, is there."""

    def __init__(self, engine: Engine, profile: str, *, project: str | None = None) -> None:
        check_name("profile", profile)
        check_name("project", project)
        self.engine = engine
        self.profile = profile
        self.project = project

    def remember(self, drafts: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None) -> Sequence[Memory]:
        """The memories as stored, all of them or none; `once` names the write, so that it may be sent again."""
        placed = []
        for draft in drafts:
            self._refuse_other(draft.get("profile"))
            placed.append({**draft, "profile": self.profile, "project": self._home(draft.get("project"))})
        return self.engine.remember_many(placed, idempotency_key=self._named(idempotency_key))

    def recall(self, query: str, *, record_use: bool = True, **asked: Unpack[Asked]) -> Recall:
        """The memories that answer a query, best first, with why."""
        return self.engine.recall(query, profile=self.profile, record_use=record_use, **self._at_home(asked))

    def explain(self, query: str, id: str, **asked: Unpack[Asked]) -> Explanation:
        """Why a memory ranks where it does for a query, or why it does not appear."""
        self.get(id)
        return self.engine.explain(query, id, profile=self.profile, **self._at_home(asked))

    def get(self, id: str) -> Memory:
        """The memory of that id."""
        memory = self.engine.get(id)
        if memory.profile != self.profile or self.project not in (None, memory.project):
            raise NotFound(f"there is no memory {id}")
        return memory

    def update(self, id: str, *, idempotency_key: str | None = None, **changes: Any) -> Memory:
        """The memory with some fields changed."""
        self.get(id)
        return self.engine.update(id, idempotency_key=self._named(idempotency_key), **changes)

    def forget(self, *ids: str, idempotency_key: str | None = None) -> int:
        """How many of these memories there were; they are gone for good."""
        seen = [id for id in dict.fromkeys(ids) if self._there(id)]
        return self.engine.forget(*seen, idempotency_key=self._named(idempotency_key), asked=ids)

    def forget_scope(
        self,
        *,
        project: str | None = None,
        session: str | Sequence[str] | None = None,
        kinds: Sequence[Kind] | None = None,
        confirm: bool = False,
    ) -> int:
        """How many memories there were in exactly this scope; they are gone for good.

        A session stands for itself alone here, never for its project. Nothing is done without `confirm`.
        """
        scope = self.engine.scope(
            project=self._home(project), session=session, only_session=True, kinds=kinds, profile=self.profile
        )
        return self.engine.forget_scope(scope, confirm=confirm)

    def list(
        self,
        *,
        project: str | None = None,
        session: str | Sequence[str] | None = None,
        only_session: bool = False,
        kinds: Sequence[Kind] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Memories, newest first, and where to go on."""
        scope = self.engine.scope(
            project=self._home(project),
            session=session,
            only_session=only_session,
            kinds=kinds,
            profile=self.profile,
        )
        return self.engine.list(scope, cursor=cursor, limit=limit)

    def sessions(self, *, project: str | None = None) -> Sequence[Session]:
        """The sessions, or those of one project."""
        return self.engine.sessions(project=self._home(project), profile=self.profile)

    def projects(self) -> Sequence[Project]:
        """The projects."""
        found = self.engine.projects(profile=self.profile)
        return [project for project in found if self.project in (None, project.name)]

    def move_session(self, session: str, *, project: str | None) -> Session:
        """The session in its new project, or in none, with all its memories."""
        if self.project is not None:
            raise Invalid(f"sessions cannot leave project '{self.project}' from here")
        return self.engine.move_session(session, project=project, profile=self.profile)

    def counted(self) -> Profile:
        """How much there is in the profile."""
        found = (profile for profile in self.engine.profiles() if profile.name == self.profile)
        return next(found, Profile(self.profile, 0, 0, 0))

    def timeline(self, *, project: str | None = None, by: TimelineBy | None = None) -> Timeline:
        """Memories by kind over time."""
        return self.engine.timeline(project=self._home(project), profile=self.profile, by=by)

    def judge(
        self,
        query: str,
        *,
        good: Sequence[str] | Mapping[str, int] = (),
        bad: Sequence[str] = (),
        project: str | None = None,
        asked_at: datetime | str | None = None,
    ) -> Sequence[Judgement]:
        """What was said of memories as answers to a query."""
        return self.engine.judge(
            query, good=good, bad=bad, project=self._home(project), asked_at=asked_at, profile=self.profile
        )

    def judgements(self, *, project: str | None = None) -> Sequence[Judgement]:
        """What was judged."""
        return self.engine.judgements(project=self._home(project), profile=self.profile)

    def unjudge(self, *judgements: Judgement) -> int:
        """How many of these judgements there were; they are gone."""
        for judgement in judgements:
            self._refuse_other(judgement.profile)
        return self.engine.unjudge(*judgements)

    def _named(self, idempotency_key: str | None) -> str | None:
        """The name of a write, spelled so that no profile's name and key together read as another's."""
        return None if idempotency_key is None else json.dumps([self.profile, idempotency_key])

    def _there(self, id: str) -> bool:
        try:
            self.get(id)
        except NotFound:
            return False
        return True

    def _refuse_other(self, profile: str | None) -> None:
        if profile not in (None, self.profile):
            raise NotFound(f"there is no profile '{profile}' for this caller")

    def _at_home(self, asked: Asked) -> Asked:
        return {**asked, "project": self._home(asked.get("project"))}

    def _home(self, project: str | None) -> str | None:
        if self.project is not None and project not in (None, self.project):
            raise NotFound(f"there is no project '{project}' for this caller")
        return self.project or project
