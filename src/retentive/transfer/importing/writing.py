"""Puts batches of imported memories into a store: with vectors, noted before they are added, never twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from retentive.errors import Conflict, Invalid, Unavailable
from retentive.inference.embedders import Embedder
from retentive.models import Memory, Model
from retentive.pipeline.remember import embed_memories, usable_embedder
from retentive.stores import Record, Store, Vector
from retentive.transfer.importing.log import RunLog

TRIES = 3
_Name = tuple[str, str]
"""A session's profile and name."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A memory that only has to be stored, perhaps with vectors from the file it is from."""

    memory: Memory
    where: str
    vectors: Vector | None = None
    model: Model | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """How many of a batch were added, how many of them without a vector, and how many the store refused."""

    added: int = 0
    waiting: int = 0
    refused: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(self.added + other.added, self.waiting + other.waiting, self.refused + other.refused)


class Writer:
    """Adds what is not there yet. Others may be at it too, and sessions may belong elsewhere than a file says."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        log: RunLog,
        *,
        refuse: Callable[[Ready, str], None],
        notice: Callable[[Ready, str], None],
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._log = log
        self._refuse = refuse
        self._notice = notice

    def add(self, batch: Sequence[Ready]) -> Written:
        """Add a batch of which none was there a moment ago."""
        for _ in range(TRIES):
            try:
                return self._add(batch)
            except Conflict:
                known = self._store.keys([ready.memory.id for ready in batch])
                batch = self._at_home([ready for ready in batch if ready.memory.id not in known])
                if not batch:
                    return Written()
        return sum((self._add_alone(ready) for ready in batch), Written())

    def _add(self, batch: Sequence[Ready]) -> Written:
        records, model = self._records(batch)
        note = self._log.note([record.memory.id for record in records])
        try:
            self._store.add(records, model=model)
        except (Conflict, Invalid):
            self._log.take_back(note)
            raise
        return Written(len(records), sum(record.vectors is None for record in records))

    def _add_alone(self, ready: Ready) -> Written:
        try:
            return self._add([ready])
        except (Conflict, Invalid) as error:
            self._refuse(ready, str(error))
            return Written(refused=1)

    def _at_home(self, batch: Sequence[Ready]) -> list[Ready]:
        """These in the projects their sessions belong to: a session that was moved stays where it was put."""
        sessions = [one for name in {ready.memory.profile for ready in batch} for one in self._store.sessions(name)]
        homes = {(one.profile, one.name): one.project for one in sessions}
        empty = {(one.profile, one.name) for one in sessions if not one.memories}
        return [replace(ready, memory=self._housed(ready, homes, empty)) for ready in batch]

    def _housed(self, ready: Ready, homes: dict[_Name, str | None], empty: set[_Name]) -> Memory:
        memory = ready.memory
        if memory.session is None:
            return memory
        name = (memory.profile, memory.session)
        if name in empty and homes[name] != memory.project:  # nothing is left of it that could be torn apart
            self._store.move_session(*name, project=memory.project)
            homes[name] = memory.project
        empty.discard(name)
        home = homes.setdefault(name, memory.project)
        if home != memory.project and memory.project is not None:
            where = "in no project" if home is None else f"in the project '{home}'"
            self._notice(ready, f"its session is {where}, so it went there")
        return memory._replace(project=home)

    def _records(self, batch: Sequence[Ready]) -> tuple[list[Record], Model | None]:
        """The batch with vectors: those of the file where they are of the right model, else made now."""
        embedder = usable_embedder(self._store, self._embedder)
        model = self._model(batch, embedder)
        ours = {ready.memory.id: ready.vectors for ready in batch if ready.model == model and ready.vectors is not None}
        lacking = [ready.memory for ready in batch if ready.memory.id not in ours]
        rows = embed_memories(embedder, lacking) if embedder and lacking else None
        made = dict(zip((memory.id for memory in lacking), rows, strict=True)) if rows else {}
        vectors = {**ours, **made}
        return [Record(ready.memory, vectors.get(ready.memory.id)) for ready in batch], model if vectors else None

    def _model(self, batch: Sequence[Ready], embedder: Embedder | None) -> Model | None:
        """The model whose vectors the store takes: its own, or the embedder's, or with neither that of the file."""
        known = self._store.model()
        if known is None and embedder is not None:
            try:
                known = embedder.model
            except Unavailable:
                known = None
        in_file = (ready.model for ready in batch if ready.model is not None)
        if known is None:
            return next(in_file, None)
        # The same model may be called otherwise elsewhere; its fingerprint decides.
        return next((model for model in in_file if model.fingerprint == known.fingerprint), known)
