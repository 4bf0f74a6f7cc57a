"""`StrictRoute`: a route that takes JSON and nothing else, and no query parameter that it does not know."""

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

LARGE = 100_000
"""A body of more bytes is parsed on a thread of its own, so that nobody else waits for it."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StrictRoute(APIRoute):
    """A misspelled parameter is an error here: left out of account, it would silently widen what is asked for."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        known = {param.alias: param.alias for param in self.dependant.query_params}
        spellings = {to_snake(name): name for name in known} | known

        async def strictly(request: Request) -> Response:
            if request.url.query:
                _know_query(request, spellings)
            return await handle(_JsonRequest(request.scope, request.receive))

        return strictly


class _JsonRequest(Request):
    """A request whose body is JSON as the standard has it."""

    async def body(self) -> bytes:
        body = await super().body()
        if body and not _is_json(self.headers.get("content-type", "")):
            raise HTTPException(415, "send JSON, and say so: Content-Type: application/json")
        return body

    async def json(self) -> Any:
        body = await self.body()
        return await run_in_threadpool(_parsed, body) if len(body) > LARGE else _parsed(body)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deeply", "", 0) from None
    except ValueError as error:  # bytes that are not UTF-8, a number of thousands of digits
        raise json.JSONDecodeError(f"it cannot be read ({type(error).__name__})", "", 0) from None


def _refuse(constant: str) -> NoReturn:
    raise json.JSONDecodeError(f"there is no number {constant}", "", 0)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _know_query(request: Request, spellings: dict[str, str]) -> None:
    """Spell the parameters as the route does; 422 if there is one that it does not have."""
    given = parse_qsl(request.url.query, keep_blank_values=True)
    unknown = [name for name, _ in given if name not in spellings]
    if unknown:
        message = "there is no such parameter" + (f"; there are {', '.join(_camel(spellings))}" if spellings else "")
        raise RequestValidationError([{"type": "value_error", "loc": ("query", unknown[0]), "msg": message}])
    if any(spellings[name] != name for name, _ in given):
        request.scope["query_string"] = urlencode([(spellings[name], value) for name, value in given]).encode()


def _camel(spellings: dict[str, str]) -> list[str]:
    return list(dict.fromkeys(spellings.values()))
