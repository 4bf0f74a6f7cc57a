"""A local Qdrant client that records its requests, and can fail before a certain write as if the process had ended."""

from __future__ import annotations

from typing import Any

from tests.stores.local_qdrant import LocalQdrant


class Interrupted(BaseException):
    """The process has ended here."""


class RecordingQdrant(LocalQdrant):
    """Records every request. `writes_left` is how many writes succeed before the process is interrupted."""

    WRITES = frozenset(
        ("upsert", "delete", "batch_update_points", "create_collection", "delete_collection",
         "update_collection_aliases", "create_payload_index")
    )  # fmt: skip
    OWN = frozenset(("requests", "arguments", "writes_left", "WRITES", "OWN", "close"))

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.arguments: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.writes_left: int | None = None
        super().__init__()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in RecordingQdrant.OWN or not callable(found):
            return found

        def record(*given: Any, **options: Any) -> Any:
            if name in self.WRITES and self.writes_left is not None:
                if self.writes_left == 0:
                    raise Interrupted
                self.writes_left -= 1
            self.requests.append(name)
            self.arguments.append((name, given, options))
            return found(*given, **options)

        return record

    def close(self, *_: Any, **__: Any) -> None:
        """Stay open, so that another store can be opened on the same collections."""

    @property
    def alias_target(self) -> str:
        [alias] = self.get_aliases().aliases
        assert alias.alias_name == "retentive_memories"
        return alias.collection_name

    @property
    def collection_names(self) -> set[str]:
        return {one.name for one in self.get_collections().collections}
