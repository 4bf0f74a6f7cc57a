"""A test server with Qdrant's REST endpoints: real HTTP on loopback, answered by the engine inside qdrant-client.

Every body is parsed by the request model that qdrant-client has for the endpoint, which rejects unknown fields. Every
call is recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, TypeAdapter
from qdrant_client import models as q

from tests.stores.local_qdrant import LocalQdrant


class Call(NamedTuple):
    """A request as it was received."""

    method: str
    path: str
    query: str
    body: Any
    api_key: str | None


class RestServer:
    """The engine behind the endpoints, and the calls. `failures` are statuses to return instead of an answer."""

    def __init__(self) -> None:
        self.engine = LocalQdrant()
        self.calls: list[Call] = []
        self.api_key: str | None = None
        self.version = "1.20.0"
        self.failures: list[int] = []
        self.url = ""

    def answer(self, call: Call) -> tuple[int, Any]:
        self.calls.append(call)
        if self.api_key is not None and call.api_key != self.api_key:
            return 403, {"status": {"error": "Forbidden: Invalid API key or JWT"}}
        if self.failures:
            return self.failures.pop(0), {"status": {"error": "not now"}}
        if (call.method, call.path) == ("GET", "/"):
            return 200, {"title": "test server", "version": self.version}
        for (method, pattern), run in _ENDPOINTS.items():
            match = re.fullmatch(pattern, call.path)
            if method == call.method and match:
                try:
                    return 200, {"result": _to_json(run(self.engine, *map(unquote, match.groups()), call.body))}
                except ValueError as error:
                    return 400, {"status": {"error": f"Wrong input: {error}"}}
        return 404, {"status": {"error": f"there is no {call.method} {call.path}"}}


def _to_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return [_to_json(one) for one in value] if isinstance(value, list) else value


def _parse(model: Any, body: Any) -> Any:
    return TypeAdapter(model).validate_python(body)


def _create(engine: LocalQdrant, name: str, body: Any) -> bool:
    request = _parse(q.CreateCollection, body)
    return engine.create_collection(
        name, vectors_config=request.vectors or {}, sparse_vectors_config=request.sparse_vectors
    )


def _index(engine: LocalQdrant, name: str, body: Any) -> Any:
    request = _parse(q.CreateFieldIndex, body)
    return engine.create_payload_index(name, request.field_name, request.field_schema)


def _scroll(engine: LocalQdrant, name: str, body: Any) -> Any:
    request = _parse(q.ScrollRequest, body)
    found, following = engine.scroll(
        name,
        request.filter,
        limit=request.limit,
        order_by=request.order_by,
        offset=request.offset,
        with_payload=request.with_payload,
        with_vectors=request.with_vector or False,
    )
    return {"points": _to_json(found), "next_page_offset": following}


def _retrieve(engine: LocalQdrant, name: str, body: Any) -> Any:
    request = _parse(q.PointRequest, body)
    return engine.retrieve(
        name, request.ids, with_payload=request.with_payload, with_vectors=request.with_vector or False
    )


def _facet(engine: LocalQdrant, name: str, body: Any) -> Any:
    request = _parse(q.FacetRequest, body)
    return engine.facet(name, request.key, facet_filter=request.filter, limit=request.limit)


def _upsert(engine: LocalQdrant, name: str, body: Any) -> Any:
    request = _parse(q.PointsList, body)
    return engine.upsert(name, request.points, update_filter=request.update_filter, update_mode=request.update_mode)


_NAME = r"/collections/([^/]+)"
_ENDPOINTS: dict[tuple[str, str], Callable[..., Any]] = {
    ("GET", "/aliases"): lambda engine, _: engine.get_aliases(),
    ("POST", "/collections/aliases"): lambda engine, body: engine.update_collection_aliases(
        _parse(q.ChangeAliasesOperation, body).actions
    ),
    ("GET", "/collections"): lambda engine, _: engine.get_collections(),
    ("GET", f"{_NAME}/exists"): lambda engine, name, _: {"exists": engine.collection_exists(name)},
    ("PUT", _NAME): _create,
    ("GET", _NAME): lambda engine, name, _: engine.get_collection(name),
    ("DELETE", _NAME): lambda engine, name, _: engine.delete_collection(name),
    ("PUT", f"{_NAME}/index"): _index,
    ("PUT", f"{_NAME}/points"): _upsert,
    ("POST", f"{_NAME}/points"): _retrieve,
    ("POST", f"{_NAME}/points/scroll"): _scroll,
    ("POST", f"{_NAME}/points/count"): lambda engine, name, body: engine.count(
        name, _parse(q.CountRequest, body).filter
    ),
    ("POST", f"{_NAME}/points/delete"): lambda engine, name, body: engine.delete(name, _parse(q.PointsSelector, body)),
    ("POST", f"{_NAME}/points/batch"): lambda engine, name, body: engine.batch_update_points(
        name, _parse(q.UpdateOperations, body).operations
    ),
    ("POST", f"{_NAME}/points/query/batch"): lambda engine, name, body: engine.query_batch_points(
        name, _parse(q.QueryRequestBatch, body).searches
    ),
    ("POST", f"{_NAME}/facet"): _facet,
}


@contextmanager
def run_server() -> Iterator[RestServer]:
    """Run a test server on a free port."""
    running = RestServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            body = json.loads(raw) if raw else None
            status, answer = running.answer(
                Call(self.command, parts.path, parts.query, body, self.headers.get("api-key"))
            )
            response = json.dumps({"time": 0.0, "status": "ok", **answer}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    running.url = f"qdrant+http://127.0.0.1:{server.server_port}"
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
