"""The page and its files over HTTP: served without a token, from their folder only, with a strict security policy."""

from __future__ import annotations

import posixpath
import re
from http.client import HTTPConnection
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.server.http.playground_page import FOLDER, HEADERS
from retentive.stores import open_store
from retentive.transfer.samples import QUERIES, load_samples, read_samples
from tests.surfaces.serving import client, listening, problem

FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())


@pytest.fixture
def engine():
    with Engine(open_store("memory://")) as engine:
        yield engine


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_a_media_type_that_browsers_accept_and_the_headers_of_the_page(engine, name):
    answer = client(engine).get(f"/playground/{name}")

    assert (answer.status_code, answer.content) == (200, (FOLDER / name).read_bytes())
    accepted = {".js": "javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
    assert accepted[Path(name).suffix] in answer.headers["content-type"]
    assert {header: answer.headers[header] for header in HEADERS} == HEADERS


def test_the_sample_memories_are_served_as_they_are_stored(engine):
    http = client(engine)

    answer = http.get("/playground/samples.json")

    assert {header: answer.headers[header] for header in HEADERS} == HEADERS
    samples = answer.json()
    stored = http.post("/v1/memories", json={"memories": samples["memories"]})
    assert stored.status_code == 201
    assert len(stored.json()["memories"]) == len(read_samples())
    assert load_samples(engine) == [], "they were not recognised"
    assert samples["queries"] == list(QUERIES)


def references(name: str) -> set[str]:
    """The files of the page that a file loads or imports."""
    if not name.endswith((".html", ".js")):
        return set()
    text = (FOLDER / name).read_text(encoding="utf-8")
    if name.endswith(".html"):
        return set(re.findall(r'(?:href|src)="playground/([^"]+)"', text))
    imported = re.findall(r'^import .*?from "(\..+?)";$|\bimport\("(\..+?)"\)', text, re.MULTILINE | re.DOTALL)
    return {posixpath.normpath(posixpath.join(posixpath.dirname(name), one or other)) for one, other in imported}


def test_every_import_names_a_file_and_every_file_is_imported():
    found, unread = set(), {"index.html"}
    while unread:
        name = unread.pop()
        found.add(name)
        assert references(name) <= set(FILES), f"{name} refers to files that do not exist"
        unread |= references(name) - found

    assert sorted(found) == FILES


def test_every_imported_name_is_exported_by_its_module():
    for name in (file for file in FILES if file.endswith(".js")):
        text = (FOLDER / name).read_text(encoding="utf-8")
        for names, source in re.findall(r'^import \{(.+?)\} from "(.+?)";$', text, re.MULTILINE | re.DOTALL):
            module = (FOLDER / posixpath.normpath(posixpath.join(posixpath.dirname(name), source))).read_text("utf-8")
            exported = set(re.findall(r"^export (?:async )?(?:function\*? |const |class )(\w+)", module, re.MULTILINE))
            assert {one.strip() for one in names.split(",")} <= exported, f"{name} imports from {source}"


def test_the_page_is_at_the_root_and_needs_no_token_unlike_the_api(engine):
    http = client(engine, require_token=True)

    page = http.get("/")

    content = (FOLDER / "index.html").read_bytes().replace(b"{{STORE_OPTION}}", b"")  # no page for all names the store
    assert (page.status_code, page.content) == (200, content)
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert http.head("/").status_code == 200
    problem(http.get("/v1/stats"), 401, "token_needed")


def test_a_file_that_the_browser_has_cached_is_not_sent_again_until_it_changes(engine):
    http = client(engine)
    first = http.get("/playground/app.js")

    again = http.get("/playground/app.js", headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    other = http.get("/playground/app.js", headers={"If-None-Match": '"other"'})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert again.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert other.content == first.content


@pytest.mark.parametrize(
    "path",
    [
        "/playground/../app.py", "/playground/%2e%2e/app.py", "/playground/..%2fapp.py", "/playground/%2e%2e%2fapp.py",
        "/playground/..%5capp.py", "/playground/%252e%252e%252fapp.py", "/playground//etc/passwd",
        "/playground/%2fetc%2fpasswd", "/playground/", "/playground/index.html%00.js",
        "/playground/INDEX.html", "/playground/nothing.js", "/playground/recall", "/playground/recall/",
        "/playground/recall%2f..%2f..%2fapp.py", "/playground/recall%5cview.js", "/playground/shared/../../app.py",
    ],
)  # fmt: skip
def test_nothing_outside_the_folder_is_served(engine, path):
    with listening(create_app(engine)) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", path)  # unchanged: other clients would normalise the path first
        answer = connection.getresponse()
        body = answer.read()
        connection.close()

    assert answer.status == 404, body
    assert answer.getheader("content-type") == "application/problem+json"


def test_a_request_with_a_foreign_host_is_rejected(engine):
    problem(client(engine).get("/", headers={"Host": "evil.example"}), 421, "unknown_host")
