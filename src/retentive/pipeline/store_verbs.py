"""The verbs of `Engine` that read, judge and maintain its store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from retentive.errors import Invalid, NotFound
from retentive.models import Kind, Memory, Scalar, Scope, canonical_id, check_name, check_unicode
from retentive.pipeline.embeddings import Embeddings
from retentive.pipeline.given import GivenLog
from retentive.pipeline.judgements import to_judgements
from retentive.pipeline.listing import list_matching
from retentive.pipeline.query_options import to_as_of, to_filter, to_kinds, to_names
from retentive.pipeline.remember import to_time
from retentive.pipeline.scopes import ScopeTest, check_scope
from retentive.pipeline.timeline import Timeline, TimelineBy, timeline
from retentive.settings import Settings
from retentive.stores.base import Store
from retentive.stores.damage import Repair, damaged_error
from retentive.stores.validity import rings
from retentive.stores.values import Backup, Compaction, Judgement, Page, Profile, Project, Session, Stats


class StoreVerbs:
    """The part of `Engine` that reads, judges and maintains its store."""

    store: Store
    settings: Settings
    embeddings: Embeddings
    given: GivenLog
    now: Callable[[], datetime]

    def get(self, id: str, *, within: Scope | None = None) -> Memory:
        """Return a memory. `NotFound` if it does not exist, or not in the scope; `Damaged` if it cannot be returned.

        In the scope of a project, an identity memory of the profile that belongs to no project is returned too, as a
        recall finds it.
        """
        if not isinstance(id, str):
            raise Invalid(f"id: it must be text, not {type(id).__name__}")
        id = canonical_id(id)
        found = self.store.get([id], within=within)
        if found:
            return found[0]
        for damage in self.store.damaged([id], within=within):
            raise damaged_error(damage)
        if within is not None and within.project is not None:
            for memory in self.store.get([id], within=Scope(within.profile, kinds=("identity",))):
                if memory.project is None and ScopeTest(within, self.store).difference(memory) is None:
                    return memory
        raise NotFound(f"there is no memory {id}")

    def get_many(self, ids: Sequence[str], *, within: Scope | None = None) -> Sequence[Memory]:
        """Return the memories with these ids that exist, in the order of the ids."""
        given: Any = ids
        if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(id, str) for id in given):
            raise Invalid("ids: a list of ids, each of which is text")
        return self.store.get([canonical_id(id) for id in ids], within=within)

    def stats(self) -> Stats:
        """Return statistics of the store."""
        return self.store.stats()

    def sessions(self, *, project: str | None = None, profile: str | None = None) -> Sequence[Session]:
        """Return the sessions of the profile, or of one project."""
        return self.store.sessions(self._profile(profile, project), project=project)

    def projects(self, *, profile: str | None = None) -> Sequence[Project]:
        """Return the projects of the profile."""
        return self.store.projects(self._profile(profile))

    def profiles(self) -> Sequence[Profile]:
        """Return all profiles that have memories."""
        return self.store.profiles()

    def move_session(
        self,
        session: str,
        *,
        project: str | None,
        from_project: str | None = None,
        profile: str | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Session:
        """Move a session with all its memories to another project, or out of its project.

        `from_project` is the project that it is in. Without it, the session of this name that is in no project is
        moved, or else the only one; `Conflict` if there are several. Many memories are moved in several transactions.
        If that is interrupted, running it again moves the rest.
        """
        check_name("project", project)
        check_name("from_project", from_project)
        check_unicode("session", session)
        return self.store.move_session(
            self._profile(profile), session, project=project, from_project=from_project, progress=progress
        )

    def timeline(
        self, *, project: str | None = None, profile: str | None = None, by: TimelineBy | None = None
    ) -> Timeline:
        """Return the number of memories by kind over time; by day, month or year, chosen by their span by default."""
        return timeline(self.store.days(self._profile(profile, project), project=project), by=by)

    def judge(
        self,
        query: str,
        *,
        good: Iterable[str] | Mapping[str, int] = (),
        bad: Iterable[str] = (),
        project: str | None = None,
        asked_at: datetime | str | None = None,
        profile: str | None = None,
    ) -> Sequence[Judgement]:
        """Store relevance judgements of memories, by id, for a query; a later judgement replaces an earlier one.

        `good` may give each id a relevance from 1 to 3.
        """
        scope = Scope(self._profile(profile, project), project)
        at = to_time(asked_at, "asked_at")
        judgements = to_judgements(self.store, query, scope, good=good, bad=bad, asked_at=at, now=self.now())
        self.store.judge(judgements)
        return judgements

    def compact(self, *, progress: Callable[[int], None] = lambda done: None) -> Compaction:
        """Return the space of deleted memories to the file system, while others read and write."""
        return self.store.compact(progress=progress)

    def backup(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        keep: int | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Backup:
        """Write a checked copy of a SQLite store into a new file of the folder, while others read and write.

        The folder is `backups` beside the store by default. `keep` deletes all but that many of the newest backups,
        unless the new one has problems. `progress` is called with the megabytes copied. `Invalid` for PostgreSQL, which
        has tools of its own.
        """
        return self.store.backup(None if folder is None else Path(folder), at=self.now(), keep=keep, progress=progress)

    def check(self) -> Sequence[str]:
        """Check the store and return one sentence for each problem."""
        ring = sum(map(len, rings(self.store.replacements())))
        problem = "have replaced one another, so that none of them is current; run: retentive doctor --repair"
        return [*self.store.check(), *([f"{ring:,} memories {problem}"] if ring else [])]

    def repair(self, *, progress: Callable[[int], None] = lambda done: None) -> Repair:
        """Rebuild every index from the texts, set aside what cannot be read, and embed what has lost its vectors.

        A text that another program changed is indexed as it is now. Of memories that have replaced one another, the
        one that starts last is open again. Without a usable embedder, memories wait to be embedded, as `stats` reports.
        `Damaged` if the store needs `retentive recover`.
        """
        from retentive.pipeline.facts import open_rings  # a recall does not need it

        done = self.store.repair(at=self.now())
        open_rings(self.store)
        if self.embeddings.problem() is not None:
            return done
        stale = self.store.remove_stale_vectors()
        self.embeddings.reembed(progress=progress)
        return replace(done, stale_vectors=stale)

    def _drop_suggestions(self) -> None:
        """Delete what the review queue has about memories that do not exist any more."""
        from retentive.pipeline.review import drop_suggestions  # a recall does not need it

        drop_suggestions(self.store)

    def _profile(self, profile: str | None, project: str | None = None) -> str:
        """The profile of the engine unless one is named. An empty name is the name of no profile."""
        for name, value in (("profile", profile), ("project", project)):
            if value is not None:
                check_unicode(name, value)
        return self.settings.profile if profile is None else profile

    # Defined last: after it, `list` in this class is no longer the type.
    def scope(
        self,
        *,
        project: str | None = None,
        session: str | Sequence[str] | None = None,
        only_session: bool = False,
        kinds: Sequence[Kind] | None = None,
        profile: str | None = None,
    ) -> Scope:
        """Build a scope in this engine's profile, or in another one.

        A session that belongs to a project includes the other sessions of the project; `only_session` limits it. A
        name that does not exist, or an empty one, matches nothing.
        """
        sessions = (session,) if isinstance(session, str) else None if session is None else to_names("session", session)
        chosen = None if kinds is None else to_kinds(kinds)
        for name, value in (("profile", profile), ("project", project), *(("session", one) for one in sessions or ())):
            if value is not None and (type(value) is not str or not value.isascii()):
                check_unicode(name, value)
        return Scope(self.settings.profile if profile is None else profile, project, sessions, chosen, only_session)

    def list(
        self,
        scope: Scope | None = None,
        *,
        project: str | None = None,
        session: str | Sequence[str] | None = None,
        only_session: bool = False,
        kinds: Sequence[Kind] | None = None,
        profile: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        as_of: date | str | None = None,
        include_retired: bool = False,
        since: date | str | None = None,
        until: date | str | None = None,
        metadata: Mapping[str, Scalar] | None = None,
    ) -> Page:
        """Return one page of memories, newest first. `cursor` is the one returned with the previous page.

        The scope is given whole, or by its parts as in `scope`.
        Those that are current now, or at the time `as_of`; `include_retired` adds those that are retired or expired.
        `since`, `until` and `metadata` filter as in a recall; a page may then have few memories or none, and a cursor.
        """
        if not hasattr(limit, "__index__") or not 1 <= limit <= 1000:
            raise Invalid(f"limit: a number from 1 to 1000, not {limit!r:.80}")
        limit = int(limit)  # SQLite does not accept the integers of numpy
        if cursor is not None and not isinstance(cursor, str):
            raise Invalid(f"cursor: it must be text, not {type(cursor).__name__}")
        parts = {"project": project, "session": session, "kinds": kinds, "profile": profile}
        given = [name for name, value in parts.items() if value is not None]
        if scope is None:
            scope = self.scope(
                project=project, session=session, only_session=only_session, kinds=kinds, profile=profile
            )
        elif given or only_session:
            raise Invalid(f"{(*given, 'only_session')[0]}: give a scope or its parts, not both")
        else:
            check_scope(scope)
        at = to_as_of(as_of)
        current_at = None if include_retired else at or self.now()
        wanted = to_filter(since, until, metadata)
        if wanted:
            return list_matching(
                self.store, scope, wanted, cursor=cursor, limit=limit, current_at=current_at, started_by=at
            )
        return self.store.list(scope, cursor=cursor, limit=limit, current_at=current_at, started_by=at)
