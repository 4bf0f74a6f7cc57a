"""Several processes that serve one store at one address, under uvicorn's supervisor, which replaces those that end.

What requests change is in the store, so it is the same for all workers. The metrics are those of all workers, by files
of the Prometheus client. What else a process only remembers (requests in progress, statistics) is its own.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from retentive.engine import Engine
from retentive.errors import Invalid, RetentiveError
from retentive.inference.embedders import LocalSessions
from retentive.pipeline.recall import FairLimiter
from retentive.server.http.app import create_app
from retentive.server.http.request_log import log_warnings
from retentive.server.run import OPTIONS, address_of, answering_liveness, open_socket, reduce_contention, warm_up
from retentive.server.runtime_file import announced
from retentive.settings import ServerSettings, Settings

log = logging.getLogger(__name__)

ALLOCATOR = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_MMAP_THRESHOLD_": "131072",
}
"""glibc gives threads arenas of their own and raises these thresholds as it runs. Fixed, they give memory back to the
system: a worker under load had 188 MiB of its own instead of 243 (10,000 memories, 16 connections)."""

STUCK_SECONDS = 60
"""A worker that runs no Python for this long is replaced. Its imports, on a busy machine, take some seconds."""


def check_workers(settings: Settings) -> None:
    """Raise `Invalid` if several processes cannot serve this store."""
    if settings.store.startswith("memory://"):
        raise Invalid("a store in memory belongs to one process; use --workers 1, or a store on disk")


def serve_with_workers(settings: Settings, arguments: Mapping[str, Any], *, started: Callable[[str], None]) -> None:
    """Serve a store with several processes until this one is stopped.

    `arguments` are those with which each worker opens its engine. `started` is called when requests are accepted.
    """
    with (
        open_socket(settings.server) as listener,
        answering_liveness(settings.server),
        TemporaryDirectory(prefix="retentive-metrics-", ignore_cleanup_errors=True) as folder,
    ):
        os.environ.update({**ALLOCATOR, **os.environ, "PROMETHEUS_MULTIPROC_DIR": folder})
        config = uvicorn.Config(
            partial(_worker_app, dict(arguments), settings.server.model_dump()),
            factory=True,
            workers=settings.server.workers,
            timeout_worker_healthcheck=STUCK_SECONDS,
            **OPTIONS,
        )
        hangup = signal.getsignal(signal.SIGHUP)
        supervisor = Multiprocess(config, [listener])
        signal.signal(signal.SIGHUP, hangup)  # a terminal that is closed ends the service
        announcing = threading.Thread(target=_announce, args=(settings, listener, supervisor, started))
        announcing.start()
        try:
            supervisor.run()
        finally:
            supervisor.should_exit.set()
            announcing.join()


def _announce(
    settings: Settings, listener: socket.socket, supervisor: Multiprocess, started: Callable[[str], None]
) -> None:
    """Announce the address while requests are accepted: from when the first worker listens."""
    while not supervisor.should_exit.wait(0.05):
        with socket.socket(listener.family) as connection:
            if connection.connect_ex(listener.getsockname()) == 0:
                break
    else:
        return
    address = address_of(listener)
    with announced(settings.store, address, search=settings.search):
        started(address)
        supervisor.should_exit.wait()


def _worker_app(arguments: Mapping[str, Any], server: Mapping[str, Any]) -> FastAPI:
    """Return the application of one worker, with its engine and the model loaded."""
    threading.Thread(target=_end_with_supervisor, name="supervisor", daemon=True).start()
    given = ServerSettings.model_validate(server)
    log_warnings(given.log)
    cores = max(1, (os.cpu_count() or 1) // given.workers)
    LocalSessions.default = cores
    try:
        engine = Engine.open(**arguments)
    except RetentiveError as error:
        print(f"a worker could not open the store: {error}", file=sys.stderr)
        sys.exit(STARTUP_FAILURE)  # the supervisor ends: each next worker would fail, too
    FairLimiter.default = _recalls_at_once(cores, engine.settings.store)
    warm_up(engine)
    app = create_app(engine, engine.settings.model_copy(update={"server": given}))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        reduce_contention()
        with engine:
            async with inner(app) as state:
                yield state

    app.router.lifespan_context = lifespan
    return app


def _recalls_at_once(cores: int, store: str) -> int:
    """Return how many recalls one worker runs at once: the others queue, which costs less than competing for a core.

    With two workers on two cores, a request took 18.4 ms of processor time with one recall at once, 22.2 with two and
    25.8 with three. A recall on a database server waits for it, and another one can run meanwhile.
    """
    return cores + ("://" in store)


def _end_with_supervisor() -> None:
    """Stop this worker if its supervisor was killed."""
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        supervisor.join()
        os.kill(os.getpid(), signal.SIGTERM)
