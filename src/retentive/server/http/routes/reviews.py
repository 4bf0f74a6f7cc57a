"""The review queue: what may have replaced what, to confirm or to dismiss."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from retentive.pipeline.review import Status
from retentive.server.http.auth import ReadView, WriteView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.rendering import json_response
from retentive.server.http.request_parsing import EXAMPLE_ID, CamelModel, Name, StrictRoute
from retentive.server.http.response_models import ReviewList, Suggestion

router = APIRouter(prefix="/v1/reviews", tags=["memories"], route_class=StrictRoute)


class DecisionIn(CamelModel):
    """What to do with a suggestion."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"action": "confirm", "actor": "ana"}]})

    action: Literal["confirm", "dismiss", "undo"] = Field(
        description="confirm: the newer memory replaces the older one; dismiss: both are kept; undo: it is open again."
    )
    actor: Name | None = Field(None, description="Who decided it.")


@router.get("", response_model=ReviewList, summary="List suggestions")
def list_reviews(
    view: ReadView,
    status: Annotated[Status, Query(description="Only suggestions with this status.")] = "open",
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of suggestions.")] = 1000,
) -> JSONResponse:
    """Returns the memories that a newer one may have replaced, oldest first. Nothing has been changed yet."""
    found = view.reviews(status=status)
    return json_response({"reviews": found[:limit], "total": len(found)})


@router.post(
    "/{id:uuid}", response_model=Suggestion, summary="Decide on a suggestion", responses=problem_responses(404, 409)
)
def decide_review(
    view: WriteView,
    id: Annotated[UUID, Path(description="The id of the suggestion.", examples=[EXAMPLE_ID])],
    body: DecisionIn,
) -> JSONResponse:
    """Confirms or dismisses a suggestion, or undoes that, and returns it."""
    return json_response(view.review(str(id), body.action, actor=body.actor))
