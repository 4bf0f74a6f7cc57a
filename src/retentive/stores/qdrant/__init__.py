"""The store on a Qdrant server, for those who outgrow one machine: memories, words and vectors as points there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client import models as q

from retentive.models import Day, Judgement, Key, Memory, Model, Page, Profile, Project, Scope, Session, Stats
from retentive.stores import Found, IdempotencyKey, Record, ScanPage, Vector
from retentive.stores.at_once import Asked, Both, Seen
from retentive.stores.qdrant import (
    catalogue,
    embedding,
    integrity,
    judging,
    key_value,
    reading,
    removing,
    sessions,
    writing,
)
from retentive.stores.qdrant.address import CollectionSettings, parse_address
from retentive.stores.qdrant.connection import Connection, connect
from retentive.stores.qdrant.points import memory_of
from retentive.stores.qdrant.scopes import resolve
from retentive.stores.qdrant.searching import Searches
from retentive.stores.qdrant.versions import Versions


def open_qdrant(where: str, busy_seconds: float) -> QdrantStore:
    """The store at an address."""
    address = parse_address(where, os.environ)
    return QdrantStore(
        connect(address),
        prefix=address.prefix,
        settings=address.settings,
        busy_seconds=busy_seconds,
        place=address.url,
    )


class QdrantStore:
    """Everything on a server. See `retentive.stores.Store` and `AtOnce` for what each method promises."""

    def __init__(
        self,
        client: QdrantClient,
        *,
        prefix: str = "retentive",
        settings: CollectionSettings | None = None,
        busy_seconds: float = 60,
        place: str = "this client",
    ) -> None:
        settings = settings or CollectionSettings()
        self._connection = Connection(client, prefix=prefix, settings=settings, place=place)
        try:
            self._versions = Versions(self._connection, wait_seconds=busy_seconds)
        except BaseException:
            self._connection.close()
            raise
        self._searches = Searches(self._connection, self._versions)
        # What Qdrant cannot do in one step is done under this lock, so that it holds within a process.
        self._lock = threading.RLock()

    def close(self) -> None:
        self._connection.close()

    def check(self) -> list[str]:
        with self._lock:
            return integrity.problems(self._connection, self._versions.read())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            finally:
                self._searches.forget()

    # Keeping

    def add(
        self, records: Sequence[Record], *, model: Model | None, idempotency_key: IdempotencyKey | None = None
    ) -> list[Memory]:
        if not records:
            return []
        with self._writing():
            return writing.add(self._connection, self._versions, records, model, idempotency_key)

    def get(self, ids: Sequence[str]) -> list[Memory]:
        return reading.get(self._connection, ids)

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        keep_vectors: bool = False,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        with self._writing():
            return writing.update(
                self._connection, self._versions, record, model, idempotency_key, keep_vectors=keep_vectors
            )

    def remove(self, ids: Sequence[str], *, idempotency_key: IdempotencyKey | None = None) -> int:
        with self._writing():
            return removing.remove(self._connection, self._versions, ids, idempotency_key)

    def remove_scope(self, scope: Scope) -> int:
        with self._writing():
            return removing.remove_scope(self._connection, self._versions, scope)

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        with self._lock:
            sessions.touch(self._connection, self._versions, ids, at)

    def stats(self) -> Stats:
        return catalogue.stats(self._connection, self._versions.read().active.model)

    # Searching

    def search_words(
        self, query: str, scope: Scope, *, limit: int, exclude: Sequence[str] = (), common: float = 1.0
    ) -> list[Found]:
        return self._searches.search_words(query, scope, limit=limit, exclude=exclude, common=common)

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str] = ()) -> list[Found]:
        return self._searches.search_vectors(vector, scope, limit=limit, exclude=exclude)

    def search_both(self, asked: Asked) -> Both:
        return self._searches.search_both(asked)

    def look(self, asked: Asked, keys: Sequence[Key]) -> Seen:
        return self._searches.look(asked, keys)

    def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Memory]:
        return reading.fetch(self._connection, keys)

    def keys(self, ids: Sequence[str]) -> Mapping[str, Key]:
        return reading.keys(self._connection, ids)

    def score_words(self, query: str, scope: Scope, keys: Sequence[Key]) -> Mapping[Key, float]:
        return self._searches.score_words(query, scope, keys)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> Mapping[Key, float]:
        return self._searches.score_vectors(vector, keys)

    def neighbours(self, keys: Sequence[Key]) -> Mapping[Key, tuple[Key | None, Key | None]]:
        return self._searches.neighbours(keys)

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        return self._searches.vectors(keys)

    # Cataloguing

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        return catalogue.sessions(self._connection, profile, project)

    def projects(self, profile: str) -> list[Project]:
        return catalogue.projects(self._connection, profile)

    def move_session(self, profile: str, session: str, *, project: str | None) -> Session:
        with self._writing():
            return sessions.move_session(self._connection, self._versions, profile, session, project)

    def profiles(self) -> list[Profile]:
        return catalogue.profiles(self._connection)

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        return catalogue.days(self._connection, profile, project)

    # Noting

    def get_value(self, name: str) -> str | None:
        return key_value.get_value(self._connection, name)

    def list_values(self, prefix: str) -> dict[str, str]:
        return key_value.list_values(self._connection, prefix)

    def keep(self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None) -> bool:
        with self._lock:
            return key_value.keep(self._connection, changes, expected)

    # Modelling

    def model(self) -> Model | None:
        return self._versions.lately().active.model

    def unembedded(self, model: Model, *, limit: int) -> Mapping[Key, Memory]:
        return embedding.unembedded(self._connection, self._versions, model, limit=limit)

    def count_unembedded(self, model: Model) -> int:
        return embedding.count_unembedded(self._connection, self._versions, model)

    def attach(self, vectors: Mapping[Key, Vector], *, model: Model) -> None:
        with self._writing():
            embedding.attach(self._connection, self._versions, vectors, model)

    def switch_model(self, model: Model) -> bool:
        with self._writing():
            return self._versions.switch(model)

    # Judging

    def judge(self, judgements: Sequence[Judgement]) -> None:
        with self._lock:
            judging.add(self._connection, judgements)

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        return judging.listed(self._connection, profile, project)

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        with self._lock:
            return judging.remove(self._connection, judgements)

    # Walking

    def walk(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        vector = self._versions.read().active.vector
        found = reading.page(self._connection, None, cursor=cursor, limit=limit, vectors=[vector] if vector else False)
        records = [Record(memory_of(one.payload or {}), _rows(one, vector)) for one in found]
        return ScanPage(records[:limit], records[limit - 1].memory.id if len(records) > limit else None)

    # Defined last: behind it, `list` is no longer the type.
    def list(self, scope: Scope, *, cursor: str | None = None, limit: int = 50) -> Page:
        where = resolve(self._connection, scope)
        if where is None:
            return Page(())
        found = reading.page(self._connection, where, cursor=cursor, limit=limit)
        memories = [memory_of(one.payload or {}) for one in found]
        return Page(tuple(memories[:limit]), memories[limit - 1].id if len(memories) > limit else None)


def _rows(record: q.Record, vector: str | None) -> Vector | None:
    stored = cast("Mapping[str, Any]", record.vector or {}).get(vector or "")
    return np.asarray(stored, np.float32) if stored else None
