"""Measures a prompt hook as a client runs it: a process of its own, with the service of the store running.

python -m bench.hooks [--memories N] [--runs N] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from bench import report
from bench.figures import Result, Row, SizeResult, Table, Target
from bench.load import Generator, make_store, serving
from bench.machine import load_average, machine, versions
from bench.progress import Progress
from bench.timing import Spread, milliseconds, spread
from bench.vectors import DESCRIPTION
from retentive.hooks.install import hook_program
from retentive.hooks.state import HookState

LIMIT_MS = 60.0


def measure(store: Path, *, runs: int, progress: Progress) -> tuple[dict[str, Spread], int, int]:
    """Return the times of the hook and of a Python that does nothing, in turn.

    And how many hooks gave no memory, because nothing relevant is stored or because they failed; and how many failed.
    """
    folder = Path(HookState(str(store)).folder)
    shutil.rmtree(folder)  # a session of an earlier run has been given its memories
    log = folder / "hooks.log"
    queries = Generator(seed=13).queries(runs + 3)
    command = [*hook_program(), "hook", "prompt", "--client=codex", f"--store={store}", "--no-capture"]
    bare = [sys.executable, "-I", "-S", "-c", "pass"]
    times: dict[str, list[float]] = {"prompt hook": [], "Python alone": []}
    empty = 0
    with serving(store) as service, progress.task(f"{runs} prompts"):
        service.wait_until_ready()
        for number, query in enumerate(queries):
            sent = {"session_id": f"bench-{number}", "cwd": "/bench", "turn_id": str(number), "prompt": query}
            outputs: list[bytes] = []
            took = milliseconds(lambda sent=sent, outputs=outputs: outputs.append(_run(command, json.dumps(sent))))
            alone = milliseconds(lambda: _run(bare, ""))
            if number >= 3:  # the first runs fill the disk cache
                times["prompt hook"].append(took)
                times["Python alone"].append(alone)
                empty += not outputs[0]
    failed = len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
    return {name: spread(taken) for name, taken in times.items()}, empty, failed


def _run(command: list[str], sent: str) -> bytes:
    return subprocess.run(command, input=sent.encode(), capture_output=True, check=True).stdout


def main() -> None:
    """Measure and print; the exit code is 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.hooks", description="Measure a prompt hook.")
    parser.add_argument("--memories", type=int, default=10_000, metavar="N")
    parser.add_argument("--runs", type=int, default=200, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="build the store in this directory, or use it there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    options = parser.parse_args()
    progress, started, load = Progress(), perf_counter(), {"before": load_average()}
    with tempfile.TemporaryDirectory(prefix="retentive-hooks-") as name:
        store = make_store(options.keep or Path(name), options.memories, progress)
        times, empty, failed = measure(store, runs=options.runs, progress=progress)
    load["after"] = load_average()
    rows = tuple(Row(name, (taken.p50, taken.p95)) for name, taken in times.items())
    note = f"Whole processes, n = {options.runs} each, in turn. {empty} prompts got no memory."
    targets = (
        Target("prompt hook, p95", times["prompt hook"].p95, "≤", LIMIT_MS, "ms"),
        Target("hooks that failed", float(failed), "≤", 0.0, ""),
    )
    size = SizeResult(options.memories, (Table("A prompt hook, ms", ("p50", "p95"), rows, note),), targets)
    measured = Result(
        versions(), machine(), {"runs": options.runs}, DESCRIPTION, load, perf_counter() - started, (size,)
    )
    report.publish(measured, json=options.json)
    sys.exit(not all(target.met for target in targets))


if __name__ == "__main__":
    main()
