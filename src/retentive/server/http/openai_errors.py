"""Errors in the shape that OpenAI's clients know, for the addresses that those clients call."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from retentive.chat.llm_client import LlmError
from retentive.errors import RetentiveError
from retentive.server.http.problems import CODES, field_of, status_of
from retentive.server.http.strict_route import Handler, StrictRoute

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_NOT_AGAIN = {"x-should-retry": "false"}
"""Keeps OpenAI's clients from asking twice more for what cannot succeed, or has just taken minutes."""


def openai_error(
    status: int, message: str, *, code: str, param: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error as a response."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return JSONResponse(body, status, headers=dict(headers or {}))


class OpenAIRoute(StrictRoute):
    """A route whose errors are in OpenAI's shape."""

    def get_route_handler(self) -> Handler:
        """The handler, with errors turned into responses."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except (LlmError, RetentiveError, RequestValidationError, HTTPException) as error:
                return _response(error)

        return handled


def _response(error: Exception) -> JSONResponse:
    if isinstance(error, LlmError):
        headers = {} if error.status == 502 else _NOT_AGAIN
        return JSONResponse(error.to_dict(), error.status, headers=headers)
    if isinstance(error, RetentiveError):
        status = status_of(error)
        return openai_error(status, str(error), code=error.code, headers=_NOT_AGAIN if status == 409 else None)
    if isinstance(error, RequestValidationError):
        first, *_ = [field_of(item) for item in error.errors()]
        message = f"{first['field']}: {first['message']}" if first["field"] else first["message"]
        return openai_error(422, message, code="invalid", param=first["field"] or None)
    if not isinstance(error, HTTPException):
        raise error
    code = CODES.get(error.status_code, "error")
    return openai_error(error.status_code, str(error.detail), code=code, headers=error.headers)
