"""The stores that the contract tests run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retentive.stores.base import Store
from retentive.stores.in_memory import InMemoryStore
from tests.stores.openers import OPENERS


@pytest.fixture(params=OPENERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each store, empty. It must be healthy at the end of every test."""
    opened = OPENERS[request.param](tmp_path)
    yield opened
    assert opened.check() == []
    opened.close()


@pytest.fixture(params=[name for name in OPENERS if name != "memory"])
def store_and_reference(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Each store on a server or in a file, with the store in memory that it must agree with."""
    opened = OPENERS[request.param](tmp_path)
    yield opened, InMemoryStore()
    opened.close()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a SQLite file can be created."""
    return str(tmp_path / "memories.db")
