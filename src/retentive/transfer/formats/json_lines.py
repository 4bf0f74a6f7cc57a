"""JSON Lines files, and lenient conversion of JSON values whose producers document nothing.

A value that cannot be converted becomes None, or an empty list or object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from retentive.transfer.formats.base import ImportIssue, ReadWarning, Skipped, Truncated
from retentive.transfer.formats.streams import read_lines

MAX_NAME = 300
"""Names from files are cut here, so that they stay within the limit of a name when a prefix is added."""

_SECONDS = re.compile(r"\d{9,13}(?:\.\d+)?")
"""Seconds or milliseconds as text, as SQLite stores a number in a column of text. Fewer digits may be a date."""

_MILLISECONDS = 100_000_000_000
"""Seconds since 1970 reach this number in the year 5138, so larger numbers are milliseconds."""


@dataclass(frozen=True, slots=True)
class JsonRow:
    """The JSON object of one line, with the line's number from 1 and its location for a reader."""

    value: Mapping[str, Any]
    number: int
    where: str


def read_rows(name: str, file: IO[bytes]) -> Iterator[JsonRow | ImportIssue]:
    """Yield the object of each line, or what is wrong with the line."""
    for line in read_lines(file):
        where = f"{name}, line {line.number}"
        value, problem = (None, "the line is too long") if line.text is None else _parse_object(line.text)
        if value is None:
            yield Skipped(where, problem) if line.ended else Truncated(where, f"the last line is incomplete: {problem}")
            continue
        if line.replaced:
            yield ReadWarning(where, "invalid UTF-8 was replaced")
        yield JsonRow(value, line.number, where)


def _parse_object(line: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return the object in a line, or None and what is wrong."""
    try:
        value = json.loads(line)
    except RecursionError:
        return None, "it is nested too deeply"
    except json.JSONDecodeError as error:
        return None, f"it is not JSON ({error.msg})"
    except ValueError:
        return None, "it is not JSON (a number is too long)"
    if not isinstance(value, dict):
        return None, f"a JSON object was expected, not {type(value).__name__}"
    return value, ""


def parse_time(value: Any) -> datetime | None:
    """Return the time in an ISO 8601 text, or in seconds or milliseconds since 1970. Without a zone it is UTC."""
    if isinstance(value, str) and _SECONDS.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (OverflowError, ValueError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value / 1000 if abs(value) >= _MILLISECONDS else value, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def to_text(value: Any) -> str | None:
    """Return a text that is not blank."""
    return value if isinstance(value, str) and value.strip() else None


def to_name(value: Any) -> str | None:
    """Return a text or integer as a name of limited length."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**30 else None
    found = to_text(value)
    return None if found is None else found.strip()[:MAX_NAME]


def to_object(value: Any) -> Mapping[str, Any]:
    """Return an object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def to_list(value: Any) -> list[Any]:
    """Return a list; an empty one for any other value."""
    return value if isinstance(value, list) else []


def without_none(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
