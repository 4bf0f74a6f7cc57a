"""Tuning as work in the background: one at a time, watched while it runs, stopped when it is told to."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from anyio import to_thread
from fastapi import FastAPI

from retentive.errors import Conflict, RetentiveError
from retentive.evaluation.evaluation_set import JudgedSet
from retentive.evaluation.metrics import library
from retentive.evaluation.own_judgements import own_queries, own_set
from retentive.evaluation.tune import FEWEST, Tuned, tune
from retentive.models import Memory, Serializable
from retentive.tenancy import ProfileView

log = logging.getLogger(__name__)

State = Literal["idle", "running", "done", "failed", "stopped"]

ENDING_SECONDS = 5.0
"""How long the end of the service waits for the work to end. It looks up with every memory that it meets."""


@dataclass(frozen=True, slots=True)
class Progress(Serializable):
    """How far a tuning has come."""

    state: State = "idle"
    stage: str | None = None
    done: int = 0
    total: int = 0
    detail: str | None = None
    result: Tuned | None = None


class _Stopped(Exception):
    """The work was told to stop."""


class _Work:
    """One tuning, on a thread of its own."""

    def __init__(self, inside: ProfileView, options: dict[str, Any]) -> None:
        self.profile = inside.profile
        self.progress = Progress("running", stage="reading memories")
        self._inside = inside
        self._options = options
        self._stop = threading.Event()
        # It must not keep the process alive should it not notice in time that it is stopped.
        self._thread = threading.Thread(target=self._run, name="tune", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, seconds: float = ENDING_SECONDS) -> None:
        """Have it end, and wait until it has."""
        self._stop.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        engine = self._inside.engine
        try:
            judged = self._interruptible(own_set(engine, profile=self.profile))
            found = tune(engine, judged, present=engine.tuning.current(), progress=self._watched, **self._options)
            self.progress = replace(self.progress, state="done", result=found)
        except _Stopped:
            self.progress = replace(self.progress, state="stopped")
        except RetentiveError as error:
            self.progress = replace(self.progress, state="failed", detail=str(error))
        except Exception:
            log.exception("tuning failed")
            detail = "something went wrong here that should not; the log of the service says what"
            self.progress = replace(self.progress, state="failed", detail=detail)

    def _interruptible(self, judged: JudgedSet) -> JudgedSet:
        """The set, with a look up at each memory that is found: steps of progress may be seconds apart."""
        identify = judged.identify

        def checked(memory: Memory) -> str | None:
            self._check()
            return identify(memory)

        return replace(judged, identify=checked)

    @contextmanager
    def _watched(self, label: str, *, total: int) -> Iterator[Callable[[int], None]]:
        self._check()
        self.progress = Progress("running", label, 0, total)

        def step(done: int) -> None:
            self._check()
            self.progress = replace(self.progress, done=self.progress.done + done)

        yield step

    def _check(self) -> None:
        if self._stop.is_set():
            raise _Stopped


class TuneJob:
    """The tuning that runs or ran last. Each profile is told of its own alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: _Work | None = None

    def start(self, inside: ProfileView, options: dict[str, Any]) -> Progress:
        """Begin to tune on what the profile judged; `Conflict` if that is too little, and while any tuning runs."""
        library()  # whether it is there is known before anything begins
        count = len(own_queries(inside.engine, profile=inside.profile))
        if count < FEWEST:
            raise Conflict(f"tuning needs at least {FEWEST} queries with a memory judged good, and there are {count}")
        with self._lock:
            if self._work is not None and self._work.progress.state == "running":
                raise Conflict("a tuning is running already; wait for it, or stop it")
            self._work = _Work(inside, options)
            self._work.start()
            return self._work.progress

    def progress(self, inside: ProfileView) -> Progress:
        """How far the profile's tuning has come."""
        work = self._work
        return work.progress if work is not None and work.profile == inside.profile else Progress()

    def stop(self, inside: ProfileView) -> Progress:
        """Stop the profile's tuning, if it runs."""
        work = self._work
        if work is not None and work.profile == inside.profile:
            work.stop()
        return self.progress(inside)

    @asynccontextmanager
    async def open(self, _: FastAPI) -> AsyncIterator[None]:
        """Tuning can be asked for while this is open; what runs at the end is stopped."""
        try:
            yield
        finally:
            if self._work is not None:
                await to_thread.run_sync(self._work.stop)
