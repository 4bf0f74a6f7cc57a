"""Run tuning in the background: one run at a time, with progress, until it ends or is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from anyio import to_thread

from retentive.errors import Conflict, RetentiveError, describe_error
from retentive.evaluation.evaluation_set import EvaluationSet
from retentive.evaluation.metrics import load_library
from retentive.evaluation.own_judgements import own_evaluation_set, own_queries
from retentive.evaluation.tune import MIN_QUERIES, TuningResult, tune
from retentive.models import Memory, Serializable
from retentive.server.http.problems import UNEXPECTED
from retentive.tenancy import ProfileView

log = logging.getLogger(__name__)

State = Literal["idle", "running", "done", "failed", "stopped"]

STOP_SECONDS = 5.0
"""How long to wait for a run to stop. It looks at every memory and batch whether it was stopped."""


@dataclass(frozen=True, slots=True)
class TuneStatus(Serializable):
    """The progress of a tuning run."""

    state: State = "idle"
    stage: str | None = None
    done: int = 0
    total: int = 0
    detail: str | None = None
    result: TuningResult | None = None


class _Stopped(Exception):
    """The run was stopped."""


class _TuneRun:
    """One tuning run, on its own thread."""

    def __init__(self, view: ProfileView, options: dict[str, Any]) -> None:
        self.profile = view.profile
        self.progress = TuneStatus("running", stage="reading memories")
        self._engine = view.engine
        self._options = options
        self._stop = threading.Event()
        # A daemon, so that it cannot keep the process alive if it does not stop in time.
        self._thread = threading.Thread(target=self._run, name="tuning", daemon=True)

    def start(self) -> None:
        """Start the run."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the run and wait until it has ended."""
        self._stop.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            result = self._search()
            self.progress = replace(self.progress, state="done", result=result)
        except _Stopped:
            self.progress = replace(self.progress, state="stopped")
        except RetentiveError as error:
            self.progress = replace(self.progress, state="failed", detail=str(error))
        except Exception as error:
            log.error("tuning failed: %s", describe_error(error))
            self.progress = replace(self.progress, state="failed", detail=UNEXPECTED)

    def _search(self) -> TuningResult:
        engine = self._engine
        judged = self._interruptible(own_evaluation_set(engine, profile=self.profile))
        return tune(engine, judged, current=engine.tuning.current(), progress=self._report, **self._options)

    def _check(self) -> None:
        """Raise `_Stopped` if the run was stopped."""
        if self._stop.is_set():
            raise _Stopped

    def _interruptible(self, judged: EvaluationSet) -> EvaluationSet:
        """Check at each memory of the set whether the run was stopped: steps of progress may be seconds apart."""
        identify = judged.identify

        def checked(memory: Memory) -> str | None:
            self._check()
            return identify(memory)

        return replace(judged, identify=checked)

    @contextmanager
    def _report(self, label: str, *, total: int) -> Iterator[Callable[[int], None]]:
        self._check()
        self.progress = TuneStatus("running", label, 0, total)

        def step(done: int) -> None:
            self._check()
            self.progress = replace(self.progress, done=self.progress.done + done)

        yield step


class TuneJob:
    """The current or last tuning run. A profile sees only its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: _TuneRun | None = None

    def start(self, view: ProfileView, options: dict[str, Any]) -> TuneStatus:
        """Start tuning on the profile's judgements; `Conflict` if there are too few, or if a run is in progress."""
        load_library()  # fails now if the package is missing, and not in the background
        count = len(own_queries(view.engine, profile=view.profile))
        if count < MIN_QUERIES:
            raise Conflict(f"tuning needs at least {MIN_QUERIES} queries with a memory judged good; there are {count}")
        with self._lock:
            if self.busy:
                raise Conflict("a tuning run is in progress; wait for it, or stop it")
            self._current = _TuneRun(view, options)
            self._current.start()
            return self._current.progress

    @property
    def busy(self) -> bool:
        """Whether a run is in progress."""
        return self._current is not None and self._current.progress.state == "running"

    def progress(self, profile: str) -> TuneStatus:
        """Return the progress of the profile's run."""
        run = self._current
        return run.progress if run is not None and run.profile == profile else TuneStatus()

    def stop_profile(self, profile: str) -> TuneStatus:
        """Stop the profile's run, if there is one, and return its progress."""
        run = self._current
        if run is not None and run.profile == profile:
            run.stop()
        return self.progress(profile)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Stop the current run at the end."""
        try:
            yield
        finally:
            if self._current is not None:
                await to_thread.run_sync(self._current.stop)
