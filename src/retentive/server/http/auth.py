"""Who is calling, and what they may do.

On loopback, without a token, it is whoever runs the service. A token binds its bearer to one profile. Off loopback
every request needs one, and so it does everywhere if the settings say so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from retentive.engine import Engine
from retentive.pipeline.access_tokens import ACCESSES, Access, looks_like_token
from retentive.settings import ServerSettings
from retentive.tenancy import ProfileView

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who was let in. A profile of None is whoever runs the service, who may name any."""

    name: str
    profile: str | None
    access: Access

    def may(self, access: Access) -> bool:
        """Whether this is allowed: each access includes those before it."""
        return ACCESSES.index(access) <= ACCESSES.index(self.access)


OWNER = Caller("owner", None, "admin")

bearer = HTTPBearer(auto_error=False, description="A token from `retentive token create`; not needed on loopback.")


def needs_token(settings: ServerSettings) -> bool:
    """Whether everybody needs a token."""
    return settings.require_token or settings.host not in LOOPBACK


def identify(engine: Engine, settings: ServerSettings, secret: str | None) -> Caller:
    """Who comes with this token, or with none."""
    if secret is None:
        if needs_token(settings):
            raise HTTPException(
                401,
                "a token is needed: send it as 'Authorization: Bearer …'; make one with: retentive token create",
                {"WWW-Authenticate": "Bearer"},
            )
        return OWNER
    token = engine.tokens.find(secret)
    if token is None:
        raise HTTPException(
            401, "this token is not known, or was taken back", {"WWW-Authenticate": 'Bearer error="invalid_token"'}
        )
    return Caller(f"token {token.id}", token.profile, token.access)


# These dependencies are `async` because they wait for nothing but the look for a token: a plain function would cost
# every request a change of threads for each.


async def caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)] = None
) -> Caller:
    """Who is calling; 401 if they may not come in at all."""
    engine, settings = request.app.state.engine, request.app.state.settings.server
    if given is not None:
        who = await run_in_threadpool(identify, engine, settings, given.credentials)
    elif request.headers.get("authorization") is not None:
        # An empty token is a slip in a script. Whoever meant to come as somebody must not come in as the owner.
        raise HTTPException(
            401, "there is no token in 'Authorization'; write it as 'Bearer …'", {"WWW-Authenticate": "Bearer"}
        )
    else:
        who = identify(engine, settings, None)
    request.state.caller = who.name  # for the log
    return who


def allowed(who: Caller, access: Access) -> None:
    """403 if this caller may not do such a thing."""
    if not who.may(access):
        raise HTTPException(403, f"this token may {who.access}; this needs a token that may {access}")


def inside(request: Request, who: Caller, asked: str | None) -> ProfileView:
    """The engine, confined to the caller's profile; whoever runs the service may name one."""
    engine: Engine = request.app.state.engine
    asked = None if asked is None else as_utf8(asked)
    if who.profile is not None and asked not in (None, who.profile):
        raise HTTPException(403, f"this token is for profile '{who.profile}' alone")
    return ProfileView(engine, who.profile or asked or engine.settings.profile)


def as_utf8(header: str) -> str:
    """A header's text as it was meant: clients send UTF-8, servers read Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


Known = Annotated[Caller, Depends(caller)]
Profile = Annotated[
    str | None,
    Header(
        alias="X-Profile",
        min_length=1,
        max_length=2000,
        description="Whose memories; without it the token's, or the service's own.",
    ),
]


async def reading(request: Request, who: Known, profile: Profile = None) -> ProfileView:
    """What this caller may read."""
    allowed(who, "read")
    return inside(request, who, profile)


async def writing(request: Request, who: Known, profile: Profile = None) -> ProfileView:
    """What this caller may change."""
    allowed(who, "write")
    return inside(request, who, profile)


async def administering(request: Request, who: Known) -> Engine:
    """The whole engine, for those who may change settings."""
    allowed(who, "admin")
    engine: Engine = request.app.state.engine
    return engine


async def administering_inside(request: Request, who: Known, profile: Profile = None) -> ProfileView:
    """What this caller may change, for those who may change settings."""
    allowed(who, "admin")
    return inside(request, who, profile)


def _whatever_the_key(access: Access) -> Callable[..., Awaitable[ProfileView]]:
    """Lets in clients made for a model's server, which always send a key.

    Where nobody needs a token, a key that is none of ours is meant for the model.
    """

    async def let_in(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)] = None,
        profile: Profile = None,
    ) -> ProfileView:
        settings: ServerSettings = request.app.state.settings.server
        is_for_model = given is not None and not looks_like_token(given.credentials) and not needs_token(settings)
        who = OWNER if is_for_model else await caller(request, given)
        allowed(who, access)
        return inside(request, who, profile)

    return let_in


Reading = Annotated[ProfileView, Depends(reading)]
Writing = Annotated[ProfileView, Depends(writing)]
Administering = Annotated[Engine, Depends(administering)]
AdministeringInside = Annotated[ProfileView, Depends(administering_inside)]
Chatting = Annotated[ProfileView, Depends(_whatever_the_key("write"))]
ListingModels = Annotated[ProfileView, Depends(_whatever_the_key("read"))]
