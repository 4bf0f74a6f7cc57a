"""A fake LLM server over real HTTP, whose responses are scripted; and our service on a free port."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

Receive = Callable[[], Coroutine[Any, Any, dict[str, Any]]]
Send = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]
Behaviour = Callable[["Call"], Coroutine[Any, Any, None]]


class BreakOff(Exception):
    """Makes the server drop the connection in the middle of an answer."""


@dataclass
class Call:
    """One request to the fake server, and ways to answer it."""

    model: ModelServer
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    _receive: Receive
    _send: Send

    async def answer(self, body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Send a whole response: JSON, or bytes unchanged."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.start(status, {"content-type": "application/json", **(headers or {})})
        await self._send({"type": "http.response.body", "body": content})

    async def start(self, status: int = 200, headers: dict[str, str] | None = None) -> None:
        given = headers or {"content-type": "text/event-stream; charset=utf-8", "x-request-id": "req-1"}
        encoded = [(name.encode(), value.encode()) for name, value in given.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def send(self, piece: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    async def gone(self) -> None:
        """Wait until the client has disconnected."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.model.left.set()


@dataclass
class ModelServer:
    """A fake LLM server: each request gets the next behaviour of the script, or a normal answer."""

    url: str = ""
    answer: str | None = None
    """The normal answer, if not the last message."""
    script: list[Behaviour] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    def forget(self) -> None:
        """Reset to the initial state."""
        self.script, self.calls = [], []
        self.asked.clear()
        self.left.clear()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body = await _read(receive)
        call = Call(self, scope["path"], headers, json.loads(body) if body else {}, receive, send)
        self.calls.append(call)
        self.asked.set()
        behave = self.script.pop(0) if self.script else _well
        await behave(call)

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """The messages of the last request."""
        messages: list[dict[str, Any]] = self.calls[-1].body["messages"]
        return messages

    @property
    def context(self) -> str:
        """The block of memories in the last request, or an empty text."""
        found = [one["content"] for one in self.prompt if str(one.get("content")).startswith("Notes from memory")]
        assert len(found) <= 1
        return found[0] if found else ""


def completion(text: str | None, **message: Any) -> dict[str, Any]:
    """A chat completion in OpenAI's format."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
    }
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "c-1", "object": "chat.completion", "created": 1, "model": "stand-in", "choices": [choice], "usage": usage
    }  # fmt: skip


def event(text: str | None, *, finish: str | None = None, **delta: Any) -> bytes:
    """A chunk of a chat completion, as a server-sent event."""
    said = {"content": text} if text is not None else {}
    choice = {"index": 0, "delta": {**said, **delta}, "finish_reason": finish}
    chunk = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "stand-in", "choices": [choice]}
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def stream_of(*texts: str) -> bytes:
    """The bytes of a whole stream."""
    return b"".join([*map(event, texts), event(None, finish="stop"), b"data: [DONE]\n\n"])


DONE = b"data: [DONE]\n\n"


async def _well(call: Call) -> None:
    """Answer with the last message, or list models."""
    if call.path.endswith("/models"):
        await call.answer({"object": "list", "data": [{"id": "stand-in", "object": "model", "created": 1}]})
        return
    said = call.model.answer or f"You said: {call.body['messages'][-1].get('content')}"
    if call.body.get("stream"):
        await streams(stream_of(said))(call)
    else:
        await call.answer(completion(said))


def answers(text: str | None, **message: Any) -> Behaviour:
    """Answer with one response."""

    async def behave(call: Call) -> None:
        await call.answer(completion(text, **message))

    return behave


def fails(status: int, message: str, **headers: str) -> Behaviour:
    """Answer with an error."""

    async def behave(call: Call) -> None:
        error = {"message": message, "type": "some_error", "param": None, "code": "some_code"}
        await call.answer({"error": error}, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return behave


def streams(content: bytes, *, every: int | None = None) -> Behaviour:
    """Stream these bytes in pieces of a size."""

    async def behave(call: Call) -> None:
        await call.start()
        for piece in _pieces(content, every or len(content)):
            await call.send(piece)
            await asyncio.sleep(0)  # each piece is a write of its own
        await call.send(b"", more=False)

    return behave


def breaks_off(content: bytes) -> Behaviour:
    """Stream these bytes, and close the connection when they were received."""

    async def behave(call: Call) -> None:
        await call.start()
        await call.send(content)
        raise BreakOff

    return behave


def hangs(content: bytes | None = None) -> Behaviour:
    """Stream these bytes, if any, and then nothing until the client disconnects."""

    async def behave(call: Call) -> None:
        if content is not None:
            await call.start()
            if content:
                await call.send(content)
        await call.gone()

    return behave


def _pieces(content: bytes, every: int) -> list[bytes]:
    return [content[start : start + every] for start in range(0, len(content), every)]


async def _read(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


class _Server(uvicorn.Server):
    """A server that stops at once, and not at the next tenth of a second."""

    _stop: asyncio.Event
    _loop: asyncio.AbstractEventLoop

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def main_loop(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self.on_tick(0)
        self.up.set()
        await self._stop.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)


@contextmanager
def running(app: Any, *, grace: float = 10) -> Iterator[str]:
    """Run an application on a real server on a free port, and yield its address.

    At the end, requests have `grace` seconds to be answered.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None)
    config.timeout_graceful_shutdown = grace  # type: ignore[assignment] # it takes fractions too
    server = _Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        assert server.up.wait(60)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.stop()
        thread.join()
        listener.close()


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run a fake LLM server on a free port; `url` is its base URL."""
    model = ModelServer()
    with running(model) as url:
        model.url = f"{url}/v1"
        yield model


def unused_address() -> str:
    """An address without a server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
