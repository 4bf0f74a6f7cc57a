"""What is to be written of a memory: its point in each of the collections."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
from qdrant_client import models as q

from retentive.errors import Invalid
from retentive.models import Memory, Model
from retentive.stores import Vector
from retentive.stores.qdrant.points import as_kept, new_point_of, payload_of
from retentive.stores.qdrant.sparse import WORDS, weights
from retentive.stores.qdrant.state import Version

NUMBERS = 1_048_575
"""As many numbers may the vectors of one memory have together; the server refuses more."""

_log = logging.getLogger(__name__)

Rows = list[list[float]]


def rounded(vectors: Vector | None, model: Model | None) -> Rows | None:
    """Vectors as every store keeps them, in half precision; of a very long memory those of its first parts."""
    if vectors is None or model is None:
        return None
    if vectors.ndim != 2 or vectors.shape[1] != model.dimension:
        raise Invalid(f"every vector of {model} has {model.dimension} numbers, one of these has not")
    most = NUMBERS // model.dimension
    if len(vectors) > most:
        _log.warning("a memory has %d parts; only its first %d are found by meaning", len(vectors), most)
    rows: Rows = vectors[:most].astype(np.float16).astype(np.float32).tolist()
    return rows


class Entry(NamedTuple):
    """A memory that is to be written, with its words, its vectors and their model."""

    memory: Memory
    born: int
    written: int
    words: q.SparseVector | None
    rows: Rows | None
    model: Model | None

    @classmethod
    def of(cls, memory: Memory, born: int, written: int, rows: Rows | None, model: Model | None) -> Entry:
        """The entry of a memory; its words are worked out once for all collections."""
        return cls(as_kept(memory), born, written, weights(memory.indexed_text), rows, model)

    @property
    def size(self) -> int:
        """About how many bytes this takes in a request."""
        numbers = sum(len(row) for row in self.rows or ())
        terms = len(self.words.indices) if self.words else 0
        return 1000 + 3 * len(self.memory.text) + 22 * numbers + 32 * terms

    def point(self, version: Version) -> q.PointStruct:
        """The point in one of the collections; vectors of another model than the collection's stay out."""
        vector: dict[str, Any] = {}
        if self.words is not None:
            vector[WORDS] = self.words
        rows = self.rows if self.model is not None and version.is_of(self.model) else None
        if rows is not None and version.vector is not None:
            vector[version.vector] = rows
        payload = payload_of(self.memory, born=self.born, written=self.written, parts=len(rows or ()))
        return q.PointStruct(id=new_point_of(self.memory.id), vector=vector, payload=payload)
