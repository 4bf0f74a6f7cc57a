"""Sessions, projects, profiles, and how much there is of each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from retentive.models import TimelineBy
from retentive.pipeline.remember import MAX_NAME
from retentive.server.http import response_models as shown
from retentive.server.http.auth import Known, Profile, Reading, Writing
from retentive.server.http.openapi import may_fail
from retentive.server.http.rendering import answer, plain
from retentive.server.http.request_models import SessionPatch
from retentive.server.http.strict_route import StrictRoute

router = APIRouter(prefix="/v1", tags=["catalogue"], route_class=StrictRoute)


@router.get("/sessions", response_model=shown.Sessions, summary="Sessions")
def list_sessions(inside: Reading, project: Annotated[str | None, Query(max_length=MAX_NAME)] = None) -> JSONResponse:
    """The sessions, or those of one project, with how many memories each has, and from when to when."""
    return answer({"sessions": inside.sessions(project=project)})


# A name may hold slashes.
@router.patch(
    "/sessions/{name:path}",
    response_model=shown.Session,
    summary="Move a session to a project",
    responses=may_fail(404, 409),
)
def move_session(
    inside: Writing, name: Annotated[str, Path(max_length=MAX_NAME, examples=["2026-05-08"])], to: SessionPatch
) -> JSONResponse:
    """The session in its new project, or in none, with all its memories."""
    return answer(inside.move_session(name, project=to.project))


@router.get("/projects", response_model=shown.Projects, summary="Projects")
def list_projects(inside: Reading) -> JSONResponse:
    """The projects, with how many sessions and memories each has."""
    return answer({"projects": inside.projects()})


@router.get("/profiles", response_model=shown.Profiles, summary="Profiles")
def list_profiles(inside: Reading, who: Known) -> JSONResponse:
    """Everybody who has memories here. Whoever comes with a token sees the token's own profile alone."""
    return answer({"profiles": inside.engine.profiles() if who.profile is None else [inside.counts()]})


@router.get("/timeline", response_model=shown.Timeline, summary="Memories by kind over time")
def get_timeline(
    inside: Reading,
    project: Annotated[str | None, Query(max_length=MAX_NAME)] = None,
    by: Annotated[TimelineBy | None, Query(description="In which steps; else in those that fit the span.")] = None,
) -> JSONResponse:
    """How many memories there are of each day, month or year of UTC, by when they happened, oldest first."""
    return answer(inside.timeline(project=project, by=by))


@router.get("/stats", response_model=shown.Stats, summary="How much there is")
def get_stats(inside: Reading, who: Known, profile: Profile = None) -> JSONResponse:
    """What the whole store holds; for whoever comes with a token, or names a profile, what that profile does."""
    if who.profile is None and profile is None:
        return answer({"profile": None, **plain(inside.engine.stats())})
    mine = inside.counts()
    counts = {"memories": mine.memories, "projects": mine.projects, "sessions": mine.sessions}
    return answer({"profile": mine.name, **counts})
