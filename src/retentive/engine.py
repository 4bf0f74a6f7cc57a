"""`Engine`: a store and an embedder with the verbs that every surface uses."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from time import monotonic, perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from retentive.errors import Invalid, RetentiveError
from retentive.inference.embedders import Embedder, open_embedder
from retentive.inference.judge import Judge, LocalJudge
from retentive.models import Filter, Memory, Query, Recall, Scope, canonical_id, current_work
from retentive.pipeline.access_tokens import AccessTokens
from retentive.pipeline.embeddings import Calibrations, Embeddings
from retentive.pipeline.facts import FactVerbs
from retentive.pipeline.given import GivenLog
from retentive.pipeline.judgements import JudgementLog
from retentive.pipeline.judging import Judging
from retentive.pipeline.query_options import (
    QueryOptions,
    check_query,
    to_as_of,
    to_excluded,
    to_filter,
    unit_vector,
)
from retentive.pipeline.recall import INLINE, FairLimiter, RecallLog, rank_outcome
from retentive.pipeline.remember import (
    CHANGE,
    SUGGESTED,
    Draft,
    DraftFields,
    MemoryChanges,
    forget_memories,
    store_memories,
    to_duplicates,
    to_idempotency_key,
    to_memory,
    to_time,
    update_memory,
)
from retentive.pipeline.retrievers import FurtherRetrievers, Retriever
from retentive.pipeline.scopes import check_scope
from retentive.pipeline.search import SearchOutcome, search
from retentive.pipeline.standing_rules import mark_rules
from retentive.pipeline.tuning_history import SavedTuning
from retentive.ranking.judged import CALIBRATION
from retentive.settings import Settings, load_settings
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.values import IdempotencyKey, OnDuplicate
from retentive.transfer.verbs import Transfer

if TYPE_CHECKING:  # imported when they are used
    from retentive.pipeline.explain import Explanation
    from retentive.pipeline.review import Reviews
    from retentive.pipeline.similar import Similar

log = logging.getLogger(__name__)


class Engine(FactVerbs, Transfer):
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
        self._further = FurtherRetrievers(retrievers, store) if retrievers else None
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
        retrievers: Sequence[Retriever] = (),
    ) -> Engine:
        """Open an engine on the store at this path or address.

        A store that does not exist is created, or `NotFound` is raised if `create` is False. `retrievers` search beside
        the keyword and the semantic retriever.
        What is not given comes from the environment, then the config file, then the defaults.
        """
        given: Any = store
        if store is not None and (not isinstance(given, str | os.PathLike) or not os.fspath(given)):
            raise Invalid(f"store: a path or an address, not {store!r:.80}; leave it out for the default store")
        name = embedder if isinstance(embedder, str) else None
        address = None if store is None else os.fspath(store)
        settings = load_settings(
            {"store": address, "embedder": name, "profile": profile, "tuning": tuning}, config=config
        )
        opened = None if isinstance(embedder, str) else embedder
        return cls(
            open_store(settings.store, busy_seconds=settings.busy_seconds, create=create),
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

        return Reviews(self)

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
        now = self.now()
        given = [
            draft if isinstance(draft, Draft) else Draft.from_dict(draft, profile=self.settings.profile)
            for draft in drafts
        ]
        memories = mark_rules([to_memory(draft, now=now) for draft in given], self._judge)
        if not memories:
            return []
        key = self._idempotency_key(idempotency_key, lambda: [draft.to_fields() for draft in given])
        duplicates = to_duplicates(on_duplicate, now)
        embedder = self.embeddings.available()
        stored = store_memories(
            self.store, embedder, memories, idempotency_key=key, duplicates=duplicates, progress=progress
        )
        new = {memory.id for memory in memories}
        if len(stored) <= SUGGESTED:
            for memory in {one.id: one for one in stored}.values():
                if memory.id in new and CHANGE.search(memory.text):
                    self._suggest(memory)
        return stored

    def _suggest(self, memory: Memory) -> None:
        """Queue what a memory may have replaced. A failure is logged: the memory is stored."""
        try:
            self.reviews.suggest(memory)
        except RetentiveError as error:
            log.warning("no suggestions were made for memory %s: %s", memory.id, error)

    def _suggest_again(self, memory: Memory) -> None:
        """Replace what the review queue has about a memory with another text: it quotes the words of the old one."""
        from retentive.pipeline.review import drop_words  # a recall does not need it

        drop_words(self.store, memory.id)
        if CHANGE.search(memory.text):
            self._suggest(memory)

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
            self._suggest_again(changed)
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
        if if_version is not None and len(ids) != 1:
            raise Invalid("if_version: a version is that of one memory; forget the others without it")
        for id in ids:
            if not isinstance(id, str):
                raise Invalid(f"ids: an id is text, not {type(id).__name__}; pass several as forget(*ids)")
        ids = tuple(map(canonical_id, ids))
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
        self._drop_suggestions()
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
        self._drop_suggestions()
        return count

    def _idempotency_key(self, name: str | None, request: Callable[[], Any]) -> IdempotencyKey | None:
        if name is None:
            return None
        # Time since the start by a clock that does not jump: a key expires after a day, however the system's clock is
        # set meanwhile.
        started, reading = self._steady_start
        at = started + timedelta(seconds=monotonic() - reading)
        return to_idempotency_key(name, request(), at)

    @cached_property
    def _steady_start(self) -> tuple[datetime, float]:
        return self.now(), monotonic()

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
        unknown = sorted(options.keys() - QueryOptions.__annotations__.keys())
        if unknown:
            valid = ", ".join(QueryOptions.__annotations__)
            raise TypeError(f"recall() got an unexpected option '{unknown[0]}'; valid options: {valid}")
        vector, as_of = options.get("vector"), options.get("as_of")
        now, limit, exclude = options.get("now"), options.get("limit", 10), options.get("exclude")
        if type(text) is not str or type(limit) is not int:
            check_query(text, limit)
        since, until, metadata = options.get("since"), options.get("until"), options.get("metadata")
        unfiltered = since is None and until is None and metadata in (None, {})
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
            limit=int(limit),
            exclude=to_excluded(exclude) if exclude else (),
            vector=None if vector is None else unit_vector(vector, self.store.model()),
            filter=Filter() if unfiltered else to_filter(since, until, metadata),
            as_of=to_as_of(as_of) if as_of is not None else None,
            include_retired=bool(options.get("include_retired", False)),
        )

    def recall(self, query: str | Query, *, record_use: bool = True, **options: Unpack[QueryOptions]) -> Recall:
        """Find the memories that answer a query, best first, with the reasons.

        The options are those of `query`. Use of memories affects later recalls; `record_use=False` does not record it.
        """
        asked = self._to_query(query, options)
        started = perf_counter()
        current_work().check()
        # A remote embedder, or one that is still to be opened, is waited for, and waiting needs no core.
        with self._limiter.slot() if self.embeddings.in_process else nullcontext(False) as shared:
            threads = INLINE if shared else self._threads
            outcome = search(asked, self.store, self.embeddings.embedder, threads, further=self._further)
            answer = self._rank(outcome, asked, threads, started)
        self._recall_log.add(answer, min(asked.now, self.now()) if record_use else None)
        return answer

    def explain(
        self, query: str | Query, id: str, *, within: Scope | None = None, **options: Unpack[QueryOptions]
    ) -> Explanation:
        """Explain why a memory ranks where it does for a query, or why it does not appear.

        It runs the recall itself, without recording use. The options are those of `query`.
        """
        from retentive.pipeline.explain import explain

        asked = self._to_query(query, options)
        started = perf_counter()
        with self._limiter.slot():
            outcome = search(asked, self.store, self.embeddings.embedder, self._threads, further=self._further)
            answer = self._rank(outcome, asked, self._threads, started)
        hit = next((hit.memory for hit in answer.hits if hit.id == id), None)  # already read
        return explain(hit or self.get(id, within=within), asked, outcome, answer, self.store)

    def _rank(self, outcome: SearchOutcome, asked: Query, threads: Executor, started: float) -> Recall:
        return rank_outcome(
            outcome,
            asked,
            threads,
            self.calibrations.of(asked, outcome),
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

    # Scope
