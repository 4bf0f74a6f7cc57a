"""Values as JSON over HTTP: camelCase, ISO 8601.

Handlers answer with these responses themselves. Handing values to FastAPI would have every answer copied, checked and
copied again, which costs more than a recall of a small store does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from typing import Any

from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel

from retentive.models import Hit, Memory, Reason, Recall, Serializable

_MEMORY = tuple(to_camel(name) for name in Memory._fields)


def answer(value: Any, *, status: int = 200) -> JSONResponse:
    """The response that carries a value."""
    return JSONResponse(plain(value), status)


def plain(value: Any) -> Any:
    """A value as dicts and lists, the names of its fields in camelCase. Keys that users chose stay as they are."""
    if isinstance(value, str | float | int | None):
        return value
    if isinstance(value, Memory):
        return dict(zip(_MEMORY, map(plain, value), strict=True))
    if isinstance(value, date):  # or a time, which is one too
        return value.isoformat()
    if isinstance(value, Hit):
        return {**bare(value), "why": [reason.to_dict() for reason in value.why]}
    if isinstance(value, Reason):
        return value.to_dict()
    if isinstance(value, Serializable):
        return {name: plain(getattr(value, field)) for field, name in _names(value.__class__)}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value]


def bare(hit: Hit) -> dict[str, Any]:
    """A hit without why it is there."""
    return {"rank": hit.rank, "id": hit.id, "score": hit.score, "memory": plain(hit.memory)}


def recalled(recall: Recall, *, explain: bool, dropped: bool = False) -> dict[str, Any]:
    """A recall, with why each hit is there and with what was dropped where that is wished."""
    show = plain if explain else bare
    shown: dict[str, Any] = {"query": recall.query, "hits": [show(hit) for hit in recall.hits]}
    shown |= {name: plain(getattr(recall, field)) for field, name in _REST}
    if dropped:
        shown["dropped"] = [show(hit) for hit in recall.dropped]
    return shown


_NAMES: dict[type[Any], tuple[tuple[str, str], ...]] = {}


def _names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """Each field of a kind of value, in Python and in JSON."""
    if kind not in _NAMES:
        _NAMES[kind] = tuple((item.name, to_camel(item.name)) for item in fields(kind))
    return _NAMES[kind]


_REST = tuple(names for names in _names(Recall) if names[0] not in ("query", "hits", "dropped"))
