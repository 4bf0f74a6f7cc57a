"""Facts that change: retire a memory, restore it, show its history, and delete what has expired."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from retentive.server.http.auth import ReadView, WriteView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.rendering import json_response
from retentive.server.http.request_parsing import OTHER_ID, CamelModel, Id, IdempotencyHeader, Name, StrictRoute, Time
from retentive.server.http.response_models import Memory, MemoryList, Swept
from retentive.server.http.routes.memories import IdPath

router = APIRouter(prefix="/v1/memories", tags=["memories"], route_class=StrictRoute)


class RetractIn(CamelModel):
    """Why and since when a memory is no longer true."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "she has moved", "actor": "ana"}]})

    at: Time | None = Field(None, description="Since when it is no longer true. Default: now.")
    reason: Name | None = Field(None, description="Why, in a few words.")
    actor: Name | None = Field(None, description="Who decided it.")


class SupersedeIn(CamelModel):
    """The memory that replaces another one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"by": OTHER_ID, "reason": "she has moved"}]})

    by: Id = Field(description="The id of the memory that replaces it.")
    reason: Name | None = Field(None, description="Why, in a few words.")
    actor: Name | None = Field(None, description="Who decided it.")


@router.post(
    "/{id:uuid}/supersede", response_model=Memory, summary="Replace a memory", responses=problem_responses(404, 409)
)
def supersede_memory(
    view: WriteView, id: IdPath, body: SupersedeIn, idempotency_key: IdempotencyHeader = None
) -> JSONResponse:
    """Retires a memory because another one replaces it, from the time on at which that one is valid; returns it.

    Recalls leave it out. It is not deleted: restoring it undoes this.
    """
    return json_response(
        view.supersede(str(id), body.by, reason=body.reason, actor=body.actor, idempotency_key=idempotency_key)
    )


@router.post(
    "/{id:uuid}/retract", response_model=Memory, summary="Retire a memory", responses=problem_responses(404, 409)
)
def retract_memory(
    view: WriteView,
    id: IdPath,
    body: Annotated[RetractIn, Body()] = RetractIn(),  # noqa: B008 - it is frozen
    idempotency_key: IdempotencyHeader = None,
) -> JSONResponse:
    """Retires a memory that is no longer true and returns it. Restoring it undoes this."""
    return json_response(
        view.retract(str(id), at=body.at, reason=body.reason, actor=body.actor, idempotency_key=idempotency_key)
    )


@router.post(
    "/{id:uuid}/restore", response_model=Memory, summary="Restore a memory", responses=problem_responses(404, 409)
)
def restore_memory(view: WriteView, id: IdPath, idempotency_key: IdempotencyHeader = None) -> JSONResponse:
    """Undoes that a memory was retired, and returns it."""
    return json_response(view.restore(str(id), idempotency_key=idempotency_key))


@router.get(
    "/{id:uuid}/history", response_model=MemoryList, summary="History of a memory", responses=problem_responses(404)
)
def memory_history(view: ReadView, id: IdPath) -> JSONResponse:
    """Returns a memory with all that it replaced, that replaced it, or that have its key, oldest first."""
    return json_response({"memories": view.history(str(id))})


@router.post("/sweep", response_model=Swept, summary="Delete what has expired")
def sweep_memories(view: WriteView) -> JSONResponse:
    """Deletes the memories of the profile that have expired, for good, and returns how many there were."""
    return json_response({"swept": view.sweep()})
