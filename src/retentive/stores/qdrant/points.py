"""Encode memories as points and decode them.

The id of a point is the complement of its memory's: Qdrant pages through points in ascending order of their ids, and
memories are listed newest first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from qdrant_client import models as q

from retentive.errors import Invalid
from retentive.models import Memory, Model, Scalar, hash_text, indexed_text
from retentive.stores.qdrant.model_collections import ModelCollection
from retentive.stores.qdrant.sparse import WORDS, weights
from retentive.stores.sql_codec import to_micros
from retentive.stores.values import Vector

MAX_NUMBERS = 1_048_575
"""How many numbers the server accepts in the vectors of one point."""

Rows = list[list[float]]

_ALL_BITS = (1 << 128) - 1
_TIMES = ("created", "occurred", "accessed", "valid_from", "valid_to", "expires")

_log = logging.getLogger(__name__)


# Ids


def point_of(id: str) -> str | None:
    """Return the point id of a memory id; None if it is not a UUID in its usual spelling, so not in the store."""
    try:
        number = UUID(id)
    except ValueError:
        return None
    return str(UUID(int=_ALL_BITS ^ number.int)) if str(number) == id else None


def points_of(ids: Iterable[str]) -> dict[str, str]:
    """Return the point ids of memory ids, without those that cannot be in the store."""
    found = {id: point_of(id) for id in ids}
    return {id: point for id, point in found.items() if point is not None}


def new_point_of(id: str) -> str:
    """Return the point id of a memory that is about to be stored. `Invalid` if its id is not a UUID."""
    point = point_of(id)
    if point is None:
        raise Invalid(f"id: {id!r:.80} is not a UUID; this store accepts no other ids")
    return point


def id_of_point(point: Any) -> str:
    """Return the memory id of a point id."""
    return str(UUID(int=_ALL_BITS ^ UUID(str(point)).int))


def following_point(point: str) -> str | None:
    """Return the smallest id after that of a point; None if there is none."""
    number = UUID(point).int
    return None if number == _ALL_BITS else str(UUID(int=number + 1))


def encodable(*texts: str | None) -> bool:
    """Whether the texts are valid Unicode; half of a surrogate pair is not, and cannot even be sent."""
    return all(text is None or text.isascii() or text == text.encode(errors="ignore").decode() for text in texts)


# Payloads


def memory_of(payload: Mapping[str, Any]) -> Memory:
    """Decode the payload of a point."""
    given = {name: payload[name] for name in Memory._fields if payload.get(name) is not None}
    for name in _TIMES:
        if name in given:
            given[name] = datetime.fromisoformat(given[name])
    given["metadata"] = json.loads(given.get("metadata", "{}"))
    return Memory(**given)


def _payload(memory: Memory, *, born: int, written: int, parts: int) -> dict[str, Any]:
    """Encode a memory, with the fields that the store filters and sorts by."""
    payload: dict[str, Any] = {name: value for name, value in memory._asdict().items() if value is not None}
    for name in _TIMES:
        if name in payload:
            payload[name] = payload[name].isoformat()
    # As text, because the server changes numbers of more than 64 bits.
    payload["metadata"] = json.dumps(dict(memory.metadata), ensure_ascii=False)
    payload["when"] = to_micros(memory.when)
    payload["day"] = memory.when.toordinal()
    ends = [time for time in (memory.valid_to, memory.expires) if time is not None]
    times = {"valid_since": memory.valid_from, "valid_until": min(ends, default=None), "expiry": memory.expires}
    payload |= {name: to_micros(time) for name, time in times.items() if time is not None}
    payload["stored_text_hash"] = memory.text_hash
    return {**payload, "born": born, "written": written, "parts": parts}


def metadata_text(key: str, value: Scalar) -> str:
    """Return a text that occurs in the payload of every memory with this metadata."""
    start = json.dumps(key, ensure_ascii=False) + ": "
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return start if number else start + json.dumps(value, ensure_ascii=False)  # 1 and 1.0 are equal


def has_changed_text(payload: Mapping[str, Any]) -> bool:
    """Whether another program changed the text of a point; one that was written without a hash is taken to be right."""
    return payload.get("stored_text_hash") not in (None, _text_hash(payload))


def has_stale_vectors(payload: Mapping[str, Any]) -> bool:
    """Whether the vectors of a point were made of another text; those without a hash are taken to be right."""
    return payload["parts"] > 0 and payload.get("text_hash") not in (None, _text_hash(payload))


def _text_hash(payload: Mapping[str, Any]) -> str:
    return hash_text(indexed_text(payload["text"], payload.get("speaker")))


# Points to write


def to_rows(vectors: Vector | None, model: Model | None) -> Rows | None:
    """Round vectors to half precision, as every store does; those beyond the server's limit are left out."""
    if vectors is None or model is None:
        return None
    if vectors.ndim != 2 or vectors.shape[1] != model.dimension:
        raise Invalid(f"every vector of {model} has {model.dimension} numbers, one of these does not")
    most = MAX_NUMBERS // model.dimension
    if len(vectors) > most:
        _log.warning("a memory has %d parts; only its first %d have a vector", len(vectors), most)
    rows: Rows = vectors[:most].astype(np.float16).astype(np.float32).tolist()
    return rows


class NewPoint(NamedTuple):
    """A memory to write, with its sparse vector, its dense rows and their model.

    `born` orders memories by their first write, `written` identifies the last write, and `request` is the note of the
    idempotency key that it was made with. The rows are those of its text.
    """

    memory: Memory
    born: int
    written: int
    words: q.SparseVector | None
    rows: Rows | None
    model: Model | None
    request: str | None = None

    @classmethod
    def of(cls, memory: Memory, born: int, written: int, rows: Rows | None, model: Model | None) -> NewPoint:
        """Encode what is the same in every collection. The memory is copied, with its times in UTC."""
        times = {name: time.astimezone(UTC) for name in _TIMES if (time := getattr(memory, name)) is not None}
        memory = memory._replace(metadata=json.loads(json.dumps(dict(memory.metadata))), **times)
        return cls(memory, born, written, weights(memory.indexed_text), rows, model)

    @property
    def id(self) -> str:
        """The id of the point."""
        return new_point_of(self.memory.id)

    @property
    def size(self) -> int:
        """About how many bytes the point takes in a request."""
        numbers = sum(len(row) for row in self.rows or ())
        terms = len(self.words.indices) if self.words else 0
        return 1000 + 3 * len(self.memory.text) + 22 * numbers + 32 * terms

    def encode(self, collection: ModelCollection) -> q.PointStruct:
        """Return the point for a collection, without vectors of another model than the collection's."""
        vectors: dict[str, Any] = {} if self.words is None else {WORDS: self.words}
        rows = self.rows if self.model is not None and collection.is_of(self.model) else None
        if rows is not None and collection.vector is not None:
            vectors[collection.vector] = rows
        payload = _payload(self.memory, born=self.born, written=self.written, parts=len(rows or ()))
        if rows is not None:
            payload["text_hash"] = self.memory.text_hash
        if self.request is not None:
            payload["request"] = self.request
        return q.PointStruct(id=self.id, vector=vectors, payload=payload)
