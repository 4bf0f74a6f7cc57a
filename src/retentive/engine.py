"""`Engine`: a store and an embedder brought together, with the verbs that every surface speaks."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypedDict, Unpack, cast

import numpy as np

from retentive.errors import Invalid, NotFound, RetentiveError, Unavailable
from retentive.inference.embedders import Embedder, open_embedder
from retentive.inference.rerankers import OnnxReranker, Reranker
from retentive.models import (
    Explanation,
    Judgement,
    Kind,
    Memory,
    Model,
    Page,
    Profile,
    Project,
    Recall,
    Scope,
    Session,
    Stats,
    Timeline,
    TimelineBy,
)
from retentive.pipeline import tuning_history as tuning_log
from retentive.pipeline.access_tokens import Access, Token, create_token, find_token, list_tokens, revoke_token
from retentive.pipeline.concurrency import INLINE, Turns
from retentive.pipeline.explain import explain
from retentive.pipeline.judgements import to_judgements
from retentive.pipeline.recall import Query, SearchOutcome, answer, gather, recall
from retentive.pipeline.reembed import reembed
from retentive.pipeline.remember import (
    Draft,
    check_name,
    embed_memories,
    fingerprint,
    store_memories,
    to_memory,
    to_time,
    usable_embedder,
)
from retentive.pipeline.timeline import timeline
from retentive.pipeline.tuning_history import Change
from retentive.ranking import Tuning, preset
from retentive.settings import Settings, load_settings
from retentive.stores import IdempotencyKey, KeyValue, Record, Store, Vector, open_store, public_address
from retentive.stores.remembering import RememberingStore

if TYPE_CHECKING:  # loaded when they are used: a recall needs none of them
    from retentive.transfer.exporting.jsonl import Exported
    from retentive.transfer.importing.files import Imported, Remark
    from retentive.transfer.importing.log import Run, Undone

log = logging.getLogger(__name__)

UPDATABLE = ("text", "kind", "speaker", "importance", "metadata", "source", "occurred", "evergreen")


class Asked(TypedDict, total=False):
    """How a query is asked beside its words; see `Engine.recall` for what each means. Whose memories is apart."""

    limit: int
    project: str | None
    session: str | Sequence[str] | None
    only_session: bool
    kinds: Sequence[Kind] | None
    exclude: Sequence[str]
    tuning: Tuning | Mapping[str, Any] | str | None
    now: datetime | None
    vector: Sequence[float] | None


class Engine:
    """Remembers and recalls. Safe for threads; close it, or use it as a context manager."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | Callable[[], Embedder | None] | None = None,
        *,
        reranker: Reranker | None = None,
        settings: Settings | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._settings = settings or Settings(store="")
        self._clock = clock
        self._opening = threading.Lock()
        self._embedder: Embedder | None = None
        self._open_embedder: Callable[[], Embedder | None] | None = None
        # One that is handed over ready may serve others too: whoever opened it closes it.
        self._owns_embedder = callable(embedder)
        if callable(embedder):
            self._open_embedder = embedder  # loading a model takes time: not before it is needed
        else:
            self._embedder = embedder
        self._owns_reranker = reranker is None
        self._reranker = reranker or OnnxReranker()  # loads its model when a recall first asks for it
        self._threads = ThreadPoolExecutor(16, thread_name_prefix="retentive")
        self._used: list[tuple[datetime, tuple[str, ...]]] = []
        self._tuned: tuple[str | None, Tuning] | None = None
        self._degraded: str | None = None
        self._turns = Turns()
        self._watchers: tuple[Callable[[Recall], None], ...] = ()

    @classmethod
    def open(
        cls,
        store: str | os.PathLike[str] | None = None,
        *,
        embedder: str | Embedder | None = None,
        profile: str | None = None,
        tuning: Mapping[str, Any] | None = None,
        config: str | os.PathLike[str] | None = None,
    ) -> Engine:
        """An engine on the store at this path, made if it is not there.

        What is not given comes from the environment, then the config file, then the defaults.
        """
        named = embedder if isinstance(embedder, str) else None
        address = None if store is None else os.fspath(store)
        settings = load_settings(
            {"store": address, "embedder": named, "profile": profile, "tuning": tuning}, config=config
        )
        chosen = embedder if embedder is not None and not isinstance(embedder, str) else None
        opened = open_store(settings.store, busy_seconds=settings.busy_seconds)
        return cls(opened, chosen or (lambda: open_embedder(settings.embedder)), settings=settings)

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Note what was used, and let go of the store and the model."""
        self._note_use()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._embedder is not None and self._owns_embedder:
            self._embedder.close()
        if self._owns_reranker:
            self._reranker.close()
        self._store.close()

    # Remembering

    def remember(self, text: str, **fields: Any) -> Memory:
        """The memory as stored. Fields are those of `Draft`: project, session, kind, speaker, importance, …"""
        return self.remember_many([Draft(text, **{"profile": self._settings.profile, **fields})])[0]

    def remember_many(
        self, drafts: Iterable[Draft | Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> Sequence[Memory]:
        """The memories as stored: all of them, or none if one is not valid.

        `once` names this write: sent again under the same name within a day, it gives the same memories and stores
        nothing.
        """
        now = self.now()
        given = [self._draft(draft) for draft in drafts]
        memories = [to_memory(draft, now=now) for draft in given]
        named = None if idempotency_key is None else self._once(idempotency_key, [asdict(draft) for draft in given])
        return (
            store_memories(self._store, self._reachable_embedder(), memories, idempotency_key=named) if memories else []
        )

    def _draft(self, draft: Draft | Mapping[str, Any]) -> Draft:
        return draft if isinstance(draft, Draft) else Draft.from_dict(draft, profile=self._settings.profile)

    def update(self, id: str, *, idempotency_key: str | None = None, **changes: Any) -> Memory:
        """The memory with some fields changed; its words and vector follow its text.

        `once` names this change, as it does when remembering.
        """
        unknown = [name for name in changes if name not in UPDATABLE]
        if unknown:
            raise Invalid(f"'{unknown[0]}' cannot be changed; what can is {', '.join(UPDATABLE)}")
        old = self.get(id)
        given = {name: getattr(old, name) for name in ("id", "profile", "project", "session", "position", *UPDATABLE)}
        new = to_memory(Draft(**{**given, **changes}), now=old.created)
        new = new._replace(created=old.created, accessed=old.accessed, access_count=old.access_count)
        named = self._once(idempotency_key, {"id": id, **changes})
        if new.indexed_text == old.indexed_text:
            return self._store.update(Record(new), model=None, keep_vectors=True, idempotency_key=named)
        embedder = usable_embedder(self._store, self._reachable_embedder())
        rows = embed_memories(embedder, [new]) if embedder else None
        record = Record(new, rows[0] if rows else None)
        return self._store.update(record, model=embedder.model if embedder else None, idempotency_key=named)

    def forget(self, *ids: str, idempotency_key: str | None = None, asked: Sequence[str] | None = None) -> int:
        """How many of these memories there were; they are gone for good.

        `asked` are the ids as they were sent, for a caller that has left some of them out.
        """
        if not ids and idempotency_key is None:
            return 0  # a write of nothing would wait for other writers, and for the disk
        return self._store.remove(ids, idempotency_key=self._once(idempotency_key, sorted(asked or ids)))

    def _once(self, name: str | None, request: Any) -> IdempotencyKey | None:
        return None if name is None else IdempotencyKey(name, fingerprint(request), self.now())

    def forget_scope(self, scope: Scope, *, confirm: bool = False) -> int:
        """How many memories the scope held; they are gone for good. Nothing is done without `confirm`."""
        if not confirm:
            raise Invalid("forgetting a whole scope cannot be undone; say confirm=True")
        return self._store.remove_scope(scope)

    # Recalling

    def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        project: str | None = None,
        session: str | Sequence[str] | None = None,
        only_session: bool = False,
        kinds: Sequence[Kind] | None = None,
        profile: str | None = None,
        exclude: Sequence[str] = (),
        tuning: Tuning | Mapping[str, Any] | str | None = None,
        now: datetime | None = None,
        vector: Sequence[float] | None = None,
        record_use: bool = True,
    ) -> Recall:
        """The memories that answer a query, best first, with why.

        `tuning` is for this recall alone: a whole one, some parameters, or the name of a preset. `recent_ids` are memories
        the caller already has. `vector` is the query's own, for a caller that has it. Use counts in later recalls;
        `note_use=False` leaves no trace, for a recall that only measures.
        """
        options = Asked(
            limit=limit,
            project=project,
            session=session,
            only_session=only_session,
            kinds=kinds,
            exclude=exclude,
            tuning=tuning,
            now=now,
            vector=vector,
        )
        asked = self._query(query, options, profile=profile)
        given = self._answer(asked)
        self._warn(given)
        if given.hits and record_use:
            self._used.append((asked.now, tuple(hit.id for hit in given.hits)))
            if len(self._used) >= 64:
                self._threads.submit(self._note_use)
        for watcher in self._watchers:
            _tell(watcher, given)
        return given

    def explain(self, query: str, id: str, *, profile: str | None = None, **asked: Unpack[Asked]) -> Explanation:
        """Why a memory ranks where it does for a query, or why it does not appear; asked as a recall is.

        It is the recall itself that is looked at, made for this and leaving no trace.
        """
        memory = self.get(id)
        put = self._query(query, asked, profile=profile)
        started = perf_counter()
        found = gather(put, self._store, self.embedder, self._threads)
        given = answer(found, put, self._threads, reranker=self._reranker, started=started)
        return explain(memory, put, found, given, self._store)

    def _query(self, text: str, asked: Asked, *, profile: str | None) -> Query:
        unknown = sorted(asked.keys() - Asked.__annotations__.keys())
        if unknown:
            raise TypeError(f"a query is not asked with '{unknown[0]}'; it is with {', '.join(Asked.__annotations__)}")
        vector = asked.get("vector")
        return Query(
            # Half of a surrogate pair is no character; it can be neither tokenised nor looked up.
            text if text.isascii() else text.encode(errors="replace").decode(),
            self.scope(
                project=asked.get("project"),
                session=asked.get("session"),
                only_session=asked.get("only_session", False),
                kinds=asked.get("kinds"),
                profile=profile,
            ),
            self.tuned(asked.get("tuning")),
            asked.get("limit", 10),
            to_time(asked.get("now"), "now") or self.now(),
            tuple(asked.get("exclude", ())),
            None if vector is None else self._unit(vector),
        )

    def _answer(self, asked: Query) -> Recall:
        if not getattr(self._embedder, "in_process", False):
            # Not opened yet, or elsewhere: it is waited for, and waiting takes no core.
            return recall(asked, self._store, self.embedder, self._threads, reranker=self._reranker)
        with self._turns.turn() as crowded:
            threads = INLINE if crowded else self._threads
            return recall(asked, self._store, self.embedder, threads, reranker=self._reranker)

    def _warn(self, answer: Recall) -> None:
        """Say that something is missing when it begins to be, not with every recall."""
        if answer.degraded != self._degraded:
            self._degraded = answer.degraded
            if answer.degraded:
                log.warning("recall is %s: %s", answer.degraded, answer.degraded_reason)

    def watch(self, watcher: Callable[[Recall], None]) -> None:
        """Have this called with every recall from now on, on the thread that recalls; what it raises is only logged."""
        self._watchers = (*self._watchers, watcher)

    def gathering(self, threads: Executor) -> Callable[[Query], SearchOutcome]:
        """Gives what a recall would rank, and makes no search twice: for whoever ranks a query in many ways."""
        store = cast("Store", RememberingStore(self._store))  # a recall only searches
        return lambda query: gather(query, store, self.embedder, threads)

    def _unit(self, vector: Sequence[float]) -> Vector:
        """A caller's vector, of length 1, if it can be compared with those in the store."""
        row = np.asarray(vector, np.float32)
        model = self._store.model()
        norm = float(np.linalg.norm(row))
        if row.ndim != 1 or not 0 < norm < np.inf or (model is not None and len(row) != model.dimension):
            length = model.dimension if model else "some"
            raise Invalid(f"vector: {length} finite numbers that are not all 0, not an array of shape {row.shape}")
        return row / np.float32(norm)

    def scope(
        self,
        *,
        project: str | None = None,
        session: str | Sequence[str] | None = None,
        only_session: bool = False,
        kinds: Sequence[Kind] | None = None,
        profile: str | None = None,
    ) -> Scope:
        """A scope in this engine's profile, or in the one named."""
        sessions = (session,) if isinstance(session, str) else None if session is None else tuple(session)
        unknown = [kind for kind in kinds or () if kind not in ("episodic", "semantic", "identity")]
        if unknown:
            raise Invalid(f"there is no kind '{unknown[0]}'; the kinds are episodic, semantic and identity")
        chosen = None if kinds is None else tuple(kinds)
        return Scope(profile or self._settings.profile, project, sessions, chosen, only_session)

    def tuned(self, tuning: Tuning | Mapping[str, Any] | str | None = None) -> Tuning:
        """The tuning in force, or with some parameters turned, or a preset."""
        if isinstance(tuning, Tuning):
            return tuning
        if isinstance(tuning, str):
            return preset(tuning)
        kept = self._store.get_value("tuning")
        if self._tuned is None or self._tuned[0] != kept:
            self._tuned = (kept, self._settings.tuned(json.loads(kept or "{}")))
        now = self._tuned[1]
        return now.with_parameters(**tuning) if tuning else now

    def kept_tuning(self) -> dict[str, Any]:
        """The parameters that are kept in the store."""
        return tuning_log.kept_parameters(self._store)

    def keep_tuning(self, parameters: Mapping[str, Any], *, by: str = "", idempotency_key: str | None = None) -> Tuning:
        """The tuning in force from now on, for every process on this store; None takes a parameter back."""
        tuning_log.turn(self._store, parameters, by=by, now=self.now(), idempotency_key=idempotency_key)
        return self.tuned()

    def tuning_history(self) -> Sequence[Change]:
        """How the parameters that are kept were changed, newest first."""
        return tuning_log.history(self._store)

    def undo_tuning(self, id: int | None = None, *, by: str = "", idempotency_key: str | None = None) -> Tuning:
        """The tuning in force after a change is taken back, the last one if none is named."""
        tuning_log.undo(self._store, id, by=by, now=self.now(), idempotency_key=idempotency_key)
        return self.tuned()

    # Judging

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
        """What was said of memories, by their ids, as answers to a query; a later word takes an earlier one's place.

        `good` may give each id a relevance from 1 to 3.
        """
        scope = self.scope(project=project, profile=profile)
        at = to_time(asked_at, "asked_at")
        said = to_judgements(self._store, query, scope, good=good, bad=bad, asked_at=at, now=self.now())
        self._store.judge(said)
        return said

    def judgements(self, *, project: str | None = None, profile: str | None = None) -> Sequence[Judgement]:
        """What was judged, of everything or of one project, in the order in which it was first said."""
        return self._store.judgements(profile or self._settings.profile, project=project)

    def unjudge(self, *judgements: Judgement) -> int:
        """How many of these judgements there were; they are gone."""
        return self._store.unjudge(judgements)

    # Reading

    def get(self, id: str) -> Memory:
        """The memory of that id."""
        found = self._store.get([id])
        if not found:
            raise NotFound(f"there is no memory {id}")
        return found[0]

    def get_many(self, ids: Sequence[str]) -> Sequence[Memory]:
        """The memories of these ids that exist, in the order asked for."""
        return self._store.get(ids)

    def list(self, scope: Scope | None = None, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Memories of a scope, newest first, and where to go on."""
        if not 1 <= limit <= 1000:
            raise Invalid(f"limit: a number from 1 to 1000, not {limit}")
        return self._store.list(scope or self.scope(), cursor=cursor, limit=limit)

    def stats(self) -> Stats:
        """What the store holds."""
        return self._store.stats()

    def sessions(self, *, project: str | None = None, profile: str | None = None) -> Sequence[Session]:
        """The sessions of the profile, or of one project."""
        return self._store.sessions(profile or self._settings.profile, project=project)

    def projects(self, *, profile: str | None = None) -> Sequence[Project]:
        """The projects of the profile."""
        return self._store.projects(profile or self._settings.profile)

    def move_session(self, session: str, *, project: str | None, profile: str | None = None) -> Session:
        """The session in its new project, or in none, with all its memories."""
        check_name("project", project)
        return self._store.move_session(profile or self._settings.profile, session, project=project)

    def profiles(self) -> Sequence[Profile]:
        """Everybody who has memories here."""
        return self._store.profiles()

    def timeline(
        self, *, project: str | None = None, profile: str | None = None, by: TimelineBy | None = None
    ) -> Timeline:
        """Memories by kind over time, of the profile or one project, in steps that fit their span unless named."""
        return timeline(self._store.days(profile or self._settings.profile, project=project), by=by)

    # Letting others in

    def create_token(self, *, profile: str | None = None, access: Access = "read", note: str = "") -> tuple[Token, str]:
        """A new token for a profile, and its secret, which cannot be shown again."""
        named = self._settings.profile if profile is None else profile
        check_name("profile", named)
        return create_token(self._store, profile=named, access=access, note=note, now=self.now())

    def token(self, secret: str) -> Token | None:
        """The token with this secret, if there is one."""
        return find_token(self._store, secret)

    def tokens(self) -> Sequence[Token]:
        """Every token that was made and not taken back."""
        return list_tokens(self._store)

    def revoke_token(self, id: str) -> Token:
        """The token that was taken back."""
        return revoke_token(self._store, id)

    # Taking in and giving out

    def import_from(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        profile: str | None = None,
        project: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] = lambda done: None,
        report: Callable[[Remark], None] = lambda remark: None,
    ) -> Imported:
        """What was imported from a file or folder; done again, it adds what is new and nothing twice.

        The format is recognised unless named. Memories go into this engine's profile or the one named, and all into
        `project` if one is named; those of our own files stay in their profiles unless one is named. `report` hears of
        everything that was passed over.
        """
        from retentive.transfer.importing.files import Target, choose_format, import_file

        check_name("profile", self._settings.profile if profile is None else profile)
        check_name("project", project)
        place = Path(path)
        if not place.exists():
            raise NotFound(f"there is no {place}")
        embedder = None if dry_run else self._reachable_embedder()
        return import_file(
            self._store,
            embedder,
            choose_format(place, format, self.embedder),
            place,
            target=Target(self._settings.profile, profile, project),
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
    ) -> Exported:
        """What was written to a file, of which an import makes an equal store.

        It holds this engine's profile or the one named, or a project or session of it; or `everything`: every profile,
        and the parameters that are kept. `output` is written to instead of the file, if there is one. The format is jsonl;
        or markdown, for people to read, where that is named or the path is a folder.
        """
        from retentive.transfer.exporting.files import Choice, export_file

        if everything and (profile is not None or project is not None or session is not None):
            raise Invalid("everything is the whole store; leave it out to export a profile, a project or a session")
        chosen = Choice() if everything else Choice(profile or self._settings.profile, project, session)
        self._note_use()
        return export_file(
            self._store,
            os.fspath(path),
            chosen,
            format=format,
            vectors=vectors,
            force=force,
            output=output,
            now=self.now(),
            progress=progress,
        )

    def imports(self) -> Sequence[Run]:
        """The imports that can be taken back, newest first."""
        from retentive.transfer.importing.log import list_runs

        return list_runs(self._store)

    def undo_import(self, run: str, *, progress: Callable[[int], None] = lambda done: None) -> Undone:
        """What taking back an import removed: exactly what it had added."""
        from retentive.transfer.importing.log import undo

        return undo(self._store, run, progress=progress)

    # Looking after the store

    def reembed(self, *, progress: Callable[[int], None] = lambda done: None) -> int:
        """How many memories were given a vector of the present model; from then on recall searches by it."""
        embedder = self.embedder()
        if embedder is None:
            raise Invalid("no embedder is configured; name one, for example with RETENTIVE_EMBEDDER=bge-small")
        return reembed(self._store, embedder, progress=progress)

    def embedding_problem(self) -> str | None:
        """Why recall by meaning is not to be had now, in a sentence; None if it is."""
        try:
            embedder = self.embedder()
        except RetentiveError as error:
            return str(error)
        if embedder is None:
            return "no embedder is configured"
        try:
            return _differs(self._store.model(), embedder.model)
        except Unavailable as error:
            return str(error)

    def count_unembedded(self) -> int:
        """How many memories have no vector of the present model yet."""
        embedder = self.embedder()
        return self._store.count_unembedded(embedder.model) if embedder else 0

    @property
    def address(self) -> str:
        """Where the store is, without any password."""
        return public_address(self._settings.store)

    @property
    def notes(self) -> KeyValue:
        """Short texts under names, for every process on this store."""
        return self._store

    @property
    def settings(self) -> Settings:
        """What was chosen before the store was opened."""
        return self._settings

    @property
    def embedder_name(self) -> str:
        """Which embedder is configured."""
        return self._settings.embedder.name

    def now(self) -> datetime:
        """The time by this engine's clock."""
        return self._clock()

    def check(self) -> Sequence[str]:
        """What is wrong with the store, one sentence each."""
        return self._store.check()

    def embedder(self) -> Embedder | None:
        """The embedder, opened when it is first needed."""
        if self._open_embedder is None:
            return self._embedder
        with self._opening:
            if self._open_embedder is not None:
                self._embedder = self._open_embedder()
                self._open_embedder = None
        return self._embedder

    def _reachable_embedder(self) -> Embedder | None:
        try:
            return self.embedder()
        except Unavailable as error:
            log.warning("stored without a vector: %s", error)
            return None

    def _note_use(self) -> None:
        """Write down which memories recalls gave out. It is worth a try and never worth an error."""
        used, self._used = self._used, []
        if not used:
            return
        try:
            # One write for all, at the time of the last: which of a few dozen recalls it was matters to nobody.
            self._store.touch([id for _, ids in used for id in ids], at=max(at for at, _ in used))
        except RetentiveError as error:
            log.warning("use of memories was not noted: %s", error)


def _tell(watcher: Callable[[Recall], None], answer: Recall) -> None:
    try:
        watcher(answer)
    except Exception:
        log.exception("a watcher of recalls failed; the recall itself did not")


def _differs(stored: Model | None, model: Model) -> str | None:
    if stored is None or stored.fingerprint == model.fingerprint:
        return None
    return f"the store's vectors come from {stored}, the embedder is {model}; run: retentive reembed"
