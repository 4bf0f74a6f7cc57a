"""A search for better parameters, in the background."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel

from retentive.evaluation.tune import Tuned
from retentive.server.http.auth import AdministeringInside, Reading
from retentive.server.http.openapi import may_fail
from retentive.server.http.query_models import TuneIn
from retentive.server.http.rendering import plain
from retentive.server.http.response_models import TuneProgress
from retentive.server.http.strict_route import StrictRoute
from retentive.server.http.tune_job import Progress, TuneJob

router = APIRouter(prefix="/v1/tune", tags=["judgements"], route_class=StrictRoute)


@router.post(
    "",
    status_code=202,
    response_model=TuneProgress,
    summary="Begin to look for better parameters",
    responses=may_fail(409, 501),
)
def start_tuning(request: Request, inside: AdministeringInside, wish: TuneIn) -> JSONResponse:
    """Begins to search for parameters that find more of what was judged good, measured on queries that had no say in them.

    One search runs at a time. What it finds is not kept: turn the parameters with PATCH /settings if you want them.
    """
    return _told(_job(request).start(inside, wish.model_dump()), status=202)


@router.get("", response_model=TuneProgress, summary="How far the search for parameters has come")
def get_tuning_progress(request: Request, inside: Reading) -> JSONResponse:
    """How far it has come, and when it is done, what it found."""
    return _told(_job(request).progress(inside))


@router.delete("", response_model=TuneProgress, summary="Stop the search for parameters")
def stop_tuning(request: Request, inside: AdministeringInside) -> JSONResponse:
    """Stops the search if it runs, and tells how far it had come."""
    return _told(_job(request).stop(inside))


def _job(request: Request) -> TuneJob:
    job: TuneJob = request.app.state.tune_job
    return job


def _told(progress: Progress, *, status: int = 200) -> JSONResponse:
    result = None if progress.result is None else _result(progress.result)
    told = {name: getattr(progress, name) for name in ("state", "stage", "done", "total", "detail")}
    return JSONResponse({**told, "result": result}, status)


def _result(found: Tuned) -> dict[str, Any]:
    """What was found, with the parameters spelled as PATCH /settings takes them."""
    return {
        "metric": found.metric,
        "n": found.queries,
        "searched": found.searched,
        "folds": found.folds,
        "foldsBy": found.by,
        "tunings": found.tunings,
        "verdict": found.verdict,
        "parameters": {
            to_camel(parameter): {"before": old, "after": new} for parameter, (old, new) in found.parameters.items()
        },
        "heldOut": plain(found.held_out),
    }
