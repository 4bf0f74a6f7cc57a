"""Kill -9, freeze and wipe the Qdrant server of a vector index, while three threads write and one recalls.

Every acknowledged write must be there once, no recall may fail, and once the server is back, the index must have the
vectors of the store, and `doctor` must find nothing. The server is Qdrant's engine behind a small HTTP server of the
tests, or a real one: `QDRANT=/path/to/qdrant python -m tests.attack.kill_index`.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from urllib.error import URLError
from urllib.request import urlopen

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.stores import open_store
from retentive.stores.qdrant import index
from tests.attack.changes import Expected
from tests.attack.harness import Run, TextVectors, main
from tests.attack.kill_postgres import WRITERS, Load

COUNTED = ("kills", "freezes", "wipes", "acknowledged writes", "sent again", "unknown", "recalls", "by the index")
WRONG = ("lost", "half written", "problems")

ROUNDS_PER_STORE = 10


def _free_port() -> int:
    """A free port that no connection takes for its own end while the server is down."""
    chance = random.Random()
    while True:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


class Server:
    """A server with its own folder and port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._folder.mkdir(exist_ok=True)
        binary = os.environ.get("QDRANT")
        command = [sys.executable, "-m", "tests.stores.qdrant_server", str(self._folder / "storage"), str(self.port)]
        settings = {
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(self.port),
            "QDRANT__SERVICE__GRPC_PORT": str(self.port + 1),
            "QDRANT__STORAGE__STORAGE_PATH": str(self._folder / "storage"),
            "QDRANT__TELEMETRY_DISABLED": "true",
        }
        log = self._folder.parent / "log"

        def run() -> subprocess.Popen[bytes]:
            with log.open("ab") as output:
                environment = {**os.environ, **settings}
                return subprocess.Popen([binary] if binary else command, env=environment, stdout=output, stderr=output)

        self._process = run()
        deadline = monotonic() + 60
        while True:
            try:
                urlopen(f"http://127.0.0.1:{self.port}/collections", timeout=2).close()
                return
            except (URLError, OSError):
                if monotonic() > deadline:
                    said = log.read_text(encoding="utf-8", errors="replace")
                    raise RuntimeError(f"the server does not answer: {said[-2000:]}") from None
                if self._process.poll() is not None:
                    self._process = run()
                sleep(0.05)

    def signal(self, number: int) -> None:
        """Send a signal to the server; after SIGKILL, wait until it has ended."""
        assert self._process is not None
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait(60)

    def wipe(self) -> None:
        """Delete everything that the server has stored; it does not run."""
        shutil.rmtree(self._folder)


class Reader:
    """A thread that recalls until it is stopped."""

    def __init__(self, path: str, vectors: str, run: Run) -> None:
        self._path, self._vectors, self._run, self._stopped = path, vectors, run, threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _read(self) -> None:
        with Engine(open_store(self._path, vectors=self._vectors), TextVectors()) as engine:
            while not self._stopped.is_set():
                try:
                    found = engine.recall("balo bemi", record_use=False)
                except RetentiveError as error:
                    self._run.fail("problems", f"a recall failed with {type(error).__name__}: {error}")
                else:
                    self._run.count("recalls")
                    notes = [one.note for one in found.retrievers if one.name == "semantic"]
                    self._run.count("by the index", int(notes == [""]))
                sleep(0.02)


def attack(run: Run) -> None:
    """Start a server, and disturb it in each round."""
    index.POLL_SECONDS, index.PAUSE_SECONDS = 0.05, 0.2
    logger = logging.getLogger("retentive")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it says that the server is away
    server = Server(run.folder / "server")
    path, vectors, expected = "", "", Expected()
    try:
        for number in run.rounds():
            if number % ROUNDS_PER_STORE == 0:
                path, expected = str(run.folder / f"{number}.db"), Expected()
                vectors = f"qdrant+http://127.0.0.1:{server.port}/round{number}?timeout=1"
            disturb(server, path, vectors, expected, run, number)
            with Engine(open_store(path, vectors=vectors), TextVectors()) as engine:
                waiting = engine.store.index.follow()
                if waiting:
                    run.fail("problems", f"{waiting} changes wait to be indexed")
                expected.compare(engine, run)
    finally:
        logger.setLevel(level)
        server.signal(signal.SIGKILL)


def disturb(server: Server, path: str, vectors: str, expected: Expected, run: Run, number: int) -> None:
    """Kill, freeze or wipe the server while threads write and one recalls."""
    how = ("kills", "freezes", "wipes")[number % 3]
    load = Load(lambda: Engine(open_store(path, vectors=vectors), TextVectors()), expected, run, number)
    reader = Reader(path, vectors, run)
    try:
        for _ in range(run.dice.randrange(10, 60)):
            load.written.acquire(timeout=30)
        server.signal(signal.SIGSTOP if how == "freezes" else signal.SIGKILL)
        run.count(how)
        sleep(run.dice.choice((0.0, 0.2, 1.5)))
        if how == "wipes":
            server.wipe()
        if how == "freezes":
            server.signal(signal.SIGCONT)
        else:
            server.start()
        for _ in range(5 * WRITERS):
            load.written.acquire(timeout=30)
    finally:
        load.stop()
        reader.stop()


if __name__ == "__main__":
    main("kill_index")
