"""The exceptions of Retentive, one class for each way in which a caller can react.

    RetentiveError
    ├── Invalid              the input is wrong: correct it and try again
    ├── NotFound             there is no such memory, session, project or file
    ├── Conflict             the store already holds something that contradicts the request
    │   └── VersionConflict  the memory has changed since it was read: read it again and decide
    ├── Damaged              what is stored cannot be read: repair the store
    ├── Unavailable          something needed is down, busy or full: try again later
    │   └── Refused          the embedding service works and does not accept this text: change the text
    ├── Cancelled            the caller no longer waits for the result
    └── MissingExtra         an optional package is not installed: the message is the line to type

Every kind has a stable ``code``. Messages say what happened and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable


class RetentiveError(Exception):
    """Something went wrong in Retentive."""

    code = "error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class Invalid(RetentiveError):
    """The input is not valid."""

    code = "invalid"


class NotFound(RetentiveError):
    """There is nothing under that name."""

    code = "not_found"


class Conflict(RetentiveError):
    """The request contradicts what is stored."""

    code = "conflict"


class VersionConflict(Conflict):
    """The memory has changed since it was read; read it again."""

    code = "version_conflict"


class Damaged(RetentiveError):
    """What is stored cannot be read."""

    code = "damaged"


class Unavailable(RetentiveError):
    """Something needed is not available now."""

    code = "unavailable"


class Refused(Unavailable):
    """The embedding service does not accept a text."""

    code = "refused"


class Cancelled(RetentiveError):
    """The caller no longer waits for the result."""

    code = "cancelled"


class MissingExtra(RetentiveError):
    """An optional package is not installed."""

    code = "missing_extra"

    def __init__(self, what: str, extra: str) -> None:
        from retentive.extras import pip_install  # which imports this module

        super().__init__(f"{what} needs an optional package: {pip_install(extra)}")
        self.extra = extra


def describe_error(error: BaseException) -> str:
    """Return the types of an error and its causes, and where they were raised, for a log.

    Messages are left out: that of an unexpected error may contain a query, a memory or a name.
    """
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 5:
        frames = []
        trace = cause.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            frames.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_qualname}")
            trace = trace.tb_next
        parts.append(f"{type(cause).__name__} at {' > '.join(frames[-6:])}" if frames else type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    return ", caused by ".join(parts)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the known name that is most like a name, or an empty text if none is."""
    from difflib import get_close_matches

    by_fold = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), by_fold, n=1)
    return f"; did you mean '{by_fold[near[0]]}'?" if near else ""


def unknown_name(noun: str, name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return a sentence about a name that does not exist: with the known name that is most like it, or else a hint."""
    return f"there is no {noun} '{name}'{did_you_mean(name, known) or otherwise}"
