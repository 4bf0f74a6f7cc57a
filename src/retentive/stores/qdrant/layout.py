"""The collections of a store: their vectors, payload indexes and other parameters."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from qdrant_client import models as q

from retentive.errors import Invalid, RetentiveError, Unavailable
from retentive.stores.qdrant.address import CollectionSettings
from retentive.stores.qdrant.connection import Connection
from retentive.stores.qdrant.sparse import WORDS

OLDEST_VERSION = (1, 19)
"""The first version of the server that computes IDF within a filter."""

POLL_SECONDS = 0.2
"""Pause between two reads of the status of a collection that is being indexed."""

_log = logging.getLogger(__name__)

_KEYWORD = q.KeywordIndexParams(type=q.KeywordIndexType.KEYWORD)
# No HNSW links for these fields: a session is small enough for a full scan, and numbers are only used to sort.
_UNLINKED = q.KeywordIndexParams(type=q.KeywordIndexType.KEYWORD, enable_hnsw=False)
_NUMBER = q.IntegerIndexParams(type=q.IntegerIndexType.INTEGER, lookup=True, range=True, enable_hnsw=False)

Indexes = dict[str, q.KeywordIndexParams | q.IntegerIndexParams]

MEMORY_INDEXES: Indexes = {
    # The points of a profile are stored together and have an HNSW graph of their own.
    "profile": q.KeywordIndexParams(type=q.KeywordIndexType.KEYWORD, is_tenant=True),
    "project": _KEYWORD,
    "session": _UNLINKED,
    "kind": _KEYWORD,
    "position": _NUMBER,
    "born": _NUMBER,
    "when": _NUMBER,
    "day": _NUMBER,
    "parts": _NUMBER,
}

LATER_INDEXES: Indexes = {
    "content_hash": _UNLINKED,
    "key": _UNLINKED,
    "superseded_by": _UNLINKED,
    "valid_since": _NUMBER,
    "valid_until": _NUMBER,
    "expiry": _NUMBER,
}
"""Indexes that collections of earlier versions do not have."""

NOTE_INDEXES: Indexes = {
    "type": _UNLINKED,
    "profile": _UNLINKED,
    "project": _UNLINKED,
    "memory": _UNLINKED,
    "at": _NUMBER,
    "stamp": _NUMBER,
}


def check_server_version(connection: Connection) -> None:
    """Raise `Unavailable` if the server is too old."""
    version = connection.call(connection.client.info).version
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise Unavailable(f"this Qdrant server is version {version}; Retentive needs {oldest} or newer")


def create_memories(connection: Connection, name: str, *, vector: str | None = None, size: int = 0) -> None:
    """Create a collection of memories with a sparse vector and, for a model, a dense multivector.

    The score of a memory is that of its nearest part (`max_sim`).
    """
    settings = connection.settings
    vectors = {}
    if vector is not None:
        vectors[vector] = q.VectorParams(
            size=size,
            distance=q.Distance.DOT,
            on_disk=settings.on_disk,
            multivector_config=q.MultiVectorConfig(comparator=q.MultiVectorComparator.MAX_SIM),
        )
    index = q.SparseIndexParams(on_disk=settings.on_disk)
    options = {
        "vectors_config": vectors,
        "sparse_vectors_config": {WORDS: q.SparseVectorParams(index=index, modifier=q.Modifier.IDF)},
        "shard_number": settings.shards,
        # No graph over all profiles, because every search is within one profile.
        "hnsw_config": q.HnswConfigDiff(m=0, payload_m=16, on_disk=settings.on_disk),
        "quantization_config": _quantization(settings),
    }
    _create(connection, name, options, MEMORY_INDEXES | LATER_INDEXES)


def create_missing_indexes(connection: Connection, name: str) -> None:
    """Create the indexes that a collection of an earlier version lacks. Without them searches are slower."""
    present = connection.call(connection.client.get_collection, name).payload_schema
    try:
        for field, params in LATER_INDEXES.items():
            if field not in present:
                connection.call(connection.client.create_payload_index, name, field, field_schema=params, wait=True)
    except RetentiveError as error:  # the API key may only read
        _log.warning("%s lacks an index on its payload: %s", name, error)


def create_notes(connection: Connection) -> None:
    """Create the collection of notes unless it exists."""
    if not connection.exists():
        _create(connection, connection.notes, {"vectors_config": {}}, NOTE_INDEXES)


def _create(connection: Connection, name: str, options: dict[str, Any], indexes: Indexes) -> None:
    client, settings = connection.client, connection.settings
    try:
        connection.call(
            client.create_collection,
            name,
            replication_factor=settings.replicas,
            write_consistency_factor=settings.write_consistency,
            on_disk_payload=True,
            **options,
        )
    except (Invalid, ValueError):
        # Another process created it first, or a retry follows a request whose response was lost.
        if not connection.call(client.collection_exists, name):
            raise
    for field, params in indexes.items():
        connection.call(client.create_payload_index, name, field, field_schema=params, wait=True)


def _quantization(settings: CollectionSettings) -> q.ScalarQuantization | q.BinaryQuantization | None:
    if settings.quantization == "int8":
        return q.ScalarQuantization(scalar=q.ScalarQuantizationConfig(type=q.ScalarType.INT8, always_ram=True))
    if settings.quantization == "binary":
        return q.BinaryQuantization(binary=q.BinaryQuantizationConfig(always_ram=True))
    return None


def wait_until_indexed(connection: Connection, name: str, seconds: float) -> None:
    """Wait until a collection is indexed. After `seconds` it is used without: slower, with the same results."""
    deadline = time.monotonic() + seconds
    while True:
        status = connection.call(connection.client.get_collection, name).status
        if status == q.CollectionStatus.RED:
            raise Unavailable(f"the collection {name} is damaged (its status is red); see the server's log")
        if status != q.CollectionStatus.YELLOW:
            return
        if time.monotonic() + POLL_SECONDS > deadline:
            _log.warning("%s is still being indexed after %g seconds; searches are slower until it is", name, seconds)
            return
        time.sleep(POLL_SECONDS)
