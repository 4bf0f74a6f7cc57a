"""Test clients of the service, and checks of its responses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from retentive.engine import Engine
from retentive.pipeline.access_tokens import Access
from retentive.server.http.app import create_app
from retentive.settings import ServerSettings


def client(engine: Engine, *, token: str | None = None, **server: Any) -> TestClient:
    """A client of a service on this engine, on loopback, with a token or without."""
    settings = engine.settings.model_copy(update={"server": ServerSettings(**server)})
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return TestClient(
        create_app(engine, settings), base_url="http://127.0.0.1", headers=headers, raise_server_exceptions=False
    )


def token(engine: Engine, profile: str = "default", access: Access = "write") -> str:
    """The secret of a new token."""
    return engine.tokens.create(profile=profile, access=access)[1]


@contextmanager
def listening(app: FastAPI, *, lifespan: Literal["on", "off"] = "off") -> Iterator[int]:
    """The port of a real server; requests wait in the queue of the socket until it has started."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan=lifespan))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Check that a response is a problem, and return it."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    body: dict[str, Any] = answer.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, f"urn:retentive:problem:{code}")
    assert body["detail"]
    return body


def wrong_fields(answer: Any) -> list[str]:
    """The invalid fields in a 422 response."""
    return [error["field"] for error in problem(answer, 422, "invalid")["errors"]]
