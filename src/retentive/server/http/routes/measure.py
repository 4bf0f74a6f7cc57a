"""How well tunings find what people judged good."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from retentive.evaluation.compare import SHOWN, compare
from retentive.evaluation.metrics import library
from retentive.evaluation.own_judgements import NOTHING_JUDGED, own_queries
from retentive.server.http.auth import Reading
from retentive.server.http.openapi import may_fail
from retentive.server.http.query_models import MeasureIn
from retentive.server.http.response_models import Measured
from retentive.server.http.strict_route import StrictRoute
from retentive.server.http.tuning_parameters import chosen

router = APIRouter(prefix="/v1", tags=["judgements"], route_class=StrictRoute)


@router.post("/measure", response_model=Measured, summary="Two tunings on what was judged", responses=may_fail(501))
def measure_tunings(inside: Reading, wish: MeasureIn) -> JSONResponse:
    """nDCG@10, any@5 and MRR of two tunings over the queries that were judged, for each and in the mean.

    A query counts if some memory was judged good for it. It leaves no trace: no recall of it counts as use.
    """
    library()  # whether it is there is known before anything is asked
    engine = inside.engine
    judged = own_queries(engine, profile=inside.profile, project=wish.project)
    queries = judged[-wish.limit :]
    if not queries:
        nothing: dict[str, Any] = {"a": None, "b": None, "queries": [], "degraded": None, "degradedReason": None}
        return JSONResponse({"n": 0, "sentence": NOTHING_JUDGED, "metrics": list(SHOWN), **nothing})
    done = compare(engine, queries, engine.tuning.current(chosen(wish.a)), engine.tuning.current(chosen(wish.b)))
    return JSONResponse(
        {
            "n": len(queries),
            "sentence": _sentence(len(queries), len(judged)),
            "metrics": list(SHOWN),
            "a": done.a.means(),
            "b": done.b.means(),
            "queries": [
                {
                    "query": query.text,
                    "project": query.project,
                    "relevant": len(query.relevance),
                    "a": done.a.at(place),
                    "b": done.b.at(place),
                }
                for place, query in enumerate(queries)
            ],
            "degraded": done.degraded,
            "degradedReason": done.degraded_reason,
        }
    )


def _sentence(asked: int, judged: int) -> str:
    count = f"{asked:,} judged query{'s' * (asked != 1)}"
    return count if asked == judged else f"the {count} judged last, of {judged:,}"
