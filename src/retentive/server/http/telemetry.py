"""Metrics for Prometheus, spans for OpenTelemetry, and statistics of the last recalls.

They hold counts, times and route templates, never a query, a memory or a name. The framework's own spans contain paths
and queries, so they are switched off.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter as Counts
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from opentelemetry import propagate, trace
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.models import Recall, Serializable
from retentive.server.http.request_log import METHODS, RequestRecord, route_template

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CANDIDATES = (0, 1, 5, 10, 20, 30, 50, 100, 200, 500)
COUNT_SECONDS = 10.0
"""How long the number of memories is cached: counting reads all of them."""

RECENT_RECALLS = 500
"""The statistics cover this many recalls."""

RECENT_PROFILES = 200
"""The statistics of this many profiles are held."""


class Telemetry:
    """The metrics of one application, in a registry of its own, and the statistics of its last recalls.

    It is called with each recall of the engine between `start` and `stop`.
    """

    def __init__(self, engine: Engine) -> None:
        self.recent = RecentStats()
        self._engine = engine
        self._stop: Callable[[], None] | None = None
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_MemoryCount(engine))
        self._recall = Histogram("retentive_recall_seconds", "Duration of recalls.", buckets=SECONDS, registry=registry)
        self._stages = Histogram(
            "retentive_recall_stage_seconds",
            "Duration of the stages of recalls; keyword runs in parallel with embed.",
            ["stage"],
            buckets=SECONDS,
            registry=registry,
        )
        self._candidates = Histogram(
            "retentive_recall_candidates",
            "Number of candidates that a retriever returned.",
            ["retriever"],
            buckets=CANDIDATES,
            registry=registry,
        )
        self._degraded = Counter("retentive_recalls_degraded", "Degraded recalls.", ["kind"], registry=registry)
        self._requests = Counter(
            "retentive_requests", "Finished requests.", ["method", "route", "status"], registry=registry
        )
        self._durations = Histogram(
            "retentive_request_seconds", "Duration of requests.", ["route"], buckets=SECONDS, registry=registry
        )
        self._errors = Counter("retentive_errors", "Responses with a problem.", ["code"], registry=registry)

    def start(self) -> None:
        """Observe the recalls of the engine."""
        if self._stop is None:
            self._stop = self._engine.on_recall(self._observe)

    def stop(self) -> None:
        """Stop observing the recalls of the engine."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def add_request(self, record: RequestRecord) -> None:
        """Count a request."""
        self._requests.labels(record.method, record.route, str(record.status)).inc()
        self._durations.labels(record.route).observe(record.seconds)
        if record.problem:
            self._errors.labels(record.problem).inc()
        self.recent.add_request(record)

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus; several workers have one sum."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        together = CollectorRegistry()
        together.register(_MemoryCount(self._engine))
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)

    def _observe(self, recall: Recall) -> None:
        self._recall.observe(recall.elapsed_ms / 1000)
        for stage, ms in recall.stages.items():
            self._stages.labels(stage).observe(ms / 1000)
        for retriever in recall.retrievers:
            if retriever.ran:
                self._candidates.labels(retriever.name).observe(retriever.found)
        for kind in (recall.degraded or "").split(", "):
            if kind:
                self._degraded.labels(kind).inc()
        self.recent.add_recall(recall)
        trace_recall(recall)


class _MemoryCount(Collector):
    """The number of memories by kind, read when the metrics are requested."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cached: tuple[float, Mapping[str, int]] | None = None

    def describe(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("retentive_memories", "Memories in the store.", labels=["kind"])

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("retentive_memories", "Memories in the store.", labels=["kind"])
        for kind, count in self._by_kind().items():
            gauge.add_metric([kind], count)
        yield gauge

    def _by_kind(self) -> Mapping[str, int]:
        now = time.monotonic()
        if self._cached is None or now - self._cached[0] > COUNT_SECONDS:
            try:
                self._cached = (now, self._engine.stats().by_kind)
            except RetentiveError:
                return {}  # the other metrics do not depend on the store
        return self._cached[1]


# Statistics of the last recalls


@dataclass(frozen=True, slots=True)
class Times(Serializable):
    """Percentiles, in milliseconds."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Latency(Serializable):
    """Duration of the last recalls, whole and by stage. A stage counts only the recalls in which it ran."""

    recalls: int
    whole: Times | None
    stages: Mapping[str, Times]


class RecallStats:
    """Counts since the start, and the durations of the last recalls."""

    def __init__(self) -> None:
        self.recalls = 0
        self.degraded: Counts[str] = Counts()
        self.durations: deque[tuple[float, Mapping[str, float]]] = deque(maxlen=RECENT_RECALLS)

    def add(self, recall: Recall) -> None:
        """Count a recall."""
        self.recalls += 1
        self.durations.append((recall.elapsed_ms, recall.stages))
        self.degraded.update(kind for kind in (recall.degraded or "").split(", ") if kind)


@dataclass(frozen=True, slots=True)
class ServiceStats:
    """Counts since the start, and the durations of the last recalls. Errors are not counted by profile."""

    uptime: float
    recalls: int
    degraded_recalls: Mapping[str, int]
    errors: int | None
    latency: Latency


class RecentStats:
    """The statistics of all recalls, and of those of each profile; of the profiles that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._all = RecallStats()
        self._by_profile: OrderedDict[str, RecallStats] = OrderedDict()
        self._errors = 0

    def add_recall(self, recall: Recall) -> None:
        """Count a recall."""
        with self._lock:
            self._all.add(recall)
            self._by_profile.setdefault(recall.profile, RecallStats()).add(recall)
            self._by_profile.move_to_end(recall.profile)
            if len(self._by_profile) > RECENT_PROFILES:
                self._by_profile.popitem(last=False)

    def add_request(self, record: RequestRecord) -> None:
        """Count a request if the service failed."""
        if record.status >= 500:
            with self._lock:
                self._errors += 1

    def statistics(self, profile: str | None = None) -> ServiceStats:
        """Return the statistics of a profile, or of all."""
        with self._lock:
            stats = self._all if profile is None else self._by_profile.get(profile) or RecallStats()
            return ServiceStats(
                time.monotonic() - self._started,
                stats.recalls,
                dict(stats.degraded),
                self._errors if profile is None else None,
                _latency(stats.durations),
            )


def _latency(durations: Collection[tuple[float, Mapping[str, float]]]) -> Latency:
    stages: dict[str, list[float]] = {}
    for _, by_stage in durations:
        for stage, ms in by_stage.items():
            stages.setdefault(stage, []).append(ms)
    total = [ms for ms, _ in durations]
    return Latency(
        len(durations),
        _percentiles(total) if total else None,
        {name: _percentiles(ms) for name, ms in stages.items()},
    )


def _percentiles(milliseconds: Sequence[float]) -> Times:
    p50, p95 = np.percentile(milliseconds, (50, 95))
    return Times(round(float(p50), 3), round(float(p95), 3))


# Spans, if an OpenTelemetry provider is configured


class TracingMiddleware:
    """Makes a span for each request, as a child of the span in its `traceparent` header."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tracer = _tracer() if scope["type"] == "http" else None
        if tracer is None:
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        with tracer.start_as_current_span(
            method,
            context=propagate.extract(dict(Headers(scope=scope))),
            kind=trace.SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            async def send_with_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            try:
                await self._app(scope, receive, send_with_status)
            finally:
                span.update_name(f"{method} {route_template(scope)}")
                span.set_attribute("http.request.method", method)
                span.set_attribute("http.route", route_template(scope))


def trace_recall(recall: Recall) -> None:
    """Make a span for a recall and one for each of its stages, as children of the current span."""
    tracer = _tracer()
    if tracer is None:
        return
    end = time.time_ns()
    start = end - _ns(recall.elapsed_ms)
    span = tracer.start_span("retentive.recall", start_time=start)
    span.set_attribute("retentive.hits", len(recall.hits))
    for retriever in recall.retrievers:
        span.set_attribute(f"retentive.candidates.{retriever.name}", retriever.found)
    if recall.degraded:
        span.set_attribute("retentive.degraded", recall.degraded)
    context = trace.set_span_in_context(span)
    for stage, (started, ended) in _stage_times(recall.stages).items():
        child = tracer.start_span(f"retentive.recall.{stage}", context=context, start_time=start + _ns(started))
        child.end(start + _ns(ended))
    span.end(end)


def _tracer() -> trace.Tracer | None:
    """Return the configured tracer; None if spans are not collected."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer("retentive")


def _stage_times(stages: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return start and end of each stage in milliseconds: the query is embedded during the keyword search."""
    times: dict[str, tuple[float, float]] = {}
    at = max(stages.get("embed", 0.0), stages.get("keyword", 0.0))
    for stage, ms in stages.items():
        times[stage] = (0.0, ms) if stage in ("embed", "keyword") else (at, at := at + ms)
    return times


def _ns(ms: float) -> int:
    return int(ms * 1e6)
