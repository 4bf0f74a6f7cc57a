"""A fake LLM server, and an engine without an embedder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retentive.engine import Engine
from tests.surfaces.model_server import ModelServer, model_server


@pytest.fixture(scope="package")
def one_model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def model(one_model: ModelServer) -> ModelServer:
    one_model.forget()
    return one_model


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open("memory://", embedder="none") as opened:
        yield opened
