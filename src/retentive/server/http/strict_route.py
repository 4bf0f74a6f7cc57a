"""`StrictRoute`: a route that accepts only JSON bodies and only the query parameters it declares."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_snake
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

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
