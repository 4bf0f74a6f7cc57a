"""The kinds of field that requests are made of, with their limits: names, texts, ids, times."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from retentive.errors import Invalid
from retentive.models import Kind
from retentive.pipeline.judgements import MAX_QUERY
from retentive.pipeline.remember import MAX_NAME, MAX_TEXT, to_time

EXAMPLE_ID = "01984c3e-5a60-7c1f-9d3b-2f7a41c08e55"
OTHER_ID = "01984c3e-5a61-7302-8a44-90b1d7e6f3aa"


class Camel(BaseModel):
    """A value as JSON has it: camelCase, snake_case is taken too, and nothing that is not known.

    Strict: "1" is no number, and 1 is not true.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True, allow_inf_nan=False
    )


def _says_something(text: str) -> str:
    if not text.strip():
        raise ValueError("this is blank")
    return text


def _id(value: Any) -> str:
    try:
        return str(UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise ValueError("an id is a UUID such as " + EXAMPLE_ID) from None


def _time(value: Any) -> datetime | None:
    try:
        return to_time(value, "")
    except Invalid as error:
        raise ValueError(str(error).removeprefix(": ")) from None


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


# Told here but checked by NOT_BLANK, whose message can be understood.
_PATTERN: JsonDict = {"pattern": r"\S"}
NOT_BLANK = AfterValidator(_says_something)

WHOLE = BeforeValidator(_whole)
"""To JSON, 3.0 is a whole number too."""

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, json_schema_extra=_PATTERN), NOT_BLANK]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, json_schema_extra=_PATTERN), NOT_BLANK]
QueryOptions = Annotated[str, Field(min_length=1, max_length=MAX_QUERY, json_schema_extra=_PATTERN), NOT_BLANK]
Id = Annotated[str, BeforeValidator(_id), WithJsonSchema({"type": "string", "format": "uuid"})]
Time = Annotated[datetime, BeforeValidator(_time), WithJsonSchema({"type": "string", "format": "date-time"})]

# A name that is looked for may be any: one that nothing goes by finds nothing.
Sought = Annotated[str, Field(max_length=MAX_NAME)]
_SOUGHT = {"type": "string", "maxLength": MAX_NAME}
Sessions = Annotated[
    list[Sought],
    Field(max_length=1000),
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [_SOUGHT, {"type": "array", "maxItems": 1000, "items": _SOUGHT}]}),
]
Kinds = Annotated[list[Kind], Field(max_length=3)]
