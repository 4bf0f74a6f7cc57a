"""Stores keep memories and retrieve candidates; they never rank.

`open_store` knows them by their address. A store is seven small abilities, each a Protocol of its own: keeping
memories, searching, the catalogue of sessions and projects, short notes, knowing which model made its vectors,
judgements, and being walked through from end to end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from retentive.errors import Conflict, Invalid, MissingExtra
from retentive.models import Day, Judgement, Key, Memory, Model, Page, Profile, Project, Scope, Session, Stats

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Record:
    """A memory to be written, with one unit vector for each of its parts; None while it is not embedded."""

    memory: Memory
    vectors: Vector | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A write that names itself, so that it can be sent again without being carried out again."""

    name: str
    fingerprint: str
    at: datetime

    @property
    def forget_before(self) -> datetime:
        """What was written earlier than this may be forgotten: nobody sends it again."""
        return self.at - timedelta(days=1)


def check_same(idempotency_key: IdempotencyKey, fingerprint: str) -> None:
    """`Conflict` if another request already has this name."""
    if idempotency_key.fingerprint != fingerprint:
        raise Conflict("this idempotency key was used for another request; take a new one")


class Found(NamedTuple):
    """What a search found: the store's own key, and a score of which larger is better."""

    key: Key
    score: float


class Memories(Protocol):
    """Memories in and out. A method returns when its change is durable; one that fails has changed nothing."""

    def add(
        self, records: Sequence[Record], *, model: Model | None, idempotency_key: IdempotencyKey | None = None
    ) -> list[Memory]:
        """The memories as stored: in their session's project, at the next free position where none was given.

        All are written or none. `Conflict` if an id exists, or a session belongs to another project. A write that was
        made before under the same name is not made again: it gives what is left of the memories it wrote then.
        """
        ...

    def get(self, ids: Sequence[str]) -> list[Memory]:
        """The memories of these ids that exist, in the order asked for."""
        ...

    def list(self, scope: Scope, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Memories of exactly this scope by id, newest first, from behind the cursor on."""
        ...

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        keep_vectors: bool = False,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        """The memory with new contents under its old id.

        `keep_vectors` says that its text has not changed; else vectors of None mean that it waits to be embedded. A
        change that was made before under the same name is not made again: it gives the memory as it is now.
        """
        ...

    def remove(self, ids: Sequence[str], *, idempotency_key: IdempotencyKey | None = None) -> int:
        """How many of these were there and are now gone, text, words and vectors.

        A removal that was made before under the same name gives how many it removed then.
        """
        ...

    def remove_scope(self, scope: Scope) -> int:
        """How many memories this scope held; they are gone."""
        ...

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        """Note that these memories were used."""
        ...

    def stats(self) -> Stats:
        """What the store holds."""
        ...


class Searching(Protocol):
    """Candidates for ranking. The scope is applied inside the search, and both searches see exactly the same scope."""

    def search_words(
        self, query: str, scope: Scope, *, limit: int, exclude: Sequence[str] = (), common: float = 1.0
    ) -> list[Found]:
        """The best by words, best first; any text is a safe query.

        Terms in more than the share `common` of all memories do not search, unless there is no rarer one; they score.
        How much a term counts for goes by how rare it is in the scope.
        """
        ...

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str] = ()) -> list[Found]:
        """The nearest by cosine, best first, each memory once by its nearest part."""
        ...

    def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Memory]:
        """The memories behind these keys that still exist."""
        ...

    def keys(self, ids: Sequence[str]) -> Mapping[str, Key]:
        """The store's own keys of these memories, by their ids; those that do not exist are not in it."""
        ...

    def score_words(self, query: str, scope: Scope, keys: Sequence[Key]) -> Mapping[Key, float]:
        """What `search_words` would score these in this scope, 0 where no word matches."""
        ...

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> Mapping[Key, float]:
        """What `search_vectors` would score these; a memory without a vector is not in it."""
        ...

    def neighbours(self, keys: Sequence[Key]) -> Mapping[Key, tuple[Key | None, Key | None]]:
        """What comes just before and just behind each of these in its session, by position.

        Memories without a session are not in it.
        """
        ...

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        """The vector of each memory's first part."""
        ...


class Catalogue(Protocol):
    """Sessions and projects. They come into being with their first memory."""

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        """The sessions of a profile or of one of its projects, by name."""
        ...

    def projects(self, profile: str) -> list[Project]:
        """The projects of a profile, by name."""
        ...

    def move_session(self, profile: str, session: str, *, project: str | None) -> Session:
        """The session in its new project, or in none, with all its memories."""
        ...

    def profiles(self) -> list[Profile]:
        """Everybody who has memories here, by name."""
        ...

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        """How much a profile or one of its projects has of each day of UTC, oldest first.

        A memory is of the day on which it happened, or else of that on which it was stored. Days without any are left
        out, and so are the kinds of a day of which there are none.
        """
        ...


class KeyValue(Protocol):
    """Short texts under names, for every process that uses the store: settings, tokens."""

    def get_value(self, name: str) -> str | None:
        """What is kept under a name."""
        ...

    def list_values(self, prefix: str) -> dict[str, str]:
        """Everything whose name begins so, by name."""
        ...

    def keep(self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None) -> bool:
        """Whether all these were kept: not one if anything is other than expected. None forgets what is there."""
        ...


class VectorModels(Protocol):
    """Which model made the vectors, and how a store changes over to another one."""

    def model(self) -> Model | None:
        """The model whose vectors are searched; None before the first vector."""
        ...

    def unembedded(self, model: Model, *, limit: int) -> Mapping[Key, Memory]:
        """Some memories that have no vector of this model yet."""
        ...

    def count_unembedded(self, model: Model) -> int:
        """How many memories have no vector of this model yet."""
        ...

    def attach(self, vectors: Mapping[Key, Vector], *, model: Model) -> None:
        """Store vectors of a model beside those being searched."""
        ...

    def switch_model(self, model: Model) -> bool:
        """Search this model's vectors from now on and drop all others; False if some memory still lacks one."""
        ...


class Judgements(Protocol):
    """What people said of memories. A judgement goes when its memory goes."""

    def judge(self, judgements: Sequence[Judgement]) -> None:
        """Keep these, all or none; one of the same profile, project, query and memory takes an earlier one's place.

        `NotFound` if the profile has no such memory.
        """
        ...

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        """The judgements of a profile, or those asked of one project, in the order in which they were first given."""
        ...

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        """How many of these there were, by profile, project, query and memory; they are gone."""
        ...


class ScanPage(NamedTuple):
    """A stretch of a walk, and from where it goes on; None behind the last."""

    records: Sequence[Record]
    next_cursor: str | None = None


class Scan(Protocol):
    """Everything that is in a store, for whoever takes it elsewhere. Settings are `kept_under` no prefix."""

    def walk(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        """Memories of every profile from behind the cursor on, with their vectors of the model that is searched.

        Each comes once, in an order that is the store's own, whatever is written meanwhile; what is added during the
        walk may come or not.
        """
        ...


class Store(Memories, Searching, Catalogue, KeyValue, VectorModels, Judgements, Scan, Protocol):
    """All seven abilities, and the end of them."""

    def check(self) -> list[str]:
        """What is wrong with the store, one sentence each; an empty list is a healthy store."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def open_store(address: str, *, busy_seconds: float = 60) -> Store:
    """The store at an address: a file path or `sqlite:///path`, made if it is not there, `memory://`, `postgresql://…`,
    or `qdrant+http://host:6333/prefix` and `qdrant+https://…`.

    A write waits `busy_seconds` for other processes that write, and then gives up.
    """
    scheme, separator, _ = address.partition("://")
    loader = _LOADERS.get(scheme if separator else "sqlite")
    if loader is None:
        raise Invalid(f"there is no store '{scheme}://'; use a file path, or one of {', '.join(_LOADERS)}://")
    return loader(address, busy_seconds)


def public_address(address: str) -> str:
    """An address as it may be shown to anybody: with every password in it hidden."""
    hidden = re.sub(r"://([^:/@?]*):[^@/]*@", r"://\1:***@", address)
    hidden = re.sub(r"%3A%2F%2F([^&]*?)(?::|%3A)[^&]*?(?:@|%40)", r"%3A%2F%2F\1:***@", hidden, flags=re.IGNORECASE)
    return re.sub(r"([?&][a-z_]*(?:password|key|token)=)[^&]*", r"\1***", hidden, flags=re.IGNORECASE)


def _open_sqlite(address: str, busy_seconds: float) -> Store:
    from retentive.stores.sqlite import SqliteStore

    return SqliteStore(address.removeprefix("sqlite:///").removeprefix("sqlite://"), busy_seconds=busy_seconds)


def _open_postgres(address: str, busy_seconds: float) -> Store:
    try:
        from retentive.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        raise MissingExtra("a PostgreSQL store", "postgres") from error
    return PostgresStore(address, busy_seconds=busy_seconds)


def _open_qdrant(address: str, busy_seconds: float) -> Store:
    try:
        from retentive.stores.qdrant import open_qdrant
    except ModuleNotFoundError as error:
        if error.name != "qdrant_client":
            raise
        raise MissingExtra("a store on a Qdrant server", "qdrant") from error
    return open_qdrant(address, busy_seconds)


def _open_memory(_: str, _busy_seconds: float) -> Store:
    from retentive.stores.in_memory import InMemoryStore

    return InMemoryStore()


_LOADERS: dict[str, Callable[[str, float], Store]] = {
    "sqlite": _open_sqlite,
    "memory": _open_memory,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "qdrant+http": _open_qdrant,
    "qdrant+https": _open_qdrant,
}
