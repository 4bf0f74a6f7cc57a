"""Which requests are accepted: reject those that must not be answered, identify the caller and check its access.

A web page can make a browser send requests to 127.0.0.1, and with a host name that resolves to it even read the
responses. So the Host header must be one of ours, and the Origin must be the service itself or an allowed one.

A token limits its caller to one profile, or is valid for all of them. On loopback, a request without a token is from
the owner, who may use any profile; on other addresses, under other host names, or if the settings require it, every
request needs a token.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote_to_bytes, urlsplit

from fastapi import Depends, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retentive.engine import Engine
from retentive.models import begin_work, current_work
from retentive.pipeline.access_tokens import ACCESSES, Access, looks_like_token
from retentive.server.http.problems import problem
from retentive.server.http.request_parsing import NO_CHARACTER, Parameters
from retentive.server.runtime_file import store_digest
from retentive.settings import LOOPBACK, ServerSettings
from retentive.tenancy import ProfileView

_LONE_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


@dataclass(frozen=True, slots=True)
class Caller:
    """An identified caller. The owner, or one with a token for all profiles, has no profile and may use any."""

    name: str
    profile: str | None
    access: Access

    def has(self, access: Access) -> bool:
        """Whether the caller has this access; each access includes the ones before it."""
        return ACCESSES.index(access) <= ACCESSES.index(self.access)


OWNER = Caller("owner", None, "admin")

bearer = HTTPBearer(auto_error=False, description="A token from `retentive token create`; not needed on loopback.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


def identify(engine: Engine, settings: ServerSettings, secret: str | None) -> Caller:
    """Return the caller with this token, or without one; 401 if it is not valid."""
    if secret is None:
        if settings.token_reason:
            raise HTTPException(
                401,
                "a token is required: send it as 'Authorization: Bearer …'; create one with: retentive token create",
                {"WWW-Authenticate": "Bearer"},
            )
        return OWNER
    token = engine.tokens.find(secret)
    if token is None:
        raise HTTPException(
            401, "this token is unknown or was revoked", {"WWW-Authenticate": 'Bearer error="invalid_token"'}
        )
    return Caller(f"token {token.id}", token.profile, token.access)


_COUNTED = "retentive.counted"


MEASURE_COST = 4
"""As how many requests a measurement of tunings counts."""


def recall_cost(*choices: Parameters | str | None) -> int:
    """As how many requests a recall with each of these tunings counts, because of what only they ask for."""
    parameters = (choice.model_dump() for choice in choices if isinstance(choice, Parameters))
    return sum(1 + ((one["judge_depth"] or 0) + len(one["source_weights"] or ())) // 25 for one in parameters) or 1


class WorkInProgress:
    """How many requests of each token are in progress, so that one caller cannot take the threads of all others.

    A costly request counts as several. Each worker counts its own. `RequestGuard` calls `leave` when a response is
    complete.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, request: Request, caller: str) -> None:
        """Count a request, once; 429 if the caller has too many in progress."""
        if _COUNTED not in request.scope:
            self._add(request, caller)

    def charge(self, request: Request, cost: int) -> None:
        """Count a request that was counted once as several, or as all that a token may have."""
        caller, counted = request.scope.get(_COUNTED, ("", cost))
        for _ in range(min(cost, self._limit) - counted):
            self._add(request, caller)

    def _add(self, request: Request, caller: str) -> None:
        with self._lock:
            if self._running[caller] >= self._limit:
                raise HTTPException(
                    429,
                    f"this token has {self._limit} requests in progress, which is the limit, or fewer that are costly; "
                    "wait for one to finish",
                    {"Retry-After": "1"},
                )
            self._running[caller] += 1
            request.scope[_COUNTED] = caller, request.scope.get(_COUNTED, (caller, 0))[1] + 1

    def leave(self, scope: Scope) -> None:
        """Count a request as finished."""
        caller, counted = scope.pop(_COUNTED, ("", 0))
        with self._lock:
            self._running[caller] -= counted
            if not self._running[caller]:
                del self._running[caller]


# These dependencies are `async` because only the search for a token blocks: as plain functions, each would cost every
# request a change of threads.


async def current_caller(request: Request, credentials: Credentials = None) -> Caller:
    """Return the caller of a request; 401 if its token is missing or not valid."""
    engine, settings = request.app.state.engine, request.app.state.settings.server
    if credentials is not None:
        caller = await run_in_threadpool(identify, engine, settings, credentials.credentials)
    elif request.headers.get("authorization") is not None:
        # An empty token is a mistake in a script. The caller meant to use a token and must not become the owner.
        raise HTTPException(
            401, "there is no token in 'Authorization'; write it as 'Bearer …'", {"WWW-Authenticate": "Bearer"}
        )
    else:
        caller = identify(engine, settings, None)
    return count_caller(request, caller)


def count_caller(request: Request, caller: Caller) -> Caller:
    """Name the caller for the log, and count its request; 429 if it has too many in progress."""
    request.state.caller = caller.name
    if caller is not OWNER:
        work: WorkInProgress = request.app.state.work
        work.enter(request, caller.name)
        current_work().caller = caller.name
    return caller


def check_access(caller: Caller, access: Access) -> None:
    """Raise 403 if the caller does not have this access."""
    if not caller.has(access):
        raise HTTPException(403, f"this token has {caller.access} access; this request needs {access} access")


def open_view(request: Request, caller: Caller, profile: str | None) -> ProfileView:
    """Return a view of the caller's profile; a caller without one may choose. An empty name is not valid (422).

    Recalls of a caller who may not write do not record the use of memories, which affects later recalls.
    """
    engine: Engine = request.app.state.engine
    profile = None if profile is None else name_in_header("X-Profile", profile)
    if caller.profile is not None and profile not in (None, caller.profile):
        raise HTTPException(403, f"this token is limited to profile '{caller.profile}'")
    name = caller.profile or profile or engine.settings.profile
    return ProfileView(engine, name, records_use=caller.has("write"))


def name_in_header(header: str, value: str) -> str:
    """Return the name in a header; 422 if it is empty: the request would use more than its sender meant."""
    if not value:
        message = "it is empty; send a name, or leave the header out"
        raise RequestValidationError([{"type": "value_error", "loc": ("header", header), "msg": message}])
    return decode_header(value)


def decode_header(header: str) -> str:
    """Decode a header as UTF-8: clients send UTF-8, and the server reads Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


CurrentCaller = Annotated[Caller, Depends(current_caller)]
ProfileHeader = Annotated[
    str | None,
    Header(
        alias="X-Profile",
        min_length=1,
        max_length=2000,
        description="The profile to use. Default: the profile of the token, or of the service.",
    ),
]


def _require(access: Access) -> Callable[..., Awaitable[ProfileView]]:
    """Return a dependency: a view of the caller's profile, if the caller has this access."""

    async def view(request: Request, caller: CurrentCaller, profile: ProfileHeader = None) -> ProfileView:
        check_access(caller, access)
        return open_view(request, caller, profile)

    return view


async def _admin_engine(request: Request, caller: CurrentCaller) -> Engine:
    check_access(caller, "admin")
    engine: Engine = request.app.state.engine
    return engine


def _require_openai(access: Access) -> Callable[..., Awaitable[ProfileView]]:
    """Return a dependency for OpenAI's clients, which always send an API key.

    If no token is needed, a key that is not one of our tokens is for the LLM server.
    """

    async def view(request: Request, credentials: Credentials = None, profile: ProfileHeader = None) -> ProfileView:
        settings: ServerSettings = request.app.state.settings.server
        is_llm_key = (
            credentials is not None and not looks_like_token(credentials.credentials) and settings.token_reason is None
        )
        caller = OWNER if is_llm_key else await current_caller(request, credentials)
        check_access(caller, access)
        return open_view(request, caller, profile)

    return view


ReadView = Annotated[ProfileView, Depends(_require("read"))]
WriteView = Annotated[ProfileView, Depends(_require("write"))]
AdminView = Annotated[ProfileView, Depends(_require("admin"))]
AdminEngine = Annotated[Engine, Depends(_admin_engine)]
OpenAIReadView = Annotated[ProfileView, Depends(_require_openai("read"))]
OpenAIWriteView = Annotated[ProfileView, Depends(_require_openai("write"))]


SINGLE_HEADERS = ("host", "origin", "authorization", "x-profile", "x-project")
"""Headers of which a request may have one: a proxy could check another one than the service."""


class RequestGuard:
    """Rejects requests with a foreign Host or Origin, too large a body, or half of a surrogate pair in their head.

    A request of `retentive recall` names its store: the address may have been that of another service before.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, work: WorkInProgress, store: str) -> None:
        self._app = app
        self._work = work
        public = urlsplit(settings.public_url or "").hostname
        self._hosts = {*LOOPBACK, settings.host, *settings.hosts, *([public] if public else [])}
        self._origins = set(settings.origins)
        self._max_body = settings.max_body
        self._store = store_digest(store)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        origin = headers.get("origin")
        length = headers.get("content-length", "0")
        repeated = next((name for name in SINGLE_HEADERS if len(headers.getlist(name)) > 1), None)
        if repeated is not None:
            refusal = problem(400, f"the header {repeated} must occur once", code="invalid")
        elif _host_name(host) not in self._hosts:
            detail = (
                "the Host header names another host; allow it with RETENTIVE_SERVER_HOSTS, after which every request "
                "needs a token"
            )
            refusal = problem(421, detail, code="unknown_host")
        elif origin is not None and origin not in self._origins and _origin_host(origin) != host:
            detail = "pages of this origin may not call the service; allow it with RETENTIVE_SERVER_ORIGINS"
            refusal = problem(403, detail, code="not_allowed")
        elif headers.get("x-store", self._store) != self._store:
            refusal = problem(421, "this service serves another store", code="another_store")
        elif not length.isdecimal() or int(length) > self._max_body:
            refusal = problem(413, too_large(self._max_body), code="too_large")
        elif (place := _lone_surrogate(scope)) is not None:
            detail = f"{place}: {NO_CHARACTER}"
            refusal = problem(422, detail, code="invalid", errors=[{"field": place, "message": detail}])
        else:
            begin_work()
            try:
                await self._app(scope, _limited(receive, self._max_body), send)
            finally:
                self._work.leave(scope)
            return
        await refusal(scope, receive, send)


class BodyTooLarge(HTTPException):
    """A body without a Content-Length was too large.

    It is an HTTPException because FastAPI reports any other error while it reads a body as an unreadable body.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(413, too_large(limit))


def too_large(limit: int) -> str:
    """Return the message for a body over the limit."""
    return f"a request has at most {limit:,} bytes; send several requests"


def _lone_surrogate(scope: Scope) -> str | None:
    """Return where in the head of a request half of a surrogate pair is; UTF-8 has none, so its bytes are unambiguous.

    Servers and parsers would replace it silently, and a name would become another one.
    """
    if _LONE_SURROGATE.search(unquote_to_bytes(scope.get("raw_path") or b"")):
        return "path"
    if _LONE_SURROGATE.search(unquote_to_bytes(scope["query_string"])):
        return "query"
    named = (name for name, value in scope["headers"] if _LONE_SURROGATE.search(value))
    return next((name.decode("latin-1") for name in named), None)


def _limited(receive: Receive, limit: int) -> Receive:
    """Count the bytes of a body as they arrive."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > limit:
                raise BodyTooLarge(limit)
        return message

    return receive_limited


def _origin_host(origin: str) -> str:
    """Return host and port of an origin: another port on this machine is another origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # such as an unclosed bracket
        return ""


def _host_name(host: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    name = host.rpartition("@")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]
