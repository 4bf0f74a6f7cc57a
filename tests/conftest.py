"""What many tests share: the real model, loaded once, and engines on a fresh store with a fixed clock."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from retentive.engine import Engine
from retentive.inference.embedders import Embedder, open_embedder
from retentive.settings import EmbedderSettings
from retentive.stores import open_store

# The same cases in every run, so that a change is judged by what it changes; `HYPOTHESIS_PROFILE=random` finds more.
# Nothing is judged by how long it takes: that depends on what else runs on the machine.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", UNHURRIED, derandomize=True)
settings.register_profile("random", UNHURRIED, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the user's settings or writes into the user's store."""
    for name in [name for name in os.environ if name.startswith("RETENTIVE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RETENTIVE_STORE", str(tmp_path / "store.db"))


@pytest.fixture(scope="session")
def model() -> Iterator[Embedder]:
    """The real default model."""
    embedder = open_embedder(EmbedderSettings())
    assert embedder is not None
    yield embedder
    embedder.close()


@pytest.fixture
def open_engine(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Opens engines on one store, and closes them at the end."""
    opened: list[Engine] = []

    def open_it(embedder: Embedder | None = None, *, path: Path | None = None) -> Engine:
        engine = Engine(open_store(str(path or tmp_path / "store.db")), embedder, clock=lambda: NOW)
        opened.append(engine)
        return engine

    yield open_it
    for engine in opened:
        engine.close()


@pytest.fixture
def engine(open_engine: Callable[..., Engine], model: Embedder) -> Engine:
    """An engine with the real model on an empty store."""
    return open_engine(model)


@pytest.fixture(autouse=True)
def no_closed_log_streams() -> None:
    """A command that runs in this process may log to the captured stderr, which is closed after its test."""
    named = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    for logger in (logging.root, *named):
        for handler in list(logger.handlers):
            if type(handler) is logging.StreamHandler and getattr(handler.stream, "closed", False):
                logger.removeHandler(handler)
