"""A test server with the part of Qdrant's REST interface that the vector index uses, on Qdrant's own engine.

Every body is parsed by the request model that qdrant-client has for the endpoint, which rejects unknown fields. Each
collection is a shard of `qdrant-edge-py` in a folder. `python -m tests.stores.qdrant_server FOLDER PORT` runs it as a
process that can be killed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import qdrant_edge as edge
from qdrant_client import models as q


class QdrantServer:
    """The collections in a folder. `failures` are statuses to return instead of an answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.shards = {path.name: edge.EdgeShard.load(str(path)) for path in folder.iterdir()}
        self._lock = threading.RLock()
        self.api_key: str | None = None
        self.failures: list[int] = []
        self.calls: list[tuple[str, str]] = []
        self.address = ""

    def answer(self, method: str, path: str, body: Any, api_key: str | None) -> tuple[int, Any]:
        with self._lock:
            self.calls.append((method, path))
            if self.api_key is not None and api_key != self.api_key:
                return 403, {"status": {"error": "Forbidden: Invalid API key or JWT"}}
            if self.failures:
                return self.failures.pop(0), {"status": {"error": "not now"}}
            for (wanted, pattern), run in ENDPOINTS.items():
                match = re.fullmatch(pattern, path)
                if wanted == method and match:
                    try:
                        return 200, {"result": run(self, *match.groups(), body)}
                    except KeyError as error:
                        return 404, {"status": {"error": f"Not found: Collection {error} doesn't exist!"}}
        return 404, {"status": {"error": f"there is no {method} {path}"}}

    def create(self, name: str, body: Any) -> bool:
        asked = q.CreateCollection.model_validate(body)
        vectors = asked.vectors
        assert isinstance(vectors, q.VectorParams)
        assert vectors.multivector_config is not None
        hnsw = asked.hnsw_config or q.HnswConfigDiff()
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(
                vectors.size,
                edge.Distance.Dot,
                multivector_config=edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim),
                datatype=edge.VectorStorageDatatype.Float16,
            ),
            hnsw_config=edge.HnswIndexConfig(hnsw.m or 0, 100, 10_000, payload_m=hnsw.payload_m),
        )
        self.shards[name] = edge.EdgeShard.create(str(self._folder / name), config)
        return True

    def index(self, name: str, body: Any) -> bool:
        asked = q.CreateFieldIndex.model_validate(body)
        schema: Any = asked.field_schema
        if isinstance(schema, q.KeywordIndexParams):
            params: Any = edge.KeywordIndexParams(is_tenant=schema.is_tenant, enable_hnsw=schema.enable_hnsw)
        else:
            assert isinstance(schema, q.IntegerIndexParams)
            params = edge.IntegerIndexParams(lookup=schema.lookup, range=schema.range, enable_hnsw=schema.enable_hnsw)
        return self._write(name, edge.UpdateOperation.create_field_index(asked.field_name, params))

    def upsert(self, name: str, body: Any) -> bool:
        asked = q.PointsList.model_validate(body)
        points = [edge.Point(point.id, point.vector, point.payload) for point in asked.points]
        return self._write(name, edge.UpdateOperation.upsert_points(points, _filter(asked.update_filter)))

    def delete(self, name: str, body: Any) -> bool:
        asked = q.FilterSelector.model_validate(body)
        return self._write(name, edge.UpdateOperation.delete_points_by_filter(_filter(asked.filter)))

    def _write(self, name: str, operation: edge.UpdateOperation) -> bool:
        self.shards[name].update(operation)
        return True

    def query(self, name: str, body: Any) -> Any:
        asked = q.QueryRequest.model_validate(body)
        params = asked.params or q.SearchParams()
        request = edge.QueryRequest(
            limit=asked.limit or 10,
            query=edge.Query.Nearest(asked.query, None),
            filter=_filter(asked.filter),
            params=edge.SearchParams(hnsw_ef=params.hnsw_ef),
            with_payload=False,
        )
        return {"points": [{"id": one.id, "score": one.score} for one in self.shards[name].query(request)]}

    def scroll(self, name: str, body: Any) -> Any:
        asked = q.ScrollRequest.model_validate(body)
        request = edge.ScrollRequest(offset=asked.offset, limit=asked.limit, with_payload=True, with_vector=False)
        found, following = self.shards[name].scroll(request)
        return {"points": [{"id": one.id, "payload": one.payload} for one in found], "next_page_offset": following}

    def drop(self, name: str) -> bool:
        shard = self.shards.pop(name, None)
        if shard is not None:
            shard.close()
            shutil.rmtree(self._folder / name)
        return shard is not None

    def close(self) -> None:
        for shard in self.shards.values():
            shard.close()


_NAME = r"/collections/([^/]+)"
ENDPOINTS: dict[tuple[str, str], Callable[..., Any]] = {
    ("GET", "/collections"): lambda one, _: {"collections": [{"name": name} for name in one.shards]},
    ("GET", f"{_NAME}/exists"): lambda one, name, _: {"exists": name in one.shards},
    ("PUT", _NAME): QdrantServer.create,
    ("DELETE", _NAME): lambda one, name, _: one.drop(name),
    ("PUT", f"{_NAME}/index"): QdrantServer.index,
    ("PUT", f"{_NAME}/points"): QdrantServer.upsert,
    ("POST", f"{_NAME}/points/delete"): QdrantServer.delete,
    ("POST", f"{_NAME}/points/query"): QdrantServer.query,
    ("POST", f"{_NAME}/points/scroll"): QdrantServer.scroll,
}


def _filter(where: q.Filter | None) -> Any:
    if where is None:
        return None
    must, should, must_not = (
        None if some is None else [_condition(one) for one in (some if isinstance(some, list) else [some])]
        for some in (where.must, where.should, where.must_not)
    )
    return edge.Filter(must=must, should=should, must_not=must_not)


def _condition(condition: Any) -> Any:
    if isinstance(condition, q.Filter):
        return _filter(condition)
    if isinstance(condition, q.HasIdCondition):
        return edge.HasIdCondition(set(condition.has_id))
    if condition.range is not None:
        bounds = {name: getattr(condition.range, name) for name in ("gt", "gte", "lt", "lte")}
        return edge.FieldCondition(condition.key, range=edge.RangeFloat(**bounds))
    if isinstance(condition.match, q.MatchAny):
        return edge.FieldCondition(condition.key, match=edge.MatchAny(condition.match.any))
    return edge.FieldCondition(condition.key, match=edge.MatchValue(condition.match.value))


def _http(server: QdrantServer, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(raw) if raw else None
            status, answer = server.answer(self.command, urlsplit(self.path).path, body, self.headers.get("api-key"))
            response = json.dumps({"time": 0.0, "status": "ok", **answer}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


@contextmanager
def run_server(folder: Path, port: int = 0) -> Iterator[QdrantServer]:
    """Run a server in this process."""
    server = QdrantServer(folder)
    http = _http(server, port)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    server.address = f"qdrant+http://127.0.0.1:{http.server_port}/test"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
        server.close()


if __name__ == "__main__":
    _http(QdrantServer(Path(sys.argv[1])), int(sys.argv[2])).serve_forever()
