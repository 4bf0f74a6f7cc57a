"""For whom a thread works: whose turn it takes, and whether the result is still wanted."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from retentive.errors import Cancelled


@dataclass(slots=True, eq=False)
class Work:
    """The work of one request. `caller` names the token that it came with; None is the owner of the store."""

    caller: str | None = None
    cancelled: bool = False

    def check(self) -> None:
        """Raise `Cancelled` if the caller no longer waits for the result."""
        if self.cancelled:
            raise Cancelled


_OWN = Work()
_CURRENT: ContextVar[Work] = ContextVar("work")


def begin_work() -> Work:
    """Return new work; it is the current one of this context and of the threads that run in a copy of it."""
    work = Work()
    _CURRENT.set(work)
    return work


def current_work() -> Work:
    """Return the work of this thread. Outside a request it is that of the owner, which nobody cancels."""
    return _CURRENT.get(_OWN)
