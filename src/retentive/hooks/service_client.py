"""Requests to the service over a plain socket.

The standard library's `http.client` loads the email package, which takes as long as the whole request. Its `socket`
loads several modules for names of constants; for a numeric address the C module below it is enough.
"""

from __future__ import annotations

import time

from retentive.server.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket  # noqa: N812 - the class has a small letter
    from typing import Any


class ServiceError(Exception):
    """The service did not answer, or refused the request. `status` is 0 if it did not answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ServiceClient:
    """Sends requests to a service until a deadline, a moment of `time.monotonic`.

    A service of another store than that of the digest `store` refuses them.
    """

    def __init__(
        self,
        url: str,
        *,
        deadline: float,
        profile: str | None = None,
        token: str | None = None,
        store: str | None = None,
    ) -> None:
        scheme, _, rest = url.partition("://")
        host, _, path = rest.partition("/")
        if scheme != "http" or path.strip("/"):
            raise ServiceError(f"the address of the service is http://HOST:PORT, not {url}")
        name, colon, port = (host, "", "") if host.endswith("]") else host.rpartition(":")
        self._host = host
        # As bytes: for a text, the standard library loads the codec of international names.
        named: Any = (name if colon else host).strip("[]").encode("ascii" if host.isascii() else "idna")
        self._address = (named, int(port) if colon and port.isdecimal() else 80)
        self._deadline = deadline
        self._headers = {"X-Profile": profile} if profile else {}
        if store:
            self._headers["X-Store"] = store
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Send JSON and return the JSON of the response; `ServiceError` if it fails or takes too long."""
        sent = dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        fields = {"Host": self._host, "Content-Type": "application/json", "Content-Length": str(len(sent))}
        lines = [f"{name}: {value}" for name, value in (fields | self._headers | named).items()]
        head = "\r\n".join([f"POST {path} HTTP/1.1", *lines, "Connection: close", "", ""]).encode()
        try:
            connection = _connect(*self._address, self._left())
            try:
                connection.settimeout(self._left())
                connection.sendall(head + sent)
                answer = self._read(connection)
            finally:
                connection.close()
        except OSError as error:
            raise ServiceError(f"the service does not answer: {error}") from None
        return _parse(answer)

    def _read(self, connection: Socket) -> bytes:
        parts: list[bytes] = []
        while True:
            connection.settimeout(self._left())
            part = connection.recv(65536)
            if not part:
                return b"".join(parts)
            parts.append(part)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ServiceError("the deadline has passed")
        return left


def _connect(host: bytes, port: int, seconds: float) -> Socket:
    """Connect to a numeric address by the C module, and to a name by the standard library."""
    if not host.strip(b"0123456789.") or b":" in host:
        from _socket import AF_INET, AF_INET6, SOCK_STREAM, socket

        connection = socket(AF_INET6 if b":" in host else AF_INET, SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect((host, port))
        except BaseException:
            connection.close()
            raise
        return connection
    from socket import create_connection

    named: Any = host
    return create_connection((named, port), seconds)


def _parse(answer: bytes) -> Any:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 3 or not words[1].isdigit():
        raise ServiceError("the service answered with something that is not HTTP")
    status = int(words[1])
    try:
        value = loads(body)
    except ValueError:
        raise ServiceError(f"the service answered with status {status} and no JSON", status) from None
    if status >= 300:
        raise ServiceError(f"the service answered with status {status}: {str(value)[:300]}", status)
    return value
