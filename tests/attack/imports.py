"""Imports of hostile files, in a process whose memory is limited; and imports that are killed and continued.

An import must end with a result or an error of ours. Importing the file again must add nothing, and an undo must remove
exactly what was added. An import that was killed must be completed by importing again, with nothing twice.
"""

from __future__ import annotations

import json
import logging
import random
import resource
import shutil
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.stores import open_store
from tests.attack.harness import Child, Run, TextVectors, all_memories, children, main
from tests.attack.hostile_files import good_lines, write_hostile

COUNTED = ("files", "refused", "memories", "kills")
WRONG = ("half imported", "unexpected errors", "problems")

PER_CHILD = 12
PATIENCE = 120
MEMORY = 1_500_000_000
"""Bytes of address space that an import may take beyond what the process has already."""

LINES = 1500


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def import_files(folder: str, seeds: list[float], line: Connection) -> None:
    """Import hostile files into one store; send what each was, what was counted and what was wrong."""
    logging.disable(logging.WARNING)
    with suppress(FileNotFoundError):  # /proc is on Linux only
        _limit_memory()
    place = Path(folder, f"work{seeds[0]}")
    place.mkdir()
    with Engine(open_store(str(place / "store.db")), TextVectors()) as engine:
        engine.remember("a memory that was there before", session="s")
        for seed in seeds:
            described, counts, wrong = "", {"files": 1}, []
            try:
                described, path, format = write_hostile(place / "files", random.Random(seed))
                wrong = import_twice(engine, path, format, counts)
            except Exception as error:
                wrong = [("unexpected errors", f"{type(error).__name__}: {error!s:.300}")]
            shutil.rmtree(place / "files", ignore_errors=True)
            line.send((described, counts, wrong))
    shutil.rmtree(place)


def import_twice(engine: Engine, path: Path, format: str | None, counts: dict[str, int]) -> list[tuple[str, str]]:
    """Import a file two times and undo it; return what was wrong."""
    wrong = []
    before = all_memories(engine.store)
    results = [import_once(engine, path, format) for _ in range(2)]
    after = all_memories(engine.store)
    counts["memories"] = len(after) - len(before)
    if isinstance(results[0], str):
        counts["refused"] = 1
        if results[0] != results[1]:
            wrong.append(("half imported", f"the second time it was '{results[1]!s:.100}', not '{results[0]:.100}'"))
    elif isinstance(results[1], str) or results[1]["added"] or len(after) - len(before) != results[0]["added"]:
        wrong.append(("half imported", f"importing again: {results[1]!s:.200}, after {results[0]!s:.200}"))
    problems = list(engine.check())
    for run in engine.imports.list():
        engine.imports.undo(run.id)
    if all_memories(engine.store) != before:
        wrong.append(("half imported", "an undo did not restore what was there before"))
    return [*wrong, *(("problems", problem) for problem in problems)]


def import_once(engine: Engine, path: Path, format: str | None) -> dict[str, Any] | str:
    """Return the result of an import, or its error."""
    try:
        result = engine.import_from(path, format=format).to_dict()
        json.dumps(result, ensure_ascii=False).encode()
        return result
    except RetentiveError as error:
        return f"{type(error).__name__}: {error}"


def import_until_killed(store: str, path: str, line: Connection) -> None:
    """Import a good file and send the progress."""
    with Engine(open_store(store), TextVectors()) as engine:
        engine.import_from(path, format="jsonl", progress=line.send)
    line.send(None)


def kill_import(run: Run, place: Path) -> None:
    """Kill an import after some batches, import again, and compare; then undo it."""
    place.mkdir()
    good_lines(place / "good.jsonl", LINES)
    store = place / "store.db"
    open_store(str(store)).close()
    batches = run.dice.randrange(0, 6)
    with children(Child(import_until_killed, str(store), str(place / "good.jsonl"))) as (child,):
        for _ in range(batches):
            if child.receive(PATIENCE) is None:
                break
        run.count("kills")
    with Engine(open_store(str(store)), TextVectors()) as engine:
        engine.import_from(place / "good.jsonl", format="jsonl")
        texts = sorted(memory.text for memory in all_memories(engine.store).values())
        if texts != sorted(f"line {number}" for number in range(LINES)):
            run.fail("half imported", f"{len(texts)} memories, {len(set(texts))} different, instead of {LINES}")
        for problem in engine.check():
            run.fail("problems", problem)
        for one in engine.imports.list():
            engine.imports.undo(one.id)
        if all_memories(engine.store):
            run.fail("half imported", f"{len(all_memories(engine.store))} memories are left after an undo")
    shutil.rmtree(place)


def attack(run: Run) -> None:
    """Import files, some of them in each process; in each round one import is killed."""
    for number in run.rounds():
        seeds = [run.dice.random() for _ in range(PER_CHILD)]
        with children(Child(import_files, str(run.folder), seeds)) as (child,):
            for seed in seeds:
                if run.remaining < 0:
                    break
                try:
                    described, counts, wrong = child.receive(PATIENCE)
                except (EOFError, TimeoutError) as error:
                    child.process.join(5)
                    code = child.process.exitcode
                    run.fail("problems", f"file {seed}: {type(error).__name__}, exit code {code}")
                    break
                for what, amount in counts.items():
                    run.count(what, amount)
                for what, sentence in wrong:
                    run.fail(what, f"file {seed}, {described}: {sentence}")
        kill_import(run, run.folder / f"killed{number}")


if __name__ == "__main__":
    main("imports")
