"""What the log of a server process contains: no text of a request, a memory or a name."""

from __future__ import annotations

import logging

from retentive.errors import describe_error


def without_messages(record: logging.LogRecord) -> bool:
    """Replace the traceback of a record, also of another library, by types and places without messages."""
    if record.exc_info and record.exc_info[1] is not None:
        record.msg, record.args = f"{record.getMessage()}: {describe_error(record.exc_info[1])}", ()
        record.exc_info = record.exc_text = None
    return True
