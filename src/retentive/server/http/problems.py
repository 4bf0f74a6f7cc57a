"""Errors as `application/problem+json` (RFC 9457): a stable code, what happened, what to do, and which field."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Receive, Scope, Send

from retentive.errors import Conflict, Invalid, MissingExtra, NotFound, RetentiveError, Unavailable
from retentive.server.http.request_log import template

log = logging.getLogger(__name__)

STATUS: dict[type[RetentiveError], int] = {
    Invalid: 422,
    NotFound: 404,
    Conflict: 409,
    Unavailable: 503,
    MissingExtra: 501,
}
"""What HTTP calls each kind of error."""

CODES = {
    400: "invalid",
    401: "token_needed",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "not_json",
    421: "unknown_host",
}
"""The stable code of what HTTP itself refuses."""

HELP = {
    404: "there is nothing at this address; /docs shows what there is",
    405: "this address does not take that method; the header Allow names those it takes",
}

DEEPEST = 8
"""So many parts of the path to a field are told."""

MEDIA_TYPE = "application/problem+json"


class Problem(JSONResponse):
    """A problem as a response, which leaves its code where the log and the metrics find it."""

    media_type = MEDIA_TYPE

    def __init__(self, body: dict[str, Any], *, headers: dict[str, str] | None = None) -> None:
        super().__init__(body, body["status"], headers=headers)
        self._code = body["code"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["problem"] = self._code
        await super().__call__(scope, receive, send)


def problem(
    status: int,
    detail: str,
    *,
    code: str,
    errors: Sequence[dict[str, str]] = (),
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """A problem as a response."""
    body: dict[str, Any] = {
        "type": f"urn:retentive:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": _readable(detail),
    }
    if errors:
        body["errors"] = [{name: _readable(text) for name, text in error.items()} for error in errors]
    return Problem(body, headers=headers)


def _readable(text: str) -> str:
    """Text that can be sent: half of a surrogate pair, which a name in a request may hold, cannot."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def wrong(field: str, message: str) -> RequestValidationError:
    """What to raise where a handler finds a field of the body wrong that its model could not judge."""
    return RequestValidationError([{"type": "value_error", "loc": ("body", field), "msg": message}])


def add_problems(app: FastAPI) -> None:
    """Make every error of this application a problem."""
    app.add_exception_handler(RetentiveError, _ours)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _unforeseen)


def status_of(error: RetentiveError) -> int:
    """What HTTP calls an error."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def _ours(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RetentiveError):
        raise error
    status = status_of(error)
    headers = {"Retry-After": "1"} if status == 503 else None
    return problem(status, str(error), code=error.code, headers=headers)


def _not_valid(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    named = dict.fromkeys(tuple(field_of(item).items()) for item in error.errors())  # two may take the same header
    errors = [dict(items) for items in named]
    detail = "; ".join(f"{item['field']}: {item['message']}" for item in errors)
    return problem(422, detail, code="invalid", errors=errors)


def field_of(item: Any) -> dict[str, str]:
    """Which field is wrong, and why; what was sent is not repeated, for it may be somebody's memory."""
    place, *path = item["loc"]
    if item["type"] == "json_invalid":
        reason, where = item["ctx"]["error"], f" at character {path[0]}" if path[0] else ""
        return {"field": place, "message": f"this is not JSON: {reason[:1].lower()}{reason[1:]}{where}"}
    # A part in brackets tells which of several forms of a field was meant, and is no field.
    parts = [str(part) for part in path if not str(part).startswith("(")]
    name = ".".join(parts[:DEEPEST] + ["…"] * (len(parts) > DEEPEST)) or place
    message: str = item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        message = "there is no such field"
    return {"field": name, "message": message[:1].lower() + message[1:]}


def _of_http(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    code, detail = CODES.get(error.status_code, "error"), str(error.detail)
    if detail == HTTPStatus(error.status_code).phrase:  # Starlette's own words, which help nobody
        detail = HELP.get(error.status_code, detail)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    return problem(error.status_code, detail, code=code, headers=headers)


def _methods(request: Request) -> list[str]:
    """What may be asked of this address; the router's own answer names only the first of several routes."""
    return [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(_takes(route, {**request.scope, "method": method}) for route in request.app.routes)
    ]


def _takes(route: BaseRoute, scope: Scope) -> bool:
    return not isinstance(route, Mount) and route.matches(scope)[0] is Match.FULL


def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    name = getattr(request.state, "request_id", None)
    log.error("%s %s failed, request %s", request.method, template(request.scope), name, exc_info=error)
    detail = "something went wrong here that should not; the log of the service says what"
    return problem(500, detail, code="error", headers={"X-Request-Id": name} if name else None)
