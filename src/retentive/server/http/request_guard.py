"""Reject requests with a foreign Host or Origin, for another store, with too large a body, or with no Unicode text.

A web page can make a browser send requests to 127.0.0.1, and with a host name that resolves to it even read the
responses. So the Host header must be one of ours, and the Origin must be the service itself or an allowed one.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retentive.server.http.auth import LOOPBACK, WorkInProgress
from retentive.server.http.problems import problem
from retentive.server.http.request_parsing import NO_CHARACTER
from retentive.server.runtime_file import store_digest
from retentive.settings import ServerSettings

_LONE_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


class RequestGuard:
    """Rejects requests with a foreign Host or Origin, too large a body, or half of a surrogate pair in their head.

    A request of `retentive recall` names its store: the address may have been that of another service before.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, work: WorkInProgress, store: str) -> None:
        self._app = app
        self._work = work
        public = urlsplit(settings.public_url or "").hostname
        self._hosts = {*LOOPBACK, settings.host, *settings.hosts, *([public] if public else [])}
        self._origins = set(settings.origins)
        self._max_body = settings.max_body
        self._store = store_digest(store)

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
        elif headers.get("x-store", self._store) != self._store:
            refusal = problem(421, "this service serves another store", code="another_store")
        elif not length.isdecimal() or int(length) > self._max_body:
            refusal = problem(413, too_large(self._max_body), code="too_large")
        elif (place := _lone_surrogate(scope)) is not None:
            detail = f"{place}: {NO_CHARACTER}"
            refusal = problem(422, detail, code="invalid", errors=[{"field": place, "message": detail}])
        else:
            try:
                await self._app(scope, _limited(receive, self._max_body), send)
            finally:
                self._work.leave(scope)
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


def _lone_surrogate(scope: Scope) -> str | None:
    """Return where in the head of a request half of a surrogate pair is; UTF-8 has none, so its bytes are unambiguous.

    Servers and parsers would replace it silently, and a name would become another one.
    """
    if _LONE_SURROGATE.search(unquote_to_bytes(scope.get("raw_path") or b"")):
        return "path"
    if _LONE_SURROGATE.search(unquote_to_bytes(scope["query_string"])):
        return "query"
    named = (name for name, value in scope["headers"] if _LONE_SURROGATE.search(value))
    return next((name.decode("latin-1") for name in named), None)


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
