"""Structured logs on standard error: a line a request, without memory text, queries or tokens."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor

from retentive.server.http.request_log import Seen

Style = Literal["text", "json", "off"]


def request_log(style: Style, *, to: TextIO | None = None) -> Callable[[Seen], None] | None:
    """Writes a line for every request it is told of; None where none are wanted."""
    if style == "off":
        return None
    logger = structlog.wrap_logger(
        structlog.WriteLogger(to or sys.stderr),
        processors=[*_stamped(), *_rendered(style, to or sys.stderr)],
        wrapper_class=structlog.BoundLogger,
    )

    def write(seen: Seen) -> None:
        say = logger.error if seen.status >= 500 else logger.info
        fields: dict[str, Any] = {"problem": seen.problem} if seen.problem else {}
        say(
            "request",
            method=seen.method,
            route=seen.route,
            status=seen.status,
            ms=round(seen.seconds * 1000, 1),
            caller=seen.caller,
            request_id=seen.request_id,
            **fields,
        )

    return write


def log_to_stderr(style: Style) -> None:
    """Send the warnings of the whole process to standard error, in the style of the requests."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_stamped(), structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendered("json" if style == "json" else "text", sys.stderr),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def _stamped() -> Sequence[Processor]:
    return [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)]


def _rendered(style: Style, to: TextIO) -> Sequence[Processor]:
    if style == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    renderer = structlog.dev.ConsoleRenderer(
        colors=to.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback, sort_keys=False
    )
    return [_one_line, renderer]


def _one_line(_: Any, _name: str, event: EventDict) -> EventDict:
    """What others wrote cannot begin a line of the log, nor steer the terminal that shows it."""
    return {name: _printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(char if char.isprintable() else "·" for char in text)
