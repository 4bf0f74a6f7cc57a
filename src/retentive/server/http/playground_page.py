"""The playground: the page at / and its files, from the package itself.

The page holds nothing of anybody and needs no token; what it asks of the service does. Its headers keep it to this
service alone: no script, style or picture from elsewhere, none inside of the page, and nobody may frame it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

FOLDER = Path(str(files("retentive.server.http") / "playground"))

# Named here, because a machine's own list of types may say anything, and a browser goes by what is said.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, and asked for again each time: a new version is seen at once
}


def add_playground(app: FastAPI) -> None:
    """Give the application its page."""
    options: dict[str, Any] = {"methods": ["GET", "HEAD"], "include_in_schema": False}

    @app.api_route("/", **options)
    def playground(request: Request) -> Response:
        return _file("index.html", request)

    @app.api_route("/playground/{name:path}", **options)
    def playground_file(request: Request, name: str) -> Response:
        return _file(name, request)


def _file(name: str, request: Request) -> Response:
    # What is asked for is looked up among the files that there are, and never becomes a path.
    path = _files().get(name)
    if path is None:
        raise HTTPException(404)
    content = path.read_bytes()
    headers = {**HEADERS, "ETag": f'"{blake2b(content, digest_size=16).hexdigest()}"'}
    if headers["ETag"] in _known(request.headers):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=TYPES[path.suffix])


def _files() -> dict[str, Path]:
    """Every file of the page, by its name in an address."""
    return {
        str(PurePosixPath(path.relative_to(FOLDER))): path
        for path in FOLDER.rglob("*")
        if path.suffix in TYPES and path.is_file()
    }


def _known(headers: Mapping[str, str]) -> list[str]:
    """The versions that the browser has."""
    return [tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(",")]
