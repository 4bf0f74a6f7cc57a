"""What stands before every request, whatever it asks for: its Host, its Origin and its size.

A page on the web can make a browser call 127.0.0.1, and with a name of its own that resolves there even read the
answer. So a request must name a host that is ours, and one from a page must come from ours or an allowed one.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retentive.server.http.auth import LOOPBACK
from retentive.server.http.problems import problem
from retentive.settings import ServerSettings


class Doors:
    """Lets in requests for this host, from pages of this host, of bearable size."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._hosts = {*LOOPBACK, settings.host, *settings.hosts}
        self._origins = set(settings.origins)
        self._most = settings.max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = _host(headers.get("host", ""))
        origin = headers.get("origin")
        length = headers.get("content-length", "0")
        if host not in self._hosts:
            refusal = problem(
                421,
                "this service does not go by that name; allow it with RETENTIVE_SERVER_HOSTS",
                code="unknown_host",
            )
        elif origin is not None and origin not in self._origins and _place(origin) != headers.get("host", "").lower():
            refusal = problem(
                403, "pages of that origin may not call this service; see RETENTIVE_SERVER_ORIGINS", code="not_allowed"
            )
        elif not length.isdecimal() or int(length) > self._most:
            refusal = problem(413, f"a request has at most {self._most:,} bytes; send several", code="too_large")
        else:
            await self._app(scope, _counting(receive, self._most), send)
            return
        await refusal(scope, receive, send)


class TooLarge(HTTPException):
    """A body that did not say its size turned out to be too large.

    An error of HTTP, because FastAPI takes any other that comes while it reads a body for a body that cannot be read.
    """

    def __init__(self) -> None:
        super().__init__(413)


def _counting(receive: Receive, most: int) -> Receive:
    """A body without a stated length is counted as it comes."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > most:
                raise TooLarge
        return message

    return counted


def _place(origin: str) -> str:
    """The host and port of an origin: a page of another port of this machine is another's page."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # such as a bracket that is not closed
        return ""


def _host(netloc: str) -> str:
    """The name in a Host header, without its port and brackets."""
    name = netloc.rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0].lower()
    return name.partition(":")[0].lower()
