"""Kill -9 at random moments: three processes write to one SQLite file until each is killed, then the file is opened.

Every acknowledged write must be there, every other write whole or not at all, and `doctor` must find nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import sleep

from retentive.engine import Engine
from retentive.stores import open_store
from tests.attack.changes import Change, Expected, Writer
from tests.attack.harness import Child, Run, TextVectors, children, main, receive

COUNTED = ("kills", "acknowledged writes")
WRONG = ("lost", "half written", "problems")

WRITERS = 3
ROUNDS_PER_FILE = 20
"""Then a new file is begun, so that a round does not take longer and longer."""


def open_engine(path: Path | str) -> Engine:
    """An engine whose vectors can be checked."""
    return Engine(open_store(str(path)), TextVectors())


def write(path: str, seed: float, first: int, line: Connection) -> None:
    """Write without end; send each change before it is made, and None when it was acknowledged."""
    writer = Writer(seed, first)
    engine = open_engine(path)
    for number in count():
        change = writer.next()
        line.send(change)
        writer.make(engine, change, idempotency_key=f"{first} {number}" if number % 3 == 0 else None)
        line.send(None)


class _Watched:
    """What is known about one process that writes."""

    def __init__(self, child: Child, expected: Expected, run: Run) -> None:
        self.child, self._expected, self._run = child, expected, run
        self._begun: Change | None = None
        self.acknowledged = 0

    def note(self, message: Change | None) -> None:
        """Note that a change begins, or that it was acknowledged."""
        if message is None and self._begun is not None:
            self._expected.acknowledge(self._begun)
            self._run.count("acknowledged writes")
            self.acknowledged += 1
        self._begun = message

    def kill(self) -> None:
        """Kill the process and note what it had sent."""
        self.child.kill()
        self._run.count("kills")
        for message in self.child.rest():
            self.note(message)
        if self._begun is not None:
            self._expected.unknown.append(self._begun)


def kill_all(watched: Sequence[_Watched], dice: random.Random, run: Run) -> None:
    """Kill each process after a random number of writes and a random part of the next one."""
    after = {one.child.line: dice.randrange(1, 25) for one in watched}
    by_line = {one.child.line: one for one in watched}
    while by_line:
        ready = wait(list(by_line), timeout=120)
        if not ready:
            run.fail("problems", "no process has written for two minutes")
        for line in ready or list(by_line):
            assert isinstance(line, Connection)
            one = by_line[line]
            try:
                one.note(receive(line))
            except EOFError:
                run.fail("problems", f"a process ended by itself, exit code {one.child.process.exitcode}")
                del by_line[line]
                continue
            if one.acknowledged >= after[line]:
                sleep(dice.random() ** 2 * 0.006)
                one.kill()
                del by_line[line]


def attack(run: Run) -> None:
    """Run rounds, each with three processes that are killed."""
    path, expected = run.folder / "0.db", Expected()
    for number in run.rounds():
        if number % ROUNDS_PER_FILE == 0:
            path, expected = run.folder / f"{number}.db", Expected()
        firsts = [(number * WRITERS + writer) * 10**5 for writer in range(WRITERS)]
        with children(*(Child(write, str(path), run.dice.random(), first) for first in firsts)) as started:
            kill_all([_Watched(child, expected, run) for child in started], run.dice, run)
        with open_engine(path) as engine:
            expected.compare(engine, run)


if __name__ == "__main__":
    main("kill")
