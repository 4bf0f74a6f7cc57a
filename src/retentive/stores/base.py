"""The protocols that every store implements, and the values they exchange.

A store has six parts, each a Protocol: memories, the catalogue of sessions and projects, key-value entries, the models
of its vectors, relevance judgements, and a scan of everything. A recall reads through one `Search` for its query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from retentive.errors import Conflict
from retentive.models import (
    Candidate,
    Day,
    Judgement,
    Memory,
    Model,
    Page,
    Profile,
    Project,
    Query,
    Scope,
    Session,
    Stats,
)

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Record:
    """A memory to write, with one unit vector for each of its parts; None while it is not embedded."""

    memory: Memory
    vectors: Vector | None = None


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


def check_same_request(key: IdempotencyKey, fingerprint: str) -> None:
    """Raise `Conflict` if the key was already used for another request."""
    if key.fingerprint != fingerprint:
        raise Conflict("this idempotency key was used for another request; use a new one")


class Memories(Protocol):
    """Write and read memories. A method returns when its change is durable; one that fails has changed nothing.

    `within` limits a method to the memories of a scope, checked in the same transaction: a memory outside it is
    treated as one that does not exist. Here a session never stands for its project.
    """

    def add(
        self, records: Sequence[Record], *, model: Model | None, idempotency_key: IdempotencyKey | None = None
    ) -> list[Memory]:
        """Store new memories and return them with their session's project and, if none was given, the next position.

        All are written or none. `Conflict` if an id exists, or a session belongs to another project. If the
        idempotency key was used before, nothing is written and what remains of that write is returned.
        """
        ...

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        """Return the memories with these ids that exist, in the order of the ids."""
        ...

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        keep_vectors: bool = False,
        within: Scope | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        """Replace the contents of a memory and return it. `NotFound` if it does not exist.

        `keep_vectors` means that its text has not changed; otherwise vectors of None mean that it waits to be
        embedded. If the idempotency key was used before, nothing is written and the memory as it is now is returned.
        """
        ...

    def remove(
        self, ids: Sequence[str], *, within: Scope | None = None, idempotency_key: IdempotencyKey | None = None
    ) -> list[str]:
        """Delete memories with their terms and vectors; return the ids of those that existed, in the order given.

        If the idempotency key was used before, nothing is deleted and the ids deleted then are returned.
        """
        ...

    def remove_scope(self, scope: Scope) -> int:
        """Delete all memories of a scope and return how many there were."""
        ...

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        """Record that these memories were used."""
        ...

    def stats(self) -> Stats:
        """Return what the store holds."""
        ...

    # Defined last: after it, `list` in this class is no longer the type.
    def list(self, scope: Scope, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Return one page of the memories of a scope by id, newest first."""
        ...


class Retrieved(NamedTuple):
    """The result of one retriever: candidates, best first, and the best scores, which may go deeper."""

    candidates: Sequence[Candidate] = ()
    depth_scores: Sequence[float] = ()


class Scores(NamedTuple):
    """The score that each retriever gives to memories, by id.

    `keyword` has every memory that exists, 0 where no term matches; `semantic` leaves out those without a vector.
    """

    keyword: Mapping[str, float]
    semantic: Mapping[str, float]


class Search(Protocol):
    """All reads of one recall, on one connection and one snapshot. Close it, or use it in a `with` block.

    The query's scope, filter and exclusions are applied inside both retrievers: what they leave out hides nothing.
    Methods are called from one thread at a time.
    """

    @property
    def model(self) -> Model | None:
        """The model whose vectors are searched; None if the store has no vectors."""
        ...

    def keyword(self, limit: int) -> Retrieved:
        """Return the best memories by BM25; any text is a safe query.

        Terms above the document frequency `query.tuning.common_words` do not retrieve candidates, unless there is no
        rarer term; they only affect scoring. Document frequencies are those in the scope (in a large one perhaps
        estimated from the profile's), and the mean length is the profile's: other profiles have no effect.
        """
        ...

    def nearest(self, vector: Vector, limit: int, *, depth: int = 0) -> Retrieved:
        """Return the nearest memories by cosine, each once by its nearest part, and the scores down to `depth`."""
        ...

    def neighbours(self, ids: Sequence[str]) -> Mapping[str, tuple[Memory | None, Memory | None]]:
        """Return the memories before and after each of these in its session, by position.

        Memories without a session are not in the result. Exclusions, kinds and the filter do not apply here.
        """
        ...

    def scores(self, ids: Sequence[str]) -> Scores:
        """Return the scores of any memories, whether the retrievers found them or not.

        Keyword scores are those `keyword` gives in this scope. Semantic scores are for the vector of the last call of
        `nearest`; without one they are empty.
        """
        ...

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vector of each memory's first part."""
        ...

    def close(self) -> None:
        """Release the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Searchable(Protocol):
    """What a recall needs of a store."""

    def open_search(self, query: Query) -> Search:
        """Open the reads of one recall."""
        ...


class Catalogue(Protocol):
    """Sessions and projects. They come into being with their first memory."""

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        """Return the sessions of a profile or of one of its projects, by name."""
        ...

    def projects(self, profile: str) -> list[Project]:
        """Return the projects of a profile, by name."""
        ...

    def move_session(self, profile: str, session: str, *, project: str | None) -> Session:
        """Move a session with all its memories to another project, or out of its project."""
        ...

    def profiles(self) -> list[Profile]:
        """Return all profiles that have memories, by name."""
        ...

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        """Return the number of memories of each UTC day, by kind, oldest first.

        A memory belongs to the day on which it happened, or else to the day on which it was stored. Days without
        memories are left out, and so are kinds without memories on a day.
        """
        ...


class KeyValue(Protocol):
    """Short texts by name, shared by every process on the store: saved tuning, access tokens, import logs."""

    def get_value(self, name: str) -> str | None:
        """Return the value of a name."""
        ...

    def list_values(self, prefix: str) -> dict[str, str]:
        """Return all entries whose name starts with the prefix."""
        ...

    def compare_and_set(
        self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None
    ) -> bool:
        """Write all changes if every expected value still holds; None deletes an entry. Return whether it did."""
        ...


class VectorModels(Protocol):
    """Which model made the vectors, and the change to another one."""

    def model(self) -> Model | None:
        """Return the model whose vectors are searched; None before the first vector."""
        ...

    def unembedded(self, model: Model, *, limit: int) -> list[Memory]:
        """Return some memories that have no vector of this model yet."""
        ...

    def count_unembedded(self, model: Model) -> int:
        """Return how many memories have no vector of this model yet."""
        ...

    def attach(self, vectors: Mapping[str, Vector], *, model: Model) -> None:
        """Store vectors of a model, by memory id, beside those being searched."""
        ...

    def switch_model(self, model: Model) -> bool:
        """Search this model's vectors from now on and delete all others; False if a memory still lacks one."""
        ...


class Judgements(Protocol):
    """Relevance judgements. A judgement is deleted with its memory."""

    def judge(self, judgements: Sequence[Judgement]) -> None:
        """Store all or none; each replaces an earlier one of the same profile, project, query and memory.

        `NotFound` if the profile has no such memory.
        """
        ...

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        """Return the judgements of a profile or of one project, in the order in which they were first given."""
        ...

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        """Delete judgements, by profile, project, query and memory; return how many existed."""
        ...


class ScanPage(NamedTuple):
    """One page of a scan, and the cursor of the next; None after the last."""

    records: Sequence[Record]
    next_cursor: str | None = None


class Scan(Protocol):
    """Read everything in a store, to copy it elsewhere. Key-value entries are listed with an empty prefix."""

    def scan(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        """Return memories of every profile after the cursor, with their vectors of the model that is searched.

        Each memory comes once, in the store's own order, whatever is written meanwhile; what is added during the scan
        may come or not.
        """
        ...


class Store(Memories, Searchable, Catalogue, KeyValue, VectorModels, Judgements, Scan, Protocol):
    """Everything that a store does."""

    def check(self) -> list[str]:
        """Return one sentence for each problem of the store; an empty list means that it is healthy."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


def is_within(memory: Memory, scope: Scope | None) -> bool:
    """Whether a memory is in a scope, with each session standing for itself alone."""
    return scope is None or (
        memory.profile == scope.profile
        and scope.project in (None, memory.project)
        and (scope.sessions is None or memory.session in scope.sessions)
        and (scope.kinds is None or memory.kind in scope.kinds)
    )


def next_cursor(ids: Sequence[str], limit: int) -> str | None:
    """The cursor after one page, given the ids of that page and of the memory after it, if there is one."""
    return ids[limit - 1] if len(ids) > limit else None


def scan_pages(store: Scan, *, limit: int = 500) -> Iterator[Sequence[Record]]:
    """Yield everything in a store, page by page."""
    cursor: str | None = None
    while True:
        page = store.scan(cursor=cursor, limit=limit)
        yield page.records
        cursor = page.next_cursor
        if cursor is None:
            return
