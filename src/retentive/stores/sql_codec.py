"""Encoding shared by the SQL stores: kinds, times and scopes as numbers, and rows as memories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from retentive.models import KINDS, Kind, Memory, hash_text, indexed_text
from retentive.stores.damage import NOT_ITS_TEXT, UNREADABLE, Damage

SCOPE_TOKENS = 4
"""The tokens that the scope adds to a memory's length in the keyword index, and so in BM25, on every store."""

KIND_NUMBERS: dict[Kind, int] = {kind: number for number, kind in enumerate(KINDS, 1)}

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FLOAT_IS_EXACT = 4_000_000_000_000_000
"""Up to here, the year 2096, a float of seconds rounds to the right microsecond, and takes half the time."""


FACT_COLUMNS = "m.fact_key, m.valid_from, m.valid_to, m.superseded_by, m.reason, m.actor, m.expires"
"""The columns of a memory's validity, in the order of its fields. A memory's own key in a store is a number."""

_NO_FACTS = [None] * 7
_COLUMN_COUNT = 19 + len(_NO_FACTS)

_new = tuple.__new__
"""Makes a named tuple of all its fields, in a third of the time."""

RULE = '"rule": true'
"""How the metadata of a standing rule contains it. Indexes have this text, too."""


def fact_values(memory: Memory) -> tuple[int | str | None, ...]:
    """The values of `FACT_COLUMNS`."""
    return (
        memory.key, to_micros(memory.valid_from), to_micros(memory.valid_to), memory.superseded_by, memory.reason,
        memory.actor, to_micros(memory.expires),
    )  # fmt: skip


def to_micros(time: datetime | None) -> int | None:
    """A time as microseconds since 1970."""
    return None if time is None else (time - EPOCH) // _MICROSECOND


def from_micros(micros: int | None) -> datetime | None:
    """Microseconds since 1970 as a time."""
    if micros is None:
        return None
    if 0 <= micros < _FLOAT_IS_EXACT:
        return datetime.fromtimestamp(micros / 1e6, UTC)
    return EPOCH + timedelta(microseconds=micros)


def to_memories(rows: Iterable[Sequence[Any]], damaged: list[Damage]) -> dict[int, Memory]:
    """The memories of rows, by key; names have replaced ids in them. Damaged ones are added to `damaged` instead."""
    found = {}
    for row in rows:
        try:
            (
                key, id, text, created, profile, project, session, position, kind, speaker, importance, metadata,
                source, occurred, accessed, access_count, evergreen, content_hash, text_hash, *facts,
            ) = row[:_COLUMN_COUNT]  # fmt: skip
            memory = _new(Memory, (
                id, text, from_micros(created) or EPOCH, profile, project, session, position, KINDS[kind - 1],
                speaker, importance, json.loads(metadata) if metadata else {}, source,
                None if occurred is None else from_micros(occurred),
                None if accessed is None else from_micros(accessed),
                access_count, bool(evergreen), content_hash,
                *(_NO_FACTS if facts == _NO_FACTS else _facts(facts)),
            ))  # fmt: skip
            if text_hash is None or text_hash == hash_text(indexed_text(text, speaker)):
                found[key] = memory
            else:
                damaged.append(Damage(memory.id, NOT_ITS_TEXT))
        except (ValueError, TypeError, IndexError, OverflowError, AttributeError):  # a field of another type or range
            damaged.append(Damage(str(row[1]), UNREADABLE))
    return found


def _facts(values: Sequence[Any]) -> tuple[Any, ...]:
    """The fields of a memory's validity, given the values of `FACT_COLUMNS`."""
    key, valid_from, valid_to, superseded_by, reason, actor, expires = values
    return key, from_micros(valid_from), from_micros(valid_to), superseded_by, reason, actor, from_micros(expires)


@dataclass(frozen=True, slots=True)
class ScopeIds:
    """The scope of a memory as ids; 0 means none."""

    profile: int
    project: int
    session: int
    kind: int

    @property
    def tokens(self) -> str:
        """The scope column of the keyword index."""
        return f"p{self.profile} r{self.project} s{self.session} k{self.kind}"
