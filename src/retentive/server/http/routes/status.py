"""What the service is made of and how it has been doing, for people."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel

import retentive
from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.models import Model
from retentive.server.http import response_models as shown
from retentive.server.http.auth import Known, Reading
from retentive.server.http.recent_stats import Lately
from retentive.server.http.rendering import answer
from retentive.server.http.strict_route import StrictRoute

router = APIRouter(prefix="/v1", tags=["health"], route_class=StrictRoute)


@router.get("/status", response_model=shown.Status, summary="How the service is doing")
def get_status(request: Request, inside: Reading, who: Known) -> JSONResponse:
    """What it is made of, whether recall lacks anything now, and how quick the last recalls were.

    Whoever comes with a token is told nothing that counts others' memories or recalls.
    """
    lately: Lately = request.app.state.lately
    engine = inside.engine
    problem = engine.embeddings.problem()
    everybodys: dict[str, Any] = {"unembedded": None, "recalls": None, "degraded_recalls": None, "errors": None}
    if who.profile is None:
        everybodys = {"unembedded": _unembedded(engine), **lately.counts()}
    return answer(
        {
            "version": retentive.__version__,
            "uptimeSeconds": round(lately.uptime, 1),
            "profile": inside.profile,
            "memories": inside.counts().memories,
            "store": _name(engine.settings.public_store),
            "embedder": engine.settings.embedder.name,
            "model": _model(engine),
            "degraded": problem is not None,
            "degradedReason": problem,
            "latency": lately.latency(),
            **{to_camel(name): value for name, value in everybodys.items()},
        }
    )


def _name(address: str) -> str:
    """The store's file or database, without folders, hosts and users, which are nobody's business."""
    scheme, separator, rest = address.partition("://")
    if separator and scheme != "sqlite":
        return f"{scheme}://{PurePath(rest.partition('?')[0]).name}"
    return PurePath(address).name


def _model(engine: Engine) -> Model | None:
    try:
        embedder = engine.embeddings.embedder()
    except RetentiveError:
        return None  # why is told as the reason that recall is degraded
    return embedder.model if embedder else None


def _unembedded(engine: Engine) -> int | None:
    try:
        return engine.embeddings.count_missing()
    except RetentiveError:
        return None
