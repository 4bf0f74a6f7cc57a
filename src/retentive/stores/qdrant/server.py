"""Requests to a Qdrant server over its REST interface."""

from __future__ import annotations

import json
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any

from retentive.errors import Invalid, NotFound, Unavailable
from retentive.stores.qdrant.address import API_KEY, Address

WRITE_SECONDS = 30.0
"""How long a request may take that is not part of a recall."""


class Server:
    """A server, for any number of threads. Connections are kept open for the next request.

    Every request can be sent again: those that write replace or delete only what is older.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._name = f"the vector index at {address.host}:{address.port}"
        self._idle: list[HTTPConnection] = []
        self._tls = ssl.create_default_context() if address.https else None
        self._headers = {"Content-Type": "application/json"}
        if address.api_key:
            self._headers["api-key"] = address.api_key

    def close(self) -> None:
        """Close the connections that are not in use."""
        while (connection := self._take()) is not None:
            connection.close()

    def request(self, method: str, path: str, body: Any = None, *, seconds: float = WRITE_SECONDS) -> Any:
        """Return the result of a request, which may take so many seconds.

        `NotFound` if what it names does not exist, `Unavailable` if the server does not answer, or not now.
        """
        data = None if body is None else json.dumps(body)
        try:
            status, content = self._send(method, path, data, seconds)
        except (OSError, HTTPException) as error:
            raise Unavailable(f"{self._name} cannot be reached ({type(error).__name__})") from error
        answer = _parsed(content)
        if status == 200 and "result" in answer:
            return answer["result"]
        if status in (401, 403):
            raise Unavailable(f"{self._name} does not accept the API key; set {API_KEY}")
        reason = answer.get("status")
        reason = reason.get("error") if isinstance(reason, dict) else reason
        if status == 404:
            raise NotFound(f"{self._name}: {reason}")
        if 400 <= status < 500 and status not in (408, 429):
            raise Invalid(f"{self._name} refused a request: {status} {reason}"[:300])
        raise Unavailable(f"{self._name} failed: {status} {reason}"[:300])

    def _send(self, method: str, path: str, data: str | None, seconds: float) -> tuple[int, bytes]:
        while (connection := self._take()) is not None:
            connection.sock.settimeout(seconds)
            try:
                return self._answer(connection, method, path, data)
            except TimeoutError:
                raise
            except (OSError, HTTPException):  # the server has closed the connection since the last request
                continue
        return self._answer(self._connect(seconds), method, path, data)

    def _answer(self, connection: HTTPConnection, method: str, path: str, data: str | None) -> tuple[int, bytes]:
        try:
            connection.request(method, path, data, self._headers)
            response = connection.getresponse()
            found = response.status, response.read()
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:  # the server has not closed it
            self._idle.append(connection)
        return found

    def _take(self) -> HTTPConnection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self, seconds: float) -> HTTPConnection:
        address = self._address
        if self._tls is None:
            connection = HTTPConnection(address.host, address.port, timeout=seconds)
        else:
            connection = HTTPSConnection(address.host, address.port, timeout=seconds, context=self._tls)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
