"""Files that other programs write and read: memories in, memories out, one module a format.

A format reads a file or a folder and gives one thing after the other, so that a file of any size needs little memory.
What it does not understand it says, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from retentive.models import Judgement, Memory, Model
from retentive.stores import Vector


@dataclass(frozen=True, slots=True)
class Item:
    """One memory as a file has it.

    `draft` holds fields of `retentive.pipeline.remember.Draft`, without profile. `key` names it in its source, the same each
    time the source is read, so that it is never stored twice; `where` tells a person where it stands.
    """

    draft: Mapping[str, Any]
    key: str
    where: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that did not become a memory, and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something that was read otherwise than it stands there: a part left out, a time not understood."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Broken:
    """Where a file stops making sense, and why; what stands before is good, what follows was not read."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A memory as a store had it, with its id, and its vectors if the file has them and says which model's."""

    memory: Memory
    where: str
    vectors: Vector | None = None
    model: Model | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What somebody said of a memory: of the one whose id it names, or of an item that came before."""

    judgement: Judgement
    where: str
    item: Item | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """Something a store keeps under a name for everybody who uses it."""

    name: str
    value: str
    where: str


Entry = Item | Stored | Judged | Setting | Skipped | Noticed | Broken


class Format(Protocol):
    """A way in which memories are written down."""

    name: str

    def recognises(self, path: Path) -> bool:
        """Whether this looks like it, by its name and its first bytes."""
        ...

    def read(self, path: Path) -> Iterator[Entry]:
        """Everything in it, in order; nothing that a file holds makes it fail half-way."""
        ...
