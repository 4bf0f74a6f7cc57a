"""How each store is opened for a test. The contract tests run on all of them.

A store's own modules are imported when it is opened, so that tests of one store do not depend on another.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from retentive.stores import open_store
from retentive.stores.base import Store


def open_postgres(_: Path) -> Store:
    from tests.stores import postgres_server

    return open_store(postgres_server.address())


# A further store is one more line here.
OPENERS: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: open_store(str(folder / "memories.db")),
    "memory": lambda _: open_store("memory://"),
    "postgres": open_postgres,
}
