"""Whether the service lives, whether it can answer quickly, and how it has been doing."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from retentive.engine import Engine
from retentive.server.http.auth import Administering
from retentive.server.http.openapi import may_fail
from retentive.server.http.problems import problem
from retentive.server.http.telemetry import Telemetry

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Whether the service lives")
async def alive() -> dict[str, str]:
    """Always yes: whoever can ask, is answered. Needs no token."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    summary="Whether the service can answer quickly",
    responses=may_fail(503),
    response_model=dict[str, str],
)
def ready(request: Request) -> Any:
    """No while the embedding model is loaded, and while the store cannot be read. Needs no token."""
    starting: str | None = request.app.state.starting
    if starting:
        return problem(503, starting, code="not_ready", headers={"Retry-After": "1"})
    engine: Engine = request.app.state.engine
    engine.tuning.saved()  # the shortest read there is; what it raises becomes the answer
    return {"status": "ready"}


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "The exposition format of Prometheus."}},
)
def metrics(request: Request, _: Administering) -> Response:
    """Recalls by stage, candidates by retriever, degraded recalls, memories, errors and requests.

    They count every profile, so a token must allow administering.
    """
    telemetry: Telemetry = request.app.state.telemetry
    return Response(telemetry.exposition(), media_type=CONTENT_TYPE_LATEST)
