"""Relevance judgements of memories for queries."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from retentive.errors import NotFound
from retentive.models import MAX_NAME
from retentive.pipeline.judgements import MAX_RELEVANCE
from retentive.server.http.auth import ReadView, WriteView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.problems import invalid_field
from retentive.server.http.rendering import json_response
from retentive.server.http.request_parsing import (
    EXAMPLE_ID,
    INTEGER,
    OTHER_ID,
    CamelModel,
    Id,
    Name,
    NameFilter,
    QueryText,
    StrictRoute,
    Time,
)
from retentive.server.http.response_models import JudgementList
from retentive.stores.values import Judgement

router = APIRouter(prefix="/v1/judgements", tags=["judgements"], route_class=StrictRoute)


def _to_grades(value: Any) -> Any:
    """Give relevance 1 to each id of a list."""
    if isinstance(value, list):
        if not all(isinstance(id, str) for id in value):
            raise ValueError("a list of ids, or an object that gives each id a relevance")
        return dict.fromkeys(value, 1)
    return value


_GRADES = {"type": "object", "maxProperties": 1000, "propertyNames": {"format": "uuid"}}
Good = Annotated[
    dict[Id, Annotated[int, Field(ge=1, le=MAX_RELEVANCE), INTEGER]],
    Field(max_length=1000),
    BeforeValidator(_to_grades),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "maxItems": 1000, "items": {"type": "string", "format": "uuid"}},
                {**_GRADES, "additionalProperties": {"type": "integer", "minimum": 1, "maximum": MAX_RELEVANCE}},
            ]
        }
    ),
]


class JudgementsIn(CamelModel):
    """Judgements of memories for a query. At least one memory is good or bad."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"query": "What can Ana not eat?", "good": {EXAMPLE_ID: 3}, "bad": [OTHER_ID]}],
            "anyOf": [
                {"required": ["good"], "properties": {"good": {"minItems": 1, "minProperties": 1}}},
                {"required": ["bad"], "properties": {"bad": {"minItems": 1}}},
            ],
        }
    )

    query: QueryText
    good: Good = Field(default_factory=dict, description="Ids, or a relevance from 1 to 3 for each id.")
    bad: list[Id] = Field(default_factory=list, max_length=1000)
    project: Name | None = Field(None, description="The project that the query searched.")
    asked_at: Time | None = Field(None, description="The time of the query.")


class JudgementKey(CamelModel):
    """The judgement to delete."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "What can Ana not eat?", "memory": EXAMPLE_ID}]}
    )

    query: QueryText
    memory: Id
    project: NameFilter | None = Field(None, description="The project that the query searched, if any.")


@router.post(
    "", status_code=201, response_model=JudgementList, summary="Judge memories", responses=problem_responses(404)
)
def create_judgements(view: WriteView, body: JudgementsIn) -> JSONResponse:
    """Stores judgements, all or none. A judgement replaces an earlier one of the same query and memory."""
    both = set(body.good) & set(body.bad)
    if both:
        raise invalid_field("bad", f"memory {min(both)} cannot be good and bad at once")
    if not body.good and not body.bad:
        raise invalid_field("good", "name at least one memory that is good or bad")
    stored = view.judge(body.query, good=body.good, bad=body.bad, project=body.project, asked_at=body.asked_at)
    return json_response({"judgements": stored}, status=201)


@router.get("", response_model=JudgementList, summary="List judgements")
def list_judgements(view: ReadView, project: Annotated[str | None, Query(max_length=MAX_NAME)] = None) -> JSONResponse:
    """Returns all judgements, or those of one project, in the order in which they were first given."""
    return json_response({"judgements": view.judgements(project=project)})


@router.delete(
    "", status_code=204, response_class=Response, summary="Delete a judgement", responses=problem_responses(404)
)
def delete_judgement(view: WriteView, body: JudgementKey) -> Response:
    """Deletes the judgement of a memory for a query."""
    key = Judgement(body.query.strip(), body.memory, 0, view.engine.now(), profile=view.profile, project=body.project)
    if not view.unjudge(key):
        raise NotFound(f"memory {body.memory} was not judged for this query")
    return Response(status_code=204)
