"""The embedded store: one SQLite file for memories, terms and vectors, shared by any number of processes."""

from retentive.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
