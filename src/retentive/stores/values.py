"""The values that stores take and return, beside memories and candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from time import perf_counter
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from retentive.models import DEFAULT_PROFILE, Candidate, Kind, Memory, Model, Query, Serializable
from retentive.stores.damage import Damage

Vector = npt.NDArray[np.float32]


Progress = Callable[[int], None]
"""Called with the size of each part of a large change, when it is done."""


def no_progress(done: int) -> None:
    """Ignore the progress."""


class PreviousTurn(NamedTuple):
    """The memory whose text was embedded together with the next one of its session, by its id and the text's hash."""

    id: str
    text_hash: str


@dataclass(frozen=True, slots=True)
class Record:
    """A memory to write, with one unit vector for each of its parts; None while it is not embedded.

    The vectors are those of this memory's `indexed_text`. A store keeps its hash with them, and never attaches them to
    another text. With a `previous` turn the last vector is of both texts: it is deleted with that memory, and when the
    text of that memory changes. If the store has not this text at the moment of writing, it leaves that vector out. A
    memory whose only vector is deleted or left out is not embedded.
    """

    memory: Memory
    vectors: Vector | None = None
    previous: PreviousTurn | None = None

    def alone(self) -> Record:
        """The record without the vector that contains the text of the previous turn."""
        if self.previous is None or self.vectors is None:
            return self
        return Record(self.memory, self.vectors[:-1] if len(self.vectors) > 1 else None)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Identifies a write, so that a client can send it again without repeating it."""

    name: str
    fingerprint: str
    at: datetime

    @property
    def expires_before(self) -> datetime:
        """Keys recorded before this time can be deleted."""
        return self.at - timedelta(days=1)


OnDuplicate = Literal["keep", "count", "refuse"]
"""What happens to a memory whose text its project has already."""


class Duplicates(NamedTuple):
    """What a write does with a text that its project has already in a memory that is current at a time."""

    action: Literal["count", "refuse"]
    at: datetime


class PendingVector(Protocol):
    """The vector of a query, which another thread may still be computing."""

    def ready(self) -> bool:
        """Whether `wait` returns at once."""
        ...

    def wait(self, model: Model | None) -> Vector | None:
        """Return the vector; None if it cannot be computed in time, or not with the model of the store's vectors."""
        ...


class KnownVector(NamedTuple):
    """The vector of a query that the caller has."""

    vector: Vector

    def ready(self) -> bool:
        return True

    def wait(self, model: Model | None) -> Vector:  # noqa: ARG002 - the caller knows the model
        return self.vector


@dataclass(frozen=True, slots=True, eq=False)
class SearchRequest:
    """What one search reads. `query` has the text, the scope, the filter, what is excluded and the time.

    `keyword` and `semantic` are the numbers of candidates of the two retrievers, of all kinds of the scope or of one
    `kind`; one with 0 does not run. The semantic retriever searches for `vector`, and returns its best scores down to
    `depth`; with `approximate`, memories that are about the nearest will do. `centres`: the neighbours of so many of
    the best of each retriever are read, and those of the ids `around`. `ids` are of further memories to read. With
    `scores`, every retriever scores all memories that are read, and with `vectors` their vectors are returned.
    `retired` is how many memories of each retriever are returned that are not current and would have been among its
    first so many.
    """

    query: Query
    keyword: int = 0
    semantic: int = 0
    vector: PendingVector | None = None
    depth: int = 0
    kind: Kind | None = None
    centres: int = 0
    around: Sequence[str] = ()
    ids: Sequence[str] = ()
    scores: bool = False
    vectors: bool = False
    retired: int = 0
    approximate: bool = False


Neighbours = tuple[Memory | None, Memory | None]
"""The memories before and after one in its session."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What one search has read, of one snapshot.

    By retriever, where it ran: `candidates`, best first; `tails`, its best scores, which may go deeper; and `scores`,
    by id, of all memories that were read: 0 for those in which no term occurs, none for those without a vector.
    `neighbours` has the memories before and after, by id. `vectors` are those of the first parts. `retired` are
    memories that are not current, `damaged` those that would have been returned if they were not damaged. `model` is
    that of the vectors; `size` is how many memories the profile has, or all profiles, where the store counts them
    together. `stages` has the milliseconds of each part. `note` is for the user: why an index of the vectors was not
    used.
    """

    candidates: Mapping[str, Sequence[Candidate]]
    tails: Mapping[str, Sequence[float]]
    scores: Mapping[str, Mapping[str, float]]
    neighbours: Mapping[str, Neighbours]
    vectors: Mapping[str, Vector]
    retired: Sequence[Memory]
    damaged: Sequence[Damage]
    model: Model | None
    size: int
    stages: Mapping[str, float]
    note: str = ""


class StageTimer:
    """Milliseconds of each stage of a recall."""

    def __init__(self, laps: Mapping[str, float] | None = None) -> None:
        self.laps: dict[str, float] = dict(laps or {})
        self._last = perf_counter()

    def lap(self, name: str) -> float:
        """Add the time since the last lap to a stage, and return it."""
        now = perf_counter()
        elapsed = (now - self._last) * 1000
        self.laps[name] = self.laps.get(name, 0.0) + elapsed
        self._last = now
        return elapsed

    def skip(self) -> None:
        """Start the next lap now."""
        self._last = perf_counter()


class ScanPage(NamedTuple):
    """One page of a scan, the cursor of the next (None after the last), and the memories left out as damaged."""

    records: Sequence[Record]
    next_cursor: str | None = None
    damaged: Sequence[Damage] = ()


@dataclass(frozen=True, slots=True)
class Session(Serializable):
    """A conversation or run, in at most one project."""

    name: str
    profile: str
    project: str | None
    memories: int
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Project(Serializable):
    """A set of sessions, and memories that belong to no session."""

    name: str
    profile: str
    sessions: int
    memories: int


@dataclass(frozen=True, slots=True)
class Profile(Serializable):
    """A profile: memories of different profiles are never mixed."""

    name: str
    projects: int
    sessions: int
    memories: int


@dataclass(frozen=True, slots=True)
class Day(Serializable):
    """The number of memories of one UTC day by kind; kinds without memories may be left out."""

    day: date
    by_kind: Mapping[Kind, int]


@dataclass(frozen=True, slots=True)
class Judgement(Serializable):
    """A relevance judgement: how relevant a memory, given by its id, is to a query, from 0 (not relevant) to 3."""

    query: str
    memory: str
    relevance: int
    created: datetime
    profile: str = DEFAULT_PROFILE
    project: str | None = None
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page(Serializable):
    """One page of memories, newest first, and the cursor of the next page.

    `damaged` are memories of this page that cannot be returned. The page itself is a sequence of its memories.
    """

    memories: tuple[Memory, ...]
    next_cursor: str | None = None
    damaged: tuple[Damage, ...] = ()

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)

    def __getitem__(self, place: int) -> Memory:
        return self.memories[place]


@dataclass(frozen=True, slots=True)
class Stats(Serializable):
    """Statistics of a store. `last_stored` is when the newest memory was stored."""

    memories: int
    by_kind: Mapping[str, int]
    profiles: int
    projects: int
    sessions: int
    vectors: int
    unembedded: int
    model: Model | None
    bytes: int
    last_stored: datetime | None = None


@dataclass(frozen=True, slots=True)
class Compaction(Serializable):
    """The size of a store before and after it was compacted; `note` says what the store itself does not do."""

    bytes_before: int
    bytes_after: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Backup(Serializable):
    """A backup: its file, what is in it, the problems of the store that it has too, and which files it replaced."""

    file: str
    memories: int
    bytes: int
    problems: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
