"""Chat with memory for clients of OpenAI's API, and the context alone for those who call their own model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from retentive.chat.proxy import Chat, MemoryOptions, Relay, Reply
from retentive.pipeline.access_tokens import looks_like_token
from retentive.server.http.auth import Chatting, ListingModels, Reading, as_utf8
from retentive.server.http.chat_models import ChatRequest, Context, ContextRequest, MemoryWishes, OpenAIError
from retentive.server.http.idempotency import IdempotencyKey
from retentive.server.http.openai_errors import OpenAIRoute
from retentive.server.http.strict_route import StrictRoute
from retentive.server.http.tuning_parameters import chosen

CLIENT_GONE = 499

_MAY_FAIL = {
    401: "A token is needed, or is not known.",
    403: "The token does not allow this.",
    409: "The session belongs to another project.",
    415: "The body is not JSON, or does not say so.",
    422: "Something in the request is wrong; `param` names the field.",
    501: "No model is configured.",
    502: "The model's server is down, or broke off.",
    503: "The store cannot be reached; try again later.",
    504: "The model's server was silent for too long.",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": meaning, "model": OpenAIError} for status, meaning in _MAY_FAIL.items()
}

openai = APIRouter(prefix="/v1", tags=["chat"], route_class=OpenAIRoute, responses=_ERRORS)
own = APIRouter(prefix="/v1", tags=["chat"], route_class=StrictRoute)

Session = Annotated[
    str | None,
    Header(alias="X-Session", min_length=1, max_length=2000, description="The session, if the body names none."),
]
Project = Annotated[
    str | None,
    Header(alias="X-Project", min_length=1, max_length=2000, description="The project, if the body names none."),
]


def add_chat(app: FastAPI) -> None:
    """Give the application its chat, which is closed when the application ends."""
    app.state.chat = Chat(app.state.settings.upstream)
    app.state.openers.append(_chat_open)
    app.include_router(openai)
    app.include_router(own)


@asynccontextmanager
async def _chat_open(app: FastAPI) -> AsyncIterator[Chat]:
    chat: Chat = app.state.chat
    try:
        yield chat
    finally:
        await chat.close()


@openai.post(
    "/chat/completions",
    response_class=Response,
    responses={
        200: {
            "description": "The model's answer as it gave it: JSON, or a stream of events.",
            "content": {"application/json": {}, "text/event-stream": {}},
        },
    },
)
async def complete_chat(
    request: Request,
    body: ChatRequest,
    confined: Chatting,
    session: Session = None,
    project: Project = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Answer with memory.

    The request goes to the configured model with memories added as one system message, and its answer comes back byte
    for byte. When it has ended, what the user said and what was answered are remembered.
    """
    chat: Chat = request.app.state.chat
    asked = await request.json()
    wishes = _wishes(body.retentive or MemoryWishes(), asked.get("user"), session, project, idempotency_key)
    work = chat.turns.start(chat.complete(confined, asked, wishes, headers=_for_model(request)))
    if not await _stays(request, work):
        return Response(status_code=CLIENT_GONE)
    return _response(work.result())


@openai.get(
    "/models",
    response_class=Response,
    responses={200: {"description": "The model's server's own list.", "content": {"application/json": {}}}},
)
async def list_models(request: Request, _: ListingModels) -> Response:
    """The models that can be asked for, as the model's server lists them."""
    chat: Chat = request.app.state.chat
    answer = await chat.upstream.get("models", headers=_for_model(request))
    return Response(await answer.read(), answer.status, dict(answer.headers))


@own.post("/context")
async def assemble_context(
    request: Request, body: ContextRequest, confined: Reading, session: Session = None, project: Project = None
) -> Context:
    """What memory gives to a prompt, for those who call their own model: the block, its tokens, and why each is in."""
    chat: Chat = request.app.state.chat
    named = _either(body.session, session)
    wishes = MemoryOptions(
        session=named,
        project=_either(body.project, project),
        everywhere=body.everywhere,
        budget=body.budget,
        recent=body.recent if named is not None else 0,
        tuning=chosen(body.tuning),
    )
    await chat.turns.stored(confined, named or "")
    return Context.of(await chat.context(confined, body.query or body.messages or [], wishes))


class _Relayed(StreamingResponse):
    """A stream that is ended whatever becomes of the client."""

    def __init__(self, relay: Relay, reply: Reply) -> None:
        super().__init__(relay.pieces(), reply.status, dict(reply.headers))
        self._relay = relay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._relay.end()


def _response(reply: Reply) -> Response:
    if isinstance(reply.body, Relay):
        return _Relayed(reply.body, reply)
    return Response(reply.body, reply.status, dict(reply.headers))


async def _stays(request: Request, work: asyncio.Task[Reply]) -> bool:
    """Whether the client waited until the work was done; it is not done for one who has gone."""
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        stays = work.done()
        work.cancel()
    if not stays:
        await asyncio.wait({work})
    return not work.cancelled()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _wishes(
    given: MemoryWishes, user: Any, session: str | None, project: str | None, idempotency_key: str | None
) -> MemoryOptions:
    named = _either(given.session, session)
    if named is None and isinstance(user, str) and user.strip():
        named = user
    return MemoryOptions(
        session=named,
        project=_either(given.project, project),
        everywhere=given.everywhere,
        recall=given.recall,
        store=given.store,
        budget=given.budget,
        recent=given.recent,
        tuning=chosen(given.tuning),
        key=idempotency_key,
    )


def _either(in_body: str | None, in_header: str | None) -> str | None:
    """What the body names, or else a header."""
    return in_body if in_body is not None or in_header is None else as_utf8(in_header)


def _for_model(request: Request) -> dict[str, str]:
    """The headers that are the model's: what begins with OpenAI's name, and a key that is none of ours."""
    meant = {name: value for name, value in request.headers.items() if name.startswith("openai-")}
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip() and not looks_like_token(secret.strip()):
        meant["Authorization"] = f"Bearer {secret.strip()}"
    return meant
