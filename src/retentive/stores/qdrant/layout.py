"""How the collections are made, and waiting for them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

from qdrant_client import QdrantClient
from qdrant_client import models as q

from retentive.errors import Invalid, Unavailable
from retentive.stores.qdrant.connection import Connection
from retentive.stores.qdrant.sparse import WORDS

OLDEST = (1, 19)
"""The first version of the server that counts how rare a term is within a filter."""

PAUSE = 0.2
"""Seconds between two looks at a collection that is being indexed."""

_log = logging.getLogger(__name__)

_KEYWORD = q.KeywordIndexParams(type=q.KeywordIndexType.KEYWORD)
# Links between vectors for these would cost much: sessions are small enough to be looked through, numbers only sort.
_SMALL = q.KeywordIndexParams(type=q.KeywordIndexType.KEYWORD, enable_hnsw=False)
_NUMBER = q.IntegerIndexParams(type=q.IntegerIndexType.INTEGER, lookup=True, range=True, enable_hnsw=False)

MEMORY_INDEXES: dict[str, q.KeywordIndexParams | q.IntegerIndexParams] = {
    # Each profile's memories lie together and get a search graph of their own.
    "profile": q.KeywordIndexParams(type=q.KeywordIndexType.KEYWORD, is_tenant=True),
    "project": _KEYWORD,
    "session": _SMALL,
    "kind": _KEYWORD,
    "position": _NUMBER,
    "born": _NUMBER,
    "when": _NUMBER,
    "day": _NUMBER,
    "parts": _NUMBER,
}

NOTE_INDEXES: dict[str, q.KeywordIndexParams | q.IntegerIndexParams] = {
    "type": _SMALL,
    "profile": _SMALL,
    "project": _SMALL,
    "memory": _SMALL,
    "at": _NUMBER,
    "stamp": _NUMBER,
}


def check_server(connection: Connection) -> None:
    """`Unavailable` if the server is too old for what is asked of it."""
    version = connection.ask(lambda client: client.info()).version
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise Unavailable(f"this Qdrant server is version {version}; Retentive needs {wanted} or newer")


def create_memories(connection: Connection, name: str, *, vector: str | None = None, size: int = 0) -> None:
    """A collection for memories: words, and vectors where there is a model. A memory is as near as its nearest part."""
    settings = connection.settings
    vectors = {}
    if vector is not None:
        vectors[vector] = q.VectorParams(
            size=size,
            distance=q.Distance.DOT,
            on_disk=settings.on_disk,
            multivector_config=q.MultiVectorConfig(comparator=q.MultiVectorComparator.MAX_SIM),
        )
    _create(
        connection,
        name,
        lambda client: client.create_collection(
            name,
            vectors_config=vectors,
            sparse_vectors_config={
                WORDS: q.SparseVectorParams(
                    index=q.SparseIndexParams(on_disk=settings.on_disk), modifier=q.Modifier.IDF
                )
            },
            shard_number=settings.shards,
            replication_factor=settings.replicas,
            write_consistency_factor=settings.write_consistency,
            on_disk_payload=True,
            # No graph over all profiles, because no search ever goes over all of them.
            hnsw_config=q.HnswConfigDiff(m=0, payload_m=16, on_disk=settings.on_disk),
            quantization_config=_quantization(connection),
        ),
    )
    _index(connection, name, MEMORY_INDEXES)


def create_notes(connection: Connection) -> None:
    """The collection for everything that is not a memory, if it is not there."""
    name, settings = connection.notes, connection.settings
    if connection.ask(lambda client: client.collection_exists(name)):
        return
    _create(
        connection,
        name,
        lambda client: client.create_collection(
            name,
            vectors_config={},
            replication_factor=settings.replicas,
            write_consistency_factor=settings.write_consistency,
            on_disk_payload=True,
        ),
    )
    _index(connection, name, NOTE_INDEXES)


def _create(connection: Connection, name: str, create: Callable[[QdrantClient], object]) -> None:
    try:
        connection.ask(create)
    except (Invalid, ValueError):
        # Another process was faster, or this one did not hear the answer.
        if not connection.ask(lambda client: client.collection_exists(name)):
            raise


def _index(connection: Connection, name: str, indexes: dict[str, q.KeywordIndexParams | q.IntegerIndexParams]) -> None:
    for field, params in indexes.items():
        connection.ask(
            lambda client, field=field, params=params: client.create_payload_index(  # type: ignore[misc]
                name, field, field_schema=params, wait=True
            )
        )


def _quantization(connection: Connection) -> q.ScalarQuantization | q.BinaryQuantization | None:
    if connection.settings.quantization == "int8":
        return q.ScalarQuantization(scalar=q.ScalarQuantizationConfig(type=q.ScalarType.INT8, always_ram=True))
    if connection.settings.quantization == "binary":
        return q.BinaryQuantization(binary=q.BinaryQuantizationConfig(always_ram=True))
    return None


def wait_until_indexed(connection: Connection, name: str, seconds: float) -> None:
    """Wait while a collection is being indexed; one that is not done in time is slower to search, not wrong."""
    deadline = time.monotonic() + seconds
    while True:
        status = connection.ask(lambda client: client.get_collection(name)).status
        if status == q.CollectionStatus.RED:
            raise Unavailable(f"the collection {name} is damaged (its status is red); look into the server's log")
        if status != q.CollectionStatus.YELLOW:
            return
        if time.monotonic() + PAUSE > deadline:
            _log.warning("%s is still being indexed after %g seconds; it is searched all the same", name, seconds)
            return
        time.sleep(PAUSE)
