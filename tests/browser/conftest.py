"""A real browser before a real service: sample memories, the real model, and a page on which nothing may go wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from retentive.engine import Engine
from retentive.inference.embedders import Embedder
from retentive.server.http.app import create_app
from retentive.settings import ServerSettings
from retentive.stores import open_store
from retentive.transfer.samples import load_samples
from tests.browser import chromium
from tests.surfaces.serving import listening

HERE = "127.0.0.1"
WAIT_MS = 10_000


# Of the package and not of the session: while Playwright is there, its event loop runs in this thread, and tests of
# other packages want to run their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of the playground. Without one they fail, and say what to do."""
    with sync_playwright() as playwright:
        path = chromium.find(playwright.chromium.executable_path)
        if path is None:
            pytest.fail(chromium.HOW, pytrace=False)
        opened = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="package")
def sample_store(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Path:
    """A store with the sample memories, embedded once, to be copied."""
    path = tmp_path_factory.mktemp("samples") / "samples.db"
    with Engine(open_store(str(path)), model) as engine:
        load_samples(engine)
    return path


@pytest.fixture
def engine(sample_store: Path, tmp_path: Path, model: Embedder) -> Iterator[Engine]:
    """The engine behind the service, on a store of the test's own."""
    path = tmp_path / "store.db"
    shutil.copy(sample_store, path)
    with Engine(open_store(str(path)), model) as engine:
        yield engine


@pytest.fixture
def serve(engine: Engine) -> Iterator[Callable[..., str]]:
    """Starts services on the engine and gives their addresses; arguments are those of the server's settings."""
    running = []

    def start(**server: object) -> str:
        settings = engine.settings.model_copy(update={"server": ServerSettings(log="off", **server)})
        running.append(listening(create_app(engine, settings), lifespan="on"))
        return f"http://{HERE}:{running[-1].__enter__()}"

    yield start
    for service in reversed(running):
        service.__exit__(None, None, None)


@pytest.fixture
def base_url(serve: Callable[..., str]) -> str:
    """The address of a service for whoever sits at this machine."""
    return serve()


@pytest.fixture
def expected_errors() -> list[str]:
    """Parts of what the console may complain of, for a test that provokes it: expected_errors.append("401")."""
    return []


# It asks for `serve` so that services end after it: a page that is still loading would complain of their end.
@pytest.fixture
def page(browser: Browser, serve: Callable[..., str], expected_errors: list[str]) -> Iterator[Page]:
    """A fresh page. The test fails on any error in its console, and if it asks another host for anything."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: said.type == "error" and complaints.append(f"console: {said.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", lambda asked: _is_elsewhere(asked.url) and complaints.append(f"request to {asked.url}"))
    yield page
    context.close()
    assert [said for said in complaints if not any(part in said for part in expected_errors)] == []


def _is_elsewhere(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("data", "blob") and parts.hostname != HERE
