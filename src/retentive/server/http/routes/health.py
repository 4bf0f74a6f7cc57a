"""Liveness, readiness, metrics and status of the service."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

import retentive
from retentive.engine import Engine
from retentive.errors import RetentiveError, Unavailable
from retentive.models import Model
from retentive.server.http.auth import AdminEngine, CurrentCaller, ReadView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.problems import problem
from retentive.server.http.rendering import json_response
from retentive.server.http.request_parsing import StrictRoute
from retentive.server.http.response_models import Status
from retentive.server.http.telemetry import Telemetry
from retentive.settings import LlmSettings
from retentive.stores.sqlite import SqliteStore

_READY_THREADS = CapacityLimiter(2)

router = APIRouter(tags=["health"])
status_router = APIRouter(prefix="/v1", tags=["health"], route_class=StrictRoute)


@router.get("/healthz", summary="Check that the service runs")
async def alive() -> dict[str, str]:
    """Returns ok while the service runs. Needs no token."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    summary="Check that the service is ready",
    responses=problem_responses(503),
    response_model=dict[str, str],
)
async def ready(request: Request) -> Any:
    """Returns 503 while the embedding model is loaded, or if the store cannot be read. Needs no token."""
    starting: str | None = request.app.state.starting
    if starting:
        return problem(503, starting, code="not_ready", headers={"Retry-After": "1"})
    engine: Engine = request.app.state.engine
    # A short read, whose errors become the response; on threads of its own, so that busy workers do not delay it.
    await to_thread.run_sync(_check_store, engine, limiter=_READY_THREADS)
    return {"status": "ready"}


def _check_store(engine: Engine) -> None:
    engine.tuning.saved()
    if isinstance(engine.store, SqliteStore) and not engine.store.in_place():
        raise Unavailable("the file of the store was deleted, moved or replaced; what is stored now would be lost")


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "The text format of Prometheus."}},
)
def metrics(request: Request, _: AdminEngine) -> Response:
    """Returns metrics of recalls, retrievers, memories, errors and requests over all profiles. Needs admin access."""
    telemetry: Telemetry = request.app.state.telemetry
    return Response(telemetry.exposition(), media_type=CONTENT_TYPE_LATEST)


@status_router.get("/status", response_model=Status, summary="Get the status of the service")
def get_status(request: Request, view: ReadView, caller: CurrentCaller) -> JSONResponse:
    """Returns the store, the models, whether recall is degraded, and the duration of the last recalls.

    A caller with a token gets the counts and durations of its own profile; those that exist only for all profiles are
    null.
    """
    telemetry: Telemetry = request.app.state.telemetry
    engine = view.engine
    problem = engine.embeddings.problem()
    own = caller.profile  # the owner, who has none, sees the recalls of all profiles
    recent = telemetry.recent.statistics(own)
    return json_response(
        {
            "version": retentive.__version__,
            "uptimeSeconds": round(recent.uptime, 1),
            "profile": view.profile,
            "access": caller.access,
            "memories": view.counts().memories,
            "store": _store_name(engine.settings.public_store),
            "embedder": engine.settings.embedder.name,
            "model": _model(engine),
            "degraded": problem is not None,
            "degradedReason": problem,
            "llm": _llm(request.app.state.settings.llm),
            "latency": recent.latency,
            "unembedded": _unembedded(engine) if own is None else None,
            "recalls": recent.recalls,
            "degradedRecalls": recent.degraded_recalls,
            "errors": recent.errors,
        }
    )


def _store_name(address: str) -> str:
    """Return the name of the store's file or database, without folders, hosts and users."""
    scheme, separator, rest = address.partition("://")
    if separator and scheme != "sqlite":
        return f"{scheme}://{rest.partition('?')[0].partition('/')[2]}"
    return PurePath(address).name


def _model(engine: Engine) -> Model | None:
    try:
        embedder = engine.embeddings.embedder()
        return embedder.model if embedder else None
    except RetentiveError:
        return None  # `degradedReason` has the error


def _llm(settings: LlmSettings) -> dict[str, Any] | None:
    return None if settings.url is None else {"model": settings.model, "extractFacts": settings.extract_facts}


def _unembedded(engine: Engine) -> int | None:
    try:
        return engine.embeddings.count_missing()
    except RetentiveError:
        return None
