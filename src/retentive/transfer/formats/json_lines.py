"""Objects of a file that has one a line, with what is wrong with the other lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from retentive.transfer.formats import Broken, Noticed, Skipped
from retentive.transfer.formats.reading import lines
from retentive.transfer.formats.values import parsed


@dataclass(frozen=True, slots=True)
class Row:
    """The object of a line, the line's number from 1, and where it stands."""

    value: Mapping[str, Any]
    number: int
    where: str


def rows(name: str, file: IO[bytes]) -> Iterator[Row | Skipped | Noticed | Broken]:
    """The objects of a file; lines that are too long, no JSON or cut off are said."""
    for line in lines(file):
        where = f"{name}, line {line.number}"
        value, reason = (None, "the line is too long") if line.text is None else parsed(line.text)
        if value is None:
            yield Skipped(where, reason) if line.ended else Broken(where, f"the last line is cut off: {reason}")
            continue
        if line.replaced:
            yield Noticed(where, "some bytes are not UTF-8; they were replaced")
        yield Row(value, line.number, where)
