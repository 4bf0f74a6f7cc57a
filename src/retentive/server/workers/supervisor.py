"""Start the workers, start them again if they end, and stop them all."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from retentive.errors import Invalid, Unavailable
from retentive.server.run import GRACE_SECONDS, address_of, open_socket
from retentive.server.runtime_file import announced
from retentive.server.temporary import remove_abandoned_folders, temporary_folder
from retentive.settings import Settings

log = logging.getLogger(__name__)

ALLOCATOR = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_MMAP_THRESHOLD_": "131072",
}
"""glibc gives threads arenas of their own and raises these thresholds as it runs. Fixed, they give memory back to the
system: a worker under load had 188 MiB of its own instead of 243 (10,000 memories, 16 connections)."""

SHORT_LIFE_SECONDS = 10.0
MAX_SHORT_LIVES = 5
"""A worker that ends this often soon after its start is not started again: the service stops."""


def check_workers(settings: Settings, workers: int) -> None:
    """Raise `Invalid` if several processes cannot serve this store here."""
    if workers < 1:
        raise Invalid("--workers is a number from 1")
    if workers > 1 and settings.store.startswith("memory://"):
        raise Invalid("a store in memory belongs to one process; use --workers 1, or a store on disk")
    if workers > 1 and not sys.platform.startswith("linux"):
        raise Invalid("several workers need Linux, which distributes connections among them; use --workers 1")


def supervise(
    settings: Settings, arguments: Mapping[str, Any], *, workers: int, started: Callable[[str], None]
) -> None:
    """Serve a store with several processes until this one is stopped.

    `arguments` are those with which each worker opens its engine. `started` is called when all accept requests.
    """
    remove_abandoned_folders()
    with (
        open_socket(settings.server, shared=True) as reserved,
        temporary_folder() as folder,
    ):
        # Bound and not listening: it keeps the port, and no connection reaches it.
        host, port = reserved.getsockname()[:2]
        plan = {
            "arguments": dict(arguments),
            "store": settings.store,
            "server": {"host": host, "port": port, "workers": workers},
            "folder": str(folder),
        }
        _Supervisor(plan, settings, reserved, started).run()


class _Supervisor:
    def __init__(
        self, plan: dict[str, Any], settings: Settings, reserved: socket.socket, started: Callable[[str], None]
    ) -> None:
        self._plan, self._settings, self._address, self._started = plan, settings, address_of(reserved), started
        self._folder = Path(plan["folder"])
        (self._folder / "metrics").mkdir()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._begun: dict[int, float] = {}
        self._short_lives = 0
        self._ready: set[int] = set()
        self._stopping = threading.Event()

    def run(self) -> None:
        with self._signals():
            try:
                for index in range(self._settings.server.workers):
                    self._start(index)
                if self._watch(until=self._all_ready):  # not before connections are accepted
                    with announced(self._settings.store, self._address, search=self._settings.search):
                        self._started(self._address)
                        self._watch(until=lambda: False)
            finally:
                self._stop()

    def _start(self, index: int) -> None:
        environment = {**ALLOCATOR, **os.environ, "PROMETHEUS_MULTIPROC_DIR": str(self._folder / "metrics")}
        process = subprocess.Popen(
            [sys.executable, "-m", "retentive.server.workers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert process.stdin is not None
        # The pipe stays open: its end tells a worker that this process was killed.
        process.stdin.write(json.dumps(self._plan).encode() + b"\n")
        process.stdin.flush()
        self._processes[index], self._begun[index] = process, time.monotonic()
        threading.Thread(target=self._note_ready, args=(index, process), name=f"worker {index}", daemon=True).start()

    def _note_ready(self, index: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        if process.stdout.readline() == b"ready\n" and self._processes[index] is process:
            self._ready.add(index)

    def _all_ready(self) -> bool:
        return self._ready.issuperset(range(self._settings.server.workers))

    def _watch(self, *, until: Callable[[], bool]) -> bool:
        """Start workers again that end, until a condition holds; False if the service is stopped before."""
        while not until():
            if self._stopping.wait(0.1):
                return False
            for index, process in self._processes.items():
                if process.poll() is None:
                    continue
                if self._stopping.is_set():
                    return False
                self._replace(index, process)
        return True

    def _replace(self, index: int, process: subprocess.Popen[bytes]) -> None:
        """Start a worker again; `Unavailable` if it cannot run."""
        self._ready.discard(index)
        short = time.monotonic() - self._begun[index] < SHORT_LIFE_SECONDS
        self._short_lives = self._short_lives + 1 if short else 0
        if self._short_lives >= MAX_SHORT_LIVES:
            raise Unavailable(f"a worker ended {MAX_SHORT_LIVES} times at its start; its error is above")
        log.warning("worker %d ended with code %s; it is started again", index, process.returncode)
        self._close(process)
        self._start(index)

    def _stop(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_SECONDS + 5
        for process in self._processes.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._close(process)

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT; a second SIGINT kills the workers."""

        def stop(number: int, _: FrameType | None) -> None:
            if self._stopping.is_set() and number == signal.SIGINT:
                for process in self._processes.values():
                    process.kill()
            self._stopping.set()

        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
