"""An embeddings service over real HTTP, whose failures are scripted."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler", list[str]], None]


class Service(ThreadingHTTPServer):
    """An embeddings service: each request takes the next behaviour of the script, or else is answered well."""

    script: list[Behaviour]
    seen: list[dict[str, Any]]
    released: threading.Event

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append({"path": self.path, "headers": dict(self.headers), **body})
        behave = self.server.script.pop(0) if self.server.script else well
        with contextlib.suppress(OSError):  # the client may have given up
            behave(self, body["input"])

    def answer(
        self, body: bytes, *, status: int = 200, promise: int = 0, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(promise or len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def vector(text: str) -> list[float]:
    return [float(len(text)), 3.0, 4.0]


def unit(text: str) -> list[float]:
    return [number / math.hypot(*vector(text)) for number in vector(text)]


def items(texts: list[str]) -> list[dict[str, Any]]:
    return [{"object": "embedding", "index": place, "embedding": vector(text)} for place, text in enumerate(texts)]


def well(handler: Handler, texts: list[str]) -> None:
    handler.answer(json.dumps({"object": "list", "data": items(texts)}).encode())


def backwards(handler: Handler, texts: list[str]) -> None:
    handler.answer(json.dumps({"data": items(texts)[::-1]}).encode())


def saying(body: object, *, status: int = 200, **headers: str) -> Behaviour:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler, texts: handler.answer(raw, status=status, headers=headers)


def failing(status: int, message: str = "no", **headers: str) -> Behaviour:
    return saying({"error": {"message": message}}, status=status, **headers)


def hanging(handler: Handler, texts: list[str]) -> None:
    handler.server.released.wait()


def dripping(handler: Handler, texts: list[str]) -> None:
    handler.answer(b"{", promise=10_000)
    while not handler.server.released.wait(0.01):
        handler.wfile.write(b" ")


def dropping(handler: Handler, texts: list[str]) -> None:
    handler.answer(b'{"data": [', promise=10_000)


def hanging_up(handler: Handler, texts: list[str]) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def refusing(word: str, status: int) -> Behaviour:
    """Answer as a service that refuses a batch if one of its texts contains a word."""

    def behave(handler: Handler, texts: list[str]) -> None:
        if any(word in text for text in texts):
            handler.answer(json.dumps({"error": {"message": f"cannot embed {texts}"}}).encode(), status=status)
        else:
            well(handler, texts)

    return behave


@contextlib.contextmanager
def embedding_service() -> Iterator[Service]:
    """Run a service on a free port."""
    server = Service(("127.0.0.1", 0), Handler)
    server.script, server.seen, server.released = [], [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
