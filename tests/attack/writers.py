"""How long writers wait for each other: `python -m tests.attack.writers --seconds 20 --writers 4`.

Each writer is a process with one thread, or a thread of one process (`--threads`). They add and forget single memories
as fast as they can; with `--bulk`, one more forgets a large scope meanwhile. The aim is a p99 of at most ten times p50.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic

import numpy as np

from retentive.models import Scope
from retentive.stores.sqlite import SqliteStore
from tests.stores.build import MODEL, embedded, id_of
from tests.stores.sqlite_file import opened

PROCESSES = get_context("forkserver")
BULK = Scope(sessions=("bulk",), only_sessions=True)


def write(store: SqliteStore, first: int, seconds: float) -> list[float]:
    """Add and forget memories in turn; return the seconds that each write took."""
    took = []
    until = monotonic() + seconds
    for number in count(first):
        text = f"writer {first} note{number} of the day {number % 97} with some other words"
        for work in (
            lambda: store.add([embedded(number, text)], model=MODEL),  # noqa: B023 - called at once
            lambda: store.remove([id_of(number)]) if number % 3 == 0 else None,  # noqa: B023
        ):
            started = monotonic()
            if work() is not None:
                took.append(monotonic() - started)
        if monotonic() > until:
            break
    return took


def in_process(path: str, first: int, seconds: float, line: Connection) -> None:
    with opened(path) as store:
        line.send("ready")
        line.recv()
        line.send(write(store, first, seconds))


def with_processes(path: str, writers: int, seconds: float) -> list[float]:
    lines = []
    for number in range(writers):
        ours, theirs = PROCESSES.Pipe()
        PROCESSES.Process(target=in_process, args=(path, (number + 1) * 10**6, seconds, theirs), daemon=True).start()
        lines.append(ours)
    for line in lines:
        line.recv()
    for line in lines:
        line.send("go")
    return [one for line in lines for one in line.recv()]


def with_threads(path: str, writers: int, seconds: float) -> list[float]:
    took: list[float] = []
    with opened(path) as store:
        threads = [
            threading.Thread(target=lambda first=(number + 1) * 10**6: took.extend(write(store, first, seconds)))
            for number in range(writers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--bulk", type=int, default=0, help="memories of the scope that is forgotten meanwhile")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "memories.db"))
        with opened(path) as store:
            store.add([embedded(number, session="bulk") for number in range(given.bulk)], model=MODEL)
        bulk = threading.Thread(target=_forget, args=(path,))
        if given.bulk:
            bulk.start()
        run = with_threads if given.threads else with_processes
        took = np.array(run(path, given.writers, given.seconds)) * 1000
        if given.bulk:
            bulk.join()
    p50, p99 = np.percentile(took, [50, 99])
    kind = "threads" if given.threads else "processes"
    print(f"{given.writers} {kind}: {len(took):,} writes, p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {took.max():.1f} ms")
    print(f"{'PASS' if p99 <= 10 * p50 else 'FAIL'} writers: p99 is {p99 / p50:.1f} times p50")
    sys.exit(int(p99 > 10 * p50))


def _forget(path: str) -> None:
    with opened(path) as store:
        store.remove_scope(BULK)


if __name__ == "__main__":
    # As a module of its own name, which the fork server can import.
    from tests.attack import writers

    program = sys.modules["__main__"]
    program.__spec__, program.__file__ = None, None
    writers.main()
