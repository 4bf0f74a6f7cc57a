"""Parse requests: strict JSON bodies and query parameters, and field types with their limits."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_args, get_origin
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
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from retentive.errors import Cancelled, Invalid
from retentive.models import MAX_NAME, Kind, Work, current_work
from retentive.pipeline.judgements import MAX_QUERY
from retentive.pipeline.query_options import to_filter
from retentive.pipeline.remember import MAX_TEXT, to_expiry, to_time
from retentive.ranking import Tuning, preset
from retentive.ranking.hybrid import Hybrid
from retentive.ranking.presets import PRESETS

NO_CHARACTER = "half of a surrogate pair is no character"

MAX_DEPTH = 200
"""How deep a body may be nested, which is more than metadata may be. Python's own limit depends on the stack."""

CLIENT_CLOSED_REQUEST = 499

LARGE_BODY = 100_000
"""A body of more bytes is parsed on a worker thread, so that it does not block other requests."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


FILE_TYPE = "application/octet-stream"


class StrictRoute(APIRoute):
    """Rejects unknown query parameters: a misspelled filter that is ignored would widen the result.

    Parameters may be spelled in camelCase or snake_case. If the client leaves, the work for it is cancelled.
    """

    cancels = True
    takes_file = False

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        declared = {param.alias: param.alias for param in self.dependant.query_params}
        spellings = {to_snake(name): name for name in declared} | declared
        lists = {param.alias for param in self.dependant.query_params if _has_list(param.field_info.annotation)}

        async def handle_strictly(request: Request) -> Response:
            if request.url.query:
                _check_parameters(request, spellings, lists)
            parsed = _JsonRequest(request.scope, request.receive)
            parsed.watched = self.cancels
            parsed.is_file = self.takes_file
            try:
                return await handle(parsed)
            except NotUnicode as error:
                item = {"type": "value_error", "loc": ("body", *error.path), "msg": NO_CHARACTER}
                raise RequestValidationError([item]) from None
            except Cancelled:
                return Response(status_code=CLIENT_CLOSED_REQUEST)
            finally:
                parsed.stop_watching()

        return handle_strictly


class FileRoute(StrictRoute):
    """A route whose body is a file. Its media type is required: a page of another origin cannot send it unasked."""

    takes_file = True


class _JsonRequest(Request):
    """A request whose body must be standard JSON. If it is watched, its work is cancelled when the client leaves."""

    watched = False
    is_file = False
    _watching: asyncio.Task[None] | None = None

    async def body(self) -> bytes:
        body = await super().body()
        if self.watched and self._watching is None:
            self._watching = asyncio.create_task(self._watch(current_work()))
        media = self.headers.get("content-type", "")
        if self.is_file and media != FILE_TYPE:
            raise HTTPException(415, f"the body must be the file, with the header Content-Type: {FILE_TYPE}")
        if body and not self.is_file and not _is_json(media):
            raise HTTPException(415, "the body must be JSON, with the header Content-Type: application/json")
        return body

    async def _watch(self, work: Work) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        work.cancelled = True

    def stop_watching(self) -> None:
        """Stop waiting for the client to leave."""
        if self._watching is not None:
            self._watching.cancel()

    async def json(self) -> Any:
        body = await self.body()
        return await run_in_threadpool(parse_json, body) if len(body) > LARGE_BODY else parse_json(body)


class NotUnicode(HTTPException):
    """A body with half of a surrogate pair. FastAPI passes an HTTPException on while it reads a body."""

    def __init__(self, path: tuple[str | int, ...]) -> None:
        super().__init__(422, f"{'.'.join(map(str, path)) or 'body'}: {NO_CHARACTER}")
        self.path = path


def parse_json(body: bytes) -> Any:
    """Parse standard JSON; `JSONDecodeError` if it is none, `NotUnicode` if it has half of a surrogate pair."""
    try:
        parsed = json.loads(body, parse_constant=_reject_constant)
        if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
            _check_depth(parsed)
        if may_have_surrogates(body) and (path := _lone_surrogate(parsed)) is not None:
            raise NotUnicode(path)
        return parsed
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError(f"it is nested too deeply, in more than {MAX_DEPTH} levels", "", 0) from None
    except ValueError as error:  # invalid UTF-8, or a number with thousands of digits
        raise json.JSONDecodeError(f"it cannot be read ({type(error).__name__})", "", 0) from None


_MAY_BE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]|\x00")  # a zero byte: UTF-16 or UTF-32


def may_have_surrogates(body: bytes) -> bool:
    """Whether the body contains bytes that can stand for half of a surrogate pair; few bodies do."""
    return _MAY_BE_SURROGATE.search(body) is not None


def _lone_surrogate(value: Any) -> tuple[str | int, ...] | None:
    """Return the path to the first text that contains half of a surrogate pair; None if there is none."""
    if isinstance(value, str):
        return None if value.isascii() or _is_unicode(value) else ()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(key, str) and _lone_surrogate(key) is not None:
            return ()
        path = _lone_surrogate(item)
        if path is not None:
            return (key, *path)
    return None


def _check_depth(value: Any) -> None:
    """Raise `RecursionError` if lists and objects are nested in more than `MAX_DEPTH` levels."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for one in level for item in _items(one) if isinstance(item, dict | list)]
        if not level:
            return
    raise RecursionError


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reject_constant(constant: str) -> NoReturn:
    raise json.JSONDecodeError(f"the number {constant} does not exist in JSON", "", 0)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _has_list(annotation: Any) -> bool:
    return annotation is list or get_origin(annotation) is list or any(map(_has_list, get_args(annotation)))


def _check_parameters(request: Request, spellings: dict[str, str], lists: Collection[str]) -> None:
    """Replace the spellings of parameters by the declared ones; an unknown or a repeated one is an error (422)."""
    given = parse_qsl(request.url.query, keep_blank_values=True)
    unknown = [name for name, _ in given if name not in spellings]
    if unknown:
        declared = ", ".join(dict.fromkeys(spellings.values()))
        message = "there is no such parameter" + (f"; the parameters are {declared}" if declared else "")
        raise RequestValidationError([{"type": "value_error", "loc": ("query", unknown[0]), "msg": message}])
    count = Counter(spellings[name] for name, _ in given)
    repeated = next((name for name, times in count.items() if times > 1 and name not in lists), None)
    if repeated is not None:
        raise RequestValidationError([{"type": "value_error", "loc": ("query", repeated), "msg": "it is repeated"}])
    if any(spellings[name] != name for name, _ in given):
        request.scope["query_string"] = urlencode([(spellings[name], value) for name, value in given]).encode()


# Field types: names, texts, ids, times

EXAMPLE_ID = "01984c3e-5a60-7c1f-9d3b-2f7a41c08e55"
EXAMPLE_CURSOR = f"1753800000000000_{EXAMPLE_ID}"
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


def _check_finite(metadata: dict[str, Any]) -> dict[str, Any]:
    path = _infinite_number(metadata)
    if path is not None:
        problem = PydanticCustomError("finite_number", "Input should be a finite number")
        raise ValidationError.from_exception_data("metadata", [{"type": problem, "loc": path, "input": None}])
    return metadata


def _infinite_number(value: Any) -> tuple[str | int, ...] | None:
    """Return the path to the first number that is too large for a float, such as 1e400; None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        path = _infinite_number(item)
        if path is not None:
            return (key, *path)
    return None


def _check_time_bound(value: str) -> str:
    _to_time(value)
    return value


def _check_period_bound(value: str) -> str:
    try:
        to_filter(value, None, None, now=datetime.now(UTC))
    except Invalid as error:
        raise ValueError(str(error).removeprefix("since: ")) from None
    return value


def _check_expiry(value: str) -> str:
    try:
        to_expiry(value, now=datetime.now(UTC))
    except Invalid as error:
        raise ValueError(str(error).removeprefix("expires: ")) from None
    return value


def _to_integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_names(value: Any) -> Any:
    """A name or names as a list."""
    return [_to_name(one) for one in (value if isinstance(value, list) else [value])]


def _to_name(value: Any) -> Any:
    """A number, as other systems identify sessions, as the name of that number."""
    number = _to_integer(value)
    return str(number) if isinstance(number, int) and not isinstance(number, bool) else value


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
_DAY_OR_TIME: JsonDict = {
    "type": "string",
    "anyOf": [{"format": "date"}, {"format": "date-time"}],
    "examples": ["2026-05-08"],
}
_PERIOD_BOUND: JsonDict = {"type": "string", "examples": ["2026-05-08", "last spring"]}
TimeBound = Annotated[str, AfterValidator(_check_period_bound), Field(max_length=50), WithJsonSchema(_PERIOD_BOUND)]
AsOf = Annotated[str, AfterValidator(_check_time_bound), WithJsonSchema(_DAY_OR_TIME)]

# Left as text, because a duration is counted from now on.
Expiry = Annotated[
    str,
    AfterValidator(_check_expiry),
    WithJsonSchema(
        {
            "type": "string",
            "anyOf": [{"pattern": r"^[0-9]{1,6}[smhdw]$"}, {"format": "date-time"}],
            "examples": ["30d", "2026-05-08T13:56:00+02:00"],
        }
    ),
]

# A body is JSON, so its values need no check. Pydantic's JsonValue would put its own names into the path of an error.
Metadata = Annotated[
    dict[str, Any], AfterValidator(_check_finite), Field(description="Any other data about the memory.")
]

MetadataValue = Annotated[
    Any, BeforeValidator(_check_scalar), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})
]

# A filter may be any text; an unknown name matches nothing.
NameFilter = Annotated[str, Field(max_length=MAX_NAME)]
SessionName = Annotated[
    Name,
    BeforeValidator(_to_name),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "minLength": 1, "maxLength": MAX_NAME, **_PATTERN}, {"type": "integer"}]}
    ),
]
"""The name of a session; an integer is the name of that number."""
_FILTER_SCHEMAS: list[JsonDict] = [{"type": "string", "maxLength": MAX_NAME}, {"type": "integer"}]
SessionFilter = Annotated[
    list[NameFilter],
    Field(max_length=1000),
    BeforeValidator(_to_names),
    WithJsonSchema(
        {"anyOf": [*_FILTER_SCHEMAS, {"type": "array", "maxItems": 1000, "items": {"anyOf": _FILTER_SCHEMAS}}]}
    ),
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


def _version(header: str | None) -> str | None:
    """Return the version in an If-Match header; None for any. A proxy may have made the ETag weak."""
    return None if header is None or header.strip() == "*" else header.strip().removeprefix("W/").strip('"')


IfMatchHeader = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=255,
        description="The ETag of what was read, or *. If it has changed since, the status is 412.",
    ),
    AfterValidator(_version),
]


def not_nullable(schema: dict[str, Any]) -> None:
    """Remove null from the schema of a field: None only means that the field is missing."""
    schema.pop("default")
    schema.update(schema.pop("anyOf")[0])


# Tuning: some parameters, the block of older configurations, or the name of a preset


def _optional(field: FieldInfo) -> Any:
    limits = [*field.metadata, *([INTEGER] if field.annotation is int else [])]
    kind: Any = Annotated[(field.annotation, *limits)] if limits else field.annotation
    return (kind | None, Field(None, description=field.description))


def _check_preset(name: str) -> str:
    try:
        preset(name)
    except Invalid as error:
        raise ValueError(str(error)) from None
    return name


PresetName = Annotated[str, AfterValidator(_check_preset), WithJsonSchema({"type": "string", "enum": list(PRESETS)})]


class _WholeTuning(CamelModel):
    preset: PresetName | None = Field(
        None, description="Sets every parameter as in this preset. Parameters given beside it take precedence."
    )
    hybrid: Hybrid | None = Field(
        None,
        description="The block of other systems' configurations: sets every parameter, as the preset weighted (or "
        "classic-rrf, or semantic-only) does. Parameters given beside it take precedence.",
    )


if TYPE_CHECKING:

    class Parameters(_WholeTuning):
        """Some tuning parameters."""
else:
    Parameters = create_model(
        "Parameters",
        __base__=_WholeTuning,
        __doc__="Some tuning parameters. Those that are missing or null keep their current value.",
        **{name: _optional(field) for name, field in Tuning.pydantic_model().model_fields.items()},
    )


class SettingsPatch(Parameters):
    """Tuning parameters to save in the store; null resets a parameter, and null for a preset or block resets all."""

    def changes(self) -> dict[str, Any]:
        """Return the parameters to save, by their Python names; None resets one."""
        return _plain(self, self.model_fields_set)


def _plain(parameters: Parameters, names: Iterable[str]) -> dict[str, Any]:
    given = {name: getattr(parameters, name) for name in names}
    return {
        name: value.model_dump(by_alias=True) if isinstance(value, Hybrid) else value for name, value in given.items()
    }


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
    if not isinstance(choice, Parameters):
        return choice
    return {name: value for name, value in _plain(choice, choice.model_fields_set).items() if value is not None}
