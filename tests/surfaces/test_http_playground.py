"""The page and its files as they are served: to everybody, from their folder alone, with headers that confine them."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.server.http.playground_page import FOLDER, HEADERS, TYPES
from retentive.stores import open_store
from tests.surfaces.serving import client, listening, problem

FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())


@pytest.fixture
def engine():
    with Engine(open_store("memory://")) as engine:
        yield engine


@pytest.mark.parametrize("name", FILES)
def test_every_file_comes_with_its_type_and_the_headers_of_the_page(engine, name):
    answer = client(engine).get(f"/playground/{name}")

    assert (answer.status_code, answer.content) == (200, (FOLDER / name).read_bytes())
    assert answer.headers["content-type"] == TYPES[Path(name).suffix]
    assert {header: answer.headers[header] for header in HEADERS} == HEADERS


def test_the_page_is_at_the_root_and_needs_no_token_though_all_else_does(engine):
    asking = client(engine, require_token=True)

    page = asking.get("/")

    assert (page.status_code, page.content) == (200, (FOLDER / "index.html").read_bytes())
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert asking.head("/").status_code == 200
    problem(asking.get("/v1/stats"), 401, "token_needed")


def test_what_the_browser_has_is_not_sent_again_until_it_changes(engine):
    asking = client(engine)
    first = asking.get("/")

    again = asking.get("/", headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    other = asking.get("/", headers={"If-None-Match": '"other"'})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert again.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert other.content == first.content


@pytest.mark.parametrize(
    "path",
    [
        "/playground/../app.py", "/playground/%2e%2e/app.py", "/playground/..%2fapp.py", "/playground/%2e%2e%2fapp.py",
        "/playground/..%5capp.py", "/playground/%252e%252e%252fapp.py", "/playground//etc/passwd",
        "/playground/%2fetc%2fpasswd", "/playground/./index.html", "/playground/", "/playground/index.html%00.js",
        "/playground/INDEX.html", "/playground/nothing.js",
    ],
)  # fmt: skip
def test_nothing_outside_of_the_folder_can_be_reached(engine, path):
    with listening(create_app(engine)) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", path)  # as it stands: other clients would tidy it up first
        answer = connection.getresponse()
        body = answer.read()
        connection.close()

    assert answer.status == 404, body
    assert answer.getheader("content-type") == "application/problem+json"


def test_a_page_of_another_host_is_refused_as_everywhere(engine):
    problem(client(engine).get("/", headers={"Host": "evil.example"}), 421, "unknown_host")
