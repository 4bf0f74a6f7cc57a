"""Serve the playground: the page at `/` and its scripts, styles and images at `/playground/…`, from the package.

The page contains no memories and needs no token; the requests that it sends to the API do. The Content-Security-Policy
allows scripts, styles and images of this service only, no inline scripts or styles, and no framing.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from retentive.server.http.auth import needs_token
from retentive.settings import Settings
from retentive.transfer.samples import QUERIES, read_samples

FOLDER = Path(str(files("retentive.server.http") / "playground"))

# Defined here, because the media types that the operating system configures vary, and browsers enforce them.
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webp": "image/webp",
}

PAGE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers of every page."""

HEADERS = {
    **PAGE_HEADERS,
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cache-Control": "no-cache",  # browsers revalidate each file with its ETag, so an update is visible at once
}


def add_playground(app: FastAPI) -> None:
    """Add the routes of the page and its files."""
    options: dict[str, Any] = {"methods": ["GET", "HEAD"], "include_in_schema": False}

    @app.api_route("/", **options)
    def playground(request: Request) -> Response:
        settings: Settings = request.app.state.settings
        # A page that anybody can load does not tell where the store is.
        option = "" if needs_token(settings.server) else settings.store_option
        return _file_response("index.html", request, {"STORE_OPTION": option})

    @app.api_route("/playground/samples.json", **options)
    def samples() -> Response:
        """Return the sample memories and queries to try on them; the page stores them if the user asks for it."""
        return JSONResponse({"memories": read_samples(), "queries": QUERIES}, headers=HEADERS)

    @app.api_route("/playground/{name:path}", **options)
    def playground_file(request: Request, name: str) -> Response:
        return _file_response(name, request)


def _file_response(name: str, request: Request, values: Mapping[str, str] | None = None) -> Response:
    """Return a file of the page, with each `{{NAME}}` replaced by its value."""
    # The name is looked up among the existing files and never joined to a path, so it cannot leave the folder.
    path = _files_by_name().get(name)
    if path is None:
        raise HTTPException(404)
    content = path.read_bytes()
    for value, text in (values or {}).items():
        content = content.replace(f"{{{{{value}}}}}".encode(), escape(text).encode())
    headers = {**HEADERS, "ETag": f'"{blake2b(content, digest_size=16).hexdigest()}"'}
    cached = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if headers["ETag"] in cached:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=MEDIA_TYPES[path.suffix])


def _files_by_name() -> dict[str, Path]:
    """Return the files of the page and its sub-folders, by their name in the URL, such as `recall/view.js`."""
    return {
        path.relative_to(FOLDER).as_posix(): path
        for path in FOLDER.rglob("*")
        if path.suffix in MEDIA_TYPES and path.is_file()
    }
