"""Limit concurrent recalls to cores + 1; queue the rest first in, first out."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, ClassVar


class FairLimiter:
    """Lets a limited number of threads work at once, and the others wait in order.

    The default is one more than there are cores: one thread is always starting or ending. Beyond that, threads compete
    for the cores and the interpreter's lock: sixteen concurrent recalls were slower than the same recalls in sequence.
    """

    default: ClassVar[int] = (os.cpu_count() or 1) + 1
    """A process that shares the cores with others sets it before it opens an engine."""

    def __init__(self, limit: int | None = None) -> None:
        self._guard = threading.Lock()
        self._free = limit or self.default
        self._working = 0
        self._waiting: deque[threading.Lock] = deque()

    @contextmanager
    def slot(self) -> Iterator[bool]:
        """Wait for a slot; yields whether another thread is working or waiting."""
        shared = self._acquire()
        try:
            yield shared
        finally:
            self._release()

    def _acquire(self) -> bool:
        with self._guard:
            if self._free:
                self._free -= 1
                self._working += 1
                return self._working > 1
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()  # the thread that releases its slot hands it over by releasing this lock
        return True

    def _release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
                self._working -= 1


class InlineExecutor(Executor):
    """Runs work on the calling thread: with every core busy, another thread brings nothing."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Run the work now and return its result or exception as a future."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


INLINE = InlineExecutor()
