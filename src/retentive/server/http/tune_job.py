"""Run tuning in the background: one run at a time, with progress, until it ends or is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from anyio import to_thread

from retentive.errors import Conflict
from retentive.evaluation.evaluation_set import EvaluationSet
from retentive.evaluation.metrics import load_library
from retentive.evaluation.own_judgements import own_evaluation_set, own_queries
from retentive.evaluation.tune import MIN_QUERIES, TuningResult, tune
from retentive.models import Memory, Serializable
from retentive.server.http.background import BackgroundWork, Outcome
from retentive.tenancy import ProfileView

State = Literal["idle", "running", "done", "failed", "stopped"]

IN_PROGRESS = "a tuning run is in progress; wait for it, or stop it"


@dataclass(frozen=True, slots=True)
class TuneStatus(Serializable):
    """The progress of a tuning run."""

    state: State = "idle"
    stage: str | None = None
    done: int = 0
    total: int = 0
    detail: str | None = None
    result: TuningResult | None = None


class _TuneRun(BackgroundWork):
    """One tuning run, on its own thread."""

    def __init__(self, view: ProfileView, options: dict[str, Any], release: Callable[[], None]) -> None:
        super().__init__("tuning")
        self._release = release
        self.profile = view.profile
        self.progress = TuneStatus("running", stage="reading memories")
        self._engine = view.engine
        self._options = options
        self._result: TuningResult | None = None

    def work(self) -> None:
        """Search for a better tuning."""
        engine = self._engine
        judged = self._interruptible(own_evaluation_set(engine, profile=self.profile))
        self._result = tune(engine, judged, current=engine.tuning.current(), progress=self._report, **self._options)

    def ended(self, outcome: Outcome, detail: str | None) -> None:
        """Record the result, and let another run start."""
        self.progress = replace(self.progress, state=outcome, detail=detail, result=self._result)
        self._release()

    def _interruptible(self, judged: EvaluationSet) -> EvaluationSet:
        """Check at each memory of the set whether the run was stopped: steps of progress may be seconds apart."""
        identify = judged.identify

        def checked(memory: Memory) -> str | None:
            self.check()
            return identify(memory)

        return replace(judged, identify=checked)

    @contextmanager
    def _report(self, label: str, *, total: int) -> Iterator[Callable[[int], None]]:
        self.check()
        self.progress = TuneStatus("running", label, 0, total)

        def step(done: int) -> None:
            self.check()
            self.progress = replace(self.progress, done=self.progress.done + done)

        yield step


class TuneJob:
    """The current or last tuning run. A profile sees only its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: _TuneRun | None = None
        self.started = 0.0
        """When the last run was started, in seconds since 1970."""

    def start(
        self,
        view: ProfileView,
        options: dict[str, Any],
        reserve: Callable[[], Callable[[], None]] = lambda: lambda: None,
    ) -> TuneStatus:
        """Start tuning on the profile's judgements; `Conflict` if there are too few, or if a run is in progress.

        `reserve` is called before a run, and what it returns after it.
        """
        load_library()  # fails now if the package is missing, and not in the background
        count = len(own_queries(view.engine, profile=view.profile))
        if count < MIN_QUERIES:
            raise Conflict(f"tuning needs at least {MIN_QUERIES} queries with a memory judged good; there are {count}")
        with self._lock:
            if self.busy:
                raise Conflict(IN_PROGRESS)
            self._current = _TuneRun(view, options, reserve())
            self.started = time.time()
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
