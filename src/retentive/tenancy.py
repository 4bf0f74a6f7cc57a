"""`ProfileView`: the verbs of an engine, limited to one profile or to one project of it.

Every surface for other people uses it. Through a view, memories of another profile cannot be read, changed or deleted,
and give the same errors as memories that do not exist: the scope is passed into the store, and no argument names
another profile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Unpack

from retentive.engine import Engine
from retentive.errors import Invalid, NotFound
from retentive.models import Kind, Memory, Query, Recall, Scalar, Scope, check_name
from retentive.pipeline.explain import Explanation
from retentive.pipeline.given import Given
from retentive.pipeline.query_options import QueryOptions
from retentive.pipeline.remember import MemoryChanges
from retentive.pipeline.review import Review, Status, Suggestion
from retentive.pipeline.similar import Similar
from retentive.pipeline.timeline import Timeline, TimelineBy
from retentive.stores.values import Judgement, OnDuplicate, Page, Profile, Project, Session
from retentive.transfer.importing.importer import ImportResult


class ProfileView:
    """An engine limited to one profile, or to one project of it."""

    def __init__(self, engine: Engine, profile: str, *, project: str | None = None, records_use: bool = True) -> None:
        check_name("profile", profile)
        check_name("project", project)
        self.records_use = records_use
        self.engine = engine
        self.profile = profile
        self.project = project
        self.within = Scope(profile, project)

    def remember(
        self,
        drafts: Sequence[Mapping[str, Any]],
        *,
        on_duplicate: OnDuplicate = "keep",
        idempotency_key: str | None = None,
    ) -> Sequence[Memory]:
        """Store memories and return them, all or none."""
        placed = []
        given: Any = drafts
        if isinstance(given, str | Mapping) or not all(isinstance(draft, Mapping) for draft in given):
            raise Invalid('drafts: a list of objects, such as [{"text": "The key is under the pot"}]')
        for draft in drafts:
            self._check_profile(draft.get("profile"))
            placed.append({**draft, "profile": self.profile, "project": self._project(draft.get("project"))})
        return self.engine.remember_many(placed, on_duplicate=on_duplicate, idempotency_key=self._key(idempotency_key))

    def import_from(self, path: str | os.PathLike[str], *, project: str | None = None) -> ImportResult:
        """Import a file into this profile, whoever it says its memories are of; see `Engine.import_from`."""
        return self.engine.import_from(path, profile=self.profile, project=self._project(project))

    def query(self, text: str, **options: Unpack[QueryOptions]) -> Query:
        """Build a query in this profile; see `Engine.query`."""
        self._check_profile(options.get("profile"))
        options["profile"] = self.profile
        options["project"] = self._project(options.get("project"))
        return self.engine.query(text, **options)

    def recall(self, query: str | Query, *, record_use: bool = True, **options: Unpack[QueryOptions]) -> Recall:
        """Find the memories that answer a query, best first, with the reasons."""
        return self.engine.recall(self._to_query(query, options), record_use=record_use and self.records_use)

    def explain(
        self, query: str | Query, id: str, *, within: Scope | None = None, **options: Unpack[QueryOptions]
    ) -> Explanation:
        """Explain why a memory ranks where it does for a query, or why it does not appear."""
        return self.engine.explain(self._to_query(query, options), id, within=self._narrow(within))

    def get(self, id: str, *, within: Scope | None = None) -> Memory:
        """Return a memory. `within` limits it to a part of this view, here and in the methods below."""
        return self.engine.get(id, within=self._narrow(within))

    def update(
        self,
        id: str,
        *,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: str | None = None,
        **changes: Unpack[MemoryChanges],
    ) -> Memory:
        """Change some fields of a memory and return it."""
        key, narrow = self._key(idempotency_key), self._narrow(within)
        if "project" in changes:
            changes["project"] = self._project(changes["project"])
        return self.engine.update(id, if_version=if_version, within=narrow, idempotency_key=key, **changes)

    def forget(
        self,
        *ids: str,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: str | None = None,
    ) -> Sequence[str]:
        """Delete memories for good and return the ids of those that existed."""
        key, narrow = self._key(idempotency_key), self._narrow(within)
        return self.engine.forget(*ids, if_version=if_version, within=narrow, idempotency_key=key)

    def forget_scope(
        self,
        *,
        project: str | None = None,
        session: str | Sequence[str] | None = None,
        kinds: Sequence[Kind] | None = None,
        confirm: bool = False,
    ) -> int:
        """Delete all memories of a scope for good and return how many there were. `confirm` must be True.

        A session does not include the other sessions of its project here.
        """
        scope = self.engine.scope(
            project=self._project(project), session=session, only_session=True, kinds=kinds, profile=self.profile
        )
        return self.engine.forget_scope(scope, confirm=confirm)

    def supersede(
        self,
        old_id: str,
        new_id: str,
        *,
        reason: str | None = None,
        actor: str | None = None,
        within: Scope | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Retire a memory because another one replaces it, and return it."""
        key, narrow = self._key(idempotency_key), self._narrow(within)
        return self.engine.supersede(old_id, new_id, reason=reason, actor=actor, within=narrow, idempotency_key=key)

    def retract(
        self,
        id: str,
        *,
        at: datetime | str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        within: Scope | None = None,
        idempotency_key: str | None = None,
    ) -> Memory:
        """Retire a memory that is no longer true, and return it."""
        key, narrow = self._key(idempotency_key), self._narrow(within)
        return self.engine.retract(id, at=at, reason=reason, actor=actor, within=narrow, idempotency_key=key)

    def restore(self, id: str, *, within: Scope | None = None, idempotency_key: str | None = None) -> Memory:
        """Undo that a memory was retired, and return it."""
        return self.engine.restore(id, within=self._narrow(within), idempotency_key=self._key(idempotency_key))

    def history(self, id: str, *, within: Scope | None = None) -> Sequence[Memory]:
        """Return a memory with all that it replaced, that replaced it, or that have its key, oldest first."""
        return self.engine.history(id, within=self._narrow(within))

    def similar(self, id: str, *, within: Scope | None = None) -> Sequence[Similar]:
        """Return the current memories of the same project that are most like a memory."""
        return self.engine.similar(id, within=self._narrow(within))

    def reviews(self, *, status: Status = "open", within: Scope | None = None) -> Sequence[Review]:
        """Return the suggestions with this status, with their memories."""
        return self.engine.reviews.list(profile=self.profile, status=status, within=self._narrow(within))

    def review(self, id: str, action: str, *, actor: str | None = None, within: Scope | None = None) -> Suggestion:
        """Confirm or dismiss a suggestion, or undo that, and return it."""
        reviews, narrow = self.engine.reviews, self._narrow(within)
        if action == "confirm":
            return reviews.confirm(id, actor=actor, profile=self.profile, within=narrow)
        decide = {"dismiss": reviews.dismiss, "undo": reviews.undo}.get(action)
        if decide is None:
            raise Invalid(f"action: confirm, dismiss or undo, not {action!r:.80}")
        return decide(id, profile=self.profile, within=narrow)

    def given(self, *, project: str | None = None, client: str | None = None, limit: int = 100) -> Sequence[Given]:
        """Return what prompts got, newest first."""
        return self.engine.given.list(self.profile, project=self._project(project), client=client, limit=limit)

    def sweep(self) -> int:
        """Delete the memories of the profile that have expired, for good, and return how many there were."""
        if self.project is not None:
            raise Invalid("what has expired is deleted in a whole profile; this view is limited to one project")
        return self.engine.sweep(profile=self.profile)

    def list(
        self,
        *,
        project: str | None = None,
        session: str | Sequence[str] | None = None,
        only_session: bool = False,
        kinds: Sequence[Kind] | None = None,
        cursor: str | None = None,
        limit: int = 50,
        as_of: date | str | None = None,
        include_retired: bool = False,
        since: date | str | None = None,
        until: date | str | None = None,
        metadata: Mapping[str, Scalar] | None = None,
    ) -> Page:
        """Return one page of memories, newest first."""
        scope = self.engine.scope(
            project=self._project(project),
            session=session,
            only_session=only_session,
            kinds=kinds,
            profile=self.profile,
        )
        return self.engine.list(
            scope,
            cursor=cursor,
            limit=limit,
            as_of=as_of,
            include_retired=include_retired,
            since=since,
            until=until,
            metadata=metadata,
        )

    def sessions(self, *, project: str | None = None) -> Sequence[Session]:
        """Return the sessions, or those of one project."""
        return self.engine.sessions(project=self._project(project), profile=self.profile)

    def projects(self) -> Sequence[Project]:
        """Return the projects."""
        projects = self.engine.projects(profile=self.profile)
        return [project for project in projects if self.project in (None, project.name)]

    def move_session(self, session: str, *, project: str | None, from_project: str | None = None) -> Session:
        """Move a session with all its memories to another project, or out of its project."""
        if self.project is not None:
            raise Invalid(f"sessions cannot be moved out of project '{self.project}' by this caller")
        return self.engine.move_session(session, project=project, from_project=from_project, profile=self.profile)

    def counts(self) -> Profile:
        """Return how many projects, sessions and memories the profile has."""
        own = (profile for profile in self.engine.profiles() if profile.name == self.profile)
        return next(own, Profile(self.profile, 0, 0, 0))

    def timeline(self, *, project: str | None = None, by: TimelineBy | None = None) -> Timeline:
        """Return the number of memories by kind over time."""
        return self.engine.timeline(project=self._project(project), profile=self.profile, by=by)

    def judge(
        self,
        query: str,
        *,
        good: Sequence[str] | Mapping[str, int] = (),
        bad: Sequence[str] = (),
        project: str | None = None,
        asked_at: datetime | str | None = None,
    ) -> Sequence[Judgement]:
        """Store relevance judgements of memories for a query."""
        return self.engine.judge(
            query, good=good, bad=bad, project=self._project(project), asked_at=asked_at, profile=self.profile
        )

    def judgements(self, *, project: str | None = None) -> Sequence[Judgement]:
        """Return the relevance judgements."""
        return self.engine.judgements.list(project=self._project(project), profile=self.profile)

    def unjudge(self, *judgements: Judgement) -> int:
        """Remove relevance judgements and return how many existed."""
        for judgement in judgements:
            self._check_profile(judgement.profile)
            if self._project(judgement.project) != judgement.project:
                raise NotFound("this judgement is not of the project of this caller")
        return self.engine.judgements.remove(*judgements)

    def _key(self, idempotency_key: str | None) -> str | None:
        """The idempotency key with the profile, encoded so that two profiles' keys are never equal."""
        return None if idempotency_key is None else json.dumps([self.profile, idempotency_key])

    def _check_profile(self, profile: str | None) -> None:
        if profile not in (None, self.profile):
            raise NotFound(f"there is no profile '{profile}' for this caller")

    def _to_query(self, query: str | Query, options: QueryOptions) -> Query:
        if isinstance(query, str):
            return self.query(query, **options)
        if options:
            raise TypeError(f"a Query has its own options; pass '{next(iter(options))}' to view.query()")
        self._narrow(query.scope)
        return query

    def _narrow(self, scope: Scope | None) -> Scope:
        """Return the scope if it is a part of this view, or the whole view."""
        if scope is None:
            return self.within
        self._check_profile(scope.profile)
        self._project(scope.project)
        if self.project is not None and scope.project is None:
            raise NotFound("this scope is not limited to the project of this caller")
        return scope

    def _project(self, project: str | None) -> str | None:
        if self.project is not None and project not in (None, self.project):
            raise NotFound(f"there is no project '{project}' for this caller")
        return self.project or project
