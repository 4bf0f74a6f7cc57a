"""A whole `retentive recall` from the shell, against importing nothing but the model's runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.corpus import Query
from bench.timing import milliseconds

RUNS = 9


@dataclass(frozen=True, slots=True)
class ColdTimes:
    """Medians in milliseconds, each of a process from its start to its end."""

    imports: float
    whole: float
    scoped: float


def measure_cold(store: Path, query: Query) -> ColdTimes:
    """The three by turns; the first round fills the disk cache and does not count."""
    recall = [
        str(Path(sysconfig.get_path("scripts"), "retentive")),
        "--store",
        str(store),
        "recall",
        query.text,
        "--json",
    ]
    commands = {
        "imports": [sys.executable, "-c", "import onnxruntime, tokenizers"],
        "whole": recall,
        "scoped": [*recall, "--session", query.session, "--only-session"],
    }
    _check(recall, store.parent)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(RUNS + 1):
        for name, command in commands.items():
            took = milliseconds(lambda command=command: _run(command, store.parent))
            if turn > 0:
                times[name].append(took)
    return ColdTimes(**{name: median(taken) for name, taken in times.items()})


def _run(command: list[str], directory: Path) -> str:
    """The output of a command, away from any config file and setting of the person at the keyboard."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RETENTIVE_")}
    return subprocess.run(command, cwd=directory, env=plain, check=True, capture_output=True, text=True).stdout


def _check(recall: list[str], directory: Path) -> None:
    answer = json.loads(_run(recall, directory))
    if answer["degraded"] or not answer["hits"]:
        raise SystemExit(f"the command line did not recall by meaning: {answer['degraded_reason']}")
