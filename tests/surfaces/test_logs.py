"""The log of a server process contains no text that came from outside."""

from __future__ import annotations

import io
import logging

from retentive.errors import describe_error
from retentive.server.logs import without_messages


def fail(text: str) -> None:
    try:
        int(text)
    except ValueError as error:
        raise KeyError(text) from error


def test_a_traceback_of_any_library_is_logged_by_types_and_places_alone():
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(without_messages)
    logger = logging.getLogger("somebody else's")
    logger.propagate = False
    logger.addHandler(handler)
    text = "x".join("diary")  # not written in this file, whose lines could be in a traceback

    try:
        fail(text)
    except KeyError as error:
        logger.exception("it failed")
        described = describe_error(error)

    assert written.getvalue() == f"it failed: {described}\n"
    assert described.startswith("KeyError at test_logs.py:")
    assert ", caused by ValueError at test_logs.py:" in described
    assert text not in written.getvalue()
