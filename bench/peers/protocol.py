"""The messages between the runner and a peer's process: one JSON object a line, a request and then its answer.

| request | its fields | the answer's fields |
|---|---|---|
| open | a `Setup` | `versions` of the peer's packages, `configuration` in words |
| add | `memories` | `seconds` |
| finish | | `seconds` for what is built once, after all memories are added |
| search | `queries` | `found`: ids for each query, best first; `milliseconds` and `cpu_milliseconds` for each query |
| size | | `rss` of the process and its children, `disk` of its folder; in bytes |
| close | | |

An answer with `error` ends the run of that peer. Vectors are float32, little-endian, in base64.
"""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

LIMIT = 10
"""How many memories are asked for."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a peer is opened with. `embeddings_url` answers like OpenAI's API, with the vectors of the runner."""

    folder: str
    dimensions: int
    embeddings_url: str
    cache: str | None = None

    @property
    def path(self) -> Path:
        """The folder that the peer writes to."""
        return Path(self.folder)


@dataclass(frozen=True, slots=True)
class PeerMemory:
    """A memory of a set. The text has its speaker in front, as Retentive indexes it."""

    id: str
    text: str
    vector: tuple[float, ...]
    project: str | None = None
    session: str | None = None
    speaker: str | None = None
    occurred_at: str | None = None


@dataclass(frozen=True, slots=True)
class PeerQuery:
    """A query of a set. It searches its project; all memories if it has none."""

    id: str
    text: str
    vector: tuple[float, ...]
    project: str | None = None
    asked_at: str | None = None


class Peer(Protocol):
    """What an adapter's `open(setup)` returns.

    An adapter also has `PACKAGES`, whose versions are printed, and `CONFIGURATION`, which says how the peer is used.
    It may have `prepare(memories)`, which is not timed: what the peer's embedder would have done.
    """

    def add(self, memories: Sequence[PeerMemory]) -> None:
        """Store some memories."""
        ...

    def finish(self) -> None:
        """Build what is built once, after all memories are added."""
        ...

    def search(self, query: PeerQuery) -> list[str]:
        """Return the ids of the best `LIMIT` memories, best first."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


def pack(vector: Sequence[float]) -> str:
    """Return a vector as text."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def unpack(text: str) -> tuple[float, ...]:
    """Return the vector that was packed."""
    numbers = array("f", base64.b64decode(text))
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def to_plain(value: PeerMemory | PeerQuery) -> dict[str, Any]:
    """Return a memory or a query as JSON values."""
    return {**asdict(value), "vector": pack(value.vector)}


def to_memory(plain: dict[str, Any]) -> PeerMemory:
    """Return the memory of a message."""
    return PeerMemory(**{**plain, "vector": unpack(plain["vector"])})


def to_query(plain: dict[str, Any]) -> PeerQuery:
    """Return the query of a message."""
    return PeerQuery(**{**plain, "vector": unpack(plain["vector"])})
