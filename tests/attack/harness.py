"""What the attacks share: time, dice, counts, the verdict line, child processes, and an embedder that can be checked.

Each attack is a module with a docstring, `COUNTED`, `WRONG` and `attack(run)`. It is a program:
`python -m tests.attack.NAME --seconds 60 --seed 7 --json`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, cast

import numpy as np

from retentive.inference.embedders import Embedder, Matrix
from retentive.models import Memory, Model
from retentive.stores.base import Store
from retentive.stores.values import Record

SHOWN = 20
"""How many problems are printed."""

# A fork server that has imported everything starts a process in milliseconds.
PROCESSES = get_context("forkserver")


class Attack(Protocol):
    """A module with an attack. `COUNTED` and `WRONG` are the counts of its verdict line."""

    COUNTED: Sequence[str]
    WRONG: Sequence[str]

    def attack(self, run: Run) -> None: ...


@dataclass
class Run:
    """One run of an attack: when it ends, its dice and folder, what it has counted, and what was wrong."""

    name: str
    seed: int
    seconds: float
    folder: Path
    max_rounds: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    started: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    @property
    def remaining(self) -> float:
        """Seconds until the run ends."""
        return self.started + self.seconds - monotonic()

    def rounds(self) -> Iterator[int]:
        """Count rounds until the time is over, or `max_rounds` were made; there is always one."""
        number = 0
        while number == 0 or (self.remaining > 0 and number != self.max_rounds):
            yield number
            number += 1

    def count(self, what: str, number: int = 1) -> None:
        """Count something that the attack did."""
        self.counts[what] += number

    def fail(self, what: str, sentence: str) -> None:
        """Record something that is wrong."""
        self.wrong[what] += 1
        if len(self.problems) < 1000:
            self.problems.append(f"{what}: {sentence}")

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not any(self.wrong.values())

    @property
    def verdict(self) -> str:
        """The counts, the seed and the result in one line."""
        counts = ", ".join(f"{number:,} {what}" for what, number in {**self.counts, **self.wrong}.items())
        return f"{self.name}: {counts}, seed {self.seed}: {'PASS' if self.passed else 'FAIL'}"

    def to_json(self) -> dict[str, Any]:
        """The result of the run."""
        return {
            "attack": self.name,
            "seed": self.seed,
            "seconds": round(monotonic() - self.started, 1),
            "counts": self.counts,
            "wrong": self.wrong,
            "problems": self.problems,
            "passed": self.passed,
        }


def run_attack(name: str, *, seed: int, seconds: float, rounds: int | None = None) -> Run:
    """Run an attack in a folder of its own, for some seconds or some rounds, whichever ends first."""
    module = cast("Attack", importlib.import_module(f"tests.attack.{name}"))
    PROCESSES.set_forkserver_preload([f"tests.attack.{name}"])
    with tempfile.TemporaryDirectory(prefix="attack", ignore_cleanup_errors=True) as folder:
        run = Run(name, seed, seconds, Path(folder), rounds)
        run.counts = dict.fromkeys(module.COUNTED, 0)
        run.wrong = dict.fromkeys(module.WRONG, 0)
        module.attack(run)
    return run


def main(name: str) -> None:
    """The program of an attack; `name` is that of its module."""
    # Otherwise each child process would run the module a second time, as its own main module.
    program = sys.modules["__main__"]
    program.__spec__, program.__file__ = None, None
    module = importlib.import_module(f"tests.attack.{name}")
    parser = argparse.ArgumentParser(prog=f"python -m tests.attack.{name}", description=module.__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long new rounds are started")
    parser.add_argument("--rounds", type=int, help="end after this many rounds")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    given = parser.parse_args()
    if not given.json:
        print(f"{name}: seed {given.seed}, {given.seconds:g} s", flush=True)
    run = run_attack(name, seed=given.seed, seconds=given.seconds, rounds=given.rounds)
    if given.json:
        print(json.dumps(run.to_json()))
    else:
        for problem in run.problems[:SHOWN]:
            print(f"  {problem}")
        print(run.verdict, flush=True)
    sys.exit(not run.passed)


# Processes


class Child:
    """A process and our end of a pipe to it. `work` gets the arguments and the other end."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.line, theirs = PROCESSES.Pipe()
        self.process: ForkServerProcess = PROCESSES.Process(target=work, args=(*arguments, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def kill(self) -> None:
        """Kill the process with SIGKILL and wait until it is gone. What it sent can still be received."""
        self.process.kill()
        self.process.join()

    def receive(self, timeout: float) -> Any:
        """Return the next message; `EOFError` if the process has ended, `TimeoutError` if it does not answer."""
        if not self.line.poll(timeout):
            raise TimeoutError(f"no message within {timeout:g} s")
        return receive(self.line)

    def rest(self) -> Iterator[Any]:
        """Yield all messages until the process has ended."""
        while True:
            try:
                yield receive(self.line)
            except EOFError:
                return


def receive(line: Connection) -> Any:
    """Return the next message; a message that a killed process sent in part counts as none."""
    try:
        return line.recv()
    except (ConnectionResetError, BrokenPipeError) as error:
        raise EOFError from error


@contextmanager
def children(*started: Child) -> Iterator[Sequence[Child]]:
    """Kill processes when the block ends."""
    try:
        yield started
    finally:
        for child in started:
            child.kill()
            child.line.close()


# Texts and vectors


class TextVectors(Embedder):
    """An embedder whose vectors are of a hash of the text, so that one of another text is recognised."""

    in_process = True

    def __init__(self, name: str = "hashed", dimension: int = 16) -> None:
        self.model = Model(name, "1", dimension, f"fingerprint of {name}")

    def embed(self, texts: Sequence[str]) -> Matrix:
        rows = [text_vector(text, self.model) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.model.dimension), np.float32)


def text_vector(text: str, model: Model) -> Matrix:
    """The unit vector of a text."""
    digest = hashlib.sha256(f"{model.name}\0{text}".encode()).digest()
    row = np.random.default_rng(int.from_bytes(digest[:8])).standard_normal(model.dimension).astype(np.float32)
    return row / np.float32(np.linalg.norm(row))


def is_vector_of(record: Record, model: Model) -> bool:
    """Whether the vector of a record is that of its text; stores round the numbers."""
    assert record.vectors is not None
    expected = text_vector(record.memory.indexed_text, model)
    return len(record.vectors) == 1 and bool(np.dot(record.vectors[0], expected) > 0.99)


def all_records(store: Store) -> Iterator[Record]:
    """All memories of a store, with their vectors."""
    cursor = None
    while True:
        page = store.scan(cursor=cursor)
        yield from page.records
        cursor = page.next_cursor
        if cursor is None:
            return


def all_memories(store: Store) -> dict[str, Memory]:
    """All memories of a store, by id."""
    return {record.memory.id: record.memory for record in all_records(store)}


ENDS = ("lo", "mi", "ra", "ten")
WORDS = tuple(f"{first}{second}{end}" for first in "bdfgklmnprst" for second in "aeiou" for end in ENDS)


def words(dice: random.Random, number: int) -> str:
    """Random words; the first ones of the vocabulary are the most frequent."""
    return " ".join(WORDS[int(len(WORDS) * dice.random() ** 2)] for _ in range(number))
