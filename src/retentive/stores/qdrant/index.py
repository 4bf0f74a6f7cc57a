"""`QdrantIndex`: the vectors of a SQL store on a Qdrant server, one collection for each model.

A memory is a point. Its id is the key of the memory, its payload has the scope and the validity, and its vectors are
one multivector, compared by the nearest part. A point has the stamp of the state that it was made of, and the server
replaces and deletes only points with a smaller one: a request that it carries out late changes nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Any
from zlib import crc32

import numpy as np

from retentive.errors import Invalid, NotFound, RetentiveError, Unavailable
from retentive.models import counted
from retentive.stores.external_index import Changes, NearestRequest, Outbox, Point, Proposal, StoredModel
from retentive.stores.qdrant.address import Address
from retentive.stores.qdrant.server import Server
from retentive.stores.values import Progress, no_progress

log = logging.getLogger(__name__)

BATCH = 256
"""How many entries of the outbox are applied at once."""

PAGE = 1000
"""How many points are read at once."""

MAX_WAITING = 1000
"""A search adds the memories in the outbox to those that the index proposes. If there are more, the store searches."""

SPARE = 16
"""How many more memories are proposed than are wanted: the store has its own order among equal scores."""

POLL_SECONDS = 2.0
"""How often the outbox is read."""

PAUSE_SECONDS = 5.0
"""For how long the server is not asked after it has failed."""

CLOSE_SECONDS = 2.0
"""How long a process that ends applies what is in the outbox. Another one applies the rest."""

_DECIMALS = 6
"""Of the numbers of a vector that are sent. The store computes the scores."""


class QdrantIndex:
    """See `retentive.stores.external_index.ExternalIndex`. A thread applies the outbox of the store."""

    def __init__(self, address: Address, outbox: Outbox) -> None:
        self._address = address
        self._outbox = outbox
        self._server = Server(address)
        self._ready: set[str] = set()  # the collections that exist
        self._paused_until = 0.0
        self._following = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep_following, name="vector index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)
        self._server.close()

    # Searching

    def propose(self, request: NearestRequest, waiting: Callable[[int], Sequence[int]]) -> Proposal:
        lacking = waiting(MAX_WAITING + 1)
        if len(lacking) > MAX_WAITING:
            return Proposal(note=f"the store searched by itself: more than {MAX_WAITING:,} vectors wait to be indexed")
        try:
            return Proposal([*self._nearest(request), *lacking])
        except RetentiveError as error:
            if isinstance(error, NotFound):
                self._ready.discard(self._collection(request.model))  # the thread creates and fills it
            return Proposal(note=f"the store searched by itself: {error}")

    def _nearest(self, request: NearestRequest) -> list[int]:
        if monotonic() < self._paused_until:
            raise Unavailable("the vector index failed a moment ago")
        quantized = {"quantization": {"rescore": True, "oversampling": 2.0}}
        body = {
            "query": [_numbers(request.vector)],
            "filter": _filter(request),
            "limit": request.limit + SPARE,
            "params": {"hnsw_ef": self._address.ef} | (quantized if self._address.quantization != "none" else {}),
            "with_payload": False,
        }
        path = f"/collections/{self._collection(request.model)}/points/query"
        try:
            found = self._server.request("POST", path, body, seconds=self._address.timeout)
        except Unavailable:
            self._paused_until = monotonic() + PAUSE_SECONDS
            raise
        return [point["id"] for point in found["points"]]

    # Following the store

    def follow(self, *, progress: Progress = no_progress) -> int:
        with self._following:
            self._follow_models(self._outbox.models())
            while self._apply(progress):
                pass
            return self._outbox.waiting()

    def _follow_models(self, models: Sequence[StoredModel]) -> None:
        """Create the collections of new models, and delete those that only this process still knows."""
        used = {self._collection(model): model for model in models}
        for name in self._ready.difference(used):
            self._server.request("DELETE", f"/collections/{name}")
            self._ready.discard(name)
        for name, model in used.items():
            if name not in self._ready:
                self._create(model)

    def _keep_following(self) -> None:
        """Apply the outbox from time to time, and once more when the index is closed."""
        failed = False
        while True:
            last = self._closing.wait(PAUSE_SECONDS if failed else POLL_SECONDS)
            try:
                if not last or self._outbox.waiting():
                    self.follow()
                failed = False
            except Exception as error:
                if not failed and not last:
                    log.warning("vectors wait to be indexed: %s", error)
                failed = True
            if last:
                return

    def _apply(self, progress: Progress) -> bool:
        """Apply some of the outbox; return whether there was anything."""
        changes = self._outbox.take(BATCH)
        if not changes.entries:
            return False
        self._follow_models(changes.models)
        for model, points in zip(changes.models, changes.points, strict=True):
            self._put(self._collection(model), changes, points)
        self._outbox.settle(changes.entries)
        progress(len(changes.entries))
        return True

    def _put(self, name: str, changes: Changes, points: Sequence[Point]) -> None:
        """Write the points of the changed memories, and delete those of memories that have no vectors any more."""
        older = {"key": "stamp", "range": {"lt": changes.stamp}}
        path = f"/collections/{name}/points"
        gone = sorted(set(changes.keys).difference(point.key for point in points))
        try:
            if points:
                body = [
                    {
                        "id": point.key,
                        "vector": [_numbers(vector) for vector in point.vectors],
                        "payload": {**_payload(point), "stamp": changes.stamp},
                    }
                    for point in points
                ]
                self._server.request("PUT", f"{path}?{_WAIT}", {"points": body, "update_filter": {"must": [older]}})
            if gone:
                where = {"must": [{"has_id": gone}, older]}
                self._server.request("POST", f"{path}/delete?{_WAIT}", {"filter": where})
        except NotFound as error:
            self._ready.discard(name)
            raise Unavailable(str(error)) from error

    # Collections

    def _collection(self, stored: StoredModel) -> str:
        digest = blake2b(stored.model.fingerprint.encode(), digest_size=6).hexdigest()
        return f"{self._address.prefix}_{self._outbox.name}_{stored.id}_{digest}"

    def _create(self, model: StoredModel) -> None:
        """Create the collection of a model if it does not exist; then all memories are put into the outbox first."""
        name = self._collection(model)
        if not self._exists(name):
            self._outbox.add_all(model)
            try:
                self._server.request("PUT", f"/collections/{name}", self._layout(model))
            except Invalid:  # another process was first
                if not self._exists(name):
                    raise
            for field, schema in _INDEXES.items():
                body = {"field_name": field, "field_schema": schema}
                self._server.request("PUT", f"/collections/{name}/index?wait=true", body)
        self._ready.add(name)

    def _exists(self, name: str) -> bool:
        return bool(self._server.request("GET", f"/collections/{name}/exists")["exists"])

    def _layout(self, stored: StoredModel) -> dict[str, Any]:
        address = self._address
        layout: dict[str, Any] = {
            "vectors": {
                "size": stored.model.dimension,
                "distance": "Dot",
                "datatype": "float16",
                "on_disk": address.on_disk,
                "multivector_config": {"comparator": "max_sim"},
            },
            # No graph over all profiles, because every search is within one profile.
            "hnsw_config": {"m": 0, "payload_m": 16, "on_disk": address.on_disk},
            "replication_factor": address.replicas,
            # If all copies had to apply a write and one could not, it would fail and stay in the others.
            "write_consistency_factor": max(address.replicas - 1, 1),
            "on_disk_payload": True,
        }
        if address.shards:
            layout["shard_number"] = address.shards
        if address.quantization == "int8":
            layout["quantization_config"] = {"scalar": {"type": "int8", "always_ram": True}}
        elif address.quantization == "binary":
            layout["quantization_config"] = {"binary": {"always_ram": True}}
        return layout

    # Comparing

    def _follow_anew(self) -> None:
        """Follow, also if the server has lost its collections."""
        self.follow()
        self._ready = {name for name in self._ready if self._exists(name)}
        self.follow()

    def problems(self) -> list[str]:
        try:
            self._follow_anew()
            wrong = sum(len(self._different(model)) for model in self._outbox.models())
            left_over = len(self._left_over())
        except RetentiveError as error:
            waiting = counted(self._outbox.waiting(), "change waits", "changes wait")
            return [f"{error}; {waiting} to be indexed"]
        found = []
        if wrong:
            many = counted(wrong, "memory differs", "memories differ")
            found.append(f"{many} between the vector index and the store; run: retentive doctor --repair")
        if left_over:
            many = counted(left_over, "collection")
            found.append(f"the vector index has {many} of models that are not used; run: retentive doctor --repair")
        return found

    def mend(self) -> None:
        self._follow_anew()
        for model in self._outbox.models():
            self._outbox.add(self._different(model))
        for name in self._left_over():
            self._server.request("DELETE", f"/collections/{name}")
            self._ready.discard(name)
        self.follow()

    def _left_over(self) -> list[str]:
        """The collections of this store that are of no model of it."""
        used = {self._collection(model) for model in self._outbox.models()}
        present = [one["name"] for one in self._server.request("GET", "/collections")["collections"]]
        return [
            name
            for name in present
            if name.startswith(f"{self._address.prefix}_{self._outbox.name}_") and name not in used
        ]

    def _different(self, model: StoredModel) -> list[int]:
        """The keys of memories of which the index has no point, another one, or one although they have no vectors."""
        theirs = self._points(self._collection(model))
        found: list[int] = []
        key, payload = next(theirs, _END)
        for point in self._outbox.points(model):
            while key < point.key:
                found.append(int(key))
                key, payload = next(theirs, _END)
            same = False
            if key == point.key:
                same = {name: payload.get(name) for name in payload if name != "stamp"} == _payload(point)
                key, payload = next(theirs, _END)
            if not same:
                found.append(point.key)
        while key is not _END[0]:
            found.append(int(key))
            key, payload = next(theirs, _END)
        return found

    def _points(self, name: str) -> Iterator[tuple[float, dict[str, Any]]]:
        """All points of a collection, by id."""
        offset = 0
        while offset is not None:
            body = {"limit": PAGE, "offset": offset, "with_payload": True, "with_vector": False}
            page = self._server.request("POST", f"/collections/{name}/points/scroll", body)
            for point in page["points"]:
                yield point["id"], point["payload"]
            offset = page["next_page_offset"]


_WAIT = "wait=true&ordering=medium"

_END: tuple[float, dict[str, Any]] = (float("inf"), {})

_NUMBER = {"type": "integer", "lookup": True, "range": True, "enable_hnsw": False}
_INDEXES: dict[str, dict[str, Any]] = {
    # The points of a profile are stored together and have an HNSW graph of their own.
    "profile": {"type": "keyword", "is_tenant": True},
    "project": _NUMBER | {"enable_hnsw": True},
    "session": _NUMBER,
    "kind": _NUMBER,
    "valid_from": _NUMBER,
    "valid_until": _NUMBER,
}


def _payload(point: Point) -> dict[str, Any]:
    return {
        "profile": str(point.profile),
        "project": point.project,
        "session": point.session,
        "kind": point.kind,
        "valid_from": point.valid_from,
        "valid_until": point.valid_until,
        "checksum": crc32(point.vectors.astype("<f2").tobytes()),
    }


def _numbers(vector: Any) -> list[float]:
    numbers: list[float] = np.round(vector.astype(np.float64), _DECIMALS).tolist()
    return numbers


def _filter(request: NearestRequest) -> dict[str, Any]:
    """The scope and the validity as a filter of the server."""
    must: list[Any] = [{"key": "profile", "match": {"value": str(request.profile)}}]
    if request.projects is not None or request.sessions is not None:
        containers: list[Any] = [_any("project", request.projects or ()), _any("session", request.sessions or ())]
        if request.identity is not None:
            containers.append({"must": [_any("kind", [request.identity]), _any("project", [0])]})
        must.append({"should": containers})
    if request.outside_projects:
        must.append(_any("project", [0]))
    if request.kinds is not None:
        must.append(_any("kind", request.kinds))
    must_not: list[Any] = []
    if request.current_at is not None:
        valid = {
            "must": [
                {"key": "valid_from", "range": {"lte": request.current_at}},
                {"key": "valid_until", "range": {"gt": request.current_at}},
            ]
        }
        (must_not if request.retired else must).append(valid)
    return {"must": must, "must_not": must_not}


def _any(field: str, values: Sequence[int]) -> dict[str, Any]:
    return {"key": field, "match": {"any": list(values)}}
