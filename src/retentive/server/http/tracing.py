"""Spans for OpenTelemetry, where somebody collects them: one for each request, recall and stage of a recall.

They carry counts and templates, never a query, a memory or a name. That is why the framework's own, which carry
paths and queries, are switched off.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from opentelemetry import propagate, trace
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retentive.models import Recall
from retentive.server.http.request_log import METHODS, template


class Traced:
    """Makes each request a span, below the one that its caller names in `traceparent`."""

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

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            try:
                await self._app(scope, receive, noting)
            finally:
                span.update_name(f"{method} {template(scope)}")
                span.set_attribute("http.request.method", method)
                span.set_attribute("http.route", template(scope))


def _tracer() -> trace.Tracer | None:
    """What makes spans; None where nobody collects them."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer("retentive")


def trace_recall(answer: Recall) -> None:
    """A span for a recall and one for each of its stages, below the present span, if anybody collects spans."""
    tracer = _tracer()
    if tracer is None:
        return
    end = time.time_ns()
    start = end - _ns(answer.elapsed_ms)
    whole = tracer.start_span("retentive.recall", start_time=start)
    whole.set_attribute("retentive.hits", len(answer.hits))
    for retriever in answer.retrievers:
        whole.set_attribute(f"retentive.candidates.{retriever.name}", retriever.found)
    if answer.degraded:
        whole.set_attribute("retentive.degraded", answer.degraded)
    inside = trace.set_span_in_context(whole)
    for stage, (began, ended) in _laid_out(answer.stages).items():
        span = tracer.start_span(f"retentive.recall.{stage}", context=inside, start_time=start + _ns(began))
        span.end(start + _ns(ended))
    whole.end(end)


def _laid_out(stages: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """When each stage began and ended, in milliseconds from the start: the retrievers side by side, the others in turn."""
    placed: dict[str, tuple[float, float]] = {}
    by_meaning = 0.0
    for stage in ("embed", "semantic"):
        if stage in stages:
            placed[stage] = (by_meaning, by_meaning := by_meaning + stages[stage])
    if "keyword" in stages:
        placed["keyword"] = (0.0, stages["keyword"])
    at = max(by_meaning, stages.get("keyword", 0.0))
    for stage, ms in stages.items():
        if stage not in ("embed", "semantic", "keyword"):
            placed[stage] = (at, at := at + ms)
    return placed


def _ns(ms: float) -> int:
    return int(ms * 1e6)
