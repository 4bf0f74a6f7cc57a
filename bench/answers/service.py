"""A service with the memories of a benchmark, whose clock shows when a question is asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import uvicorn

from bench.progress import Progress
from retentive.engine import Engine
from retentive.evaluation.benchmarks import Benchmark
from retentive.evaluation.evaluation_set import from_benchmark
from retentive.evaluation.run import load, open_evaluation_embedder
from retentive.inference.embedders.disk_cache import default_cache
from retentive.server.http.app import create_app
from retentive.settings import EmbedderSettings, Settings
from retentive.stores import open_store


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        """Return the time that was set."""
        return self.now


class ContextService:
    """Asks `/v1/context` of a running service."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._client = httpx2.Client(base_url=url, timeout=120)
        self._clock = clock
        self._started = clock.now

    def context(self, query: str, *, project: str | None, asked_at: datetime | None, budget: int) -> dict[str, Any]:
        """Return the context for a question, as of the time it is asked."""
        self._clock.now = asked_at or self._started
        body = {"query": query, "project": project, "budget": budget}
        response = self._client.post("/v1/context", json={name: value for name, value in body.items() if value})
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@contextmanager
def serving(benchmark: Benchmark, embedder: EmbedderSettings, progress: Progress) -> Iterator[ContextService]:
    """Load a benchmark into a store of its own and serve it on a free port of this machine."""
    read, clock = from_benchmark(benchmark), Clock()
    with (
        TemporaryDirectory(prefix="retentive-answers-", ignore_cleanup_errors=True) as folder,
        open_evaluation_embedder(embedder, cache=default_cache()) as opened,
    ):
        store = str(Path(folder) / "benchmark.db")
        settings = Settings(store=store)
        with Engine(open_store(store), opened, settings=settings, clock=clock) as engine:
            with progress.task("load and embed the memories", total=read.corpus.memories) as advance:
                load(engine, read, progress=advance)
            with _running(create_app(engine, settings)) as url:
                service = ContextService(url, clock)
                try:
                    yield service
                finally:
                    service.close()


@contextmanager
def _running(app: Any) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
