"""Files that could not be read: each is told of once, and tried again after longer and longer waits."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from retentive.transfer.watching.notes import Stamp

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0


@dataclass(frozen=True, slots=True)
class _Trouble:
    reason: str
    stamp: Stamp
    wait: float
    due: float


class Troubles:
    """What went wrong with which file, and when to try it again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._of: dict[str, _Trouble] = {}

    def __len__(self) -> int:
        return len(self._of)

    def waits(self, path: str, stamp: Stamp) -> bool:
        """Whether it is too early to try a file again; one that was written since is tried at once."""
        trouble = self._of.get(path)
        return trouble is not None and trouble.stamp == stamp and self._clock() < trouble.due

    def add(self, path: str, stamp: Stamp, reason: str) -> bool:
        """Whether this is news."""
        old = self._of.get(path)
        wait = FIRST_WAIT if old is None or old.stamp != stamp else min(old.wait * 2, LONGEST_WAIT)
        self._of[path] = _Trouble(reason, stamp, wait, self._clock() + wait)
        return old is None or old.reason != reason

    def over(self, path: str) -> None:
        """It was read."""
        self._of.pop(path, None)

    def only(self, paths: Container[str]) -> None:
        """Files that are gone are no trouble."""
        self._of = {path: trouble for path, trouble in self._of.items() if path in paths}

    def next_due(self) -> float | None:
        """When to try again, by the clock; None if there is nothing to try."""
        return min((trouble.due for trouble in self._of.values()), default=None)
