"""Qdrant's real engine in this process, behind the methods of qdrant-client that the store calls.

Each collection is a shard of `qdrant-edge-py`. Aliases, which only a server has, are a dict.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as edge
from qdrant_client import models as q
from qdrant_client.http.models import QueryResponse

from retentive.stores.qdrant import QdrantStore
from retentive.stores.qdrant.sparse import WORDS

_MODES = {
    None: None,
    q.UpdateMode.UPSERT: edge.UpdateMode.Upsert,
    q.UpdateMode.INSERT_ONLY: edge.UpdateMode.InsertOnly,
    q.UpdateMode.UPDATE_ONLY: edge.UpdateMode.UpdateOnly,
}
_DIRECTIONS = {q.Direction.ASC: edge.Direction.Asc, q.Direction.DESC: edge.Direction.Desc}


def open_edge(folder: Path) -> QdrantStore:
    """Open a store on the real engine, in shared memory if possible: on disk the engine syncs every write."""
    shared = Path("/dev/shm")
    in_memory = shared.is_dir() and shutil.disk_usage(shared).free > 1_000_000_000
    client: Any = EdgeQdrant(Path(tempfile.mkdtemp(prefix="retentive-", dir=shared)) if in_memory else folder / "edge")
    return QdrantStore(client)


class EdgeQdrant:
    """A client whose server is this process. It has only the methods that the store calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._shards: dict[str, edge.EdgeShard] = {}
        self._with_deletions: set[str] = set()
        self._aliases: dict[str, str] = {}

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()
        shutil.rmtree(self._folder)

    def _shard(self, name: str) -> edge.EdgeShard:
        with self._lock:
            shard = self._shards.get(self._aliases.get(name, name))
        if shard is None:
            raise ValueError(f"Collection {name} not found")
        return shard

    # Collections

    def info(self) -> q.VersionInfo:
        return q.VersionInfo(title="qdrant-edge", version="1.20.0")

    def collection_exists(self, name: str) -> bool:
        return name in self._shards or name in self._aliases

    def get_collections(self) -> q.CollectionsResponse:
        return q.CollectionsResponse(collections=[q.CollectionDescription(name=name) for name in self._shards])

    def get_collection(self, name: str) -> q.CollectionInfo:
        self._shard(name)
        return q.CollectionInfo.model_construct(status=q.CollectionStatus.GREEN, payload_schema={})

    def create_collection(
        self,
        name: str,
        *,
        vectors_config: dict[str, q.VectorParams],
        sparse_vectors_config: dict[str, q.SparseVectorParams] | None = None,
        hnsw_config: q.HnswConfigDiff | None = None,
        **_: Any,
    ) -> bool:
        hnsw = None
        if hnsw_config is not None:
            hnsw = edge.HnswIndexConfig(hnsw_config.m, 100, 10_000, payload_m=hnsw_config.payload_m)
        vectors = {
            vector: edge.EdgeVectorParams(
                size=params.size,
                distance=edge.Distance.Dot,
                multivector_config=edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim),
            )
            for vector, params in vectors_config.items()
        }
        sparse = {
            vector: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf) for vector in sparse_vectors_config or ()
        }
        if not vectors and not sparse:
            # Unlike a server, a shard must have a vector; this one stays empty.
            sparse["unused"] = edge.EdgeSparseVectorParams()
        with self._lock:
            if name in self._shards:
                raise ValueError(f"Collection {name} already exists")
            config = edge.EdgeConfig(
                vectors=vectors,
                sparse_vectors=sparse,
                hnsw_config=hnsw,
                optimizers=edge.EdgeOptimizersConfig(deleted_threshold=0.0, vacuum_min_vector_number=0),
                wal_enabled=False,
            )
            self._shards[name] = edge.EdgeShard.create(str(self._folder / name), config)
        return True

    def delete_collection(self, name: str) -> bool:
        with self._lock:
            shard = self._shards.pop(name, None)
        if shard is not None:
            shard.close()
            shutil.rmtree(self._folder / name)
        return shard is not None

    def create_payload_index(self, name: str, field: str, *, field_schema: Any, wait: bool) -> None:
        assert wait
        if isinstance(field_schema, q.KeywordIndexParams):
            schema: Any = edge.KeywordIndexParams(
                is_tenant=field_schema.is_tenant, enable_hnsw=field_schema.enable_hnsw
            )
        else:
            schema = edge.IntegerIndexParams(
                lookup=field_schema.lookup, range=field_schema.range, enable_hnsw=field_schema.enable_hnsw
            )
        self._shard(name).update(edge.UpdateOperation.create_field_index(field, schema))

    def get_aliases(self) -> q.CollectionsAliasesResponse:
        known = [q.AliasDescription(alias_name=alias, collection_name=name) for alias, name in self._aliases.items()]
        return q.CollectionsAliasesResponse(aliases=known)

    def update_collection_aliases(self, operations: Sequence[Any]) -> bool:
        with self._lock:
            for operation in operations:
                if isinstance(operation, q.DeleteAliasOperation):
                    del self._aliases[operation.delete_alias.alias_name]
                else:
                    asked = operation.create_alias
                    self._aliases[asked.alias_name] = asked.collection_name
        return True

    def _vacuum(self, name: str) -> None:
        """Remove deleted points from the index, as a server does in the background: until then they count for IDF."""
        with self._lock:
            name = self._aliases.get(name, name)
            if name in self._with_deletions:
                self._with_deletions.discard(name)
                self._shard(name).optimize()

    # Writes

    def upsert(
        self, name: str, points: Sequence[q.PointStruct], *, wait: bool, ordering: Any, update_mode: Any = None
    ) -> None:
        assert wait
        assert ordering
        self._shard(name).update(_upsert(q.PointsList(points=list(points), update_mode=update_mode)))
        if update_mode != q.UpdateMode.INSERT_ONLY:
            self._with_deletions.add(name)

    def delete(self, name: str, selector: Any, *, wait: bool, ordering: Any) -> None:
        assert wait
        assert ordering
        self._shard(name).update(_delete(selector))
        self._with_deletions.add(name)

    def batch_update_points(self, name: str, operations: Sequence[Any], *, wait: bool, ordering: Any) -> None:
        assert wait
        assert ordering
        shard = self._shard(name)
        for operation in operations:
            shard.update(_operation(operation))

    # Reads

    def retrieve(self, name: str, ids: Sequence[str], *, with_payload: Any, with_vectors: Any) -> list[q.Record]:
        return [_record(one) for one in self._shard(name).retrieve(list(ids), with_payload, with_vectors)]

    def scroll(
        self,
        name: str,
        where: q.Filter | None,
        *,
        limit: int,
        offset: str | None = None,
        order_by: q.OrderBy | None = None,
        with_payload: Any = True,
        with_vectors: Any = False,
    ) -> tuple[list[q.Record], str | None]:
        request = edge.ScrollRequest(
            offset=offset,
            limit=limit,
            filter=_filter(where),
            with_payload=with_payload,
            with_vector=with_vectors,
            order_by=None if order_by is None else _order(order_by),
        )
        found, following = self._shard(name).scroll(request)
        return [_record(one) for one in found], None if following is None else str(following)

    def count(self, name: str, where: q.Filter | None, *, exact: bool) -> q.CountResult:
        return q.CountResult(count=self._shard(name).count(edge.CountRequest(exact=exact, filter=_filter(where))))

    def facet(self, name: str, key: str, *, facet_filter: q.Filter | None, limit: int, exact: bool) -> Any:
        request = edge.FacetRequest(key, limit=limit, exact=exact, filter=_filter(facet_filter))
        hits = [q.FacetValueHit(value=hit.value, count=hit.count) for hit in self._shard(name).facet(request)]
        return q.FacetResponse(hits=hits)

    def query_batch_points(self, name: str, requests: Sequence[q.QueryRequest]) -> list[QueryResponse]:
        if any(request.using == WORDS and request.limit == 1 for request in requests):
            self._vacuum(name)
        batch = edge.QueryBatchRequest([_query(request) for request in requests])
        return [
            QueryResponse(points=[_scored(point) for point in points])
            for points in self._shard(name).query_batch(batch)
        ]


def _upsert(asked: q.PointsList) -> edge.UpdateOperation:
    points = [edge.Point(point.id, _vectors(point.vector), point.payload) for point in asked.points]
    return edge.UpdateOperation.upsert_points(points, _filter(asked.update_filter), _MODES[asked.update_mode])


def _delete(selector: Any) -> edge.UpdateOperation:
    if isinstance(selector, q.PointIdsList):
        return edge.UpdateOperation.delete_points(list(selector.points))
    return edge.UpdateOperation.delete_points_by_filter(_filter(selector.filter))


def _operation(operation: Any) -> edge.UpdateOperation:
    if isinstance(operation, q.UpsertOperation):
        return _upsert(operation.upsert)  # type: ignore[arg-type]
    if isinstance(operation, q.DeleteOperation):
        return _delete(operation.delete)
    if isinstance(operation, q.UpdateVectorsOperation):
        vectors = [edge.PointVectors(one.id, _vectors(one.vector)) for one in operation.update_vectors.points]
        return edge.UpdateOperation.update_vectors(vectors, _filter(operation.update_vectors.update_filter))
    asked = operation.set_payload
    if asked.points is not None:
        return edge.UpdateOperation.set_payload(asked.points, asked.payload)
    return edge.UpdateOperation.set_payload_by_filter(_filter(asked.filter), asked.payload)


def _vectors(given: Any) -> Any:
    return {name: _vector(vector) for name, vector in given.items()}


def _vector(vector: Any) -> Any:
    return edge.SparseVector(vector.indices, vector.values) if isinstance(vector, q.SparseVector) else vector


def _filter(where: q.Filter | None) -> Any:
    if where is None:
        return None
    must, should, must_not = (
        [_condition(one) for one in some] if isinstance(some, list) else None  # type: ignore[arg-type]
        for some in (where.must, where.should, where.must_not)
    )
    return edge.Filter(must=must, should=should, must_not=must_not)


def _condition(condition: Any) -> Any:
    if isinstance(condition, q.Filter):
        return _filter(condition)
    if isinstance(condition, q.HasIdCondition):
        return edge.HasIdCondition(set(condition.has_id))
    if isinstance(condition, q.IsEmptyCondition):
        return edge.IsEmptyCondition(condition.is_empty.key)
    if condition.range is not None:
        bounds = {name: getattr(condition.range, name) for name in ("gt", "gte", "lt", "lte")}
        return edge.FieldCondition(condition.key, range=edge.RangeFloat(**bounds))
    if isinstance(condition.match, q.MatchAny):
        return edge.FieldCondition(condition.key, match=edge.MatchAny(condition.match.any))
    return edge.FieldCondition(condition.key, match=edge.MatchValue(condition.match.value))


def _order(order: q.OrderBy) -> edge.OrderBy:
    return edge.OrderBy(order.key, None if order.direction is None else _DIRECTIONS[order.direction])


def _scoring(query: Any, using: str | None) -> Any:
    if query is None:
        return None
    if isinstance(query, q.OrderByQuery):
        return _order(query.order_by)  # type: ignore[arg-type]
    return edge.Query.Nearest(_vector(query.nearest), using)


def _params(params: q.SearchParams | None) -> Any:
    if params is None:
        return None
    corpus = _filter(params.idf.corpus) if isinstance(params.idf, q.IdfCorpusParams) else None
    return edge.SearchParams(hnsw_ef=params.hnsw_ef, idf=None if corpus is None else edge.IdfParams(corpus))


def _prefetches(given: Any) -> Any:
    if given is None:
        return None
    one = given
    return [
        edge.Prefetch(
            limit=one.limit,
            query=_scoring(one.query, one.using),
            prefetches=_prefetches(one.prefetch),
            params=_params(one.params),
            filter=_filter(one.filter),
        )
    ]


def _query(request: q.QueryRequest) -> edge.QueryRequest:
    return edge.QueryRequest(
        limit=request.limit or 10,
        query=_scoring(request.query, request.using),
        prefetches=_prefetches(request.prefetch),
        with_vector=request.with_vector or False,  # type: ignore[arg-type]
        with_payload=request.with_payload,  # type: ignore[arg-type]
        filter=_filter(request.filter),
        params=_params(request.params),
    )


def _client_vector(vector: Any) -> Any:
    if not isinstance(vector, dict):
        return {}
    return {
        name: q.SparseVector(indices=one.indices, values=one.values) if isinstance(one, edge.SparseVector) else one
        for name, one in vector.items()
    }


def _record(record: edge.Record) -> q.Record:
    return q.Record(id=str(record.id), payload=record.payload, vector=_client_vector(record.vector))


def _scored(point: edge.ScoredPoint) -> q.ScoredPoint:
    return q.ScoredPoint(
        id=str(point.id), version=0, score=point.score, payload=point.payload, vector=_client_vector(point.vector)
    )
