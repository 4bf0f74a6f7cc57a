"""Errors as `application/problem+json` (RFC 9457), and in OpenAI's format on the routes for OpenAI's clients.

A problem has a stable code, a sentence that says what happened and what to do, and the fields that are wrong.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Receive, Scope, Send

from retentive.chat.llm_client import LlmError
from retentive.errors import (
    Conflict,
    Damaged,
    Invalid,
    MissingExtra,
    NotFound,
    RetentiveError,
    Unavailable,
    VersionConflict,
    describe_error,
)
from retentive.lazy_models import plain_message
from retentive.server.http.request_log import METHODS, route_template
from retentive.server.http.request_parsing import Handler, StrictRoute

log = logging.getLogger(__name__)

STATUS: dict[type[RetentiveError], int] = {
    Invalid: 422,
    NotFound: 404,
    VersionConflict: 412,  # a kind of Conflict, so before it
    Conflict: 409,
    Damaged: 500,
    Unavailable: 503,
    MissingExtra: 501,
}
"""The HTTP status of each kind of error."""

CODES = {
    400: "invalid",
    401: "token_needed",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "not_json",
    421: "unknown_host",
    422: "invalid",
    429: "too_many_requests",
}
"""The stable code of each HTTP error."""

DETAILS = {
    404: "there is no such path; /docs lists all operations",
}

_ID_PATHS = {
    "memory": re.compile(r"/v1/memories/([^/]{1,100})(?:/(?:supersede|retract|restore|history))?"),
    "suggestion": re.compile(r"/v1/reviews/([^/]{1,100})"),
}
"""Paths with an id. Routes match only UUIDs; to a caller, any other id is one that does not exist."""

UNEXPECTED = "an unexpected error occurred; see the log of the service"

MAX_PATH_PARTS = 8
"""The path to a wrong field is cut after this many parts."""

MEDIA_TYPE = "application/problem+json"


class ProblemResponse(JSONResponse):
    """A problem as a response. It stores its code in the request's state, for the log and the metrics."""

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
    """Return a problem as a response."""
    body: dict[str, Any] = {
        "type": f"urn:retentive:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": _encodable(detail),
    }
    if errors:
        body["errors"] = [{name: _encodable(text) for name, text in error.items()} for error in errors]
    return ProblemResponse(body, headers=headers)


def _encodable(text: str) -> str:
    """Replace halves of surrogate pairs, which a name in a request may contain and which cannot be sent."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def invalid_field(field: str, message: str) -> RequestValidationError:
    """Return the error to raise if a handler finds a field of the body invalid."""
    return RequestValidationError([{"type": "value_error", "loc": ("body", field), "msg": message}])


def add_problem_handlers(app: FastAPI) -> None:
    """Return every error of the application as a problem."""
    app.add_exception_handler(RetentiveError, _on_retentive_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_unexpected_error)


def _status_of(error: RetentiveError) -> int:
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def _on_retentive_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RetentiveError):
        raise error
    status = _status_of(error)
    headers = {"Retry-After": "1"} if status == 503 else None
    return problem(status, str(error), code=error.code, headers=headers)


def _on_validation_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    # Two dependencies may read the same header.
    unique = dict.fromkeys(tuple(_field_error(item).items()) for item in error.errors())
    errors = [dict(items) for items in unique]
    detail = "; ".join(f"{item['field']}: {item['message']}" for item in errors)
    return problem(422, detail, code="invalid", errors=errors)


def _field_error(item: Any) -> dict[str, str]:
    """Return the invalid field and the reason, without its value, which may be the text of a memory."""
    source, *path = item["loc"]
    if item["type"] == "json_invalid":
        reason, where = item["ctx"]["error"], f" at character {path[0]}" if path[0] else ""
        return {"field": source, "message": f"this is not JSON: {reason[:1].lower()}{reason[1:]}{where}"}
    # A part in parentheses is the tag of a union, not a field; "[key]" is the name of the field before it.
    parts = [str(part) for part in path if not str(part).startswith("(")]
    if len(parts) > 1 and parts[-1] == "[key]":
        parts.pop()
    name = ".".join(parts[:MAX_PATH_PARTS] + ["…"] * (len(parts) > MAX_PATH_PARTS)) or source
    extra = item["type"] == "extra_forbidden"
    return {"field": name, "message": "there is no such field" if extra else plain_message(item["msg"])}


def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    code, detail = CODES.get(error.status_code, "error"), str(error.detail)
    if detail == HTTPStatus(error.status_code).phrase:  # Starlette's default
        detail = DETAILS.get(error.status_code, detail)
        for name, path in _ID_PATHS.items():
            if error.status_code == 404 and (found := path.fullmatch(request.scope["path"])):
                detail = f"there is no {name} {found[1]}"
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_allowed_methods(request))
        detail = f"this path accepts {headers['Allow']}, not {request.method:.20}"
    return problem(error.status_code, detail, code=code, headers=headers)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes with this path; the router's own answer has only the first route's."""
    return [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(_matches(route, {**request.scope, "method": method}) for route in request.app.routes)
    ]


def _matches(route: BaseRoute, scope: Scope) -> bool:
    return not isinstance(route, Mount) and route.matches(scope)[0] is Match.FULL


def _on_unexpected_error(request: Request, error: Exception) -> JSONResponse:
    id = getattr(request.state, "request_id", None)
    method = request.method if request.method in METHODS else "other"
    log.error("%s %s failed, request %s: %s", method, route_template(request.scope), id, describe_error(error))
    return problem(500, UNEXPECTED, code="error", headers={"X-Request-Id": id} if id else None)


# OpenAI's format

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_DO_NOT_RETRY = {"x-should-retry": "false"}
"""Without it, OpenAI's clients repeat requests that cannot succeed, or that timed out after minutes."""


class OpenAIRoute(StrictRoute):
    """A route that returns errors in OpenAI's format. What a client has said is stored even if it leaves."""

    cancels = False

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except (LlmError, RetentiveError, RequestValidationError, HTTPException) as error:
                return _openai_response(error)

        return handle_errors


def _openai_response(error: LlmError | RetentiveError | RequestValidationError | HTTPException) -> JSONResponse:
    if isinstance(error, LlmError):
        headers = {} if error.status == 502 else _DO_NOT_RETRY
        return JSONResponse(error.to_dict(), error.status, headers=headers)
    if isinstance(error, RetentiveError):
        status = _status_of(error)
        return _openai_error(status, str(error), code=error.code, headers=_DO_NOT_RETRY if status == 409 else None)
    if isinstance(error, RequestValidationError):
        first, *_ = [_field_error(item) for item in error.errors()]
        message = f"{first['field']}: {first['message']}" if first["field"] else first["message"]
        return _openai_error(422, message, code="invalid", param=first["field"] or None)
    code = CODES.get(error.status_code, "error")
    return _openai_error(error.status_code, str(error.detail), code=code, headers=error.headers)


def _openai_error(
    status: int, message: str, *, code: str, param: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return JSONResponse(body, status, headers=dict(headers or {}))
