"""The log of what was given: which memories each prompt got."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from retentive.models import MAX_NAME
from retentive.pipeline.given import MAX_ENTRIES
from retentive.server.http.auth import ReadView
from retentive.server.http.rendering import json_response
from retentive.server.http.request_parsing import StrictRoute
from retentive.server.http.response_models import GivenList

router = APIRouter(prefix="/v1/given", tags=["chat"], route_class=StrictRoute)


@router.get("", response_model=GivenList, summary="List what was given")
def list_given(
    view: ReadView,
    project: Annotated[
        str | None, Query(max_length=MAX_NAME, description="Only what was found in this project.")
    ] = None,
    client: Annotated[str | None, Query(max_length=MAX_NAME, description="Only this client.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES, description="Maximum number of prompts.")] = 100,
) -> JSONResponse:
    """Returns the memories that prompts got by hooks, chat, MCP and context, the latest prompt first."""
    return json_response({"given": view.given(project=project, client=client, limit=limit)})
