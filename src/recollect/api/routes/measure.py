"""How well tunings find what people judged good."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from recollect.api.auth import Reading
from recollect.api.knobs import chosen
from recollect.api.openapi import may_fail
from recollect.api.question_models import MeasureIn
from recollect.api.response_models import Measured
from recollect.api.strict_route import StrictRoute
from recollect.evaluation.compare import SHOWN, compare
from recollect.evaluation.metrics import library
from recollect.evaluation.mine import NOTHING_JUDGED, own_questions

router = APIRouter(prefix="/v1", tags=["judgements"], route_class=StrictRoute)


@router.post("/measure", response_model=Measured, summary="Two tunings on what was judged", responses=may_fail(501))
def measure_tunings(inside: Reading, wish: MeasureIn) -> JSONResponse:
    """nDCG@10, any@5 and MRR of two tunings over the questions that were judged, for each and in the mean.

    A question counts if some memory was judged good for it. It leaves no trace: no recall of it counts as use.
    """
    library()  # whether it is there is known before anything is asked
    engine = inside.engine
    judged = own_questions(engine, profile=inside.profile, project=wish.project)
    questions = judged[-wish.limit :]
    if not questions:
        nothing: dict[str, Any] = {"a": None, "b": None, "questions": [], "degraded": None, "degradedReason": None}
        return JSONResponse({"n": 0, "sentence": NOTHING_JUDGED, "metrics": list(SHOWN), **nothing})
    done = compare(engine, questions, engine.tuned(chosen(wish.a)), engine.tuned(chosen(wish.b)))
    return JSONResponse(
        {
            "n": len(questions),
            "sentence": _sentence(len(questions), len(judged)),
            "metrics": list(SHOWN),
            "a": done.a.means(),
            "b": done.b.means(),
            "questions": [
                {
                    "question": question.text,
                    "project": question.project,
                    "relevant": len(question.relevance),
                    "a": done.a.at(place),
                    "b": done.b.at(place),
                }
                for place, question in enumerate(questions)
            ],
            "degraded": done.degraded,
            "degradedReason": done.degraded_reason,
        }
    )


def _sentence(asked: int, judged: int) -> str:
    count = f"{asked:,} judged question{'s' * (asked != 1)}"
    return count if asked == judged else f"the {count} judged last, of {judged:,}"
