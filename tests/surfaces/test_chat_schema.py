"""The chat operations, generated from the OpenAPI document, with a fake LLM server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from schemathesis import Case

from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.stores import open_store
from tests.surfaces.chatting import chat_service
from tests.surfaces.model_server import model_server

CONFIG = {"seed": 1, "generation": {"max-examples": 10, "deterministic": True, "no-shrink": True}}


def described() -> dict[str, Any]:
    with Engine(open_store("memory://")) as engine:
        return create_app(engine).openapi()


document = schemathesis.openapi.from_dict(described(), config=schemathesis.Config.from_dict(CONFIG))


@pytest.fixture(scope="module")
def service() -> Iterator[dict[str, Any]]:
    """Where the service is, and what lets one in."""
    with Engine(open_store("memory://")) as engine, model_server() as model:
        _, secret = engine.tokens.create(access="admin")
        with chat_service(engine, model.url, server={"require_token": True}) as url:
            yield {"base_url": url, "headers": {"Authorization": f"Bearer {secret}"}}


@document.include(path_regex="^/v1/(chat|models|context)").parametrize()
def test_chat_does_as_the_document_says(case: Case, service: dict[str, Any]) -> None:
    case.call_and_validate(**service)
