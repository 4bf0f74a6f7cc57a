"""Short texts under names, as points without vectors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID, uuid5

from qdrant_client import models as q

from retentive.errors import Unavailable
from retentive.stores.qdrant.connection import Change, Connection, matching
from retentive.stores.qdrant.points import encodable

_SPACE = UUID("8e0f2c56-6f0e-5b1f-9a35-2f1f6f4f9f01")
"""Under it the names of notes become ids."""

TRIES = 20
"""How often a note is written that nobody expects anything of, while other processes write it too."""


def note_id(*names: str | None) -> str:
    """The point of whatever has these names."""
    return str(uuid5(_SPACE, json.dumps(names)))


def get_value(connection: Connection, name: str) -> str | None:
    """What is kept under a name."""
    return _texts(_seen(connection, [name])).get(name)


def list_values(connection: Connection, prefix: str) -> dict[str, str]:
    """Everything whose name begins so, by name."""
    found = (record.payload or {} for record in connection.scroll(connection.notes, matching(type="note")))
    texts = {one["name"]: one["text"] for one in found if one["name"].startswith(prefix)}
    return dict(sorted(texts.items()))


def keep(connection: Connection, changes: Mapping[str, str | None], expected: Mapping[str, str | None] | None) -> bool:
    """Whether all these were kept. Each is written only over what was seen, so of two processes one gives way."""
    for _ in range(TRIES):
        seen = _seen(connection, [*changes, *(expected or {})])
        texts = _texts(seen)
        if any(texts.get(name) != value for name, value in (expected or {}).items()):
            return False
        if _write(connection, changes, seen):
            return True
        if expected:
            return False
    raise Unavailable("other processes keep changing the same notes; try again")


def _write(connection: Connection, changes: Mapping[str, str | None], seen: Mapping[str, Mapping[str, Any]]) -> bool:
    gone = [name for name, text in changes.items() if text is None and name in seen]
    written = [
        Change(
            note_id("note", name),
            {"type": "note", "name": name, "text": text},
            seen[name]["stamp"] if name in seen else None,
        )
        for name, text in changes.items()
        if text is not None
    ]
    if not connection.put(written):
        return False
    for name in gone:
        still = q.HasIdCondition(has_id=[note_id("note", name)])
        as_seen = q.FieldCondition(key="stamp", match=q.MatchValue(value=seen[name]["stamp"]))
        connection.delete_where(connection.notes, q.Filter(must=[still, as_seen]))
    return True


def _seen(connection: Connection, names: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    wanted = [note_id("note", name) for name in names if encodable(name)]
    found = connection.retrieve(connection.notes, wanted)
    payloads = [record.payload or {} for record in found.values()]
    return {payload["name"]: payload for payload in payloads}


def _texts(seen: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {name: payload["text"] for name, payload in seen.items()}
