"""What the OpenAPI document says beyond what FastAPI finds out by itself: every problem that may come back."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from retentive.server.http.problems import MEDIA_TYPE
from retentive.server.http.response_models import Problem

_SCHEMA = {"schema": {"$ref": "#/components/schemas/Problem"}}

_MEANING = {
    401: "A token is needed, or this one is not known.",
    403: "This token may not do that.",
    404: "There is nothing under that name.",
    409: "This contradicts what is stored or set.",
    413: "The request is too large.",
    415: "The body is not JSON, or does not say so.",
    421: "The service does not go by that host name.",
    422: "Something in the request is wrong; `errors` names each field.",
    501: "An optional package is not installed here; the sentence is the line to type.",
    503: "Something needed is down, busy or full; try again later.",
}

TAGS = [
    {"name": "memories", "description": "What happened, what is known, and who somebody is."},
    {"name": "recall", "description": "Memories that answer a query, found by meaning and by words at once."},
    {"name": "settings", "description": "Every parameter of a recall, changed while the service runs, with a history."},
    {"name": "catalogue", "description": "Sessions, projects, profiles, and how much there is."},
    {"name": "chat", "description": "Chat with memory for OpenAI's clients, and the context alone for others."},
    {"name": "judgements", "description": "What people said of memories, to measure and tune by."},
    {"name": "health", "description": "Whether the service lives, is ready, and how it has been doing."},
]


def may_fail(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems with which an operation may answer, for its `responses`."""
    return {status: {"description": _MEANING[status], "content": {MEDIA_TYPE: _SCHEMA}} for status in statuses}


EVERYWHERE = may_fail(401, 403, 413, 415, 421, 422, 503)
"""What any operation may answer with."""


def add_problem_schema(app: FastAPI) -> None:
    """Let the document define what a problem is."""
    document = app.openapi

    def with_problem() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = document()
            _, defined = models_json_schema([(Problem, "serialization")], ref_template="#/components/schemas/{model}")
            found.setdefault("components", {}).setdefault("schemas", {}).update(defined["$defs"])
        return document()

    app.openapi = with_problem  # type: ignore[method-assign]
