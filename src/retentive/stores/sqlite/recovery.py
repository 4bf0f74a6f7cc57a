"""Save what can be read of a damaged SQLite file into a new store."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from retentive.errors import Invalid
from retentive.models import Memory
from retentive.stores.base import Store
from retentive.stores.damage import UNREADABLE, Damage, Recovery
from retentive.stores.rules import PAGE_BYTES
from retentive.stores.sql_codec import from_micros, to_memories
from retentive.stores.sqlite.connections import SCRIPTS
from retentive.stores.sqlite.raw_pages import RawPages, RawRow, RawText
from retentive.stores.values import Judgement, Record
from retentive.text.normal_form import content_hash

_BATCH = 500
_FIELDS = (
    "text", "created", "profile", "project", "session", "position", "kind", "speaker", "importance", "metadata",
    "source", "occurred", "accessed", "access_count", "evergreen", "content_hash", "text_hash",
    "fact_key", "valid_from", "valid_to", "superseded_by", "reason", "actor", "expires",
)  # fmt: skip
"""The columns of a memory in the order of `to_memories`, after its key and id."""


def recover(path: Path, target: Store, *, progress: Callable[[int], None] = lambda done: None) -> Recovery:
    """Read every row of a damaged file that can be read, and store it in a new store, without vectors."""
    with RawPages(path) as pages:
        columns = _memory_columns()
        small = _read_small_tables(pages)
        if not small.memories:
            raise Invalid(f"{path} has no memories that can be read; is it a Retentive store?")
        found = _Found()
        # A page that was freed may have an earlier version of a row: intact ones go first.
        for intact in (True, False):
            for batch in _batches(_memories(pages, columns, small, found, intact=intact)):
                target.add(batch, model=None)
                progress(len(batch))
    judged = list(small.to_judgements(found.ids))
    for at in range(0, len(judged), _BATCH):
        target.judge(judged[at : at + _BATCH])
    if small.entries:
        target.compare_and_set(small.entries)
    lost = tuple(Damage(id, UNREADABLE) for id in found.unreadable if id not in found.keys)
    return Recovery(len(found.keys), tuple(found.changed), lost, small.damaged_rows, len(judged), len(small.entries))


def _batches(memories: Iterator[Memory]) -> Iterator[list[Record]]:
    """Yield memories in batches that are written at once."""
    batch: list[Record] = []
    size = 0
    for memory in memories:
        batch.append(Record(memory))
        size += len(memory.text)
        if len(batch) == _BATCH or size > PAGE_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


def _memory_columns() -> list[str]:
    """The columns of the table of memories, in their order. A row that was written earlier may lack the last ones."""
    with closing(apsw.Connection(":memory:")) as connection:
        for name in SCRIPTS:
            script = resources.files("retentive.stores.sqlite").joinpath("sql", name)
            connection.execute(script.read_text(encoding="utf-8"))
        return [row[1] for row in connection.execute("PRAGMA table_info(memories)")]


@dataclass
class _Found:
    """The memories that were found so far. `ids` has the id of each key."""

    keys: set[str] = field(default_factory=set)
    ids: dict[int, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    unreadable: dict[str, None] = field(default_factory=dict)


@dataclass
class _SmallTables:
    """Names by id, judgements and key-value entries; the tables are told apart by the types of their columns."""

    profiles: dict[int, str] = field(default_factory=dict)
    projects: dict[int, str] = field(default_factory=dict)
    sessions: dict[int, str] = field(default_factory=dict)
    judgements: list[list[Any]] = field(default_factory=list)
    entries: dict[str, str | None] = field(default_factory=dict)
    memories: int = 0
    damaged_rows: int = 0

    def add(self, row: RawRow) -> None:
        """Add a row, if it is one of these tables."""
        match row.rowid, row.values:
            case int(id), [None, RawText(name)] | [None, RawText(name), int(), int()]:
                self.profiles[id] = name.decode(errors="replace")
            case int(id), [None, int(), RawText(name)]:
                self.projects[id] = name.decode(errors="replace")
            case int(id), [None, int(), int() | None, RawText(name)]:
                self.sessions[id] = name.decode(errors="replace")
            case int(), [None, int(), int() | None, RawText(), int(), int(), int() | None, int()]:
                self.judgements.append(row.values[1:])
            case None, [RawText(name), RawText(value)]:
                self.entries[name.decode(errors="replace")] = value.decode(errors="replace")

    def to_judgements(self, ids: dict[int, str]) -> Iterator[Judgement]:
        """Yield the judgements of memories that were saved, by key."""
        for profile, project, query, memory, relevance, asked_at, created in self.judgements:
            at = from_micros(created)
            if memory in ids and at is not None:
                owner = _name(self.profiles, profile) or ""
                text, home = query.decode(errors="replace"), _name(self.projects, project)
                yield Judgement(text, ids[memory], relevance, at, owner, home, from_micros(asked_at))


def _name(names: dict[int, str], id: int | None) -> str | None:
    return None if id is None else names.get(id, f"recovered {id}")


def _read_small_tables(pages: RawPages) -> _SmallTables:
    found = _SmallTables()
    for row in pages.rows():
        if row is None:
            found.damaged_rows += 1
        elif _is_memory(row):
            found.memories += 1
        else:
            found.add(row)
    return found


def _is_memory(row: RawRow) -> bool:
    return row.rowid is not None and len(row.values) >= 19 and isinstance(row.values[1], RawText)


def _memories(
    pages: RawPages, columns: list[str], small: _SmallTables, found: _Found, *, intact: bool
) -> Iterator[Memory]:
    """Yield the memories that were not found before: those that have their own text, or the others."""
    for row in pages.rows():
        if row is None or not _is_memory(row) or row.rowid is None:
            continue
        values = dict(zip(columns, row.values, strict=False))
        id = values["id"].decode(errors="replace")
        if id in found.keys:
            continue
        try:
            plain = [_plain(value) for value in _row(row.rowid, id, values, small)]
            uuid.UUID(id)
        except ValueError:
            found.unreadable[id] = None
            continue
        memory = to_memories([plain], []).get(row.rowid)
        if memory is None and not intact:
            memory = to_memories([[*plain[:18], None, *plain[19:]]], []).get(row.rowid)
            if memory is None:
                found.unreadable[id] = None
                continue
            memory = memory._replace(content_hash=content_hash(memory.text))
            found.changed.append(id)
        if memory is not None:
            found.keys.add(id)
            found.ids[row.rowid] = id
            yield memory


def _row(key: int, id: str, values: dict[str, Any], small: _SmallTables) -> Iterator[Any]:
    """The values of a memory as a statement of the store returns them."""
    names = {"profile": small.profiles, "project": small.projects, "session": small.sessions}
    own = (_name(names[name], values.get(name)) if name in names else values.get(name) for name in _FIELDS)
    return chain((key, id), own)


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, RawText) else value
