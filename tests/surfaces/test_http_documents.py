"""The documents over HTTP: rendered from their files, with links that lead somewhere, and nothing else of the disk."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.server.http.playground_page import HEADERS
from retentive.stores import open_store
from tests.surfaces.serving import client, problem

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.fixture(scope="module")
def http():
    with Engine(open_store("memory://")) as engine:
        yield client(engine, require_token=True)


def test_every_document_is_a_page_whose_links_lead_to_headings_pages_and_images(http):
    pages = {name: http.get(f"/documents/{name}") for name in PAGES}

    assert {page.status_code for page in pages.values()} == {200}
    ids = {name: set(re.findall(r'<h\d id="([^"]+)"', page.text)) for name, page in pages.items()}
    for name, page in pages.items():
        assert {header: page.headers[header] for header in HEADERS} == HEADERS
        for link in re.findall(r'(?:href|src)="([^":]+)"', page.text.split("<main>")[1]):
            path, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            assert target in pages or (DOCS / target).is_file(), f"{name} links to {link}"
            assert not anchor or anchor in ids[target], f"{name} links to {link}"


def test_an_image_of_the_documents_has_its_media_type(http):
    animation = http.get("/documents/images/tuning.webp")
    assert (animation.status_code, animation.headers["Content-Type"]) == (200, "image/webp")
    image = http.get("/documents/images/recall-path.svg")

    assert (image.status_code, image.headers["content-type"]) == (200, "image/svg+xml")


@pytest.mark.parametrize(
    "name", ["nothing.md", "../README.md", "%2e%2e/README.md", "images/../../README.md", "site/iframe-worker.js"]
)
def test_nothing_else_is_served(http, name):
    problem(http.get(f"/documents/{name}"), 404, "not_found")
