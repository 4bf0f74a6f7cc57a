"""Serve the playground: the page at `/` and its scripts, styles and images at `/playground/…`, from the package.

The page contains no memories and needs no token; the requests that it sends to the API do. The Content-Security-Policy
allows scripts, styles and images of this service only, no inline scripts or styles, and no framing.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from retentive.settings import Settings
from retentive.transfer.samples import QUERIES, read_samples

FOLDER = Path(str(files("retentive.server.http") / "playground"))

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


class _PageFiles(StaticFiles):
    """The files of the page, with its headers."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers.update(HEADERS)
        return response


def add_playground(app: FastAPI) -> None:
    """Add the routes of the page and its files."""
    options: dict[str, Any] = {"methods": ["GET", "HEAD"], "include_in_schema": False}
    page = (FOLDER / "index.html").read_text(encoding="utf-8")

    @app.api_route("/", **options)
    def playground(request: Request) -> Response:
        settings: Settings = request.app.state.settings
        # A page that anybody can load does not tell where the store is.
        option = "" if settings.server.token_reason else settings.store_option
        return HTMLResponse(page.replace("{{STORE_OPTION}}", escape(option)), headers=HEADERS)

    @app.api_route("/playground/samples.json", **options)
    def samples() -> Response:
        """Return the sample memories and queries to try on them; the page stores them if the user asks for it."""
        return JSONResponse({"memories": read_samples(), "queries": QUERIES}, headers=HEADERS)

    app.mount("/playground", _PageFiles(directory=FOLDER), name="playground_files")
