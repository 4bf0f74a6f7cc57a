"""How each store is opened for a test; the contract runs over all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recollect.stores import Store, open_store
from tests.stores import postgres_server

# A further store is one more line here.
OPENERS: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: open_store(str(folder / "memories.db")),
    "memory": lambda _: open_store("memory://"),
    "postgres": lambda _: open_store(postgres_server.address()),
}
