"""What a SQL store and the index of its vectors exchange.

The store has the vectors and is right about them. The index has copies and proposes memories, which the store checks
and scores. Triggers note every memory whose vectors or scope change in the store's outbox, in the same transaction.
The index takes them from there, so that a change survives the end of the process and an index that is down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from retentive.models import Model
from retentive.stores.values import Progress, Vector, no_progress

FAR = 2**53
"""A time in microseconds that is never reached, and exact as a float."""


class StoredModel(NamedTuple):
    """A model that the store has vectors of, with its id there."""

    id: int
    model: Model


class Point(NamedTuple):
    """What the index has of a memory: its key in the store, its scope as ids (0: none), when it is valid.

    `vectors` are those of all its parts.
    """

    key: int
    profile: int
    project: int
    session: int
    kind: int
    valid_from: int
    valid_until: int
    vectors: Vector


class Changes(NamedTuple):
    """Some of the outbox: the entries, and the memories they name as they are now.

    `points` has one list for each of the `models`, of the memories that have vectors of it. A larger `stamp` is of a
    later state.
    """

    stamp: int
    entries: Sequence[int]
    keys: Sequence[int]
    models: Sequence[StoredModel]
    points: Sequence[Sequence[Point]]


class Outbox(Protocol):
    """The memories that the index does not have as they are."""

    def waiting(self) -> int:
        """Return how many entries there are."""
        ...

    def take(self, limit: int) -> Changes:
        """Return the oldest entries. They stay until they are settled."""
        ...

    def settle(self, entries: Sequence[int]) -> None:
        """Delete entries that the index has applied."""
        ...

    def add(self, keys: Sequence[int]) -> None:
        """Add memories, whether they exist or not."""
        ...

    def add_all(self, model: StoredModel) -> None:
        """Add all memories that have vectors of a model."""
        ...

    def models(self) -> Sequence[StoredModel]:
        """Return the models that the store has vectors of."""
        ...

    def points(self, model: StoredModel) -> Iterator[Point]:
        """Return all memories with vectors of a model, by key."""
        ...

    @property
    def name(self) -> str:
        """A name of this store alone, so that several can share a server."""
        ...


@dataclass(frozen=True, slots=True)
class NearestRequest:
    """What a search asks of the index. Ids as in the store; None means any.

    With `shares_identity` the memories of the kind `identity` of the profile that are in no project are found too.
    Memories must be valid at the time `current_at`, or with `retired` must not.
    """

    model: StoredModel
    vector: Vector
    limit: int
    profile: int
    projects: Sequence[int] | None = None
    sessions: Sequence[int] | None = None
    kinds: Sequence[int] | None = None
    identity: int | None = None
    outside_projects: bool = False
    current_at: int | None = None
    retired: bool = False


class Proposal(NamedTuple):
    """The keys of memories among which the nearest are. None: the store must search by itself; `note` says why."""

    keys: Sequence[int] | None = None
    note: str = ""


class ExternalIndex(Protocol):
    """An index of the vectors of a store."""

    def propose(self, request: NearestRequest, waiting: Callable[[int], Sequence[int]]) -> Proposal:
        """Propose memories. `waiting` returns the keys in the outbox, up to a limit, in the snapshot of the search."""
        ...

    def follow(self, *, progress: Progress = no_progress) -> int:
        """Apply the outbox; return how many entries are left. `Unavailable` if the index cannot be reached."""
        ...

    def problems(self) -> list[str]:
        """Compare the index with the store; return one sentence for each problem."""
        ...

    def mend(self) -> None:
        """Make the index equal to the store. `Unavailable` if it cannot be reached."""
        ...

    def close(self) -> None:
        """Apply what can be applied in a moment, and stop."""
        ...


class NoIndex:
    """The index of a store that searches by itself."""

    def propose(self, request: NearestRequest, waiting: Callable[[int], Sequence[int]]) -> Proposal:  # noqa: ARG002
        return Proposal()

    def follow(self, *, progress: Progress = no_progress) -> int:  # noqa: ARG002
        return 0

    def problems(self) -> list[str]:
        return []

    def mend(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
