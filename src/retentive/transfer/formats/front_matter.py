"""What the head of a note says of it: the block between two lines of `---`, as note programs write it.

It is read leniently and by hand: a title, a date and tags are all that is wanted of it, and a file that is not quite
YAML is still a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

_LONGEST = 200
"""So many lines down the block may end; without an end it is none."""

_LONGEST_LINE = 2_000
_FIELD = re.compile(r"([A-Za-z][\w -]{0,60}):(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.+)")
_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d)")
_DATES = ("date", "created", "created_at", "day")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The title, time and tags of a note, and how many lines they took."""

    title: str | None = None
    date: datetime | None = None
    tags: tuple[str, ...] = ()
    lines: int = 0


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """What the first lines of a text say of it; nothing if they are no front matter."""
    if not lines or lines[0].rstrip() != "---":
        return FrontMatter()
    end = next((at for at in range(1, min(len(lines), _LONGEST)) if lines[at].rstrip() in ("---", "...")), None)
    if end is None or not any(_FIELD.fullmatch(line[:_LONGEST_LINE].rstrip()) for line in lines[1:end]):
        return FrontMatter()  # two rules with text between them
    fields = _fields(lines[1:end])
    title = " ".join(fields.get("title", []))[:200].strip() or None
    found = (to_date(value) for name in _DATES for value in fields.get(name, [])[:1])
    tags = (tag for name in ("tags", "tag", "keywords") for value in fields.get(name, []) for tag in _listed(value))
    return FrontMatter(title, next(filter(None, found), None), tuple(dict.fromkeys(tags))[:100], end + 1)


def date_in_name(name: str) -> datetime | None:
    """The day that a file is named after, such as `2026-05-08 kitchen` or `20260508`."""
    for match in _IN_NAME.finditer(name):
        found = to_date(f"{match[1]}-{match[3]}-{match[4]}")
        if found:
            return found
    return None


def to_date(text: str) -> datetime | None:
    """A time as people and programs write it in a note, without a zone taken as UTC; None if it is none."""
    try:
        found = datetime.fromisoformat(text.strip().replace(" +", "+").replace(" -", "-"))
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return found if date(1, 1, 2) < found.date() < date(9999, 12, 30) else None
    except ValueError:
        return None


def _fields(lines: Sequence[str]) -> dict[str, list[str]]:
    """Each field with its value, or with the items listed under it; what is nested deeper is passed over."""
    fields: dict[str, list[str]] = {}
    under: list[str] = []
    for line in lines:
        short = line[:_LONGEST_LINE].rstrip()
        field, item = _FIELD.fullmatch(short), _ITEM.fullmatch(short)
        if field:
            under = fields.setdefault(field[1].strip().lower(), [])
            if field[2] and field[2].strip():
                under.append(_unquoted(field[2]))
        elif item:
            under.append(_unquoted(item[1]))
    return fields


def _listed(value: str) -> list[str]:
    inner = value.strip().removeprefix("[").removesuffix("]")
    return [tag for part in inner.split(",") if (tag := _unquoted(part).lstrip("#")[:100].strip())]


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
