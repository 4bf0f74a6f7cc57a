"""Files that other programs write and read: memories in, memories out, one module a format.

A format reads a file or a folder and gives one thing after the other, so that a file of any size needs little memory.
What it does not understand it says, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Item:
    """One memory as a file has it.

    `draft` holds fields of `recollect.remember.Draft`, without profile. `key` names it in its source, the same each
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


class Format(Protocol):
    """A way in which memories are written down."""

    name: str

    def recognises(self, path: Path) -> bool:
        """Whether this looks like it, by its name and its first bytes."""
        ...

    def read(self, path: Path) -> Iterator[Item | Skipped]:
        """Everything in it, in order; nothing that a file holds makes it fail half-way."""
        ...
