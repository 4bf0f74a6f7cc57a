"""Questions among the workers of one service, over sockets in their private folder."""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

SECONDS = 2.0
"""How long a worker waits for the answer of another one."""

Handler = Callable[[Mapping[str, Any]], Any]


class Peers:
    """The other workers. Each answers questions by name, with JSON."""

    def __init__(self, folder: Path, *, workers: int, index: int) -> None:
        self.folder, self.workers, self.index = folder, workers, index
        self._handlers: dict[str, Handler] = {}
        self._server: socketserver.ThreadingUnixStreamServer | None = None

    def answer(self, name: str, handler: Handler) -> None:
        """Answer questions of this name with a function."""
        self._handlers[name] = handler

    def start(self) -> None:
        """Start to answer."""
        handlers = self._handlers

        class Answer(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                asked = json.loads(self.rfile.readline())
                self.wfile.write(json.dumps(handlers[asked["name"]](asked["arguments"])).encode())

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
                log.warning("a question of another worker could not be answered")

        path = self._path(self.index)
        path.unlink(missing_ok=True)  # of a worker that was killed
        self._server = Server(str(path), Answer)
        threading.Thread(target=self._server.serve_forever, name="peers", daemon=True).start()

    def stop(self) -> None:
        """Stop to answer."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._path(self.index).unlink(missing_ok=True)
            self._server = None

    def ask(self, name: str, **arguments: Any) -> list[Any]:
        """Return the answers of all other workers that run."""
        answers = []
        for index in range(self.workers):
            if index == self.index:
                continue
            try:
                answers.append(self._ask(self._path(index), name, arguments))
            except (OSError, ValueError):  # it is being restarted
                continue
        return answers

    def _ask(self, path: Path, name: str, arguments: Mapping[str, Any]) -> Any:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(SECONDS)
            connection.connect(str(path))
            connection.sendall(json.dumps({"name": name, "arguments": arguments}).encode() + b"\n")
            with connection.makefile("rb") as answer:
                return json.load(answer)

    def _path(self, index: int) -> Path:
        return self.folder / f"{index}.sock"
