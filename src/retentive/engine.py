"""`Engine`: a store and an embedder with the verbs that every surface uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from time import monotonic, perf_counter
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Unpack

from retentive.errors import Invalid
from retentive.inference.embedders import Embedder, open_embedder
from retentive.inference.judge import Judge, LocalJudge
from retentive.models import (
    Kind,
    Memory,
    Query,
    Recall,
    Scalar,
    Scope,
    canonical_id,
    check_name,
    check_unicode,
    current_work,
)
from retentive.pipeline.access_tokens import AccessTokens
from retentive.pipeline.embeddings import Calibrations, Embeddings
from retentive.pipeline.facts import FactWriter, linked_memories, remove_expired
from retentive.pipeline.given import GivenLog
from retentive.pipeline.judgements import JudgementLog, to_judgements
from retentive.pipeline.judging import Judging
from retentive.pipeline.periods import retrieve_period
from retentive.pipeline.query_options import QueryOptions, build_query, build_scope, to_as_of, to_filter
from retentive.pipeline.reading import get_memories, get_memory, list_memories
from retentive.pipeline.recall import INLINE, FairLimiter, RecallLog, rank_outcome
from retentive.pipeline.remember import (
    Draft,
    DraftFields,
    MemoryChanges,
    forget_memories,
    redacted,
    store_memories,
    tell_of_change,
    to_drafts,
    to_duplicates,
    to_idempotency_key,
    to_ids,
    to_memory,
    to_time,
    update_memory,
)
from retentive.pipeline.retrievers import CustomRetrievers, Retriever
from retentive.pipeline.scopes import check_scope
from retentive.pipeline.search import SearchOutcome, search
from retentive.pipeline.standing_rules import mark_rules
from retentive.pipeline.timeline import Timeline, TimelineBy, timeline
from retentive.pipeline.tuning_history import SavedTuning
from retentive.ranking.judged import CALIBRATION
from retentive.settings import Settings, load_settings
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.damage import Repair
from retentive.stores.values import (
    Backup,
    Compaction,
    IdempotencyKey,
    Judgement,
    OnDuplicate,
    Page,
    Profile,
    Project,
    Session,
    Stats,
)

if TYPE_CHECKING:  # imported when they are used: a recall needs none of them
    from retentive.pipeline.explain import Explanation
    from retentive.pipeline.review import Reviews
    from retentive.pipeline.similar import Similar
    from retentive.transfer.exporting import ExportResult
    from retentive.transfer.formats.base import ImportIssue
    from retentive.transfer.importing.importer import ImportResult
    from retentive.transfer.importing.log import Imports


class Engine:
    """Remembers and recalls. Thread-safe. Close it, or use it in a `with` block.

    `tuning`, `tokens`, `judgements`, `reviews`, `given`, `imports` and `embeddings` group the verbs that are not used
    daily.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder | Callable[[], Embedder | None] | None = None,
        *,
        judge: Judge | None = None,
        retrievers: Sequence[Retriever] = (),
        settings: Settings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = store
        self.settings = settings or Settings(store="")
        self.now = clock
        self.embeddings = Embeddings(store, embedder)
        self.calibrations = Calibrations(store)
        self._judge = judge
        self._custom_retrievers = CustomRetrievers(retrievers, store) if retrievers else None
        self._threads = ThreadPoolExecutor(16, thread_name_prefix="retentive")
        self._limiter = FairLimiter()
        self._recall_log = RecallLog(store, self._threads)
        self.judging = Judging(judge, self._threads, self.calibrations.of_judge)
        self.given = GivenLog(store, profile=self.settings.profile, days=self.settings.given_days, clock=clock)

    @classmethod
    def open(
        cls,
        store: str | os.PathLike[str] | None = None,
        *,
        embedder: str | Embedder | None = None,
        profile: str | None = None,
        tuning: Mapping[str, Any] | None = None,
        config: str | os.PathLike[str] | None = None,
        create: bool = True,
        vectors: str | None = None,
        retrievers: Sequence[Retriever] = (),
    ) -> Engine:
        """Open an engine on the store at this path or address.

        A store that does not exist is created, or `NotFound` is raised if `create` is False. `vectors` is the address
        of an index of its vectors. `retrievers` search beside
        the keyword and the semantic retriever.
        What is not given comes from the environment, then the config file, then the defaults.
        """
        given: Any = store
        if store is not None and (not isinstance(given, str | os.PathLike) or not os.fspath(given)):
            raise Invalid(f"store: a path or an address, not {store!r:.80}; leave it out for the default store")
        name = embedder if isinstance(embedder, str) else None
        address = None if store is None else os.fspath(store)
        settings = load_settings(
            {"store": address, "vectors": vectors, "embedder": name, "profile": profile, "tuning": tuning},
            config=config,
        )
        opened = None if isinstance(embedder, str) else embedder
        return cls(
            open_store(settings.store, busy_seconds=settings.busy_seconds, create=create, vectors=settings.vectors),
            opened or (lambda: open_embedder(settings.embedder)),  # loading a model takes time
            judge=LocalJudge(),
            retrievers=retrievers,
            settings=settings,
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Record the use of memories and what was given, and close the store and the models."""
        self._recall_log.record_use()
        self.given.write()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.embeddings.close()
        self.store.close()

    # Groups

    @cached_property
    def tuning(self) -> SavedTuning:
        """The tuning in effect, the saved parameters and their history."""
        return SavedTuning(self.store, self.settings, self.now)

    @cached_property
    def tokens(self) -> AccessTokens:
        """The API tokens."""
        return AccessTokens(self.store, profile=self.settings.profile, clock=self.now)

    @cached_property
    def judgements(self) -> JudgementLog:
        """The relevance judgements."""
        return JudgementLog(self.store, profile=self.settings.profile)

    @cached_property
    def reviews(self) -> Reviews:
        """The suggestions that a memory has replaced another one, to confirm or to dismiss."""
        from retentive.pipeline.review import Reviews

        return Reviews(self.store, profile=self.settings.profile, clock=self.now)

    @cached_property
    def imports(self) -> Imports:
        """The imports that can be undone."""
        from retentive.transfer.importing.log import Imports

        return Imports(self.store, after_undo=self._after_removal)

    # Remember

    def remember(self, text: str, *, on_duplicate: OnDuplicate = "keep", **fields: Unpack[DraftFields]) -> Memory:
        """Store one memory and return it; see `remember_many` for `on_duplicate`, and `similar` for what is like it."""
        fields.setdefault("profile", self.settings.profile)
        unknown = sorted(fields.keys() - DraftFields.__annotations__.keys())
        if unknown:
            raise Invalid(f"there is no field '{unknown[0]}'; the fields are {', '.join(DraftFields.__annotations__)}")
        return self.remember_many([Draft(text, **fields)], on_duplicate=on_duplicate)[0]

    def remember_many(
        self,
        drafts: Iterable[Draft | Mapping[str, Any]],
        *,
        on_duplicate: OnDuplicate = "keep",
        idempotency_key: str | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Sequence[Memory]:
        """Store memories and return them: all of them, or none if one is not valid.

        `on_duplicate` is what happens to a text that the profile and project have already, ignoring case, white space
        and punctuation: `keep` stores it again, `count` counts it in the metadata `repeats` of the stored memory and
        returns that one, `refuse` raises `Conflict`. A memory that
        says that something has changed raises suggestions, see `reviews`. One that states a standing rule or a
        preference gets `"rule": true` in its metadata, unless that has the key.
        A request sent again with the same idempotency key within a day stores nothing and returns the same memories.
        `progress` is called with the number of texts embedded; a long text is several.
        """
        now, given = self.now(), to_drafts(drafts, profile=self.settings.profile)
        stored_as = map(redacted, given) if self.settings.redact_secrets else given
        memories = mark_rules([to_memory(draft, now=now) for draft in stored_as], self._judge)
        if not memories:
            return []
        stored = store_memories(
            self.store,
            self.embeddings.available,
            memories,
            idempotency_key=self._idempotency_key(idempotency_key, lambda: [draft.to_fields() for draft in given]),
            duplicates=to_duplicates(on_duplicate, now),
            progress=progress,
        )
        for memory in tell_of_change(stored, memories):
            self.reviews.suggest(memory)
        return stored

    def similar(
        self, id: str, *, threshold: float = 0.75, limit: int = 5, within: Scope | None = None
    ) -> Sequence[Similar]:
        """Return the current memories of the same project that are most like a memory, with cosine and shared words."""
        from retentive.pipeline.similar import find_similar

        memory = self.get(id, within=within)
        return find_similar(self.store, memory, now=self.now(), threshold=threshold, limit=limit, within=within)

    def update(
        self,
        id: str,
        *,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: str | None = None,
        **changes: Unpack[MemoryChanges],
    ) -> Memory:
        """Change some fields of a memory and return it; its terms and vector follow its text.

        Of changes made at the same time, none is lost: an update changes only the fields that it names. `if_version` is
        the `version` of the memory that the caller has read: `VersionConflict` if it has changed since.
        """
        id = canonical_id(id)
        key = self._idempotency_key(idempotency_key, lambda: {"id": id, **changes})
        before = self.get(id, within=within)
        if "text" in changes and self.settings.redact_secrets:
            changes["text"] = redacted(Draft(changes["text"])).text
        changed = update_memory(
            self.store,
            self.embeddings.available,
            before,
            changes,
            judge=self._judge,
            now=self.now(),
            if_version=if_version,
            within=within,
            idempotency_key=key,
        )
        if changed.text != before.text:
            self.reviews.suggest_again(changed)
        return changed

    def forget(
        self,
        *ids: str,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: str | None = None,
    ) -> Sequence[str]:
        """Delete memories for good and return the ids of those that existed.

        With `if_version`, the `version` of the one memory as the caller has read it: `VersionConflict` if it has
        changed since.
        """
        ids = to_ids(ids, if_version=if_version)
        if not ids and idempotency_key is None:
            return []  # an empty write would wait for other writers and for the disk
        key = self._idempotency_key(idempotency_key, lambda: sorted(ids) if if_version is None else [*ids, if_version])
        removed = forget_memories(
            self.store,
            self.embeddings.available,
            ids,
            if_version=if_version,
            within=within,
            idempotency_key=key,
        )
        self.reviews.drop_forgotten()
        return removed

    def forget_scope(
        self, scope: Scope, *, confirm: bool = False, progress: Callable[[int], None] = lambda done: None
    ) -> int:
        """Delete all memories of a scope for good and return how many there were. `confirm` must be True.

        Of a scope of sessions, only the memories in these sessions are deleted, not those of their projects.
        Many are deleted in several transactions. If that is interrupted, running it again deletes the rest.
        """
        if not confirm:
            raise Invalid("forgetting a whole scope cannot be undone; pass confirm=True")
        check_scope(scope)
        if scope.sessions is not None:
            scope = replace(scope, only_sessions=True)
        count = self.store.remove_scope(scope, progress=progress)
        if scope.kinds is None:
            self.given.erase(scope)
        if count and scope.kinds is not None:  # other turns of the same sessions are still there
            self.embeddings.embed_missing()
        self.reviews.drop_forgotten()
        return count

    def _idempotency_key(self, name: str | None, request: Callable[[], Any]) -> IdempotencyKey | None:
        if name is None:
            return None
        # Time since the start by a clock that does not jump: a key expires after a day, however the system's clock is
        # set meanwhile.
        started, reading = self._steady_start
        now = started + timedelta(seconds=monotonic() - reading)
        return to_idempotency_key(name, request(), now)

    @cached_property
    def _steady_start(self) -> tuple[datetime, float]:
        return self.now(), monotonic()

    # Facts that change

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
        """Retire a memory because another one replaces it, from the time on at which that one starts; return it.

        A retired memory is not deleted: recalls leave it out, `as_of` finds it for the time before, and `restore`
        undoes this. `Conflict` if it is retired already.
        """
        old_id, new_id = canonical_id(old_id), canonical_id(new_id)
        facts = self._facts(within, idempotency_key, ["supersede", old_id, new_id, reason, actor])
        return facts.supersede(old_id, new_id, now=self.now(), reason=reason, actor=actor)

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
        """Retire a memory that is no longer true, from now or from a time on, and return it.

        `at` replaces an end that it has. `Conflict` if another memory has replaced it by then.
        """
        end = to_time(at, "at")
        at_utc = end and end.astimezone(UTC)
        facts = self._facts(within, idempotency_key, ["retract", canonical_id(id), at_utc, reason, actor])
        return facts.retract(id, at=end, now=self.now(), reason=reason, actor=actor)

    def restore(self, id: str, *, within: Scope | None = None, idempotency_key: str | None = None) -> Memory:
        """Undo that a memory was retired, and return it. One of a key ends where the next one starts.

        `Conflict` if it ends there already, or if the current one of its key started before it.
        """
        return self._facts(within, idempotency_key, ["restore", canonical_id(id)]).restore(id)

    def history(self, id: str, *, within: Scope | None = None) -> Sequence[Memory]:
        """Return a memory with all that it replaced, that replaced it, or that have its key, oldest first."""
        return linked_memories(self.store, self.get(id, within=within), within=within)

    def sweep(self, *, older_than: timedelta = timedelta(0), profile: str | None = None) -> int:
        """Delete for good the memories that have expired, of all profiles or of one, and return how many there were.

        Those that have expired less than `older_than` ago stay: until then `update(id, expires=None)` restores them.
        Entries of the log of what was given go after `given_days`.
        """
        for owner in [profile] if profile is not None else [stored.name for stored in self.store.profiles()]:
            self.given.prune(owner)
        count = remove_expired(self.store, self.embeddings, now=self.now(), older_than=older_than, profile=profile)
        if count:
            self.reviews.drop_forgotten()
        return count

    def _facts(self, within: Scope | None, idempotency_key: str | None, request: Sequence[Any]) -> FactWriter:
        key = self._idempotency_key(idempotency_key, lambda: request)
        return FactWriter(self.store, within=within, idempotency_key=key)

    # Recall

    def query(self, text: str, **options: Unpack[QueryOptions]) -> Query:
        """Build a query: what to search for, in which scope, and how to rank.

        `limit`: how many hits at most, 10 by default; 0 or less returns all that match. `profile`, `project`,
        `session`, `only_session`, `kinds`: see `scope`. `exclude`: ids of memories that the caller already has.
        `since`, `until`: only memories from a time on, and before a time (a date includes that day), by when they
        happened. `metadata`: only memories with these values. `as_of`: what was current at a time (a date: at its end)
        instead of now. `include_retired`: also what is retired or expired. `tuning`: for this query alone, a whole
        `Tuning`, some parameters, or the name of a preset. `now`: the time to rank by. `vector`: the text's embedding,
        if the caller has it.
        """
        return build_query(
            text,
            options,
            profile=self.settings.profile,
            month_first=self.settings.month_first,
            tuning=self.tuning,
            store=self.store,
            clock=self.now,
        )

    def recall(self, query: str | Query, *, record_use: bool = True, **options: Unpack[QueryOptions]) -> Recall:
        """Find the memories that answer a query, best first, with the reasons.

        The options are those of `query`. Use of memories affects later recalls; `record_use=False` does not record it.
        """
        built = self._to_query(query, options)
        started = perf_counter()
        current_work().check()
        # A remote embedder, or one that is still to be opened, is waited for, and waiting needs no core.
        with self._limiter.slot() if self.embeddings.in_process else nullcontext(False) as shared:
            threads = INLINE if shared else self._threads
            outcome = self._search(built, threads)
            answer = self._rank(outcome, built, threads, started)
        self._recall_log.add(answer, min(built.now, self.now()) if record_use else None)
        return answer

    def explain(
        self, query: str | Query, id: str, *, within: Scope | None = None, **options: Unpack[QueryOptions]
    ) -> Explanation:
        """Explain why a memory ranks where it does for a query, or why it does not appear.

        It runs the recall itself, without recording use. The options are those of `query`.
        """
        from retentive.pipeline.explain import explain

        built = self._to_query(query, options)
        started = perf_counter()
        with self._limiter.slot():
            outcome = self._search(built, self._threads)
            answer = self._rank(outcome, built, self._threads, started)
        hit = next((hit.memory for hit in answer.hits if hit.id == id), None)  # already read
        return explain(hit or self.get(id, within=within), built, outcome, answer, self.store)

    def _search(self, asked: Query, threads: Executor) -> SearchOutcome:
        timed = retrieve_period(asked, self.store, month_first=self.settings.month_first)
        return search(
            asked,
            self.store,
            self.embeddings.embedder,
            threads,
            custom_retrievers=self._custom_retrievers,
            timed=timed,
        )

    def _rank(self, outcome: SearchOutcome, query: Query, threads: Executor, started: float) -> Recall:
        return rank_outcome(
            outcome,
            query,
            threads,
            self.calibrations.of(query, outcome),
            judge=self._judge,
            judge_calibration=self.calibrations.of_judge() if self._judge is not None else CALIBRATION,
            started=started,
        )

    def _to_query(self, query: str | Query, options: QueryOptions) -> Query:
        if not isinstance(query, Query):
            return self.query(query, **options)
        if options:
            raise TypeError(f"a Query has its own options; pass '{next(iter(options))}' to engine.query()")
        return query

    def on_recall(self, callback: Callable[[Recall], None]) -> Callable[[], None]:
        """Call a function with every recall, on the thread that recalls; return a function that removes it.

        Its exceptions are logged and do not affect the recall.
        """
        return self._recall_log.subscribe(callback)

    # Read and maintain the store

    def get(self, id: str, *, within: Scope | None = None) -> Memory:
        """Return a memory. `NotFound` if it does not exist, or not in the scope; `Damaged` if it cannot be returned.

        In the scope of a project, an identity memory of the profile that belongs to no project is returned too, as a
        recall finds it.
        """
        return get_memory(self.store, id, within=within)

    def get_many(self, ids: Sequence[str], *, within: Scope | None = None) -> Sequence[Memory]:
        """Return the memories with these ids that exist, in the order of the ids."""
        return get_memories(self.store, ids, within=within)

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
        time = to_time(asked_at, "asked_at")
        judgements = to_judgements(self.store, query, scope, good=good, bad=bad, asked_at=time, now=self.now())
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
        from retentive.pipeline.repair import check_store

        return check_store(self.store)

    def repair(self, *, progress: Callable[[int], None] = lambda done: None) -> Repair:
        """Rebuild every index from the texts, set aside what cannot be read, and embed what has lost its vectors.

        A text that another program changed is indexed as it is now. Of memories that have replaced one another, the
        one that starts last is open again. Without a usable embedder, memories wait to be embedded, as `stats` reports.
        `Damaged` if the store needs `retentive recover`.
        """
        from retentive.pipeline.repair import repair_store

        return repair_store(self.store, self.embeddings, at=self.now(), progress=progress)

    # Import and export

    def import_from(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        profile: str | None = None,
        project: str | None = None,
        profiles: Mapping[str, str] | None = None,
        only_profiles: Sequence[str] = (),
        dry_run: bool = False,
        progress: Callable[[int], None] = lambda done: None,
        report: Callable[[ImportIssue], None] = lambda issue: None,
    ) -> ImportResult:
        """Import a file, a folder or a database (`postgresql://…`). Importing it again adds nothing twice.

        The format is detected unless given. Each person of the source (`user_id` in mem0, `profile_id` in tables), and
        each profile of our own export format, is a profile: of the same name, or of the one that `profiles` gives it.
        Memories of nobody go to this engine's profile; with `profile`, all go there. Memories of other profiles than
        `only_profiles` are skipped. All go to `project`, if given. `report` is called for everything that was skipped.
        """
        from retentive.transfer.importing.importer import ImportTarget, import_source, open_source

        check_name("profile", self.settings.profile if profile is None else profile)
        check_name("project", project)
        if isinstance(only_profiles, str):
            raise Invalid(f"only_profiles: a list of names, such as ['{only_profiles:.80}']")
        for name in (*(profiles or {}).values(), *only_profiles):
            check_name("profile", name)
        return import_source(
            self.store,
            None if dry_run else self.embeddings.available(),
            open_source(os.fspath(path), format, self.embeddings.embedder),
            judge=self._judge,
            target=ImportTarget(
                self.settings.profile, profile, project, profiles or {}, only_profiles, self.settings.redact_secrets
            ),
            clock=self.now,
            dry_run=dry_run,
            progress=progress,
            report=report,
        )

    def export_to(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        everything: bool = False,
        profile: str | None = None,
        project: str | None = None,
        session: str | None = None,
        vectors: bool = False,
        force: bool = False,
        output: IO[bytes] | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> ExportResult:
        """Export memories to a file that `import_from` reads.

        It contains this engine's profile or the given one, or a project or session of it; or, with `everything`, all
        profiles and the saved tuning. If `output` is given, it is written to instead of the file. The format is jsonl;
        or markdown, for people to read, if that is given or the path is a folder.
        """
        from retentive.transfer.exporting import ExportFilter, export_file

        if everything and (profile is not None or project is not None or session is not None):
            raise Invalid("everything exports the whole store; leave it out to export a profile, project or session")
        self._recall_log.record_use()
        return export_file(
            self.store,
            os.fspath(path),
            ExportFilter()
            if everything
            else ExportFilter(self.settings.profile if profile is None else profile, project, session),
            format=format,
            vectors=vectors,
            force=force,
            output=output,
            now=self.now(),
            progress=progress,
        )

    def _after_removal(self) -> None:
        """Embed the turns after those that were removed, and drop suggestions about them."""
        self.embeddings.embed_missing()
        self.reviews.drop_forgotten()

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
        owner = self.settings.profile if profile is None else profile
        return build_scope(owner, project, session, only_session=only_session, kinds=kinds)

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
        as_of_time = to_as_of(as_of)
        current_at = None if include_retired else as_of_time or self.now()
        wanted = to_filter(since, until, metadata, now=self.now(), month_first=self.settings.month_first)
        return list_memories(
            self.store, scope, wanted, cursor=cursor, limit=limit, current_at=current_at, started_by=as_of_time
        )
