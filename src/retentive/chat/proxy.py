"""Chat with memory: a request gets its context, goes to the model, and its answer comes back as the model gave it.

    request ──► context ──► upstream ──► bytes to the client, unchanged ──► both turns stored

The model is any server that speaks OpenAI's chat completions. Nothing here knows the framework that serves the request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from retentive.chat.context import Message, PromptContext, assemble, query_of
from retentive.chat.llm_client import LlmClient, LlmError, LlmResponse
from retentive.chat.sse import NO_ANSWER, Answer, AnswerStream, read_answer
from retentive.chat.turn_recorder import Turn, Turns, check_place
from retentive.settings import UpstreamSettings
from retentive.tenancy import ProfileView

DEFAULT_SESSION = "chat"


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """What a request asks of memory. Without a session it is the common one, and recalls from the whole profile."""

    session: str | None = None
    project: str | None = None
    everywhere: bool = False
    recall: bool = True
    store: bool = True
    budget: int | None = None
    recent: int | None = None
    tuning: Mapping[str, Any] | str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back to the client: a body, or a stream of pieces that must be ended."""

    status: int
    headers: Mapping[str, str]
    body: bytes | Relay


class StreamStart(NamedTuple):
    """A stream whose first piece has come."""

    first: bytes
    rest: AsyncGenerator[bytes, None]


@dataclass(slots=True, eq=False)
class Relay:
    """A model's stream on its way to the client. `end` it when the client has had it, or has gone."""

    response: LlmResponse
    first: bytes
    rest: AsyncGenerator[bytes, None]
    chat: Chat
    confined: ProfileView
    turn: Turn | None
    _read: AnswerStream = field(default_factory=AnswerStream)
    _ended: bool = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes of the model, and an error in the place of its end if it broke off."""
        try:
            piece: bytes | None = self.first
            while piece is not None:
                ready = self._read.feed(piece)
                if self._read.done:
                    self._keep()  # before the client hears of the end, and perhaps asks on
                if ready:
                    yield ready
                piece = await anext(self.rest, None)
        except LlmError as error:
            self._keep()
            yield _error_event(error)
            return
        self._keep()
        if self._read.answer.complete or self._read.failed:
            yield self._read.rest
        else:
            yield _error_event(LlmError(502, "the model's answer broke off", code="upstream_broke_off"))

    def end(self) -> None:
        """Close the connection to the model, and keep what was said."""
        if not self._ended:
            self._ended = True
            self.chat.open.discard(self)
            self._keep()
            self.chat.turns.start(self._close())

    async def _close(self) -> None:
        with suppress(RuntimeError):  # somebody still waits for the next piece; closing the response wakes them
            await self.rest.aclose()
        await self.response.close()

    def _keep(self) -> None:
        if self.turn is not None:
            self.chat.turns.keep(self.confined, self.turn, self._read.answer)
            self.turn = None


class Chat:
    """Passes chats on to a model, with memory. One for each application; close it."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self._settings = settings
        self.upstream = LlmClient(settings)
        self.turns = Turns()
        self.open: set[Relay] = set()
        """The streams that are on their way."""

    async def close(self) -> None:
        """Wait until everything is stored, and let go of connections."""
        for relay in [*self.open]:
            relay.end()
        await self.turns.open_scope()
        await self.upstream.close()

    async def complete(
        self,
        confined: ProfileView,
        request: Mapping[str, Any],
        wishes: MemoryOptions,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """The model's answer to a request, as it came. If it fails, what the user said is kept all the same."""
        self.upstream.check()
        session = DEFAULT_SESSION if wishes.session is None else wishes.session
        await asyncio.to_thread(check_place, confined, session, wishes.project)
        await self.turns.stored(confined, session)
        messages: Sequence[Message] = request["messages"]
        context = await self.context(confined, messages, wishes) if wishes.recall else None
        turn = _turn(messages, session, wishes) if wishes.store else None
        try:
            response, came = await self._ask(self._forwarded(request, context), headers or {})
        except LlmError:
            await self._keep(confined, turn, NO_ANSWER)
            raise
        except asyncio.CancelledError:  # the client has gone
            if turn is not None:
                self.turns.keep(confined, turn, NO_ANSWER)
            raise
        if isinstance(came, StreamStart):
            relay = Relay(response, came.first, came.rest, self, confined, turn)
            self.open.add(relay)
            body: bytes | Relay = relay
        else:
            body = came
            await self._keep(confined, turn, read_answer(came) if response.ok else NO_ANSWER)
        told = {"X-Session": session.encode("ascii", "replace").decode()} if session.isprintable() else {}
        if context is not None:
            told["X-Context-Tokens"] = str(context.token_count)
        return Reply(response.status, {**response.headers, **told}, body)

    async def context(
        self, confined: ProfileView, asked: str | Sequence[Message], wishes: MemoryOptions
    ) -> PromptContext:
        """What memory gives to a prompt."""
        return await asyncio.to_thread(
            assemble,
            confined,
            asked,
            session=DEFAULT_SESSION if wishes.session is None else wishes.session,
            project=wishes.project,
            everywhere=wishes.everywhere or wishes.session is None,
            budget=self._settings.context_tokens if wishes.budget is None else wishes.budget,
            recent=self._settings.recent if wishes.recent is None else wishes.recent,
            tuning=wishes.tuning,
        )

    def _forwarded(self, request: Mapping[str, Any], context: PromptContext | None) -> bytes:
        """The request as the model gets it: the same but for the context, and what is for us alone."""
        body = {name: value for name, value in request.items() if name != "retentive"}
        if context is not None:
            body["messages"] = with_context(request["messages"], context)
        if body.get("model") is None and self._settings.model is not None:
            body["model"] = self._settings.model
        return json.dumps(body).encode()

    async def _ask(self, body: bytes, headers: Mapping[str, str]) -> tuple[LlmResponse, bytes | StreamStart]:
        """The answer whole, or the beginning of a stream."""
        response = await self.upstream.post("chat/completions", body, headers=headers)
        try:
            if not response.streams:
                return response, await response.read()
            rest = response.pieces()
            return response, StreamStart(await _first(rest), rest)
        except BaseException:
            self.turns.start(response.close())
            raise

    async def _keep(self, confined: ProfileView, turn: Turn | None, answer: Answer) -> None:
        if turn is not None:
            await asyncio.shield(self.turns.keep(confined, turn, answer))


async def _first(pieces: AsyncIterator[bytes]) -> bytes:
    first = await anext(pieces, None)
    if first is None:
        raise LlmError(502, "the model ended its answer before it began", code="upstream_broke_off")
    return first


def with_context(messages: Sequence[Message], context: PromptContext) -> list[Message]:
    """The messages with the context behind the client's own instructions."""
    own = next((at for at, one in enumerate(messages) if one.get("role") not in ("system", "developer")), len(messages))
    return [*messages[:own], *context.messages, *messages[own:]]


def _turn(messages: Sequence[Message], session: str, wishes: MemoryOptions) -> Turn:
    new = messages[-1].get("role") == "user"
    return Turn(query_of(messages), session, wishes.project, new=new, key=wishes.key)


def _error_event(error: LlmError) -> bytes:
    return b"data: " + json.dumps(error.to_dict()).encode() + b"\n\n"
