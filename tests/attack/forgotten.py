"""Whether forgotten text is readable in the files of a store: `python -m tests.attack.forgotten --seconds 60 --seed 1`.

Several processes write, change and forget memories at random, and some are killed. Every text has a random word and a
numbered one that occur nowhere else. When all processes have ended and the store was closed, no word of an acknowledged
forget or change may be in the bytes of the store file or of its log.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from retentive.stores.base import Record
from tests.attack.harness import Child, Run, children, main, receive
from tests.stores.build import MODEL, embedded, id_of
from tests.stores.sqlite_file import opened

COUNTED = ("texts forgotten", "kills")
WRONG = ("readable", "problems")

WRITERS = 3
OPERATIONS = 40
"""What each process does in a round, unless it is killed."""

TAIL = 12
"""FTS5 leaves out what a term shares with the one before it, so only the end of the random word is looked for."""

_RANDOM = re.compile(rb"[a-z]{12,}")
_NUMBERED = re.compile(rb"qz[0-9]{10}")


class Writer:
    """Makes random changes to its own memories, and tells which words have gone."""

    def __init__(self, seed: float, first: int) -> None:
        self._dice = random.Random(seed)
        self._ids = count(first)
        self._numbers = count(first)
        self._live: dict[int, list[str]] = {}

    def record(self, id: int, **fields: Any) -> Record:
        """A record whose text has two words of its own; long texts fill pages, which SQLite then splits and merges."""
        dice = self._dice
        own = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=24)), f"qz{next(self._numbers):010d}"]
        common = [f"w{dice.randrange(300)}" for _ in range(dice.choice((2, 10, 30, 60, 120, 400)))]
        self._live[id] = own
        return embedded(id, " ".join(dice.sample(common + own, len(common) + 2)), **fields)

    def operations(self, path: str) -> Iterator[list[str]]:
        """Run without end; yield the words that each acknowledged operation has removed."""
        dice, live, gone = self._dice, self._live, list[str]()
        with opened(path) as store:
            while True:
                chosen = dice.random()
                if chosen < 0.35 or len(live) < 30:
                    gone = []
                    store.add([self.record(next(self._ids)) for _ in range(dice.choice((1, 3, 20)))], model=MODEL)
                elif chosen < 0.7:
                    id = dice.choice(list(live))
                    gone = live[id]
                    store.update(self.record(id), model=MODEL)
                else:
                    ids = dice.sample(list(live), min(len(live), dice.choice((1, 2, 15))))
                    gone = [word for id in ids for word in live.pop(id)]
                    store.remove([id_of(id) for id in ids])
                yield gone


def write(path: str, seed: float, first: int, line: Connection) -> None:
    """The work of one process."""
    for gone in islice(Writer(seed, first).operations(path), OPERATIONS):
        line.send(gone)


def run_round(path: str, number: int, run: Run) -> set[str]:
    """Run processes until they end, of which one is killed; return the words whose removal was acknowledged."""
    gone: set[str] = set()
    firsts = [(number * WRITERS + writer) * 10**5 for writer in range(WRITERS)]
    with children(*(Child(write, path, run.dice.random(), first) for first in firsts)) as started:
        by_line = {child.line: child for child in started}
        doomed, left = run.dice.choice(started), run.dice.randrange(1, OPERATIONS)
        while by_line:
            for line in wait(list(by_line)):
                assert isinstance(line, Connection)
                try:
                    gone.update(receive(line))
                except EOFError:
                    child = by_line.pop(line)
                    child.process.join()
                    if child.process.exitcode and child is not doomed:
                        run.fail("problems", f"a process ended with exit code {child.process.exitcode}")
                    continue
                if by_line[line] is doomed:
                    left -= 1
                    if left == 0:
                        run.count("kills")
                        doomed.process.kill()
    return gone


def readable(path: str, words: set[str]) -> set[str]:
    """The words that are in the bytes of the store file or its log."""
    tails = {word[-TAIL:].encode(): word for word in words}
    found = set()
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            content = Path(path + end).read_bytes()
            for match in _RANDOM.finditer(content):
                run = match.group()
                found |= {run[at : at + TAIL] for at in range(len(run) - TAIL + 1)} & tails.keys()
            found |= {match.group() for match in _NUMBERED.finditer(content)} & tails.keys()
    return {tails[tail] for tail in found}


def attack(run: Run) -> None:
    """Run rounds on one file; after each, close the store and search its files for all that was forgotten."""
    path, gone = str(run.folder / "memories.db"), set[str]()
    for number in run.rounds():
        new = run_round(path, number, run)
        run.count("texts forgotten", len(new) // 2)
        gone |= new
        with opened(path) as store:
            for problem in store.check():
                run.fail("problems", problem)
        for word in readable(path, gone):
            run.fail("readable", word)


if __name__ == "__main__":
    main("forgotten")
