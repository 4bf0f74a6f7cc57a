"""What people say of memories as answers to queries."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from retentive.errors import NotFound
from retentive.models import Judgement
from retentive.pipeline.remember import MAX_NAME
from retentive.server.http.auth import Reading, Writing
from retentive.server.http.openapi import may_fail
from retentive.server.http.problems import wrong
from retentive.server.http.query_models import JudgementIn, JudgementNamed
from retentive.server.http.rendering import answer
from retentive.server.http.response_models import Judgements
from retentive.server.http.strict_route import StrictRoute

router = APIRouter(prefix="/v1/judgements", tags=["judgements"], route_class=StrictRoute)


@router.post(
    "", status_code=201, response_model=Judgements, summary="Say what is good and bad", responses=may_fail(404)
)
def create_judgements(inside: Writing, said: JudgementIn) -> JSONResponse:
    """Keeps what was said, all or none; a later word on the same query and memory takes an earlier one's place."""
    both = set(said.good) & set(said.bad)
    if both:
        raise wrong("bad", f"memory {min(both)} cannot be good and bad at once")
    if not said.good and not said.bad:
        raise wrong("good", "name at least one memory that is good or bad")
    kept = inside.judge(said.query, good=said.good, bad=said.bad, project=said.project, asked_at=said.asked_at)
    return answer({"judgements": kept}, status=201)


@router.get("", response_model=Judgements, summary="What was judged")
def list_judgements(inside: Reading, project: Annotated[str | None, Query(max_length=MAX_NAME)] = None) -> JSONResponse:
    """Every judgement, or those asked of one project, in the order in which they were first given."""
    return answer({"judgements": inside.judgements(project=project)})


@router.delete("", status_code=204, response_class=Response, summary="Take a judgement back", responses=may_fail(404))
def delete_judgement(inside: Writing, which: JudgementNamed) -> Response:
    """Takes back what was said of a memory as an answer to a query."""
    named = Judgement(
        which.query.strip(), which.memory, 0, inside.engine.now(), profile=inside.profile, project=which.project
    )
    if not inside.unjudge(named):
        raise NotFound(f"memory {which.memory} was not judged for this query")
    return Response(status_code=204)
