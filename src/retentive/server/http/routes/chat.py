"""Chat completions with memory for OpenAI's clients, and the context alone for clients that call a model themselves."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from retentive.chat.context import brief, log_context
from retentive.chat.proxy import Chat, MemoryOptions, Reply, StreamRelay
from retentive.models import current_work
from retentive.pipeline.access_tokens import looks_like_token
from retentive.server.http.auth import OpenAIReadView, OpenAIWriteView, ReadView, decode_header, recall_cost
from retentive.server.http.chat_models import (
    BriefingRequest,
    ChatMemoryOptions,
    ChatRequest,
    ContextRequest,
    ContextResponse,
    OpenAIError,
)
from retentive.server.http.problems import OpenAIRoute
from retentive.server.http.request_parsing import CLIENT_CLOSED_REQUEST, IdempotencyHeader, StrictRoute, tuning_override

_DESCRIPTIONS = {
    401: "The token is missing or unknown.",
    403: "The token does not allow this.",
    409: "The session belongs to another project.",
    415: "The body is not JSON, or its Content-Type is not.",
    422: "The request is invalid; `param` names the field.",
    429: "The token has too many requests in progress.",
    501: "No LLM is configured.",
    502: "The LLM server is down, or closed the connection.",
    503: "The store cannot be reached; try again later.",
    504: "The LLM server did not answer in time.",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": description, "model": OpenAIError} for status, description in _DESCRIPTIONS.items()
}

ClientHeader = Annotated[
    str,
    Header(alias="X-Client", min_length=1, max_length=200, description="The client, for the log of what was given."),
]

openai_router = APIRouter(prefix="/v1", tags=["chat"], route_class=OpenAIRoute, responses=_ERRORS)
context_router = APIRouter(prefix="/v1", tags=["chat"], route_class=StrictRoute)

SessionHeader = Annotated[
    str | None,
    Header(alias="X-Session", min_length=1, max_length=2000, description="The session, if the body has none."),
]
ProjectHeader = Annotated[
    str | None,
    Header(alias="X-Project", min_length=1, max_length=2000, description="The project, if the body has none."),
]


@openai_router.post(
    "/chat/completions",
    response_class=Response,
    summary="Chat completion with memory",
    responses={
        200: {
            "description": "The response of the LLM server, unchanged: JSON, or a stream of events.",
            "content": {"application/json": {}, "text/event-stream": {}},
        },
    },
)
async def complete_chat(
    request: Request,
    body: ChatRequest,
    view: OpenAIWriteView,
    session: SessionHeader = None,
    project: ProjectHeader = None,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Sends the request to the configured LLM, with memories added as one system message.

    The response is passed on byte for byte. At its end, the user's message and the answer are stored.
    """
    chat: Chat = request.app.state.chat
    sent = await request.json()
    given = body.retentive or ChatMemoryOptions()
    name = _body_or_header(given.session, session)
    user = sent.get("user")
    if name is None and isinstance(user, str) and user.strip():
        name = user
    options = MemoryOptions(
        session=name,
        project=_body_or_header(given.project, project),
        everywhere=given.everywhere,
        recall=given.recall,
        store=given.store,
        budget=given.budget,
        recent=given.recent,
        tuning=tuning_override(given.tuning),
        idempotency_key=idempotency_key,
    )
    task = chat.recorder.start(chat.complete(view, sent, options, headers=_llm_headers(request)))
    if not await _wait_or_disconnect(request, task):
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return _to_response(task.result())


@openai_router.get(
    "/models",
    response_class=Response,
    summary="List models",
    responses={200: {"description": "The list of the LLM server.", "content": {"application/json": {}}}},
)
async def list_models(request: Request, _: OpenAIReadView) -> Response:
    """Returns the models of the LLM server."""
    chat: Chat = request.app.state.chat
    response = await chat.llm.get("models", headers=_llm_headers(request))
    return Response(await response.read(), response.status, dict(response.headers))


@context_router.post("/context", summary="Assemble the context of a prompt")
async def assemble_context(
    request: Request,
    body: ContextRequest,
    view: ReadView,
    session: SessionHeader = None,
    project: ProjectHeader = None,
    client: ClientHeader = "context",
) -> ContextResponse:
    """Returns the memories for a prompt as a block of text and as messages, with the reason for each memory."""
    chat: Chat = request.app.state.chat
    if body.deadline_ms is not None:
        current_work().deadline = monotonic() + body.deadline_ms / 1000
    request.app.state.work.charge(request, recall_cost(body.tuning))
    name = _body_or_header(body.session, session)
    options = MemoryOptions(
        client=decode_header(client),
        session=name,
        project=_body_or_header(body.project, project),
        everywhere=body.everywhere,
        store=body.store,
        budget=body.budget,
        recent=body.recent if name is not None else 0,
        tuning=tuning_override(body.tuning),
        parts=body.parts,
        exclude=body.exclude,
        exclude_session=body.exclude_session,
    )
    await chat.recorder.wait_for_session(view, name or "")
    return ContextResponse.of(await chat.context(view, body.query or body.messages or [], options))


@context_router.post("/briefing", summary="Assemble the context of a new session")
def assemble_briefing(body: BriefingRequest, view: ReadView, client: ClientHeader = "context") -> ContextResponse:
    """Returns who the user is, the facts of the project, and the end of its latest session, as a block of text."""
    context = brief(view, project=body.project, session=body.session, budget=body.budget, recent=body.recent)
    log_context(view, context, client=decode_header(client), session=body.session)
    return ContextResponse.of(context)


def _to_response(reply: Reply) -> Response:
    """Return the response to the client. A stream is ended if no response can be made of it."""
    if not isinstance(reply.body, StreamRelay):
        return Response(reply.body, reply.status, dict(reply.headers))
    try:
        return _RelayResponse(reply.body, reply)
    except BaseException:
        reply.body.end()
        raise


class _RelayResponse(StreamingResponse):
    """A stream that is ended even if the client disconnects."""

    def __init__(self, relay: StreamRelay, reply: Reply) -> None:
        super().__init__(relay.pieces(), reply.status, dict(reply.headers))
        self._relay = relay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._relay.end()


async def _wait_or_disconnect(request: Request, task: asyncio.Task[Reply]) -> bool:
    """Wait for a task; cancel it and return False if the client disconnects first."""
    disconnected = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, disconnected}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        disconnected.cancel()
        done = task.done()
        task.cancel()
    if not done:
        await asyncio.wait({task})
    return not task.cancelled()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _body_or_header(in_body: str | None, in_header: str | None) -> str | None:
    return in_body if in_body is not None or in_header is None else decode_header(in_header)


def _llm_headers(request: Request) -> dict[str, str]:
    """Return the headers for the LLM server: those of OpenAI's API, and a key that is not one of our tokens."""
    headers = {name: value for name, value in request.headers.items() if name.startswith("openai-")}
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip() and not looks_like_token(secret.strip()):
        headers["Authorization"] = f"Bearer {secret.strip()}"
    return headers
