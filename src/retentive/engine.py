"""`Engine`: a store and an embedder with the verbs that every surface uses."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from time import monotonic, perf_counter
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid, NotFound, RetentiveError, describe_error
from retentive.inference.embedders import Embedder, open_embedder
from retentive.inference.rerankers import OnnxReranker, Reranker
from retentive.models import (
    KINDS,
    Compaction,
    Explanation,
    Filter,
    Judgement,
    Kind,
    Memory,
    Page,
    Profile,
    Project,
    Query,
    Recall,
    Repair,
    Scalar,
    Scope,
    Session,
    Stats,
    Timeline,
    TimelineBy,
    check_unicode,
)
from retentive.pipeline.access_tokens import AccessTokens
from retentive.pipeline.concurrency import INLINE, FairLimiter
from retentive.pipeline.embeddings import Embeddings
from retentive.pipeline.explain import explain
from retentive.pipeline.filters import to_filter
from retentive.pipeline.judgements import JudgementLog, to_judgements
from retentive.pipeline.recall import rank_outcome, search
from retentive.pipeline.remember import (
    Draft,
    DraftFields,
    MemoryChanges,
    check_name,
    request_fingerprint,
    store_memories,
    to_memory,
    to_time,
    update_memory,
)
from retentive.pipeline.retrievers import FurtherRetrievers, Retriever
from retentive.pipeline.timeline import timeline
from retentive.pipeline.tuning_history import SavedTuning
from retentive.ranking import Tuning
from retentive.settings import Settings, load_settings
from retentive.stores import open_store
from retentive.stores.base import IdempotencyKey, Store, Vector
from retentive.stores.damage import damaged_error

if TYPE_CHECKING:  # imported when they are used: a recall needs none of them
    from retentive.transfer.exporting import ExportResult
    from retentive.transfer.formats.base import ImportIssue
    from retentive.transfer.importing.importer import ImportResult
    from retentive.transfer.importing.log import ImportRun, UndoResult

log = logging.getLogger(__name__)

USES_PER_WRITE = 64
"""The use of memories is recorded in one write for this many recalls."""


class QueryOptions(TypedDict, total=False):
    """The options of a recall beside its text; see `Engine.query`."""

    limit: int
    profile: str | None
    project: str | None
    session: str | Sequence[str] | None
    only_session: bool
    kinds: Sequence[Kind] | None
    exclude: Sequence[str]
    since: date | str | None
    until: date | str | None
    metadata: Mapping[str, Scalar] | None
    tuning: Tuning | Mapping[str, Any] | str | None
    now: datetime | str | None
    vector: Sequence[float] | npt.NDArray[np.floating[Any]] | None


class Engine:
    """Remembers and recalls. Thread-safe. Close it, or use it in a `with` block.

    `tuning`, `tokens`, `judgements`, `imports` and `embeddings` group the verbs that are not used daily.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder | Callable[[], Embedder | None] | None = None,
        *,
        reranker: Reranker | None = None,
        retrievers: Sequence[Retriever] = (),
        settings: Settings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = store
        self.settings = settings or Settings(store="")
        self.now = clock
        self.embeddings = Embeddings(store, embedder)
        self._given_reranker = reranker
        self._further = FurtherRetrievers(retrievers, store) if retrievers else None
        self._threads = ThreadPoolExecutor(16, thread_name_prefix="retentive")
        self._limiter = FairLimiter()
        self._unrecorded: list[tuple[datetime, tuple[str, ...]]] = []
        self._degraded: str | None = None
        self._callbacks: tuple[Callable[[Recall], None], ...] = ()

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
        retrievers: Sequence[Retriever] = (),
    ) -> Engine:
        """Open an engine on the store at this path or address.

        A store that does not exist is created, or `NotFound` is raised if `create` is False. `retrievers` search beside
        the keyword and the semantic retriever.
        What is not given comes from the environment, then the config file, then the defaults.
        """
        name = embedder if isinstance(embedder, str) else None
        address = None if store is None else os.fspath(store)
        settings = load_settings(
            {"store": address, "embedder": name, "profile": profile, "tuning": tuning}, config=config
        )
        opened = None if isinstance(embedder, str) else embedder
        return cls(
            open_store(settings.store, busy_seconds=settings.busy_seconds, create=create),
            opened or (lambda: open_embedder(settings.embedder)),  # loading a model takes time
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
        """Record the use of memories and close the store and the models."""
        self._record_use()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.embeddings.close()
        if self._given_reranker is None and "_reranker" in vars(self):
            self._reranker.close()
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
    def imports(self) -> Imports:
        """The imports that can be undone."""
        return Imports(self.store)

    @cached_property
    def _reranker(self) -> Reranker:
        return self._given_reranker or OnnxReranker()

    def _reranker_for(self, query: Query) -> Reranker | None:
        return self._reranker if query.tuning.rerank else None

    # Remember

    def remember(self, text: str, **fields: Unpack[DraftFields]) -> Memory:
        """Store one memory and return it."""
        fields.setdefault("profile", self.settings.profile)
        return self.remember_many([Draft(text, **fields)])[0]

    def remember_many(
        self,
        drafts: Iterable[Draft | Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Sequence[Memory]:
        """Store memories and return them: all of them, or none if one is not valid.

        A request sent again with the same idempotency key within a day stores nothing and returns the same memories.
        `progress` is called with the number of texts embedded; a long text is several.
        """
        now = self.now()
        given = [
            draft if isinstance(draft, Draft) else Draft.from_dict(draft, profile=self.settings.profile)
            for draft in drafts
        ]
        memories = [to_memory(draft, now=now) for draft in given]
        if not memories:
            return []
        key = self._idempotency_key(idempotency_key, lambda: [asdict(draft) for draft in given])
        embedder = self.embeddings.available()
        return store_memories(self.store, embedder, memories, idempotency_key=key, progress=progress)

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
        key = self._idempotency_key(idempotency_key, lambda: {"id": id, **changes})
        return update_memory(
            self.store,
            self.embeddings.available,
            self.get(id, within=within),
            changes,
            if_version=if_version,
            within=within,
            idempotency_key=key,
        )

    def forget(self, *ids: str, within: Scope | None = None, idempotency_key: str | None = None) -> Sequence[str]:
        """Delete memories for good and return the ids of those that existed."""
        if not ids and idempotency_key is None:
            return []  # an empty write would wait for other writers and for the disk
        key = self._idempotency_key(idempotency_key, lambda: sorted(ids))
        return self.store.remove(ids, within=within, idempotency_key=key)

    def forget_scope(
        self, scope: Scope, *, confirm: bool = False, progress: Callable[[int], None] = lambda done: None
    ) -> int:
        """Delete all memories of a scope for good and return how many there were. `confirm` must be True.

        Many are deleted in several transactions. If that is interrupted, running it again deletes the rest.
        """
        if not confirm:
            raise Invalid("forgetting a whole scope cannot be undone; pass confirm=True")
        return self.store.remove_scope(scope, progress=progress)

    def _idempotency_key(self, name: str | None, request: Callable[[], Any]) -> IdempotencyKey | None:
        if name is None:
            return None
        check_unicode("idempotency_key", name)
        # Time since the start by a clock that does not jump: a key expires after a day, however the system's clock is
        # set meanwhile.
        started, reading = self._steady_start
        at = started + timedelta(seconds=monotonic() - reading)
        return IdempotencyKey(name, request_fingerprint(request()), at)

    @cached_property
    def _steady_start(self) -> tuple[datetime, float]:
        return self.now(), monotonic()

    # Recall

    def query(self, text: str, **options: Unpack[QueryOptions]) -> Query:
        """Build a query: what to search for, in which scope, and how to rank.

        `limit`: how many hits at most, 10 by default; 0 or less returns all that match. `profile`, `project`,
        `session`, `only_session`, `kinds`: see `scope`. `exclude`: ids of memories that the caller already has.
        `since`, `until`: only memories from a time on, and before a time (a date includes that day), by when they
        happened. `metadata`: only memories with these values. `tuning`: for this query alone, a whole `Tuning`, some
        parameters, or the name of a preset. `now`: the time to rank by. `vector`: the text's embedding, if the caller
        has it.
        """
        unknown = sorted(options.keys() - QueryOptions.__annotations__.keys())
        if unknown:
            valid = ", ".join(QueryOptions.__annotations__)
            raise TypeError(f"recall() got an unexpected option '{unknown[0]}'; valid options: {valid}")
        vector = options.get("vector")
        now = options.get("now")
        return Query(
            text=text,
            scope=self.scope(
                project=options.get("project"),
                session=options.get("session"),
                only_session=options.get("only_session", False),
                kinds=options.get("kinds"),
                profile=options.get("profile"),
            ),
            tuning=self.tuning.current(options.get("tuning")),
            now=(to_time(now, "now") if now is not None else None) or self.now(),
            limit=options.get("limit", 10),
            exclude=tuple(options.get("exclude", ())),
            vector=None if vector is None else self._unit_vector(vector),
            filter=_filter(options),
        )

    def recall(self, query: str | Query, *, record_use: bool = True, **options: Unpack[QueryOptions]) -> Recall:
        """Find the memories that answer a query, best first, with the reasons.

        The options are those of `query`. Use of memories affects later recalls; `record_use=False` does not record it.
        """
        asked = self._to_query(query, options)
        started = perf_counter()
        # A remote embedder, or one that is still to be opened, is waited for, and waiting needs no core.
        with self._limiter.slot() if self.embeddings.in_process else nullcontext(False) as shared:
            threads = INLINE if shared else self._threads
            outcome = search(asked, self.store, self.embeddings.embedder, threads, further=self._further)
            answer = rank_outcome(outcome, asked, threads, reranker=self._reranker_for(asked), started=started)
        self._after_recall(answer, asked.now if record_use else None)
        return answer

    def explain(
        self, query: str | Query, id: str, *, within: Scope | None = None, **options: Unpack[QueryOptions]
    ) -> Explanation:
        """Explain why a memory ranks where it does for a query, or why it does not appear.

        It runs the recall itself, without recording use. The options are those of `query`.
        """
        asked = self._to_query(query, options)
        started = perf_counter()
        outcome = search(asked, self.store, self.embeddings.embedder, self._threads, further=self._further)
        answer = rank_outcome(outcome, asked, self._threads, reranker=self._reranker_for(asked), started=started)
        # A hit can be outside `within`: an identity memory of the profile that every project finds.
        found = next((hit.memory for hit in answer.hits if hit.id == id), None)
        memory = found or self.get(id, within=within)
        return explain(memory, asked, outcome, answer, self.store)

    def _to_query(self, query: str | Query, options: QueryOptions) -> Query:
        if isinstance(query, str):
            return self.query(query, **options)
        if options:
            raise TypeError(f"a Query has its own options; pass '{next(iter(options))}' to engine.query()")
        return query

    def _after_recall(self, answer: Recall, used_at: datetime | None) -> None:
        """Log a change of the degraded state, record use, and run the callbacks."""
        if answer.degraded != self._degraded:
            self._degraded = answer.degraded
            if answer.degraded:
                log.warning("recall is %s: %s", answer.degraded, answer.degraded_reason)
        if answer.hits and used_at is not None:
            self._unrecorded.append((used_at, tuple(hit.id for hit in answer.hits)))
            if len(self._unrecorded) >= USES_PER_WRITE:
                self._threads.submit(self._record_use)
        for callback in self._callbacks:
            try:
                callback(answer)
            except Exception as error:
                what = describe_error(error)
                log.error("a callback of recalls failed, the recall itself did not: %s", what)  # noqa: TRY400

    def on_recall(self, callback: Callable[[Recall], None]) -> Callable[[], None]:
        """Call a function with every recall, on the thread that recalls; return a function that removes it.

        Its exceptions are logged and do not affect the recall.
        """
        self._callbacks = (*self._callbacks, callback)

        def remove() -> None:
            self._callbacks = tuple(one for one in self._callbacks if one is not callback)

        return remove

    def _unit_vector(self, vector: Sequence[float] | npt.NDArray[np.floating[Any]]) -> Vector:
        """A caller's vector, normalised. `Invalid` if it cannot be compared with the store's vectors."""
        row = np.asarray(vector, np.float64)  # the squares of large numbers would overflow in float32
        model = self.store.model()
        norm = float(np.linalg.norm(row))
        if row.ndim != 1 or not 0 < norm < np.inf or (model is not None and len(row) != model.dimension):
            length = model.dimension if model else "some"
            raise Invalid(f"vector: {length} finite numbers that are not all 0, not an array of shape {row.shape}")
        return (row / norm).astype(np.float32)

    def _record_use(self) -> None:
        """Record which memories recalls returned. A failure is logged and nothing else."""
        used, self._unrecorded = self._unrecorded, []
        if not used:
            return
        try:
            # One write for all of them, at the time of the last: the difference does not matter.
            self.store.touch([id for _, ids in used for id in ids], at=max(at for at, _ in used))
        except RetentiveError as error:
            log.warning("the use of memories was not recorded: %s", error)

    # Judge

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
        scope = self.scope(project=project, profile=profile)
        at = to_time(asked_at, "asked_at")
        judgements = to_judgements(self.store, query, scope, good=good, bad=bad, asked_at=at, now=self.now())
        self.store.judge(judgements)
        return judgements

    # Read

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
        sessions = (session,) if isinstance(session, str) else None if session is None else tuple(session)
        unknown = [kind for kind in kinds or () if kind not in KINDS]
        if unknown:
            raise Invalid(f"there is no kind '{unknown[0]}'; the kinds are episodic, semantic and identity")
        chosen = None if kinds is None else tuple(kinds)
        for name, value in (("profile", profile), ("project", project), *(("session", one) for one in sessions or ())):
            if value is not None and not value.isascii():
                check_unicode(name, value)
        return Scope(self._profile(profile), project, sessions, chosen, only_session)

    def _profile(self, name: str | None) -> str:
        """The profile of this engine unless one is named. An empty name is the name of no profile."""
        return self.settings.profile if name is None else name

    def get(self, id: str, *, within: Scope | None = None) -> Memory:
        """Return a memory. `NotFound` if it does not exist, or not in the scope; `Damaged` if it cannot be returned."""
        found = self.store.get([id], within=within)
        if not found:
            for damage in self.store.damaged([id], within=within):
                raise damaged_error(damage)
            raise NotFound(f"there is no memory {id}")
        return found[0]

    def get_many(self, ids: Sequence[str], *, within: Scope | None = None) -> Sequence[Memory]:
        """Return the memories with these ids that exist, in the order of the ids."""
        return self.store.get(ids, within=within)

    def list(self, scope: Scope | None = None, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Return one page of memories, newest first. `cursor` is the one returned with the previous page."""
        if not 1 <= limit <= 1000:
            raise Invalid(f"limit: a number from 1 to 1000, not {limit}")
        return self.store.list(scope or self.scope(), cursor=cursor, limit=limit)

    def stats(self) -> Stats:
        """Return statistics of the store."""
        return self.store.stats()

    def sessions(self, *, project: str | None = None, profile: str | None = None) -> Sequence[Session]:
        """Return the sessions of the profile, or of one project."""
        return self.store.sessions(self.scope(project=project, profile=profile).profile, project=project)

    def projects(self, *, profile: str | None = None) -> Sequence[Project]:
        """Return the projects of the profile."""
        return self.store.projects(self.scope(profile=profile).profile)

    def profiles(self) -> Sequence[Profile]:
        """Return all profiles that have memories."""
        return self.store.profiles()

    def move_session(
        self,
        session: str,
        *,
        project: str | None,
        profile: str | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Session:
        """Move a session with all its memories to another project, or out of its project.

        Many are moved in several transactions. If that is interrupted, running it again moves the rest.
        """
        check_name("project", project)
        scope = self.scope(session=session, profile=profile)
        return self.store.move_session(scope.profile, session, project=project, progress=progress)

    def timeline(
        self, *, project: str | None = None, profile: str | None = None, by: TimelineBy | None = None
    ) -> Timeline:
        """Return the number of memories by kind over time; by day, month or year, chosen by their span by default."""
        scope = self.scope(project=project, profile=profile)
        return timeline(self.store.days(scope.profile, project=project), by=by)

    # Import, export, check

    def import_from(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        profile: str | None = None,
        project: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] = lambda done: None,
        report: Callable[[ImportIssue], None] = lambda issue: None,
    ) -> ImportResult:
        """Import a file, a folder or a database (`postgresql://…`). Importing it again adds nothing twice.

        The format is detected unless given. Memories go to this engine's profile or the given one, and all to `project`
        if given; those of our own export format keep their profiles unless one is given. `report` is called for
        everything that was skipped.
        """
        from retentive.transfer.importing.importer import ImportTarget, import_source, open_source

        check_name("profile", self.settings.profile if profile is None else profile)
        check_name("project", project)
        return import_source(
            self.store,
            None if dry_run else self.embeddings.available(),
            open_source(os.fspath(path), format, self.embeddings.embedder),
            target=ImportTarget(self.settings.profile, profile, project),
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
        self._record_use()
        return export_file(
            self.store,
            os.fspath(path),
            ExportFilter() if everything else ExportFilter(self._profile(profile), project, session),
            format=format,
            vectors=vectors,
            force=force,
            output=output,
            now=self.now(),
            progress=progress,
        )

    def compact(self, *, progress: Callable[[int], None] = lambda done: None) -> Compaction:
        """Return the space of deleted memories to the file system, while others read and write."""
        return self.store.compact(progress=progress)

    def check(self) -> Sequence[str]:
        """Check the store and return one sentence for each problem."""
        return self.store.check()

    def repair(self, *, progress: Callable[[int], None] = lambda done: None) -> Repair:
        """Rebuild every index from the texts, set aside what cannot be read, and embed what has lost its vectors.

        A text that another program changed is indexed as it is now. Without a usable embedder, memories wait to be
        embedded, as `stats` reports. `Damaged` if the store needs `retentive recover`.
        """
        done = self.store.repair(at=self.now())
        if self.embeddings.problem() is not None:
            return done
        stale = self.store.remove_stale_vectors()
        self.embeddings.reembed(progress=progress)
        return replace(done, stale_vectors=stale)


class Imports:
    """`engine.imports`: list imports and undo them. `engine.import_from` makes them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> Sequence[ImportRun]:
        """Return the imports that can be undone, newest first."""
        from retentive.transfer.importing.log import list_runs

        return list_runs(self._store)

    def undo(self, run: str, *, progress: Callable[[int], None] = lambda done: None) -> UndoResult:
        """Remove exactly what an import added."""
        from retentive.transfer.importing.log import undo_import

        check_unicode("run", run)
        return undo_import(self._store, run, progress=progress)


def _filter(options: QueryOptions) -> Filter:
    since, until, metadata = options.get("since"), options.get("until"), options.get("metadata")
    return to_filter(since, until, metadata) if since or until or metadata else Filter()
