"""Measures embedding and importing: by the library of this package, and by onnxruntime with the same model, in turn.

python -m bench.embedding [--turns N] [--import-turns N] [--json FILE]

Turns have 25 words of the model's vocabulary, drawn by Zipf's law, with a speaker and punctuation. The library embeds a
turn as an import does it: together with 20 words of the turn before it. The baseline is the first version of this
model: onnxruntime embeds the turn alone, and together with 40 words of the turn before it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter, process_time

import numpy as np

from bench import report
from bench.figures import Result, Row, SizeResult, Table, Target
from bench.machine import load_average, machine, versions
from bench.progress import Progress
from retentive import native
from retentive.inference.embedders.onnx import CONTEXT_WORDS, MEMORY_SMALL, SHORT_WORDS, MemoryEmbedder
from retentive.inference.loading import MODELS

SEED = 7
TURN_WORDS, LONG_WORDS, QUERY_WORDS = 25, 150, 8
SESSION_TURNS = 40
PASSES = 5
LIBRARY, RUNTIME = "library", "onnxruntime"

FIRST_VERSION = {"CONTEXT_WORDS": 40, "ALONE_WORDS": SHORT_WORDS}
"""The constants of `retentive.inference.embedders.onnx` in the first version: every short turn had two vectors."""


class SampleTexts:
    """Writes sample turns and queries, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        vocabulary = json.loads((MODELS / MEMORY_SMALL / "tokenizer.json").read_text(encoding="utf-8"))["model"][
            "vocab"
        ]
        self._words = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 1]
        chances = 1 / (np.arange(len(self._words)) + 2.7)
        self._chances = chances / chances.sum()
        self._random = np.random.default_rng(seed)

    def turn(self, words: int) -> str:
        """A speaker and some sentences."""
        speaker = ("Ana", "Ben")[int(self._random.integers(2))]
        return f"{speaker}: {self._sentences(words)}"

    def query(self) -> str:
        """A query."""
        return f"{self._sentences(QUERY_WORDS)[:-1]}?"

    def _sentences(self, words: int) -> str:
        drawn = [self._words[at] for at in self._random.choice(len(self._words), words, p=self._chances)]
        parts = [" ".join(drawn[first : first + 9]).capitalize() for first in range(0, words, 9)]
        return ". ".join(parts) + "."


@contextmanager
def computed_by(name: str) -> Iterator[MemoryEmbedder]:
    """An embedder with one thread, whose model the library or onnxruntime computes."""
    known = native.instruction_sets
    native.instruction_sets = known if name == LIBRARY else tuple  # type: ignore[assignment]
    try:
        embedder = MemoryEmbedder(MODELS / MEMORY_SMALL, name=MEMORY_SMALL, workers=1)
        embedder.embed(["load the model"])
    finally:
        native.instruction_sets = known
    yield embedder
    embedder.close()


def embed_in_turn(names: list[str], turns: int, progress: Progress) -> dict[str, dict[str, float]]:
    """The CPU milliseconds of each task by the library and by onnxruntime: the median of several passes."""
    sample = SampleTexts(SEED)
    short = [sample.turn(TURN_WORDS) for _ in range(turns + 1)]
    long = [sample.turn(LONG_WORDS) for _ in range(max(turns // 8, 1))]
    queries = [sample.query() for _ in range(turns)]

    pairs = list(itertools.pairwise(short))
    first_words = FIRST_VERSION["CONTEXT_WORDS"]
    now = [_in_context(turn, before, CONTEXT_WORDS) for before, turn in pairs]
    at_first = [text for before, turn in pairs for text in (turn, _in_context(turn, before, first_words))]

    def remember(embedder: MemoryEmbedder) -> float:
        texts = at_first if embedder is by.get(RUNTIME) else now
        return _cpu(lambda: embedder.embed(texts)) / turns

    by: dict[str, MemoryEmbedder] = {}
    tasks: dict[str, Callable[[MemoryEmbedder], float]] = {
        "a turn": remember,
        f"a turn, alone and with {first_words} words": lambda embedder: _cpu(lambda: embedder.embed(at_first)) / turns,
        "a turn alone": lambda embedder: _cpu(lambda: embedder.embed(short)) / len(short),
        f"a text of {LONG_WORDS} words": lambda embedder: _cpu(lambda: embedder.embed(long)) / len(long),
        "a query": lambda embedder: float(np.median([_cpu(lambda one=one: embedder.embed([one])) for one in queries])),
    }
    found: dict[str, dict[str, list[float]]] = {task: {name: [] for name in names} for task in tasks}
    for _ in range(PASSES):
        for name in names:
            with computed_by(name) as embedder, progress.task(f"embedding by {name}"):
                by[name] = embedder
                for task, measure in tasks.items():
                    found[task][name].append(measure(embedder))
    return {task: {name: float(np.median(times)) for name, times in of.items()} for task, of in found.items()}


def _in_context(turn: str, before: str, words: int) -> str:
    """A turn with some words of the one before it, as `MemoryEmbedder.in_context` joins them."""
    return f"{turn} [SEP] {' '.join(before.split()[:words])}"


def import_in_turn(names: list[str], turns: int, progress: Progress) -> dict[str, tuple[float, float]]:
    """The seconds on the clock and the CPU seconds of an import by the command line; the better of two each."""
    sample = SampleTexts(SEED + 1)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="retentive-import-") as name:
        source = Path(name, "conversations.json")
        source.write_text(json.dumps([_conversation(at, sample) for at in range(turns // SESSION_TURNS)]), "utf-8")
        for attempt in range(2):
            for by in names:
                with progress.task(f"importing {turns:,} turns by {by}"):
                    store = Path(name, f"{by}-{attempt}.db")
                    found[by].append(_import(source, store, first_version=by == RUNTIME))
    return {by: min(times) for by, times in found.items()}


def _import(source: Path, store: Path, *, first_version: bool) -> tuple[float, float]:
    program = "from retentive.cli import main; main()"
    if first_version:
        program = f"from retentive.inference.embedders import onnx; vars(onnx).update({FIRST_VERSION}); {program}"
    command = [sys.executable, "-c", program, "--store", str(store), "import", str(source), "--json"]
    more = {"RETENTIVE_NATIVE": "0"} if first_version else {}
    before, began = getrusage(RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, env={**os.environ, **more}, check=True, capture_output=True)
    seconds, after = perf_counter() - began, getrusage(RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _conversation(number: int, sample: SampleTexts) -> dict[str, object]:
    """A conversation in the format of Claude's export."""
    messages = [
        {
            "uuid": f"{number}-{at}",
            "sender": ("human", "assistant")[at % 2],
            "text": sample.turn(TURN_WORDS),
            "created_at": f"2026-01-{1 + at % 28:02}T10:{at % 60:02}:00Z",
        }
        for at in range(SESSION_TURNS)
    ]
    return {
        "uuid": str(number),
        "name": f"Sample {number}",
        "created_at": messages[0]["created_at"],
        "chat_messages": messages,
    }


def _cpu(task: Callable[[], object]) -> float:
    """The CPU milliseconds of all threads of this process."""
    began = process_time()
    task()
    return (process_time() - began) * 1000


def main() -> None:
    """Measure and print; the exit code is 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.embedding", description="Measure embedding and importing.")
    parser.add_argument("--turns", type=int, default=400, metavar="N", help="turns to embed in each pass")
    parser.add_argument("--import-turns", type=int, default=4_000, metavar="N", help="turns to import; 0: none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    options = parser.parse_args()
    if options.turns < 1 or options.import_turns % SESSION_TURNS:
        parser.error(f"--turns is at least 1, and --import-turns a multiple of {SESSION_TURNS}")
    if not native.instruction_sets():
        sys.exit("this machine has no library for its processor, so there is nothing to compare; see docs/decisions.md")
    progress, started, load = Progress(), perf_counter(), {"before": load_average()}
    names = [LIBRARY, RUNTIME]
    times = embed_in_turn(names, options.turns, progress)
    ratio = {task: by[RUNTIME] / by[LIBRARY] for task, by in times.items()}
    turn, query = next(iter(times)), list(times)[-1]
    tables = [
        Table(
            "Embedding",
            ("library, ms", "onnxruntime, ms", "times as fast"),
            tuple(Row(task, (by[LIBRARY], by[RUNTIME], ratio[task])) for task, by in times.items()),
            f"CPU time on one core, with tokenising; n = {options.turns}, median of {PASSES} passes in turn. "
            f"Instruction set of the library: {native.instruction_sets()[-1]}.",
        )
    ]
    targets = [
        Target(f"{turn}, times as fast", ratio[turn], "≥", 3.0, "×"),
        Target(f"{query}, share of the time", 1 / ratio[query], "≤", 0.5, "×"),
    ]
    if options.import_turns:
        imported = import_in_turn(names, options.import_turns, progress)
        rows = tuple(Row(by, (*taken, options.import_turns / taken[0])) for by, taken in imported.items())
        tables.append(
            Table(
                "Importing a chat export by the command line",
                ("s", "CPU s", "turns/s"),
                rows,
                "The faster of two runs each.",
            )
        )
        targets.append(Target("import, times as fast", imported[RUNTIME][0] / imported[LIBRARY][0], "≥", 3.0, "×"))
    load["after"] = load_average()
    size = SizeResult(options.import_turns, tuple(tables), tuple(targets))
    settings: dict[str, int | str] = {"turns": options.turns, "seed": SEED}
    measured = Result(
        versions(), machine(), settings, __doc__.split("\n\n")[2], load, perf_counter() - started, (size,)
    )
    report.publish(measured, json=options.json)
    sys.exit(not all(target.met for target in targets))


if __name__ == "__main__":
    main()
