"""Who may work now, where more at once would only get in each other's way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any


class Turns:
    """Lets as many work at once as there are cores.

    Beyond that, threads fight over the cores and over the interpreter: sixteen recalls at once were slower together
    than one after the other, and each took its own memory.
    """

    def __init__(self, most: int | None = None) -> None:
        self._free = threading.Semaphore(most or os.cpu_count() or 1)
        self._guard = threading.Lock()
        self._here = 0

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Wait for a turn; gives whether anybody else is working or waiting too."""
        with self._guard:
            self._here += 1
        try:
            with self._free:
                yield self._here > 1
        finally:
            with self._guard:
                self._here -= 1


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
