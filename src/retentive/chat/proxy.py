"""A chat completions proxy with memory.

    request ──► context ──► LLM server ──► bytes to the client, unchanged ──► user's message and answer stored

The LLM server is any server with OpenAI's chat completions API. This module does not depend on the web framework.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from retentive.chat.context import BLOCK_ORDER, Message, Part, PromptContext, assemble, last_user_text, log_context
from retentive.chat.llm_client import LlmClient, LlmError, LlmResponse
from retentive.chat.sse import NO_ANSWER, Answer, AnswerStream, read_answer
from retentive.chat.turn_recorder import Turn, TurnRecorder, check_session
from retentive.models import Memory
from retentive.settings import LlmSettings
from retentive.tenancy import ProfileView

DEFAULT_SESSION = "chat"

CONTEXT_HEADERS = (
    "X-Context-Scope", "X-Context-Tokens", "X-Context-Memories", "X-Context-Relevance", "X-Context-Judged",
    "X-Context-Left-Out",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """How a request uses memory. Without a project, of its own or of its session, it recalls from the whole profile."""

    client: str = "chat"
    session: str | None = None
    project: str | None = None
    everywhere: bool = False
    recall: bool = True
    store: bool = True
    budget: int | None = None
    recent: int | None = None
    tuning: Mapping[str, Any] | str | None = None
    idempotency_key: str | None = None
    parts: Collection[Part] = BLOCK_ORDER
    exclude: Sequence[str] = ()
    exclude_session: bool = False

    @property
    def session_name(self) -> str:
        """The session in which a chat is stored: the given one, or the default one."""
        return DEFAULT_SESSION if self.session is None else self.session


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to the client: a whole body, or a stream that must be ended; and what was added to the prompt."""

    status: int
    headers: Mapping[str, str]
    body: bytes | StreamRelay
    context: PromptContext | None = None


class StreamStart(NamedTuple):
    """A stream whose first piece has arrived."""

    first: bytes
    rest: AsyncGenerator[bytes, None]


@dataclass(slots=True, eq=False)
class StreamRelay:
    """A model's stream that is passed on to a client. Call `end` when it was sent, or when the client disconnected."""

    response: LlmResponse
    start: StreamStart
    chat: Chat
    view: ProfileView
    turn: Turn | None
    _read: AnswerStream = field(default_factory=AnswerStream)
    _ended: bool = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the model's bytes, and an error event at the end if the stream was interrupted."""
        try:
            piece: bytes | None = self.start.first
            while piece is not None:
                ready = self._read.feed(piece)
                if self._read.done:
                    self._record()  # before the client sees the end and perhaps sends its next request
                if ready:
                    yield ready
                if self._read.too_large:
                    break
                piece = await anext(self.start.rest, None)
        except LlmError as error:
            self._record()
            yield _error_event(error)
            return
        self._record()
        if self._read.answer.complete or self._read.failed:
            yield self._read.rest
        else:
            yield _error_event(LlmError(502, "the model's answer was interrupted", code="llm_disconnected"))

    def end(self) -> None:
        """Close the connection to the model and record the turn."""
        if not self._ended:
            self._ended = True
            self.chat.relays.discard(self)
            self._record()
            self.chat.recorder.start(self._close())

    async def _close(self) -> None:
        with suppress(RuntimeError):  # a task still waits for the next piece; closing the response ends the wait
            await self.start.rest.aclose()
        await self.response.close()

    def _record(self) -> None:
        if self.turn is not None:
            self.chat.recorder.record(self.view, self.turn, self._read.answer)
            self.turn = None


class Chat:
    """Passes chat requests on to the LLM server, with memory. An application has one; close it."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings
        self.llm = LlmClient(settings)
        extracts = settings.extract_facts and settings.model is not None
        self.recorder = TurnRecorder(self._extract if extracts else None)
        self.relays: set[StreamRelay] = set()
        """The streams that have not ended."""

    async def _extract(self, view: ProfileView, stored: Sequence[Memory]) -> None:
        from retentive.chat.extraction import extract_facts

        await extract_facts(self.llm, view, stored, model=self._settings.model or "")

    async def close(self) -> None:
        """End all streams, wait until all turns are stored, and close the connections."""
        for relay in [*self.relays]:
            relay.end()
        await self.recorder.drain()
        await self.llm.close()

    async def complete(
        self,
        view: ProfileView,
        request: Mapping[str, Any],
        options: MemoryOptions,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return the model's response to a request, unchanged. If it fails, the user's message is stored anyway."""
        self.llm.check()
        session = options.session_name
        await asyncio.to_thread(check_session, view, session, options.project)
        await self.recorder.wait_for_session(view, session)
        messages: Sequence[Message] = request["messages"]
        context = await self.context(view, messages, replace(options, session=session)) if options.recall else None
        turn = _to_turn(messages, options) if options.store else None
        try:
            response, body = await self._send(self._llm_request(request, context), headers or {})
        except LlmError:
            await self._record(view, turn, NO_ANSWER)
            raise
        except asyncio.CancelledError:  # the client disconnected
            if turn is not None:
                self.recorder.record(view, turn, NO_ANSWER)
            raise
        own = {"X-Session": _header_text(session)}
        if context is not None:
            own |= _context_headers(context)
        all_headers = {**response.headers, **own}
        if isinstance(body, StreamStart):
            relay = StreamRelay(response, body, self, view, turn)
            self.relays.add(relay)
            return Reply(response.status, all_headers, relay, context)
        await self._record(view, turn, read_answer(body) if response.ok else NO_ANSWER)
        return Reply(response.status, all_headers, body, context)

    async def context(
        self, view: ProfileView, prompt: str | Sequence[Message], options: MemoryOptions
    ) -> PromptContext:
        """Return the memories for a prompt, and log them; the prompt too if it may be stored."""

        def assembled() -> PromptContext:
            settings = view.engine.settings.llm
            context = assemble(
                view,
                prompt,
                session=options.session,
                project=options.project,
                everywhere=options.everywhere,
                budget=settings.context_tokens if options.budget is None else options.budget,
                recent=settings.recent_turns if options.recent is None else options.recent,
                tuning=options.tuning,
                parts=options.parts,
                exclude=options.exclude,
                exclude_session=options.exclude_session,
            )
            query = prompt if isinstance(prompt, str) else last_user_text(prompt)
            query = query if options.store else ""
            log_context(view, context, client=options.client, query=query, session=options.session)
            return context

        return await asyncio.to_thread(assembled)

    def _llm_request(self, request: Mapping[str, Any], context: PromptContext | None) -> bytes:
        """Return the request for the model: with the context, and without our own field."""
        body = {name: value for name, value in request.items() if name != "retentive"}
        if context is not None:
            body["messages"] = with_context(request["messages"], context)
        if body.get("model") is None and self._settings.model is not None:
            body["model"] = self._settings.model
        return json.dumps(body).encode()

    async def _send(self, body: bytes, headers: Mapping[str, str]) -> tuple[LlmResponse, bytes | StreamStart]:
        """Send a request; return the response with its whole body, or with the start of its stream."""
        response = await self.llm.post("chat/completions", body, headers=headers)
        try:
            if not response.streams:
                return response, await response.read()
            rest = response.pieces()
            return response, StreamStart(await _first_piece(rest), rest)
        except BaseException:
            self.recorder.start(response.close())
            raise

    async def _record(self, view: ProfileView, turn: Turn | None, answer: Answer) -> None:
        if turn is not None:
            await asyncio.shield(self.recorder.record(view, turn, answer))


async def _first_piece(pieces: AsyncIterator[bytes]) -> bytes:
    first = await anext(pieces, None)
    if first is None:
        raise LlmError(502, "the model's answer is empty", code="llm_disconnected")
    return first


def with_context(messages: Sequence[Message], context: PromptContext) -> list[Message]:
    """Return the messages with the context inserted before the user's last message.

    It differs from request to request: what stands before it, the instructions and the earlier messages, is the same
    as in the request before, and a provider can cache it.
    """
    users = [at for at, one in enumerate(messages) if one.get("role") == "user"]
    at = users[-1] if users else len(messages)
    return [*messages[:at], *context.messages, *messages[at:]]


def _context_headers(context: PromptContext) -> dict[str, str]:
    """The headers that say what was added to the prompt, what was left out, and why."""
    counts = context.left_out_counts
    left_out = ", ".join(f"{reason}={count}" for reason, count in counts.items()) or "none"
    scope = "profile" if context.project is None else f"project={_header_text(context.project)}"
    judged = f"{context.judged}, passed={context.passed}"
    values = scope, str(context.token_count), str(len(context.items)), f"{context.relevance:.2f}", judged, left_out
    return dict(zip(CONTEXT_HEADERS, values, strict=True))


def _header_text(text: str) -> str:
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text)


def _to_turn(messages: Sequence[Message], options: MemoryOptions) -> Turn:
    is_new = messages[-1].get("role") == "user"
    return Turn(
        last_user_text(messages),
        options.session_name,
        options.project,
        new=is_new,
        idempotency_key=options.idempotency_key,
    )


def _error_event(error: LlmError) -> bytes:
    return b"data: " + json.dumps(error.to_dict()).encode() + b"\n\n"
