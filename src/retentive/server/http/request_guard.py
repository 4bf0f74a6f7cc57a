"""Reject requests with a foreign Host or Origin, or with too large a body.

A web page can make a browser send requests to 127.0.0.1, and with a host name that resolves to it even read the
responses. So the Host header must be one of ours, and the Origin must be the service itself or an allowed one.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retentive.server.http.auth import LOOPBACK
from retentive.server.http.problems import problem
from retentive.settings import ServerSettings


class RequestGuard:
    """Rejects requests with a foreign Host or Origin, or with too large a body."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._hosts = {*LOOPBACK, settings.host, *settings.hosts}
        self._origins = set(settings.origins)
        self._max_body = settings.max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        origin = headers.get("origin")
        length = headers.get("content-length", "0")
        if _host_name(host) not in self._hosts:
            detail = "the Host header names another host; allow it with RETENTIVE_SERVER_HOSTS"
            refusal = problem(421, detail, code="unknown_host")
        elif origin is not None and origin not in self._origins and _origin_host(origin) != host:
            detail = "pages of this origin may not call the service; allow it with RETENTIVE_SERVER_ORIGINS"
            refusal = problem(403, detail, code="not_allowed")
        elif not length.isdecimal() or int(length) > self._max_body:
            refusal = problem(413, too_large(self._max_body), code="too_large")
        else:
            await self._app(scope, _limited(receive, self._max_body), send)
            return
        await refusal(scope, receive, send)


class BodyTooLarge(HTTPException):
    """A body without a Content-Length was too large.

    It is an HTTPException because FastAPI reports any other error while it reads a body as an unreadable body.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(413, too_large(limit))


def too_large(limit: int) -> str:
    """Return the message for a body over the limit."""
    return f"a request has at most {limit:,} bytes; send several requests"


def _limited(receive: Receive, limit: int) -> Receive:
    """Count the bytes of a body as they arrive."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > limit:
                raise BodyTooLarge(limit)
        return message

    return receive_limited


def _origin_host(origin: str) -> str:
    """Return host and port of an origin: another port on this machine is another origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # such as an unclosed bracket
        return ""


def _host_name(host: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    name = host.rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]
