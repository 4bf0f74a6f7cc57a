"""The OpenAPI document: tags, and the problems that every operation can return. And the page at /docs."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from pydantic.json_schema import models_json_schema
from starlette.staticfiles import StaticFiles

from retentive.errors import MissingExtra
from retentive.server.http.playground_page import PAGE_HEADERS
from retentive.server.http.problems import MEDIA_TYPE
from retentive.server.http.response_models import Problem

TAGS = [
    {"name": "memories", "description": "Store, read, change and delete memories."},
    {"name": "recall", "description": "Find the memories that answer a query."},
    {"name": "settings", "description": "Read and change the tuning while the service runs, with a history."},
    {"name": "catalogue", "description": "Sessions, projects, profiles and statistics."},
    {"name": "chat", "description": "Chat completions with memory for OpenAI's clients, and the context alone."},
    {"name": "judgements", "description": "Relevance judgements, and evaluation and tuning with them."},
    {"name": "tokens", "description": "Make, list and revoke the tokens of clients."},
    {"name": "health", "description": "Liveness, readiness, metrics and status of the service."},
]

_DESCRIPTIONS = {
    401: "The token is missing or unknown.",
    403: "The token, profile or origin does not allow this.",
    404: "There is no such resource.",
    409: "The request conflicts with what is stored or configured.",
    412: "What is changed has another version than the one in `If-Match`.",
    413: "The request is too large.",
    415: "The body is not JSON, or its Content-Type is not.",
    421: "The service does not accept this host name.",
    422: "The request is invalid; `errors` lists the fields.",
    429: "The token has too many requests in progress; try again after `Retry-After` seconds.",
    501: "An optional package is not installed; `detail` is the command that installs it.",
    503: "Something needed is down, busy or full; try again later.",
}
_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}

DOCS_FILES = "/docs/files"


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems that an operation can return, for its `responses`."""
    return {status: {"description": _DESCRIPTIONS[status], "content": {MEDIA_TYPE: _PROBLEM}} for status in statuses}


COMMON_PROBLEMS = problem_responses(401, 403, 413, 415, 421, 422, 429, 503)
"""The problems that any operation can return."""


def add_problem_schema(app: FastAPI) -> None:
    """Define the schema of problems in the document."""
    build = app.openapi

    def build_with_problem() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = build()
            _, defined = models_json_schema([(Problem, "serialization")], ref_template="#/components/schemas/{model}")
            document.setdefault("components", {}).setdefault("schemas", {}).update(defined["$defs"])
        return build()

    app.openapi = build_with_problem  # type: ignore[method-assign]  # FastAPI documents that `openapi` is replaced


def add_docs_page(app: FastAPI) -> None:
    """Add Swagger UI at /docs, from files of this machine, so that it works offline."""
    package = find_spec("fastapi_offline")
    if package is None or package.origin is None:
        raise MissingExtra("the page at /docs", "server")
    app.mount(DOCS_FILES, StaticFiles(directory=Path(package.origin).parent / "static"), name="docs_files")

    page = get_swagger_ui_html(
        openapi_url=app.openapi_url or "/openapi.json",
        title=f"{app.title} · API",
        swagger_js_url=f"{DOCS_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{DOCS_FILES}/swagger-ui.css",
        swagger_favicon_url="data:,",
    )
    page.headers.update({**PAGE_HEADERS, "Content-Security-Policy": _docs_policy(bytes(page.body).decode())})

    @app.get("/docs", include_in_schema=False)
    def docs_page() -> HTMLResponse:
        return page


def _docs_policy(page: str) -> str:
    """Return a Content-Security-Policy that allows the inline scripts of this page, by their hashes, and no others.

    Swagger UI sets styles of elements, which needs 'unsafe-inline' for styles.
    """
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = [b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'self'; script-src 'self' {allowed}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    )
