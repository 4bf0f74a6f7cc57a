"""Measure tunings on the judged queries, and search for a better tuning in the background."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from retentive.errors import Conflict
from retentive.evaluation.metrics import Metric, load_library
from retentive.evaluation.own_judgements import COMPARED, NOTHING_JUDGED, compare, own_queries
from retentive.evaluation.tune import BUDGET, DEFAULT_METRIC, MIN_QUERIES, SAMPLE, SEED, TuningResult
from retentive.server.http.auth import MEASURE_COST, AdminView, ReadView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.rendering import to_json
from retentive.server.http.request_parsing import (
    INTEGER,
    CamelModel,
    NameFilter,
    StrictRoute,
    TuningChoice,
    tuning_override,
)
from retentive.server.http.response_models import Measured, TuneProgress
from retentive.server.http.tune_job import TuneJob, TuneStatus

router = APIRouter(prefix="/v1", tags=["judgements"], route_class=StrictRoute)


class MeasureIn(CamelModel):
    """Two tunings to measure; null is the current tuning."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"a": None, "b": {"keywordWeight": 5}}, {"b": "weighted"}]}
    )

    a: TuningChoice | None = None
    b: TuningChoice | None = None
    project: NameFilter | None = Field(None, description="Use only the queries of this project.")
    limit: Annotated[int, Field(ge=1, le=2000), INTEGER] = Field(
        500, description="Maximum number of queries; the last judged are used."
    )


class TuneIn(CamelModel):
    """How to search for a better tuning."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"metric": "MRR", "budget": 50}]})

    metric: Metric = Field(DEFAULT_METRIC, description="The metric to maximise.")
    budget: Annotated[int, Field(ge=1, le=2000), INTEGER] = Field(
        BUDGET, description="Maximum number of tunings that each search tries."
    )
    sample: Annotated[int, Field(ge=MIN_QUERIES, le=5000), INTEGER] = Field(
        SAMPLE, description="Number of queries to search on; the verdict uses all."
    )
    seed: Annotated[int, Field(ge=0, lt=2**32), INTEGER] = Field(SEED, description="Seed of the random search.")


@router.post(
    "/measure",
    response_model=Measured,
    summary="Measure two tunings on the judged queries",
    responses=problem_responses(501),
)
def measure_tunings(request: Request, view: ReadView, body: MeasureIn) -> JSONResponse:
    """Returns nDCG@10, any@5 and MRR of two tunings by judged query and in the mean, with a paired test.

    A query counts if at least one memory was judged good for it. It does not record the use of memories.
    """
    request.app.state.work.charge(request, MEASURE_COST)
    load_library()  # fails first if the package is missing
    engine = view.engine
    judged = own_queries(engine, profile=view.profile, project=body.project)
    queries = judged[-body.limit :]
    if not queries:
        nothing: dict[str, Any] = {
            "a": None,
            "b": None,
            "p": None,
            "queries": [],
            "degraded": None,
            "degradedReason": None,
        }
        return JSONResponse({"n": 0, "sentence": NOTHING_JUDGED, "metrics": list(COMPARED), **nothing})
    a, b = (engine.tuning.current(tuning_override(choice)) for choice in (body.a, body.b))
    done = compare(engine, queries, a, b)
    count = f"{len(queries):,} judged {'query' if len(queries) == 1 else 'queries'}"
    return JSONResponse(
        {
            "n": len(queries),
            "sentence": count if len(queries) == len(judged) else f"the last {count} of {len(judged):,}",
            "metrics": list(COMPARED),
            "a": done.a.means(),
            "b": done.b.means(),
            "p": done.p_values(),
            "queries": [
                {
                    "query": query.text,
                    "project": query.project,
                    "relevant": len(query.relevance),
                    "a": done.a.at(index),
                    "b": done.b.at(index),
                }
                for index, query in enumerate(queries)
            ],
            "degraded": done.degraded,
            "degradedReason": done.degraded_reason,
        }
    )


@router.post(
    "/tune",
    status_code=202,
    response_model=TuneProgress,
    summary="Start a search for a better tuning",
    responses=problem_responses(409, 501),
)
def start_tuning(request: Request, view: AdminView, body: TuneIn) -> JSONResponse:
    """Starts a search for parameters that rank the judged memories better, verified on held-out queries.

    One search runs at a time, in a service with one worker. Its result is not saved: save the parameters with PATCH
    /settings.
    """
    if request.app.state.settings.server.workers > 1:
        raise Conflict("a service with several workers cannot tune; run retentive tune, or serve with --workers 1")
    return JSONResponse(_progress_to_json(_job(request).start(view, body.model_dump())), 202)


@router.get("/tune", response_model=TuneProgress, summary="Get the progress of the search")
def get_tuning_progress(request: Request, view: ReadView) -> JSONResponse:
    """Returns the progress of the search, and its result when it is done."""
    return JSONResponse(_progress_to_json(_job(request).progress(view.profile)))


@router.delete("/tune", response_model=TuneProgress, summary="Stop the search")
def stop_tuning(request: Request, view: AdminView) -> JSONResponse:
    """Stops the search if it runs, and returns its progress."""
    return JSONResponse(_progress_to_json(_job(request).stop_profile(view.profile)))


def _job(request: Request) -> TuneJob:
    job: TuneJob = request.app.state.tune_job
    return job


def _progress_to_json(progress: TuneStatus) -> dict[str, Any]:
    result = None if progress.result is None else _result_to_json(progress.result)
    fields = {name: getattr(progress, name) for name in ("state", "stage", "done", "total", "detail")}
    return {**fields, "result": result}


def _result_to_json(found: TuningResult) -> dict[str, Any]:
    """Return the result with the parameters as PATCH /settings accepts them."""
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
        "heldOut": to_json(found.held_out),
    }
