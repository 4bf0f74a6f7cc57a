"""Who may work now, where more at once would only get in each other's way."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any


class Turns:
    """Lets one more work at once than there are cores: one of them is always about to begin or to end.

    Beyond that, threads fight over the cores and over the interpreter: sixteen recalls at once were slower together
    than one after the other, and each took its own memory.
    """

    def __init__(self, most: int | None = None) -> None:
        self._guard = threading.Lock()
        self._free = most or (os.cpu_count() or 1) + 1
        self._working = 0
        self._waiting: deque[threading.Lock] = deque()

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Wait for a turn, first come, first served; gives whether anybody else is at work or waiting."""
        crowded = self._begin()
        try:
            yield crowded
        finally:
            self._end()

    def _begin(self) -> bool:
        with self._guard:
            if self._free:
                self._free -= 1
                self._working += 1
                return self._working > 1
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()  # whoever ends hands its turn over by releasing it
        return True

    def _end(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
                self._working -= 1


class AtOnce(Executor):
    """Does what it is given at once, on the thread that gives it: with every core busy, another one brings nothing."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """What came of it, good or bad."""
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(work(*arguments, **options))
        except Exception as error:
            outcome.set_exception(error)
        return outcome


INLINE = AtOnce()
