"""A proxy for a PostgreSQL server that counts round trips, delays them, and breaks connections at a chosen text."""

from __future__ import annotations

import select
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from psycopg.conninfo import conninfo_to_dict

COMMIT = b"Q\0\0\0\x0bCOMMIT\0"


class Proxy:
    """Forwards everything. `trips` counts how often a client sent something after an answer and waits for the next one.

    That is everything but the COMMIT of a search, which a client sends before it returns a connection to its pool.
    """

    def __init__(self, address: str, *, delay: float = 0.0) -> None:
        self._server = conninfo_to_dict(address)
        self.folder = Path(tempfile.mkdtemp(prefix="rcpx"))
        self.address = urlunsplit(
            urlsplit(address)._replace(netloc="postgres@", query=f"host={quote(str(self.folder))}")
        )
        self.delay, self.trips = delay, 0
        self._cut: tuple[bytes, bool] | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen(50)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_once(self, word: bytes, *, behind: bool) -> None:
        """Break the next connection that sends this text: after the server has got it if `behind`, else before."""
        self._cut = (word, behind)

    @property
    def has_cut(self) -> bool:
        """Whether a connection was broken."""
        return self._cut is None

    def close(self) -> None:
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client, self._connect()), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = str(self._server.get("host") or "localhost"), int(self._server.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        answered = True
        with client, server, suppress(OSError):
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 20)
                    if not data:
                        return
                    if source is server:
                        answered = True
                        client.sendall(data)
                        continue
                    self.trips += answered and data != COMMIT
                    if answered and self.delay:
                        time.sleep(self.delay)
                    answered = False
                    if self._cut is not None and self._cut[0] in data:
                        (_, behind), self._cut = self._cut, None
                        if behind:
                            server.sendall(data)
                            server.settimeout(0.2)
                            server.recv(1 << 20)  # the answer is not forwarded
                        return
                    server.sendall(data)


@contextmanager
def proxied(address: str, *, delay: float = 0.0) -> Iterator[Proxy]:
    proxy = Proxy(address, delay=delay)
    try:
        yield proxy
    finally:
        proxy.close()
