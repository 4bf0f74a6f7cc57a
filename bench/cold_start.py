"""The time of `retentive recall` from the shell, compared with importing only the runtime of the model.

It is measured alone, and with the service of the store running, which answers it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.corpus import BenchQuery
from bench.load import serving
from bench.timing import milliseconds
from retentive.server.runtime_file import equal_service
from retentive.settings import load_settings

RUNS = 9


@dataclass(frozen=True, slots=True)
class ColdTimes:
    """Medians in milliseconds, of whole processes."""

    imports: float
    whole: float
    scoped: float
    served: float
    served_share: float
    """Of the time of the imports, measured in turn with `served`."""


def measure_cold(store: Path, query: BenchQuery) -> ColdTimes:
    """Measure the commands in turn, without a service and with one."""
    recall = [
        str(Path(sysconfig.get_path("scripts"), "retentive")),
        "--store",
        str(store),
        "recall",
        query.text,
        "--json",
    ]
    imports = [sys.executable, "-c", "import onnxruntime, tokenizers"]
    scoped = [*recall, "--session", query.session, "--only-session"]
    _check(recall, store.parent)
    alone = _medians({"imports": imports, "whole": recall, "scoped": scoped}, store.parent)
    with serving(store) as service:
        service.wait_until_ready()
        if not equal_service(str(store), load_settings({"store": str(store)}).search):
            raise SystemExit("the command would not ask the service")
        served = _medians({"imports": imports, "served": recall}, store.parent)
    return ColdTimes(**alone, served=served["served"], served_share=served["served"] / served["imports"])


def _medians(commands: dict[str, list[str]], directory: Path) -> dict[str, float]:
    """Measure commands in turn; the first round fills the disk cache and is not counted."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(RUNS + 1):
        for name, command in commands.items():
            took = milliseconds(lambda command=command: _run(command, directory))
            if turn > 0:
                times[name].append(took)
    return {name: median(taken) for name, taken in times.items()}


def _run(command: list[str], directory: Path) -> str:
    """Run a command without the config file and the settings of the user, and return its output.

    It may write its bytecode, as it does for a user: with `PYTHONDONTWRITEBYTECODE` set here, a changed module would be
    compiled again in every process.
    """
    without = ("RETENTIVE_", "PYTHONDONTWRITEBYTECODE")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    return subprocess.run(command, cwd=directory, env=clean, check=True, capture_output=True, text=True).stdout


def _check(recall: list[str], directory: Path) -> None:
    answer = json.loads(_run(recall, directory))
    if answer["degraded"] or not answer["hits"]:
        raise SystemExit(f"the semantic retriever did not run: {answer['degraded_reason']}")
