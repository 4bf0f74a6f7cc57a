"""How the service has been doing since it started, and how quick its last recalls were, for the page that shows it."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retentive.models import Recall, Serializable
from retentive.server.http.request_log import Seen

KEPT = 500
"""The times of so many recalls are kept."""


@dataclass(frozen=True, slots=True)
class Times(Serializable):
    """Milliseconds that half of the recalls took at most, and that 19 of 20 did."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Latency(Serializable):
    """How long recalls took, the whole and by stage; a stage counts where it ran."""

    recalls: int
    whole: Times | None
    stages: Mapping[str, Times]


class Lately:
    """Counts since the start, and the times of the last recalls. It keeps no query and no memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._times: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=KEPT)
        self._recalls = 0
        self._degraded: Counter[str] = Counter()
        self._errors = 0

    def recalled(self, answer: Recall) -> None:
        """Take note of a recall."""
        with self._lock:
            self._recalls += 1
            self._times.append((answer.elapsed_ms, answer.stages))
            self._degraded.update(kind for kind in (answer.degraded or "").split(", ") if kind)

    def requested(self, seen: Seen) -> None:
        """Take note of a request that failed through no fault of the caller's."""
        if seen.status >= 500:
            with self._lock:
                self._errors += 1

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def counts(self) -> dict[str, int | dict[str, int]]:
        """Recalls, those that lacked something by what they lacked, and errors."""
        with self._lock:
            return {"recalls": self._recalls, "degraded_recalls": dict(self._degraded), "errors": self._errors}

    def latency(self) -> Latency:
        """How long the last recalls took."""
        with self._lock:
            times = list(self._times)
        stages: dict[str, list[float]] = {}
        for _, parts in times:
            for stage, ms in parts.items():
                stages.setdefault(stage, []).append(ms)
        whole = [ms for ms, _ in times]
        return Latency(len(times), _times(whole) if whole else None, {name: _times(ms) for name, ms in stages.items()})


def _times(milliseconds: Sequence[float]) -> Times:
    p50, p95 = np.percentile(milliseconds, (50, 95))
    return Times(round(float(p50), 3), round(float(p95), 3))
