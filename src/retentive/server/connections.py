"""Connections of the HTTP service: time limits for clients, and liveness checks."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

REQUEST_SECONDS = 30.0
"""How long a client has to send the head of a request, and to continue with its body."""

_ALIVE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 3\r\n\r\nok\n"


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


def answer_liveness(listener: socket.socket) -> None:
    """Answer every connection at once with 200, whatever it asks for."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # it was closed
            return
        with connection, suppress(OSError):
            connection.settimeout(1.0)
            connection.recv(8192)
            connection.sendall(_ALIVE)
