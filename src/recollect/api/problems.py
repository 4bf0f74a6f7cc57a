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
from starlette.types import Receive, Scope, Send

from recollect.errors import Conflict, Invalid, MissingExtra, NotFound, RecollectError, Unavailable

log = logging.getLogger(__name__)

STATUS: dict[type[RecollectError], int] = {
    Invalid: 422,
    NotFound: 404,
    Conflict: 409,
    Unavailable: 503,
    MissingExtra: 501,
}
"""What HTTP calls each kind of error."""

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
    errors: Sequence[dict[str, Any]] = (),
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """A problem as a response."""
    body: dict[str, Any] = {
        "type": f"urn:recollect:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
    }
    if errors:
        body["errors"] = list(errors)
    return Problem(body, headers=headers)


def add_problems(app: FastAPI) -> None:
    """Make every error of this application a problem."""
    app.add_exception_handler(RecollectError, _ours)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _unforeseen)


def _ours(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RecollectError):
        raise error
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    headers = {"Retry-After": "1"} if status == 503 else None
    return problem(status, str(error), code=error.code, headers=headers)


def _not_valid(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RequestValidationError):
        raise error
    errors = [_field(item) for item in error.errors()]
    detail = "; ".join(f"{item['field']}: {item['message']}" if item["field"] else item["message"] for item in errors)
    return problem(422, detail, code="invalid", errors=errors)


def _field(item: Any) -> dict[str, Any]:
    """Which field is wrong, and why; what was sent is not repeated, for it may be somebody's memory."""
    _, *path = item["loc"]
    name = ".".join(str(part) for part in path)
    message: str = item["msg"]
    if item["type"] == "extra_forbidden":
        message = "there is no such field"
    return {"field": name, "message": message[:1].lower() + message[1:]}


def _of_http(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    code = {401: "token_needed", 403: "not_allowed", 404: "not_found", 405: "method_not_allowed"}.get(
        error.status_code, "error"
    )
    return problem(error.status_code, str(error.detail), code=code, headers=dict(error.headers or {}))


def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    name = getattr(request.state, "request_id", None)
    log.error("request %s failed", name, exc_info=error)
    detail = "something went wrong here that should not; the log of the service says what"
    return problem(500, detail, code="error", headers={"X-Request-Id": name} if name else None)
