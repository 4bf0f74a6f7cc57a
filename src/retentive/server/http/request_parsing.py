"""Parse requests: strict JSON bodies and query parameters, and field types with their limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from fastapi import Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    create_model,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from retentive.errors import Invalid
from retentive.models import Kind
from retentive.pipeline.judgements import MAX_QUERY
from retentive.pipeline.remember import MAX_NAME, MAX_TEXT, to_time
from retentive.ranking import Tuning, preset
from retentive.ranking.presets import PRESETS
from retentive.ranking.tuning import Hybrid

LARGE_BODY = 100_000
"""A body of more bytes is parsed on a worker thread, so that it does not block other requests."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StrictRoute(APIRoute):
    """Rejects unknown query parameters: a misspelled filter that is ignored would widen the result.

    Parameters may be spelled in camelCase or snake_case.
    """

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        declared = {param.alias: param.alias for param in self.dependant.query_params}
        spellings = {to_snake(name): name for name in declared} | declared

        async def handle_strictly(request: Request) -> Response:
            if request.url.query:
                _check_parameters(request, spellings)
            return await handle(_JsonRequest(request.scope, request.receive))

        return handle_strictly


class _JsonRequest(Request):
    """A request whose body must be standard JSON."""

    async def body(self) -> bytes:
        body = await super().body()
        if body and not _is_json(self.headers.get("content-type", "")):
            raise HTTPException(415, "the body must be JSON, with the header Content-Type: application/json")
        return body

    async def json(self) -> Any:
        body = await self.body()
        return await run_in_threadpool(_parse, body) if len(body) > LARGE_BODY else _parse(body)


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_reject_constant)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deeply", "", 0) from None
    except ValueError as error:  # invalid UTF-8, or a number with thousands of digits
        raise json.JSONDecodeError(f"it cannot be read ({type(error).__name__})", "", 0) from None


def _reject_constant(constant: str) -> NoReturn:
    raise json.JSONDecodeError(f"the number {constant} does not exist in JSON", "", 0)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _check_parameters(request: Request, spellings: dict[str, str]) -> None:
    """Replace the spellings of parameters by the declared ones; an unknown parameter is an error (422)."""
    given = parse_qsl(request.url.query, keep_blank_values=True)
    unknown = [name for name, _ in given if name not in spellings]
    if unknown:
        declared = ", ".join(dict.fromkeys(spellings.values()))
        message = "there is no such parameter" + (f"; the parameters are {declared}" if declared else "")
        raise RequestValidationError([{"type": "value_error", "loc": ("query", unknown[0]), "msg": message}])
    if any(spellings[name] != name for name, _ in given):
        request.scope["query_string"] = urlencode([(spellings[name], value) for name, value in given]).encode()


# Field types: names, texts, ids, times

EXAMPLE_ID = "01984c3e-5a60-7c1f-9d3b-2f7a41c08e55"
OTHER_ID = "01984c3e-5a61-7302-8a44-90b1d7e6f3aa"


class CamelModel(BaseModel):
    """A JSON object with fields in camelCase. It accepts snake_case too, and rejects unknown fields.

    Types are strict: "1" is not a number, and 1 is not true.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True, allow_inf_nan=False
    )


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _to_id(value: Any) -> str:
    try:
        return str(UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise ValueError("an id is a UUID such as " + EXAMPLE_ID) from None


def _to_time(value: Any) -> datetime | None:
    try:
        return to_time(value, "")
    except Invalid as error:
        raise ValueError(str(error).removeprefix(": ")) from None


def _check_scalar(value: Any) -> Any:
    if value is not None and not isinstance(value, str | int | float):
        raise ValueError("must be text, a number, true, false or null")
    return value


def _check_time_bound(value: str) -> str:
    _to_time(value)
    return value


def _to_integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


# For the schema only; NOT_BLANK checks it with a better message.
_PATTERN: JsonDict = {"pattern": r"\S"}
NOT_BLANK = AfterValidator(_check_not_blank)

INTEGER = BeforeValidator(_to_integer)
"""Accepts 3.0 as an integer, as JSON Schema does."""

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, json_schema_extra=_PATTERN), NOT_BLANK]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, json_schema_extra=_PATTERN), NOT_BLANK]
QueryText = Annotated[str, Field(min_length=1, max_length=MAX_QUERY, json_schema_extra=_PATTERN), NOT_BLANK]
Id = Annotated[str, BeforeValidator(_to_id), WithJsonSchema({"type": "string", "format": "uuid"})]
Time = Annotated[datetime, BeforeValidator(_to_time), WithJsonSchema({"type": "string", "format": "date-time"})]

# Left as text, because a date means the whole day.
TimeBound = Annotated[str, AfterValidator(_check_time_bound), Field(max_length=50, examples=["2026-05-08"])]

MetadataValue = Annotated[
    Any, BeforeValidator(_check_scalar), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})
]

# A filter may be any text; an unknown name matches nothing.
NameFilter = Annotated[str, Field(max_length=MAX_NAME)]
_FILTER_SCHEMA = {"type": "string", "maxLength": MAX_NAME}
SessionFilter = Annotated[
    list[NameFilter],
    Field(max_length=1000),
    BeforeValidator(_to_list),
    WithJsonSchema({"anyOf": [_FILTER_SCHEMA, {"type": "array", "maxItems": 1000, "items": _FILTER_SCHEMA}]}),
]
Kinds = Annotated[list[Kind], Field(max_length=3)]

IdempotencyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="A unique key for this request. A repeated request with the same key within a day changes nothing.",
    ),
]


# Tuning: some parameters, the block of older configurations, or the name of a preset


def _optional(field: FieldInfo) -> Any:
    limits = [*field.metadata, *([INTEGER] if field.annotation is int else [])]
    kind: Any = Annotated[(field.annotation, *limits)] if limits else field.annotation
    return (kind | None, Field(None, description=field.description))


if TYPE_CHECKING:

    class Parameters(CamelModel):
        """Some tuning parameters."""
else:
    Parameters = create_model(
        "Parameters",
        __base__=CamelModel,
        __doc__="Some tuning parameters. Those that are missing or null keep their current value.",
        **{name: _optional(field) for name, field in Tuning.model_fields.items()},
    )


class SettingsPatch(Parameters):
    """Tuning parameters to save in the store; null resets a parameter to its default."""

    hybrid: Hybrid | None = Field(
        None,
        description="Sets fusion, semanticWeight, keywordWeight and rrfK together; null resets them. Parameters given "
        "beside it take precedence.",
    )

    def changes(self) -> dict[str, Any]:
        """Return the parameters to save, by their Python names; None resets one."""
        parameters: dict[str, Any] = {}
        if "hybrid" in self.model_fields_set:
            parameters = self.hybrid.parameters() if self.hybrid else dict.fromkeys(Hybrid().parameters())
        return parameters | {name: getattr(self, name) for name in self.model_fields_set if name != "hybrid"}


def _check_preset(name: str) -> str:
    try:
        preset(name)
    except Invalid as error:
        raise ValueError(str(error)) from None
    return name


PresetName = Annotated[str, AfterValidator(_check_preset), WithJsonSchema({"type": "string", "enum": list(PRESETS)})]


def _tuning_form(value: Any) -> str | None:
    if isinstance(value, str):
        return "(preset)"
    return "(parameters)" if isinstance(value, dict | Parameters) else None


TuningChoice = Annotated[
    Annotated[Parameters, Tag("(parameters)")] | Annotated[PresetName, Tag("(preset)")],
    Discriminator(
        _tuning_form,
        custom_error_type="parameters_or_preset",
        custom_error_message="an object of parameters, or the name of a preset",
    ),
]
"""A tuning for one recall: parameters that differ from the current tuning, or a preset."""


def tuning_override(choice: Parameters | str | None) -> dict[str, Any] | str | None:
    """Return a choice as the engine accepts it."""
    return choice.model_dump(exclude_none=True) if isinstance(choice, Parameters) else choice
