"""A search for better knobs, in the background."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel

from recollect.api.auth import AdministeringInside, Reading
from recollect.api.openapi import may_fail
from recollect.api.question_models import TuneIn
from recollect.api.rendering import plain
from recollect.api.response_models import TuneProgress
from recollect.api.strict_route import StrictRoute
from recollect.api.tune_job import Progress, TuneJob
from recollect.evaluation.tune import Tuned

router = APIRouter(prefix="/v1/tune", tags=["judgements"], route_class=StrictRoute)


@router.post(
    "",
    status_code=202,
    response_model=TuneProgress,
    summary="Begin to look for better knobs",
    responses=may_fail(409, 501),
)
def start_tuning(request: Request, inside: AdministeringInside, wish: TuneIn) -> JSONResponse:
    """Begins to search for knobs that find more of what was judged good, measured on questions that had no say in them.

    One search runs at a time. What it finds is not kept: turn the knobs with PATCH /settings if you want them.
    """
    return _told(_job(request).start(inside, wish.model_dump()), status=202)


@router.get("", response_model=TuneProgress, summary="How far the search for knobs has come")
def get_tuning_progress(request: Request, inside: Reading) -> JSONResponse:
    """How far it has come, and when it is done, what it found."""
    return _told(_job(request).progress(inside))


@router.delete("", response_model=TuneProgress, summary="Stop the search for knobs")
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
    """What was found, with the knobs spelled as PATCH /settings takes them."""
    return {
        "metric": found.metric,
        "n": found.questions,
        "searched": found.searched,
        "folds": found.folds,
        "foldsBy": found.by,
        "tunings": found.tunings,
        "verdict": found.verdict,
        "knobs": {to_camel(knob): {"before": old, "after": new} for knob, (old, new) in found.knobs.items()},
        "heldOut": plain(found.held_out),
    }
