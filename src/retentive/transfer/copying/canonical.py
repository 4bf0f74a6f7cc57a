"""Memories and vectors in one way of writing, so that what is the same in two stores is the same text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from retentive.models import Memory
from retentive.stores import Vector

_DIGITS = 9
"""Of an importance: Qdrant reads numbers with an error in the last place."""


def written(memory: Memory) -> bytes:
    """Everything that a memory says of itself but its use: being recalled is no change of what it says."""
    plain = memory._replace(accessed=None, access_count=0)._asdict()
    for name in ("created", "occurred"):
        plain[name] = _time(plain[name])
    plain["importance"] = round(memory.importance, _DIGITS)
    plain["metadata"] = _number_alike(dict(memory.metadata))
    return json.dumps(plain, sort_keys=True, default=str).encode()


def written_use(memory: Memory) -> bytes:
    """When and how often a memory was used."""
    return json.dumps([_time(memory.accessed), memory.access_count]).encode()


def rounded(row: Vector) -> bytes:
    """A vector to float16, which is what the stores keep."""
    return (row.astype(np.float16) + np.float16(0)).tobytes()  # adding 0 makes -0 the 0 that it equals


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()


def _number_alike(value: Any) -> Any:
    """JSON values with whole numbers written alike: one store gives 1e22 back, another one 10000000000000000000000."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _number_alike(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_number_alike(item) for item in value]
    return value
