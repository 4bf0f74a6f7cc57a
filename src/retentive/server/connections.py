"""Connections of the HTTP service: time limits for clients, and liveness checks while the event loop is busy."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

REQUEST_SECONDS = 30.0
"""How long a client has to send the head of a request, and to continue with its body."""

BEAT_SECONDS = 0.25
STALL_SECONDS = 1.0
"""The event loop is busy if it has not run for this long."""

_HEALTH = (b"GET /healthz ", b"GET /healthz?", b"HEAD /healthz ", b"HEAD /healthz?")
_BODY = b'{"status":"ok"}'
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(
    _BODY
)
_MAX_HEAD = 8192


def set_keep_alive(listener: socket.socket) -> None:
    """Let the system close connections whose client has vanished; accepted sockets inherit these options."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 120_000}
    for name, value in options.items():
        if hasattr(socket, name):  # not every system has all of them
            with suppress(OSError):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_Protocol: Any = AutoHTTPProtocol


class TimedProtocol(_Protocol):  # type: ignore[misc] # the base depends on what is installed
    """uvicorn's protocol, with a time limit for receiving requests.

    uvicorn closes connections that are idle after a response. It waits without limit for the first request, and for the
    rest of one that has started.
    """

    request_seconds = REQUEST_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:  # the head of the next request is not complete
            if self._timer is None and self.timeout_keep_alive_task is None:
                self._start_timer()
        elif self.cycle.more_body:
            self._start_timer()
        else:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self._timer = self.loop.call_later(self.request_seconds, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # the client waits for the service
            self._start_timer()
        else:
            self.transport.close()


class HealthThread:
    """Answers `GET /healthz` while the event loop is busy.

    The loop calls `beat` regularly. If it has not done so for some time, this thread accepts new connections: it
    answers liveness checks, and passes the other connections to `adopt`, which gives them to the loop.
    """

    def __init__(
        self, listener: socket.socket, adopt: Callable[[socket.socket], None], *, stall_seconds: float = STALL_SECONDS
    ) -> None:
        self._listener, self._adopt, self._stall_seconds = listener, adopt, stall_seconds
        self._last = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Connections that it holds are given to the loop."""
        self._stopped.set()

    def beat(self) -> None:
        """Record that the event loop runs."""
        self._last = time.monotonic()

    def _is_stalled(self) -> bool:
        return not self._stopped.is_set() and time.monotonic() - self._last > self._stall_seconds

    def _run(self) -> None:
        while not self._stopped.wait(BEAT_SECONDS):
            if self._is_stalled():
                with selectors.DefaultSelector() as selector:
                    self._serve(selector)

    def _serve(self, selector: selectors.BaseSelector) -> None:
        selector.register(self._listener, selectors.EVENT_READ)
        try:
            while self._is_stalled():
                for key, _ in selector.select(BEAT_SECONDS):
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    else:
                        self._read(selector, key.fileobj)  # type: ignore[arg-type] # only sockets are registered
        finally:
            selector.unregister(self._listener)
            for key in [*selector.get_map().values()]:
                self._adopt(key.fileobj)  # type: ignore[arg-type] # as above

    def _accept(self, selector: selectors.BaseSelector) -> None:
        with suppress(OSError):  # the loop has accepted it meanwhile, or the client has left
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)

    def _read(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        try:
            head = connection.recv(_MAX_HEAD, socket.MSG_PEEK)
            whole = b"\r\n\r\n" in head or len(head) == _MAX_HEAD
            if head and not whole and any(head.startswith(one[: len(head)]) for one in _HEALTH):
                return  # the rest is still to come
            selector.unregister(connection)
            if not head.startswith(_HEALTH):
                self._adopt(connection)
                return
            with connection:
                connection.recv(_MAX_HEAD)
                connection.sendall(_OK if head.startswith(b"HEAD") else _OK + _BODY)
        except OSError:
            with suppress(KeyError):
                selector.unregister(connection)
            connection.close()
