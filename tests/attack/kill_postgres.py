"""Kill -9 of a PostgreSQL server under load: all its processes are killed while three threads write; it is restarted.

A write with an idempotency key that fails is sent again until it is acknowledged; of one without a key, the outcome is
unknown. Every acknowledged write must be there once, every other one whole or not at all, and `doctor` must find
nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from itertools import count
from time import sleep

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.stores import open_store
from tests.attack.changes import Expected, Writer
from tests.attack.harness import Run, TextVectors, main
from tests.stores.postgres_server import Server

COUNTED = ("kills", "acknowledged writes", "sent again", "unknown")
WRONG = ("lost", "half written", "problems")

WRITERS = 3
ROUNDS_PER_STORE = 10
SETTINGS = "fsync = on\nfull_page_writes = on\n"


class Load:
    """Threads that write until they are stopped, each with an engine of its own."""

    def __init__(self, open_engine: Callable[[], Engine], expected: Expected, run: Run, number: int) -> None:
        self._open_engine, self._expected, self._run = open_engine, expected, run
        self._guard, self._stopped = threading.Lock(), threading.Event()
        self.written = threading.Semaphore(0)
        self.errors: Counter[str] = Counter()
        self._threads = [
            threading.Thread(target=self._write, args=(run.dice.random(), (number * WRITERS + writer) * 10**5))
            for writer in range(WRITERS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads, each after its write was acknowledged."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _write(self, seed: float, first: int) -> None:
        writer = Writer(seed, first)
        try:
            with self._open_engine() as engine:
                for number in count():
                    if self._stopped.is_set():
                        return
                    if not self._make(writer, engine, f"{first} {number}" if number % 3 else None):
                        self.written.release(100)
                        return
                    self.written.release()
        except Exception as error:
            with self._guard:
                self._run.fail("problems", f"a write failed with {type(error).__name__}: {error}")

    def _make(self, writer: Writer, engine: Engine, key: str | None) -> bool:
        """Make the next change; False if its outcome is unknown."""
        change = writer.next()
        for attempt in count():
            try:
                writer.make(engine, change, idempotency_key=key)
                break
            except Unavailable as error:
                with self._guard:
                    self.errors[str(error)] += 1
                if key is None:
                    with self._guard:
                        self._expected.unknown.append(change)
                        self._run.count("unknown")
                    return False
                if attempt == 3000:
                    raise
                sleep(0.02)  # the server is being restarted
        with self._guard:
            self._expected.acknowledge(change)
            self._run.count("acknowledged writes")
            self._run.count("sent again", min(attempt, 1))
        return True


def attack(run: Run) -> None:
    """Start a server and kill it in each round."""
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # it reports each connection that is lost
    server = Server(settings=SETTINGS)
    try:
        store, expected = "", Expected()
        for number in run.rounds():
            if number % ROUNDS_PER_STORE == 0:
                expected = Expected()
                store = f"{server.address()}&schema=round{number}"
            # With the default deadline the store itself tries again until the server is back.
            kill_once(server, store if number % 3 == 1 else f"{store}&deadline=0.2", expected, run, number)
    finally:
        server.close()


def kill_once(server: Server, address: str, expected: Expected, run: Run, number: int) -> None:
    """Kill and restart the server while threads write, then compare."""
    load = Load(lambda: Engine(open_store(address), TextVectors()), expected, run, number)
    try:
        for _ in range(run.dice.randrange(10, 60)):
            load.written.acquire(timeout=30)
        sleep(run.dice.random() * 0.01)
        server.kill()
        run.count("kills")
        server.start()
        for _ in range(WRITERS):
            load.written.acquire(timeout=30)
    finally:
        load.stop()
    with Engine(open_store(address), TextVectors()) as engine:
        expected.compare(engine, run)


if __name__ == "__main__":
    main("kill_postgres")
