"""Give every request an id, and log one line for it without memory text, queries or tokens.

A request is identified by the template of its route (`/v1/memories/{id}`), never by its path or its contents.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, TextIO
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import EventDict, Processor

from retentive.server.logs import without_messages

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_REQUEST_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)

LogFormat = Literal["text", "json", "off"]


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A finished request, without its contents and those of its response."""

    method: str
    route: str
    status: int
    seconds: float
    request_id: str
    caller: str
    problem: str | None
    """The code of the problem in the response, if it has one."""


class RequestLogMiddleware:
    """Sets `X-Request-Id` and passes a `RequestRecord` of each finished request to the callbacks."""

    def __init__(self, app: ASGIApp, *callbacks: Callable[[RequestRecord], None]) -> None:
        self._app = app
        self._callbacks = callbacks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        # The client's id is written to the log, so only these characters are accepted.
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                # A response passed on from an LLM server has that server's id.
                MutableHeaders(scope=message).setdefault("X-Request-Id", request_id)
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except BaseException:
            status = status or 500
            raise
        finally:
            record = RequestRecord(
                method=scope["method"] if scope["method"] in METHODS else "other",
                route=route_template(scope),
                status=status,
                seconds=perf_counter() - started,
                request_id=request_id,
                caller=state.get("caller", "-"),
                problem=state.get("problem") or ("error" if status == 500 else None),
            )
            for callback in self._callbacks:
                callback(record)


def route_template(scope: Scope) -> str:
    """Return the template of the route, such as /v1/memories/{id}; "(none)" for a path without a route."""
    # FastAPI stores the template that includes the prefixes of routers apart from the route.
    effective = scope.get("fastapi", {}).get("effective_route_context")
    template = getattr(effective, "path_format", None) or getattr(scope.get("route"), "path", None)
    return template or scope.get("retentive.route") or "(none)"


def request_logger(format: LogFormat, *, to: TextIO | None = None) -> Callable[[RequestRecord], None] | None:
    """Return a function that writes a line for a request; None if the log is off."""
    if format == "off":
        return None
    logger = structlog.wrap_logger(
        structlog.WriteLogger(to or sys.stderr),
        processors=[*_timestamps(), *_renderers(format, to or sys.stderr)],
        wrapper_class=structlog.BoundLogger,
    )

    def write(record: RequestRecord) -> None:
        write_line = logger.error if record.status >= 500 else logger.info
        fields: dict[str, Any] = {"problem": record.problem} if record.problem else {}
        write_line(
            "request",
            method=record.method,
            route=record.route,
            status=record.status,
            ms=round(record.seconds * 1000, 1),
            caller=record.caller,
            request_id=record.request_id,
            **fields,
        )

    return write


def log_warnings(format: LogFormat) -> None:
    """Write the warnings of the whole process to stderr, in the format of the request log."""
    handler = logging.StreamHandler()
    handler.addFilter(without_messages)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_timestamps(), structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers("json" if format == "json" else "text", sys.stderr),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def _timestamps() -> Sequence[Processor]:
    return [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)]


def _renderers(format: LogFormat, to: TextIO) -> Sequence[Processor]:
    if format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    renderer = structlog.dev.ConsoleRenderer(
        colors=to.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback, sort_keys=False
    )
    return [_replace_unprintable, renderer]


def _replace_unprintable(_: Any, _name: str, event: EventDict) -> EventDict:
    """Replace control characters, so that no value can start a new line of the log or control the terminal."""
    return {name: _printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(char if char.isprintable() else "·" for char in text)
