"""Queries, answered from memory."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from retentive import models
from retentive.server.http.auth import Reading
from retentive.server.http.openapi import may_fail
from retentive.server.http.query_models import CompareIn, ExplainIn, RecallIn
from retentive.server.http.rendering import answer, recalled
from retentive.server.http.response_models import Comparison, Explanation, Recall
from retentive.server.http.strict_route import StrictRoute
from retentive.server.http.tuning_parameters import chosen

router = APIRouter(prefix="/v1/recall", tags=["recall"], route_class=StrictRoute)


@router.post("", response_model=Recall, summary="Memories that answer a query")
def recall_memories(inside: Reading, query: RecallIn) -> JSONResponse:
    """The memories that answer a query, best first, with why each is there.

    Without an embedder it answers from words alone, and `degraded` says so.
    """
    found = inside.recall(query.query, **query.asked(), tuning=chosen(query.tuning))
    return JSONResponse(recalled(found, explain=query.explain, dropped=query.dropped and query.explain))


@router.post(
    "/explain", response_model=Explanation, summary="Why a memory is there, or is not", responses=may_fail(404)
)
def explain_recall(inside: Reading, query: ExplainIn) -> JSONResponse:
    """Why a memory ranks where it does for a query, or where it fell out, in a sentence and in figures."""
    asked = query.asked()
    return answer(inside.explain(query.query, query.id, **asked, tuning=chosen(query.tuning)))


@router.post("/compare", response_model=Comparison, summary="One query, two tunings")
def compare_recalls(inside: Reading, query: CompareIn) -> JSONResponse:
    """Both lists, and where each memory stands in them. It leaves no trace: neither recall counts as use."""
    asked = {**query.asked(), "now": query.now or inside.engine.now(), "record_use": False}
    a, b = (inside.recall(query.query, **asked, tuning=chosen(choice)) for choice in (query.a, query.b))
    return JSONResponse(
        {
            "query": a.query,
            "a": recalled(a, explain=True, dropped=query.dropped),
            "b": recalled(b, explain=True, dropped=query.dropped),
            "moved": _moved(a, b),
        }
    )


def _moved(a: models.Recall, b: models.Recall) -> list[dict[str, str | int | None]]:
    """Each memory of either list with its places; what is only in b comes last."""
    in_a, in_b = ({hit.id: hit.rank for hit in found.hits} for found in (a, b))
    return [
        {
            "id": id,
            "rankA": in_a.get(id),
            "rankB": in_b.get(id),
            "change": in_a[id] - in_b[id] if id in in_a and id in in_b else None,
        }
        for id in {**in_a, **in_b}
    ]
