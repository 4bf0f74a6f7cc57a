"""A disk that becomes full: a process writes to a SQLite file under a limit of its size, or on a small file system.

Every error must say that the disk is full. One that says that nothing was changed must have changed nothing. When there
is room again, every acknowledged write must be there, the same process must be able to write, and `doctor` must find
nothing.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from retentive.errors import RetentiveError
from tests.attack.changes import Change, Expected, Writer
from tests.attack.harness import Child, Run, children, main
from tests.attack.kill import open_engine

COUNTED = ("full disks", "acknowledged writes", "refused writes")
WRONG = ("lost", "half written", "unclear errors", "problems")

NOTHING_CHANGED = "nothing was changed"
LENGTHS = (10, 200, 3000)
REFUSALS = 12
WRITES_AFTER = 5


def write(path: str, seed: float, first: int, bytes_free: int | None, line: Connection) -> None:
    """Write until some writes were refused, wait until there is room, and write again.

    Sends each change before it is made; then None, or the error. `bytes_free` limits the growth of a file.
    """
    writer = Writer(seed, first, lengths=LENGTHS)
    engine = open_engine(path)

    def make() -> bool:
        change = writer.next()
        line.send(change)
        try:
            writer.make(engine, change)
            line.send(None)
            return True
        except RetentiveError as error:
            line.send((type(error).__name__, str(error)))
            return False
        except Exception as error:
            line.send((f"unexpected {type(error).__name__}", str(error)))
            return False

    if bytes_free is not None:
        largest = max(file.stat().st_size for file in Path(path).parent.glob(f"{Path(path).name}*"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + bytes_free, resource.RLIM_INFINITY))
    refused = 0
    while refused < REFUSALS:
        refused += not make()
    line.send("full")
    line.recv()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for _ in range(WRITES_AFTER):
        make()
    engine.close()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system of some megabytes; None where it cannot be had."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


class _Followed:
    """Follows the messages of the process, and what they say about the store."""

    def __init__(self, expected: Expected, run: Run) -> None:
        self._expected, self._run = expected, run
        self._begun: Change = {}
        self._refusals: list[Change] = []

    def follow(self, child: Child, *, refusals: bool) -> None:
        """Note messages until the disk is full or the process has ended; afterwards no write may be refused."""
        while True:
            try:
                message = child.receive(120)
            except EOFError:
                return
            if message == "full":
                return
            if isinstance(message, tuple):
                self._refused(*message, expected=refusals)
            elif message is None:
                self._expected.acknowledge(self._begun)
                self._run.count("acknowledged writes")
            else:
                self._begun = message

    def _refused(self, kind: str, message: str, *, expected: bool) -> None:
        self._run.count("refused writes")
        if kind != "Unavailable" or "full" not in message or not expected:
            when = "" if expected else " although there was room"
            self._run.fail("unclear errors", f"a write was refused{when} with {kind}: {message[:200]}")
        if NOTHING_CHANGED not in message:
            self._expected.unknown.append(self._begun)


def attack(run: Run) -> None:
    """Fill a disk in each round."""
    for number in run.rounds():
        expected = Expected()
        with small_disk(run.folder / f"disk{number}") as mounted:
            folder = mounted if mounted and number % 2 else run.folder
            limit = None if folder is mounted else run.dice.choice((0, 5_000, 50_000, 500_000))
            fill_disk(folder / f"{number}.db", limit, expected, run)


def fill_disk(path: Path, limit: int | None, expected: Expected, run: Run) -> None:
    """Write until the disk is full, make room, write again, and compare."""
    open_engine(path).close()
    ballast = path.with_name("ballast")
    if limit is None:
        with suppress(OSError):
            ballast.write_bytes(bytes(run.dice.randrange(10_000, 1_500_000)))
    with children(Child(write, str(path), run.dice.random(), 0, limit)) as (child,):
        followed = _Followed(expected, run)
        followed.follow(child, refusals=True)
        run.count("full disks")
        if limit is None:
            make_room(path.parent, ballast)
        child.line.send("room")
        followed.follow(child, refusals=False)
        child.process.join(60)
        if child.process.exitcode != 0:
            run.fail("problems", f"the process ended with exit code {child.process.exitcode}")
    with open_engine(path) as engine:
        expected.compare(engine, run)


def make_room(folder: Path, ballast: Path) -> None:
    """Delete the ballast and enlarge the file system."""
    ballast.unlink(missing_ok=True)
    subprocess.run(["mount", "-o", "remount,size=20m", str(folder)], check=True)


if __name__ == "__main__":
    main("disk_full")
