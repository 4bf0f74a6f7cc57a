"""Figures for Prometheus: counts and times, without any text of a memory or a query, or name of a profile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.models import Recall
from retentive.server.http.request_log import Seen

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CANDIDATES = (0, 1, 5, 10, 20, 30, 50, 100, 200, 500)
COUNTED_SECONDS = 10.0
"""How long the number of memories stays as it was read: a scraper may come often, and counting looks at them all."""


class Telemetry:
    """The figures of one application, in a registry of its own."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_Memories(engine))
        self._recall = Histogram("retentive_recall_seconds", "Whole recalls.", buckets=SECONDS, registry=self._registry)
        self._stages = Histogram(
            "retentive_recall_stage_seconds",
            "Stages of recalls; keyword runs beside embed and semantic.",
            ["stage"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._candidates = Histogram(
            "retentive_recall_candidates",
            "Candidates that a retriever brought to a recall.",
            ["retriever"],
            buckets=CANDIDATES,
            registry=self._registry,
        )
        self._degraded = Counter(
            "retentive_recalls_degraded", "Recalls that lacked something.", ["kind"], registry=self._registry
        )
        self._requests = Counter(
            "retentive_requests", "Requests that have ended.", ["method", "route", "status"], registry=self._registry
        )
        self._durations = Histogram(
            "retentive_request_seconds",
            "Requests, from their first to their last byte.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._errors = Counter("retentive_errors", "Problems answered with.", ["code"], registry=self._registry)

    def recalled(self, answer: Recall) -> None:
        """Count a recall."""
        self._recall.observe(answer.elapsed_ms / 1000)
        for stage, ms in answer.stages.items():
            self._stages.labels(stage).observe(ms / 1000)
        for retriever in answer.retrievers:
            if retriever.ran:
                self._candidates.labels(retriever.name).observe(retriever.found)
        for kind in (answer.degraded or "").split(", "):
            if kind:
                self._degraded.labels(kind).inc()

    def requested(self, seen: Seen) -> None:
        """Count a request."""
        self._requests.labels(seen.method, seen.route, str(seen.status)).inc()
        self._durations.labels(seen.route).observe(seen.seconds)
        if seen.problem:
            self._errors.labels(seen.problem).inc()

    def exposition(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)


class _Memories(Collector):
    """How many memories there are, looked up when somebody asks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._counted: tuple[float, Mapping[str, int]] | None = None

    def describe(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("retentive_memories", "Memories in the store.", labels=["kind"])

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("retentive_memories", "Memories in the store.", labels=["kind"])
        for kind, count in self._by_kind().items():
            gauge.add_metric([kind], count)
        yield gauge

    def _by_kind(self) -> Mapping[str, int]:
        now = time.monotonic()
        if self._counted is None or now - self._counted[0] > COUNTED_SECONDS:
            try:
                self._counted = (now, self._engine.stats().by_kind)
            except RetentiveError:
                return {}  # a store that does not answer is no reason to hide the other figures
        return self._counted[1]
