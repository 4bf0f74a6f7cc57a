"""Values of files whose makers promise nothing: what can be understood is taken, the rest is None."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

LONGEST_NAME = 300
"""Names from files are cut here, so that with what is put before them they stay inside the limit of a name."""

_MILLISECONDS = 100_000_000_000
"""Seconds reach this number in the year 5138: what is larger was counted in milliseconds."""


def to_when(value: Any) -> datetime | None:
    """A time from ISO 8601 text or from seconds or milliseconds since 1970; None if it is neither."""
    if isinstance(value, str):
        value = value.strip()
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
        try:
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
    """A text that is not blank."""
    return value if isinstance(value, str) and value.strip() else None


def to_name(value: Any) -> str | None:
    """A text or number that can be a name, cut to a length that fits."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**30 else None
    found = to_text(value)
    return None if found is None else found.strip()[:LONGEST_NAME]


def to_object(value: Any) -> Mapping[str, Any]:
    """An object, empty if it is none."""
    return value if isinstance(value, dict) else {}


def to_list(value: Any) -> list[Any]:
    """A list, empty if it is none."""
    return value if isinstance(value, list) else []


def given(**values: Any) -> dict[str, Any]:
    """These without those that are None."""
    return {name: value for name, value in values.items() if value is not None}


def parsed(line: str) -> tuple[Mapping[str, Any] | None, str]:
    """The object a line holds; else None and why."""
    try:
        value = json.loads(line)
    except RecursionError:
        return None, "it is nested too deeply"
    except ValueError as error:
        return None, f"this is not JSON ({_short(error)})"
    if not isinstance(value, dict):
        return None, f"a JSON object was expected, not {type(value).__name__}"
    return value, ""


def _short(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
