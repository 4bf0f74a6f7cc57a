"""The protocol of a format, and the entries that it reads from files.

A format reads a file or folder as a stream of entries, so that a file of any size needs little memory. Content that it
cannot use becomes an entry with the reason, and reading continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from retentive.models import Memory, Model
from retentive.stores.values import Judgement, Vector


@dataclass(frozen=True, slots=True)
class ImportItem:
    """A new memory described by a file.

    `draft` holds fields of `retentive.pipeline.remember.Draft`, without profile. `key` identifies the item in its
    source and is the same each time the source is read, so that it is stored only once. `where` is its location for a
    reader. `vectors` are those of the source, if they are of `model`. In a source whose items replace one another,
    `superseded_by` is the key of the item that replaced this one, or an empty text. `person` is whose memory it is, in
    a source that has several people. `turn` is the source under which hooks have stored the same message, if they did.
    """

    draft: Mapping[str, Any]
    key: str
    where: str
    vectors: Vector | None = None
    model: Model | None = None
    superseded_by: str | None = None
    person: str | None = None
    turn: str | None = None


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory exported from a store, with its id, and with its vectors and their model if the file has them."""

    memory: Memory
    where: str
    vectors: Vector | None = None
    model: Model | None = None


@dataclass(frozen=True, slots=True)
class JudgementEntry:
    """A relevance judgement of a memory: of an item read before, if there is one, else of the id that it names."""

    judgement: Judgement
    where: str
    item: ImportItem | None = None


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """A key-value entry of the exported store, such as its saved tuning."""

    name: str
    value: str
    where: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Content that is not imported, and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReadWarning:
    """Content that is imported with a change or a loss: a part left out, a time not understood."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Truncated:
    """The place at which reading stopped, and why. Entries before it are valid; the rest was not read."""

    where: str
    reason: str


ImportIssue = Skipped | ReadWarning | Truncated
ImportEntry = ImportItem | StoredMemory | JudgementEntry | SettingEntry | ImportIssue


class Format(Protocol):
    """A file format that can be imported."""

    name: str

    def recognises(self, path: Path) -> bool:
        """Whether the path looks like this format, by its name and its first bytes."""
        ...

    def read(self, path: Path) -> Iterator[ImportEntry]:
        """Yield all entries in order. Invalid content yields an entry with the reason, never an exception."""
        ...


Fits = Callable[[str], bool]
"""Whether a text is short enough for one passage."""


@runtime_checkable
class SplitsText(Protocol):
    """A format that splits long texts into passages."""

    def splitting_by(self, fits: Fits) -> Format:
        """Return the same format with passages that fit."""
        ...
