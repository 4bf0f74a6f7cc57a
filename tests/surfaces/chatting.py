"""A service with chat on a free port, and what it stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from openai import OpenAI

from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.settings import LlmSettings, ServerSettings
from tests.surfaces.model_server import running

NO_TOKEN = "sk-not-one-of-ours"


@contextmanager
def chat_service(engine: Engine, llm: str | None, *, grace: float = 10, **settings: Any) -> Iterator[str]:
    """The address of the service; all turns are stored when it has stopped."""
    server = ServerSettings(**settings.pop("server", {}))
    chosen = engine.settings.model_copy(update={"llm": LlmSettings(url=llm, **settings), "server": server})
    with running(create_app(engine, chosen), grace=grace) as url:
        yield url


def client(url: str, *, key: str = NO_TOKEN, retries: int = 0, **options: Any) -> OpenAI:
    """The official client, with its base URL changed to ours."""
    return OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=retries, **options)


def ask(url: str, *messages: str | dict[str, Any], headers: dict[str, str] | None = None, **body: Any) -> Any:
    """The response to a request that is sent without OpenAI's client."""
    told = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
    with httpx2.Client(timeout=90) as plain:
        return plain.post(f"{url}/v1/chat/completions", json={"messages": told, **body}, headers=headers)


def context_of(url: str, *, headers: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    """What the service would put into a prompt."""
    with httpx2.Client(timeout=90) as plain:
        response = plain.post(f"{url}/v1/context", json=body, headers=headers)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def said(engine: Engine, session: str = "chat", *, profile: str = "default") -> list[tuple[str | None, str]]:
    """Who said what in a session, in order."""
    scope = engine.scope(session=session, only_session=True, profile=profile)
    found = sorted(engine.list(scope, limit=1000).memories, key=lambda memory: memory.position or 0)
    return [(memory.speaker, memory.text) for memory in found]


def marks(engine: Engine, session: str = "chat") -> list[dict[str, Any]]:
    """The metadata of what was said in a session, in order."""
    scope = engine.scope(session=session, only_session=True)
    found = sorted(engine.list(scope, limit=1000).memories, key=lambda memory: memory.position or 0)
    return [dict(memory.metadata) for memory in found]


def until(true: Callable[[], bool], *, seconds: float = 90) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.005)
