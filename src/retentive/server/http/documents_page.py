"""Serve the documents of this version at `/documents/…`, so that the page can link to them without another host.

They are the Markdown files in `docs/`, rendered when they are requested, and their images. They need no token.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from fastapi import FastAPI, Response
from markdown_it import MarkdownIt
from starlette.exceptions import HTTPException

from retentive.server.http.playground_page import HEADERS, MEDIA_TYPES

FOLDERS = (Path(str(files("retentive") / "documents")), Path(__file__).parents[4] / "docs")
"""Where the documents are: in an installed package, or in a copy of the repository."""

PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>{title} · Retentive</title>
  <link rel="icon" type="image/svg+xml" href="{root}playground/mark.svg">
  <link rel="stylesheet" href="{root}playground/shared/style.css">
</head>
<body class="document">
<nav>
  <a href="{root}">Playground</a> <a href="{root}documents/index.md">Documents</a>
  <a href="{root}docs">API reference</a>
</nav>
<main>
{body}</main>
</body>
</html>
"""


def add_documents(app: FastAPI) -> None:
    """Add the route of the documents."""
    folder = next((folder for folder in FOLDERS if (folder / "index.md").is_file()), None)
    # Names are looked up among the existing files and never joined to a path, so they cannot leave the folder.
    documents = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*")} if folder else {}

    @app.api_route("/documents/{name:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def document(name: str) -> Response:
        path = documents.get(name)
        if path is None:
            raise HTTPException(404)
        if path.suffix == ".md":
            page = render(path.read_text(encoding="utf-8"), root="../" * (name.count("/") + 1))
            return Response(page, headers=HEADERS, media_type=MEDIA_TYPES[".html"])
        if path.suffix not in (".png", ".svg", ".webp"):
            raise HTTPException(404)
        return Response(path.read_bytes(), headers=HEADERS, media_type=MEDIA_TYPES[path.suffix])


@lru_cache(maxsize=100)
def render(text: str, *, root: str) -> str:
    """Return a document as a page; `root` is the relative address of the service. Headings have ids for links."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(text)
    title = "Documents"
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", _anchor(content.content))
            title = content.content if heading.tag == "h1" else title
    body = parser.renderer.render(tokens, parser.options, {})
    return PAGE.format(title=escape(title), root=root, body=body)


def _anchor(heading: str) -> str:
    """Return the id of a heading, as the site of the documents gives it."""
    plain = re.sub(r"[^\w\s-]", "", re.sub(r"\[(.+?)\]\(.+?\)", r"\1", heading))
    return re.sub(r"[\s-]+", "-", plain.strip().lower())
