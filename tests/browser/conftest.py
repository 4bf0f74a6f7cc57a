"""A real Chromium and a real service with sample memories and the default model; a page must log no errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from retentive.engine import Engine
from retentive.inference.embedders import Embedder
from retentive.inference.judge import Judge
from retentive.server.http.app import create_app
from retentive.settings import ServerSettings, Settings
from retentive.stores import open_store
from retentive.transfer.samples import load_samples
from tests.browser import chromium
from tests.surfaces.serving import listening

HOST = "127.0.0.1"
WAIT_MS = 60_000
expect.set_options(timeout=WAIT_MS)  # it does not use the default of a page, and waits for five seconds only


# Scope "package", not "session": Playwright runs an event loop in this thread, and other packages start their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Return one Chromium for all tests; without one they fail with instructions to install it."""
    with sync_playwright() as playwright:
        path = chromium.find(playwright.chromium.executable_path)
        if path is None:
            pytest.fail(chromium.INSTRUCTIONS, pytrace=False)
        browser = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def sample_store(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Path:
    """Return a store with the embedded sample memories, to be copied for each test."""
    path = tmp_path_factory.mktemp("samples") / "samples.db"
    with Engine(open_store(str(path)), model) as engine:
        load_samples(engine)
    return path


@pytest.fixture
def embedder(model: Embedder) -> Embedder | None:
    """Return the embedder of the engine; a test that parametrizes `embedder` replaces it."""
    return model


@pytest.fixture
def settings() -> Settings:
    """Return the settings of the engine; a test that parametrizes `settings` replaces them."""
    return Settings(store="")


@pytest.fixture
def judge() -> Judge | None:
    """Return the judge of the engine, none; a test that parametrizes `judge` replaces it."""
    return None


@pytest.fixture
def engine(
    sample_store: Path, tmp_path: Path, embedder: Embedder | None, judge: Judge | None, settings: Settings
) -> Iterator[Engine]:
    """Open the engine of the service, on its own copy of the sample store."""
    path = tmp_path / "store.db"
    shutil.copy(sample_store, path)
    with Engine(open_store(str(path)), embedder, judge=judge, settings=settings) as engine:
        yield engine


@pytest.fixture
def serve(engine: Engine) -> Iterator[Callable[..., str]]:
    """Return a function that starts a service with the given server settings and returns its URL."""
    running = []

    def start(**server: object) -> str:
        settings = engine.settings.model_copy(update={"server": ServerSettings(log="off", **server)})
        running.append(listening(create_app(engine, settings), lifespan="on"))
        return f"http://{HOST}:{running[-1].__enter__()}"

    yield start
    for service in reversed(running):
        service.__exit__(None, None, None)


@pytest.fixture
def base_url(serve: Callable[..., str]) -> str:
    """Start a service with the default settings and return its URL."""
    return serve()


@pytest.fixture
def expected_errors() -> list[str]:
    """Return a list to which a test appends parts of the console errors that it expects, such as "401"."""
    return []


# Depends on `serve`, so that services stop after the page is closed: a page that is still loading would log errors.
@pytest.fixture
def page(browser: Browser, serve: Callable[..., str], expected_errors: list[str]) -> Iterator[Page]:
    """Open a new page. The test fails if the console logs an error or the page sends a request to another host."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: message.type == "error" and errors.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: errors.append(f"error: {error}"))
    page.on("request", lambda request: _is_foreign(request.url) and errors.append(f"request to {request.url}"))
    yield page
    context.close()
    assert [error for error in errors if not any(part in error for part in expected_errors)] == []


def _is_foreign(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("data", "blob") and parts.hostname != HOST
