"""Retries of files that could not be read, after waits that double. Each failure is reported once."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from retentive.transfer.watching.state import Stamp

FIRST_WAIT, MAX_WAIT = 1.0, 300.0


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    stamp: Stamp
    wait: float
    due: float


class Retries:
    """The files that could not be read, and when to try each again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[str, _Failure] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def must_wait(self, path: str, stamp: Stamp) -> bool:
        """Whether it is too early to try a file again; one that was written since is tried at once."""
        failure = self._failures.get(path)
        return failure is not None and failure.stamp == stamp and self._clock() < failure.due

    def add(self, path: str, stamp: Stamp, reason: str) -> bool:
        """Record a failure; return whether its reason is new."""
        old = self._failures.get(path)
        wait = FIRST_WAIT if old is None or old.stamp != stamp else min(old.wait * 2, MAX_WAIT)
        self._failures[path] = _Failure(reason, stamp, wait, self._clock() + wait)
        return old is None or old.reason != reason

    def remove(self, path: str) -> None:
        """Record that a file was read."""
        self._failures.pop(path, None)

    def retain(self, paths: Container[str]) -> None:
        """Drop the files that are not among these, because they were deleted."""
        self._failures = {path: failure for path, failure in self._failures.items() if path in paths}

    def next_due(self) -> float | None:
        """Return when the next file is due, by the clock; None if there is none."""
        return min((failure.due for failure in self._failures.values()), default=None)
