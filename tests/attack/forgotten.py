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
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import monotonic
from typing import Any

from retentive.stores.values import Record
from tests.attack.harness import PROCESSES, Run, main
from tests.stores.build import MODEL, embedded, id_of
from tests.stores.sqlite_file import opened

TAIL = 12
"""FTS5 leaves out what a term shares with the one before it, so only the end of the random word is looked for."""

_RANDOM = re.compile(rb"[a-z]{12,}")
_NUMBERED = re.compile(rb"qz[0-9]{10}")

COUNTED = ("forgotten or replaced texts", "kills")
WRONG = ("readable", "problems")


@dataclass
class Result:
    """How many texts were forgotten, and the words of these that are readable."""

    forgotten: int = 0
    kills: int = 0
    readable: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.readable and not self.problems


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


def write(path: str, seed: float, first: int, operations: int, line: Connection) -> None:
    """The work of one process."""
    for gone in islice(Writer(seed, first).operations(path), operations):
        line.send(gone)


def run_round(path: str, seed: int, *, processes: int, operations: int, kills: int, result: Result) -> set[str]:
    """Run processes until they end or are killed; return the words whose removal was acknowledged."""
    dice = random.Random(seed)
    gone: set[str] = set()
    lines: dict[Connection, ForkServerProcess] = {}
    for number in range(processes):
        ours, theirs = PROCESSES.Pipe(duplex=False)
        first = (seed % 1000 * 16 + number) * 10**5
        process = PROCESSES.Process(target=write, args=(path, dice.random(), first, operations, theirs), daemon=True)
        process.start()
        theirs.close()
        lines[ours] = process
    after = {line: dice.randrange(1, operations) for line in dice.sample(list(lines), min(kills, processes))}
    while lines:
        for line in wait(list(lines)):
            assert isinstance(line, Connection)
            try:
                gone.update(line.recv())
            except (EOFError, ConnectionResetError):
                process = lines.pop(line)
                process.join()
                if process.exitcode and line not in after:
                    result.problems.append(f"a process ended with exit code {process.exitcode}")
                continue
            if line in after:
                after[line] -= 1
                if after[line] == 0:
                    result.kills += 1
                    lines[line].kill()
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


def write_and_search(
    path: str, seed: int, *, rounds: int, seconds: float, processes: int, operations: int, kills: int
) -> Result:
    """Run rounds until the time is up; close the store and search its files."""
    result, gone, deadline = Result(), set[str](), monotonic() + seconds
    for number in range(rounds):
        if monotonic() > deadline:
            break
        gone |= run_round(path, seed + number, processes=processes, operations=operations, kills=kills, result=result)
    with opened(path) as store:
        result.problems += store.check()
    result.forgotten = len(gone) // 2
    result.readable = readable(path, gone)
    return result


def attack(run: Run) -> None:
    """Write, change, forget and kill for the whole time, then search the files once."""
    rounds = run.max_rounds or 10**6
    operations = 200 if run.max_rounds is None else 40
    result = write_and_search(
        str(run.folder / "memories.db"),
        run.seed,
        rounds=rounds,
        seconds=run.seconds,
        processes=3,
        operations=operations,
        kills=2,
    )
    run.count("forgotten or replaced texts", result.forgotten)
    run.count("kills", result.kills)
    for word in sorted(result.readable):
        run.fail("readable", word)
    for problem in result.problems:
        run.fail("problems", problem)


if __name__ == "__main__":
    main("forgotten")
