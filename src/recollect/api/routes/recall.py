"""Questions, answered from memory."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from recollect import models
from recollect.api.auth import Reading
from recollect.api.knobs import chosen
from recollect.api.openapi import may_fail
from recollect.api.question_models import CompareIn, ExplainIn, RecallIn
from recollect.api.rendering import answer, recalled
from recollect.api.response_models import Comparison, Explanation, Recall
from recollect.api.strict_route import StrictRoute

router = APIRouter(prefix="/v1/recall", tags=["recall"], route_class=StrictRoute)


@router.post("", response_model=Recall, summary="Memories that answer a question")
def recall_memories(inside: Reading, question: RecallIn) -> JSONResponse:
    """The memories that answer a question, best first, with why each is there.

    Without an embedder it answers from words alone, and `degraded` says so.
    """
    found = inside.recall(question.query, **question.asked(), tuning=chosen(question.tuning))
    return JSONResponse(recalled(found, explain=question.explain, dropped=question.dropped and question.explain))


@router.post(
    "/explain", response_model=Explanation, summary="Why a memory is there, or is not", responses=may_fail(404)
)
def explain_recall(inside: Reading, question: ExplainIn) -> JSONResponse:
    """Why a memory ranks where it does for a question, or where it fell out, in a sentence and in figures."""
    asked = question.asked()
    return answer(inside.explain(question.query, question.id, **asked, tuning=chosen(question.tuning)))


@router.post("/compare", response_model=Comparison, summary="One question, two tunings")
def compare_recalls(inside: Reading, question: CompareIn) -> JSONResponse:
    """Both lists, and where each memory stands in them. It leaves no trace: neither recall counts as use."""
    asked = {**question.asked(), "now": question.now or inside.engine.now(), "note_use": False}
    a, b = (inside.recall(question.query, **asked, tuning=chosen(choice)) for choice in (question.a, question.b))
    return JSONResponse(
        {
            "question": a.question,
            "a": recalled(a, explain=True, dropped=question.dropped),
            "b": recalled(b, explain=True, dropped=question.dropped),
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
