"""What anybody may send to the routes of OAuth, which need no token: the size of a body, and how often."""

from __future__ import annotations

import time
from collections import deque

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 8_000
"""Bytes of a request."""

PER_MINUTE = 20
"""Registrations and authorizations of one address in a minute."""

LIMITED = ("/register", "/authorize")


def bounded(route: Route) -> Route:
    """Return a route that refuses a large body, and on the paths that store something also too many requests."""
    methods = list(route.methods or ())
    app = BoundedApp(route.app, per_minute=PER_MINUTE if route.path in LIMITED else None)
    return Route(route.path, app, methods=methods, include_in_schema=False)


class BoundedApp:
    """An application whose requests have a small body, and are few from one address."""

    def __init__(self, app: ASGIApp, *, per_minute: int | None) -> None:
        self._app, self._per_minute = app, per_minute
        self._recent: deque[tuple[float, str]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._count(scope)
        body = b""
        async for piece in Request(scope, receive).stream():
            body += piece
            if len(body) > MAX_BODY:
                raise HTTPException(413, f"a request has at most {MAX_BODY:,} bytes here")
        pending = [body]

        async def receive_again() -> Message:
            if pending:
                return {"type": "http.request", "body": pending.pop(), "more_body": False}
            return await receive()

        await self._app(scope, receive_again, send)

    def _count(self, scope: Scope) -> None:
        if self._per_minute is None:
            return
        now, address = time.monotonic(), str((scope.get("client") or ("",))[0])
        while self._recent and self._recent[0][0] < now - 60:
            self._recent.popleft()
        if sum(one == address for _, one in self._recent) >= self._per_minute:
            raise HTTPException(429, "too many clients were connected from this address", {"Retry-After": "60"})
        self._recent.append((now, address))
