"""The API tokens of the service: make, list and revoke them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field
from starlette.exceptions import HTTPException

from retentive.pipeline.access_tokens import Access
from retentive.server.http.auth import AdminView, CurrentCaller
from retentive.server.http.openapi import problem_responses
from retentive.server.http.rendering import json_response
from retentive.server.http.request_parsing import CamelModel, StrictRoute
from retentive.server.http.response_models import CreatedToken, Token, TokenList

router = APIRouter(prefix="/v1/tokens", tags=["tokens"], route_class=StrictRoute)


class TokenIn(CamelModel):
    """What a new token allows."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"access": "write", "note": "laptop"},
                {"access": "write", "allProfiles": True, "note": "backend"},
            ]
        }
    )

    access: Access = Field("read", description="read, write (includes read) or admin (includes both).")
    note: str = Field("", max_length=200, description="What the token is for.")
    all_profiles: bool = Field(
        False,
        description="Valid for all profiles. Otherwise it is limited to the profile of this request.",
    )


@router.get("", response_model=TokenList, summary="List tokens")
def list_tokens(view: AdminView, caller: CurrentCaller) -> JSONResponse:
    """Returns the tokens without their secrets, oldest first: a caller limited to a profile sees those of its profile.

    The profile of a token for all profiles is null.
    """
    found = view.engine.tokens.list()
    return json_response({"tokens": [one for one in found if caller.profile in (None, one.profile)]})


@router.post("", status_code=201, response_model=CreatedToken, summary="Make a token")
def create_token(view: AdminView, caller: CurrentCaller, body: TokenIn) -> JSONResponse:
    """Makes a token and returns it with its secret, which is not shown again.

    Only a caller that is not limited to a profile can make a token for all profiles.
    """
    if body.all_profiles and caller.profile is not None:
        raise HTTPException(403, f"this token is limited to profile '{caller.profile}'; so are those that it makes")
    token, secret = view.engine.tokens.create(
        profile=view.profile, all_profiles=body.all_profiles, access=body.access, note=body.note
    )
    return json_response({"token": secret, **token.to_dict()}, status=201)


@router.delete("/{id}", response_model=Token, summary="Revoke a token", responses=problem_responses(404))
def revoke_token(
    view: AdminView,
    caller: CurrentCaller,
    id: Annotated[str, Path(max_length=100, description="The id of the token.", examples=["3f2a9c01"])],
) -> JSONResponse:
    """Revokes a token, so that it no longer gives access, and returns it."""
    return json_response(view.engine.tokens.revoke(id, profile=caller.profile))
