"""The page at /docs, on which every call can be tried: Swagger UI, served from here, so that it works offline."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from retentive.errors import MissingExtra

FILES = "/docs/files"


def add_docs_page(app: FastAPI) -> None:
    """Give the application its page of documentation. Nothing on it comes from another host."""
    package = find_spec("fastapi_offline")
    if package is None or package.origin is None:
        raise MissingExtra("the page at /docs", "server")
    app.mount(FILES, StaticFiles(directory=Path(package.origin).parent / "static"), name="docs_files")

    @app.get("/docs", include_in_schema=False)
    def docs_page() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url=app.openapi_url or "/openapi.json",
            title=f"{app.title} · API",
            swagger_js_url=f"{FILES}/swagger-ui-bundle.js",
            swagger_css_url=f"{FILES}/swagger-ui.css",
            swagger_favicon_url="data:,",
        )
