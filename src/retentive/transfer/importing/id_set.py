"""Which ids came before, whatever their number."""

from __future__ import annotations

import apsw


class Seen:
    """Ids that came before, on disk where they are many: memory must not grow with the file that is imported."""

    def __init__(self) -> None:
        self._kept = apsw.Connection("")  # a temporary file, gone when it is closed
        self._kept.execute("CREATE TABLE seen (id TEXT PRIMARY KEY) WITHOUT ROWID; BEGIN").fetchall()

    def add(self, id: str) -> bool:
        """Whether this one is new."""
        self._kept.execute("INSERT OR IGNORE INTO seen VALUES (?)", (id,))
        return bool(self._kept.changes())
