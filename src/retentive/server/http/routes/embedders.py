"""Embed the memories with another model, to compare it with the configured one."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from retentive.server.http.auth import AdminView, ReadView
from retentive.server.http.embedder_copies import CopyStatus, EmbedderCopies
from retentive.server.http.openapi import problem_responses
from retentive.server.http.request_parsing import CamelModel, EmbedderName, StrictRoute
from retentive.server.http.response_models import EmbedderCopy, EmbedderCopyList
from retentive.tenancy import ProfileView

router = APIRouter(prefix="/v1/embedders", tags=["judgements"], route_class=StrictRoute)


class EmbedderIn(CamelModel):
    """An embedder to compare with the configured one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "multilingual"}]})

    name: EmbedderName = Field(description="One of those that GET /v1/embedders lists.")


@router.get("", response_model=EmbedderCopyList, summary="List the embedders to compare with")
def list_embedders(request: Request, view: ReadView) -> JSONResponse:
    """Returns the embedders that are included, installed or configured for a comparison, with their progress."""
    return _listing(view, _copies(request).statuses(view.profile))


@router.post(
    "",
    status_code=202,
    response_model=EmbedderCopy,
    summary="Embed the memories with another model",
    responses=problem_responses(404, 409),
)
def start_embedding(request: Request, view: AdminView, body: EmbedderIn) -> JSONResponse:
    """Starts to embed the profile's memories with another model, in a copy, for comparisons; the store is only read.

    Called again, it brings the copy up to date. The copy is deleted when the service ends. One run at a time.
    """
    return JSONResponse(_copies(request).start(view.profile, body.name).to_dict(), 202)


@router.delete("", response_model=EmbedderCopyList, summary="Stop embedding with another model")
def stop_embedding(request: Request, view: AdminView) -> JSONResponse:
    """Stops the run if there is one, and returns the embedders. The next run continues where it stopped."""
    return _listing(view, _copies(request).stop(view.profile))


def _listing(view: ProfileView, found: list[CopyStatus]) -> JSONResponse:
    embedder = view.engine.embeddings.available()
    current = None if embedder is None else embedder.model.name
    return JSONResponse({"current": current, "embedders": [one.to_dict() for one in found]})


def _copies(request: Request) -> EmbedderCopies:
    copies: EmbedderCopies = request.app.state.embedder_copies
    return copies
