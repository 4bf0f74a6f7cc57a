"""Write values as JSON: field names in camelCase, times in ISO 8601.

Handlers return these responses directly. FastAPI would copy and validate each value again, which takes longer than a
recall on a small store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from typing import Any

from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel

from retentive.models import Hit, Memory, Reason, Recall, Serializable
from retentive.text.terms import informative_terms

_MEMORY_FIELDS = tuple(to_camel(name) for name in Memory._fields)
_FIELDS: dict[type[Any], tuple[tuple[str, str], ...]] = {}


def json_response(value: Any, *, status: int = 200) -> JSONResponse:
    """Return a response with a value as JSON; a single memory has its version as ETag."""
    headers = {"ETag": f'"{value.version}"'} if isinstance(value, Memory) else None
    return JSONResponse(to_json(value), status, headers)


def to_json(value: Any) -> Any:
    """Return a value as dicts and lists, with field names in camelCase. Keys chosen by users are not changed."""
    if isinstance(value, str | float | int | None):
        return value
    if isinstance(value, Memory):
        return dict(zip(_MEMORY_FIELDS, map(to_json, value), strict=True))
    if isinstance(value, date):  # also a datetime
        return value.isoformat()
    if isinstance(value, Hit):
        return {**_hit_without_reasons(value), "why": [reason.to_dict() for reason in value.why]}
    if isinstance(value, Reason):
        return value.to_dict()
    if isinstance(value, Serializable):
        return {name: to_json(getattr(value, field)) for field, name in _field_names(value.__class__)}
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    return [to_json(item) for item in value]


def recall_to_json(recall: Recall, *, explain: bool, dropped: bool = False) -> dict[str, Any]:
    """Return a recall as JSON; `explain` includes the reasons and the query's terms, `dropped` the dropped hits."""
    hit_to_json = to_json if explain else _hit_without_reasons
    written: dict[str, Any] = {"query": recall.query, "hits": [hit_to_json(hit) for hit in recall.hits]}
    for field, name in _field_names(Recall):
        if field not in ("query", "hits", "dropped"):
            written[name] = to_json(getattr(recall, field))
    if explain:
        written["terms"] = [term.text for term in informative_terms(recall.query)]
    if dropped:
        written["dropped"] = [hit_to_json(hit) for hit in recall.dropped]
    return written


def _hit_without_reasons(hit: Hit) -> dict[str, Any]:
    own = {"rank": hit.rank, "id": hit.id, "score": hit.score, "relevance": hit.relevance}
    return {**own, "memory": to_json(hit.memory)}


def _field_names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return the name of each field of a dataclass, in Python and in JSON."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple((item.name, to_camel(item.name)) for item in fields(kind))
    return _FIELDS[kind]
