"""Every request as the log and the metrics see it: by the template of its route, never by what it asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_REQUEST_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that has ended. It holds nothing that was asked or answered."""

    method: str
    route: str
    status: int
    seconds: float
    request_id: str
    caller: str
    problem: str | None
    """The code of the problem that was answered with, if one was."""


class Observed:
    """Gives every request an id, and tells of it when it has ended."""

    def __init__(self, app: ASGIApp, *observers: Callable[[Seen], None]) -> None:
        self._app = app
        self._observers = observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        # What others send goes into a log: only what cannot be mistaken for anything else.
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                # An answer that was passed on from a model's server has that server's own.
                MutableHeaders(scope=message).setdefault("X-Request-Id", request_id)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except BaseException:
            status = status or 500
            raise
        finally:
            seen = Seen(
                method=scope["method"] if scope["method"] in METHODS else "other",
                route=template(scope),
                status=status,
                seconds=perf_counter() - started,
                request_id=request_id,
                caller=state.get("caller", "-"),
                problem=state.get("problem") or ("error" if status == 500 else None),
            )
            for observer in self._observers:
                observer(seen)


def template(scope: Scope) -> str:
    """The route as it is written, such as /v1/memories/{id}; a path that no route has is nobody's to keep."""
    # FastAPI keeps the template with the prefixes of the routers around it apart from the route itself.
    effective = scope.get("fastapi", {}).get("effective_route_context")
    template = getattr(effective, "path_format", None) or getattr(scope.get("route"), "path", None)
    return template or scope.get("retentive.route") or "(none)"
