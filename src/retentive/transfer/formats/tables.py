"""Tables of other memory stores: columns recognised by their usual names, and rows as import items.

`sqlite_tables` and `postgres_tables` read the rows. Names are compared without case and underscores, so `session_id`
and `sessionId` are the same column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from retentive.models import Kind
from retentive.transfer.formats.base import ImportItem, ReadWarning, Skipped
from retentive.transfer.formats.json_lines import parse_time, to_name, to_object, to_text, without_none

COLUMNS = {
    "text": ("content", "text", "memory", "body", "message"),
    "id": ("id", "uuid", "memoryid", "episodeid"),
    "speaker": ("role", "speaker", "author", "sender"),
    "session": ("sessionid", "session", "conversationid", "threadid", "runid"),
    "project": ("projectid", "project", "namespace", "agentid"),
    "person": ("userid", "profileid", "profile"),
    "created": ("createdat", "occurredat", "timestamp", "created", "time", "date"),
    "importance": ("importance", "importancescore"),
    "metadata": ("metadata", "meta"),
    "deleted": ("deletedat", "deleted", "isdeleted"),
}
"""Fields of a row, and the columns that have them, the usual one first."""

SESSION_COLUMNS = {"id": ("id", "sessionid"), "title": ("title", "name"), "project": ("projectid", "project")}
PROJECT_COLUMNS = {"id": ("id", "projectid"), "title": ("name", "title")}

_UNUSED = frozenset(
    ("updatedat", "lastaccessed", "lastaccessedat", "accesscount", "contenthash", "searchvector", "tsv")
)
"""Columns that are left out without a warning: Retentive has its own, or computes them."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with the columns that were recognised, by field, and the names of the others."""

    name: str
    columns: Mapping[str, str]
    others: tuple[str, ...] = ()

    def quoted(self, field: str) -> str:
        """Return the column of a field for a statement. It has only letters, digits and underscores."""
        return f'"{self.columns[field]}"'


def recognise(name: str, columns: Iterable[str], known: Mapping[str, tuple[str, ...]] = COLUMNS) -> Table:
    """Return a table with its columns by field. If it has several columns for a field, the usual one is taken."""
    plain = {column.lower().replace("_", ""): column for column in columns if column.isascii()}
    found = {
        field: plain[usual]
        for field, names in known.items()
        if (usual := next((one for one in names if one in plain), None)) is not None
    }
    others = (column for usual, column in plain.items() if column not in found.values() and usual not in _UNUSED)
    return Table(name, found, tuple(others))


def select_rows(
    table: Table,
    sessions: Table | None,
    projects: Table | None,
    *,
    wrap: Callable[[str], str] = lambda expression: expression,
    extra: str = "",
    join: str = "",
    by_time: bool = False,
) -> tuple[str, list[str]]:
    """Return the statement that reads a table, with the titles of its sessions and projects, and the selected fields.

    `wrap` converts each expression, `extra` adds expressions, and `join` adds a table. Rows are in the order of their
    ids; with `by_time` first in that of their times, as ids may be random.
    """
    fields = {field: f"m.{table.quoted(field)}" for field in COLUMNS if field in table.columns}
    joins = f" {join}" if join else ""
    project = fields.get("project")
    if sessions and "id" in sessions.columns and "session" in fields:
        joins += f' LEFT JOIN "{sessions.name}" AS s ON {_as_text("s", sessions)} = CAST({fields["session"]} AS TEXT)'
        if "title" in sessions.columns:
            fields["session_title"] = f"s.{sessions.quoted('title')}"
        if "project" in sessions.columns:
            own = f"s.{sessions.quoted('project')}"
            project = f"coalesce(CAST({project} AS TEXT), CAST({own} AS TEXT))" if project else own
            fields["project"] = project
    if projects and project and {"id", "title"} <= projects.columns.keys():
        joins += f' LEFT JOIN "{projects.name}" AS p ON {_as_text("p", projects)} = CAST({project} AS TEXT)'
        fields["project_title"] = f"p.{projects.quoted('title')}"
    selected = ", ".join(wrap(expression) for expression in fields.values())
    keys = [name for name in ("created", "id") if name in table.columns and (by_time or name == "id")]
    order = f" ORDER BY {', '.join(f'm.{table.quoted(name)}' for name in keys)}" if keys else ""
    return f'SELECT {selected}{extra} FROM "{table.name}" AS m{joins}{order}', list(fields)  # noqa: S608 - see `quoted`


def _as_text(alias: str, table: Table) -> str:
    return f"CAST({alias}.{table.quoted('id')} AS TEXT)"


def warn_of_columns(table: Table) -> Iterator[ReadWarning]:
    """Yield a warning if some columns are not imported."""
    if table.others:
        yield ReadWarning(table.name, f"columns left out: {', '.join(table.others)[:200]}")


def read_row(table: str, row: Mapping[str, Any], kind: Kind) -> Iterator[ImportItem | Skipped | ReadWarning]:
    """Yield the item of a row, with warnings; or why it is skipped.

    Sessions keep their ids as names, so that programs which use these find them. A project has the name that the table
    of projects gives it, else its id. Each person becomes a profile.
    """
    id = _name(row.get("id"))
    where = f"{table}, {'a row without an id' if id is None else f'id {id:.80}'}"
    text = to_text(row.get("text"))
    if text is None:
        yield Skipped(where, "no text")
        return
    if row.get("deleted") not in (None, 0, False, "", "0", "false"):
        yield Skipped(where, "deleted there")
        return
    occurred = _time(row.get("created"))
    if occurred is None and row.get("created") is not None:
        yield ReadWarning(where, "no valid time")
    importance = _importance(row.get("importance"))
    if importance is None and row.get("importance") is not None:
        yield ReadWarning(where, "an importance that is not from 0 to 1 was left out")
    project, session = _name(row.get("project")), _name(row.get("session"))
    title, person = _name(row.get("project_title")), _name(row.get("person"))
    extra = without_none(
        title=_name(row.get("session_title")),
        project_id=project if title else None,
        user_id=person,
    )
    yield ImportItem(
        without_none(
            text=text.strip(),
            project=title or project,
            session=session,
            kind=kind,
            speaker=_name(row.get("speaker")),
            importance=importance,
            occurred=occurred,
            source=None if id is None else f"{table}:{id}"[:500],
            metadata={**_metadata(row.get("metadata")), **extra},
        ),
        # Rows without an id are told apart by their fields: the text is part of the identity of every item.
        f"{table}/{id}" if id is not None else f"{table}/{session}/{occurred}/{row.get('speaker')}",
        where,
        person=person,
    )


def _name(value: Any) -> str | None:
    return to_name(str(value) if isinstance(value, UUID) else value)


def _time(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        try:
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        except OverflowError:  # at the beginning of the year 1, or at the end of the year 9999
            return None
    return parse_time(float(value) if isinstance(value, Decimal) else value)


def _importance(value: Any) -> float | None:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    try:
        number = float(value)  # a Decimal that is NaN cannot be compared
    except (OverflowError, ValueError):
        return None
    return number if 0 <= number <= 1 else None


def _metadata(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return to_object(value)
