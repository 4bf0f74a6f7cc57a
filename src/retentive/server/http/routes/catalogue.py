"""Sessions, projects, profiles, the timeline and statistics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from retentive.models import MAX_NAME
from retentive.pipeline.timeline import TimelineBy
from retentive.server.http.auth import CurrentCaller, ProfileHeader, ReadView, WriteView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.rendering import json_response, to_json
from retentive.server.http.request_parsing import CamelModel, Name, StrictRoute
from retentive.server.http.response_models import Profiles, Projects, Session, Sessions, Stats, Timeline

router = APIRouter(prefix="/v1", tags=["catalogue"], route_class=StrictRoute)

ProjectFilter = Annotated[str | None, Query(max_length=MAX_NAME)]


class SessionPatch(CamelModel):
    """The new project of a session, and its present one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"project": "garden"}]})

    project: Name | None = Field(description="The project; null moves the session out of its project.")
    from_project: Name | None = Field(
        None, description="The project that the session is in; needed if several projects have a session of this name."
    )


@router.get("/sessions", response_model=Sessions, summary="List sessions")
def list_sessions(view: ReadView, project: ProjectFilter = None) -> JSONResponse:
    """Returns the sessions, or those of one project, with their number of memories and their first and last time."""
    return json_response({"sessions": view.sessions(project=project)})


# A path parameter, because a name may contain slashes.
@router.patch(
    "/sessions/{name:path}",
    response_model=Session,
    summary="Move a session to another project",
    responses=problem_responses(404, 409),
)
def move_session(
    view: WriteView, name: Annotated[str, Path(max_length=MAX_NAME, examples=["2026-05-08"])], body: SessionPatch
) -> JSONResponse:
    """Moves a session with all its memories to another project, or out of its project, and returns it."""
    return json_response(view.move_session(name, project=body.project, from_project=body.from_project))


@router.get("/projects", response_model=Projects, summary="List projects")
def list_projects(view: ReadView) -> JSONResponse:
    """Returns the projects, with their numbers of sessions and memories."""
    return json_response({"projects": view.projects()})


@router.get("/profiles", response_model=Profiles, summary="List profiles")
def list_profiles(view: ReadView, caller: CurrentCaller) -> JSONResponse:
    """Returns all profiles that have memories. A caller with a token sees only its own."""
    return json_response({"profiles": view.engine.profiles() if caller.profile is None else [view.counts()]})


@router.get("/timeline", response_model=Timeline, summary="Count memories over time")
def get_timeline(
    view: ReadView,
    project: ProjectFilter = None,
    by: Annotated[TimelineBy | None, Query(description="Size of the buckets. Default: chosen by the span.")] = None,
) -> JSONResponse:
    """Returns the number of memories of each kind in each day, month or year (UTC), oldest first."""
    return json_response(view.timeline(project=project, by=by))


@router.get("/stats", response_model=Stats, summary="Get statistics")
def get_stats(view: ReadView, caller: CurrentCaller, profile: ProfileHeader = None) -> JSONResponse:
    """Returns statistics of the whole store, or of one profile if the caller has a token or names a profile."""
    if caller.profile is None and profile is None:
        return json_response({"profile": None, **to_json(view.engine.stats())})
    counts = view.counts()
    return json_response(
        {
            "profile": counts.name,
            "memories": counts.memories,
            "projects": counts.projects,
            "sessions": counts.sessions,
        }
    )
