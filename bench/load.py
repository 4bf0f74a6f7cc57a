"""Measures the service under load: one worker with one connection, then all workers with many, nine recalls per write.

python -m bench.load [--memories N] [--seconds S] [--connections N] [--workers N] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import NamedTuple
from urllib.error import HTTPError

import numpy as np
import psutil

from bench import report
from bench.corpus import Writer
from bench.figures import Result, Row, SizeResult, Table, Target
from bench.load_client import Outcomes
from bench.machine import load_average, machine, versions
from bench.progress import Progress
from bench.retentive_peer import FilledStore
from bench.vectors import DESCRIPTION, make_corpus
from retentive.engine import Engine
from retentive.inference.embedders import open_embedder
from retentive.settings import EmbedderSettings

ENOUGH = 1.5
ENOUGH_WORKERS = 1.8
MOST_MEMORY = 200.0
SLOWEST = 16.0
GROWTH = 1.1
MOST_A_SECOND = 500
"""More requests than the service answers: this many distinct queries are generated for each second."""


class MemoryUse(NamedTuple):
    """Memory of a process in MiB: resident, and its own part. The rest is pages of files, which the system can drop.

    Of several workers, the largest.
    """

    resident: float
    own: float


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The outcome of one load, and the memory of the service at its start, middle and end."""

    outcomes: Outcomes
    memory: tuple[MemoryUse, MemoryUse, MemoryUse]
    cores: tuple[float, float, float]
    """The average number of busy cores: with the service, with the client, and with other work of the machine."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return (len(self.outcomes.reads) + len(self.outcomes.writes)) / self.outcomes.seconds


class Service:
    """A running `retentive serve`."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def memory(self) -> MemoryUse:
        """Return the memory that it uses now."""
        taken = [process.memory_info() for process in self._processes()]
        most = max(taken, key=lambda one: one.rss - one.shared)
        return MemoryUse(most.rss / 2**20, (most.rss - most.shared) / 2**20)

    def _processes(self) -> list[psutil.Process]:
        """Return the process, and its workers."""
        process = psutil.Process(self.process.pid)
        return [process, *process.children()]

    def wait_until_ready(self) -> None:
        """Return when /readyz succeeds."""
        until = monotonic() + 120
        while monotonic() < until:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz"):
                    return
            except HTTPError:
                sleep(0.1)
        raise TimeoutError("the service did not become ready")

    def load(self, words: Generator, *, connections: int, seconds: float) -> LoadResult:
        """Run a load with this many connections."""
        plan = {
            "port": self.port,
            "connections": connections,
            "seconds": seconds,
            "queries": words.queries(int(seconds * MOST_A_SECOND)),
            "texts": words.texts(int(seconds * MOST_A_SECOND / 10)),
        }
        seen, before, started = [self.memory()], self._busy(), perf_counter()
        middle = threading.Timer(seconds / 2, lambda: seen.append(self.memory()))
        middle.start()
        client = subprocess.run(
            [sys.executable, "-m", "bench.load_client"],
            input=json.dumps(plan),
            capture_output=True,
            text=True,
            check=True,
        )
        middle.join()
        took = perf_counter() - started
        service, client_own, everything = (now - then for now, then in zip(self._busy(), before, strict=True))
        cores = (service / took, client_own / took, (everything - service - client_own) / took)
        return LoadResult(Outcomes(**json.loads(client.stdout)), (seen[0], seen[1], self.memory()), cores)

    def _busy(self) -> tuple[float, float, float]:
        """Return the seconds of processor time so far: of the service, of finished clients, of the whole machine."""
        children, whole = os.times(), psutil.cpu_times()
        everything = sum(whole) - whole.idle - getattr(whole, "iowait", 0.0)
        own = [process.cpu_times() for process in self._processes()]
        return sum(one.user + one.system for one in own), children.children_user + children.children_system, everything


class Generator:
    """Generates distinct queries and texts in the words of the corpus."""

    def __init__(self, seed: int) -> None:
        self._writer = Writer(seed)
        self._writer.texts(1)

    def queries(self, count: int) -> list[str]:
        return [self._writer.query(words) for words in self._writer.texts(count)[1]]

    def texts(self, count: int) -> list[str]:
        return self._writer.texts(count)[0]


@contextmanager
def serving(store: Path, *, workers: int = 1) -> Iterator[Service]:
    """Start the service on a store, on a free port."""
    command = [
        sys.executable,
        "-c",
        "from retentive.cli import main; main()",
        "--store",
        str(store),
        "serve",
        "--port=0",
        f"--workers={workers}",
    ]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "RETENTIVE_SERVER_LOG": "off"}
    )
    assert process.stderr
    first = process.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)", first)
    if not found:
        raise RuntimeError(first + process.stderr.read())
    rest = threading.Thread(target=shutil.copyfileobj, args=(process.stderr, sys.stderr), daemon=True)
    rest.start()
    try:
        yield Service(process, int(found[1]))
    finally:
        process.terminate()
        code = process.wait(60)
        rest.join()
        if code:
            raise RuntimeError(f"the service ended with code {code}")


def measure(
    store: Path, *, connections: int, seconds: float, workers: int, progress: Progress
) -> tuple[LoadResult, LoadResult, int]:
    """Measure one connection to one worker, and many to all workers.

    Return both, and how many acknowledged writes are missing afterwards.
    """
    words = Generator(seed=11)
    with serving(store) as service:
        one = _load(service, words, connections=1, seconds=seconds, progress=progress)
        if workers == 1:
            many = _load(service, words, connections=connections, seconds=seconds, progress=progress)
    if workers > 1:
        with serving(store, workers=workers) as service:
            many = _load(service, words, connections=connections, seconds=seconds, progress=progress)
    with progress.task("check every acknowledged write"), Engine.open(store) as engine:
        lost = 0
        for loaded in (one, many):
            for id, text in loaded.outcomes.stored.items():
                lost += engine.get(id).text != text
        lost += len(engine.check())
    return one, many, lost


def _load(service: Service, words: Generator, *, connections: int, seconds: float, progress: Progress) -> LoadResult:
    service.wait_until_ready()
    with progress.task("warm up"):
        service.load(words, connections=8, seconds=3)
    with progress.task(f"connections: {connections}, {seconds:g} s"):
        return service.load(words, connections=connections, seconds=seconds)


def result(
    one: LoadResult, many: LoadResult, lost: int, connections: int, workers: int
) -> tuple[tuple[Table, ...], tuple[Target, ...]]:
    """Return the tables and the targets."""
    rows, memory, cores = [], [], []
    all_workers = f", {workers} workers" if workers > 1 else ""
    for name, loaded in (("1 connection", one), (f"{connections} connections{all_workers}", many)):
        for kind, times in (("recalls", loaded.outcomes.reads), ("writes", loaded.outcomes.writes)):
            figures = [float(value) for value in np.percentile(times, [50, 95, 99])]
            rows.append(Row(f"{name}, {kind}", (len(times) / loaded.outcomes.seconds, *figures)))
        rows.append(Row(f"{name}, all", (loaded.rate, None, None, None)))
        memory.append(Row(name, tuple(part for taken in loaded.memory for part in taken)))
        cores.append(Row(name, loaded.cores))
    p50, p95 = np.percentile([*many.outcomes.reads, *many.outcomes.writes], [50, 95])
    errors = len(one.outcomes.errors) + len(many.outcomes.errors)
    for error in [*one.outcomes.errors, *many.outcomes.errors][:5]:
        print(error, file=sys.stderr)
    tables = (
        Table("Requests, nine recalls for each write", ("per second", "p50, ms", "p95, ms", "p99, ms"), tuple(rows)),
        Table(
            "Cores in use",
            ("service", "client", "other processes"),
            tuple(cores),
            "Other processes affect the figures.",
        ),
        Table(
            "Memory of the service, MiB" if workers == 1 else "Memory of the largest worker, MiB",
            ("start", "private", "middle", "private", "end", "private"),
            tuple(memory),
            "Resident memory, and the private part of it; the rest is mapped files.",
        ),
    )
    targets = (
        Target(
            f"throughput, {connections} connections / 1",
            many.rate / one.rate,
            "≥",
            ENOUGH if workers == 1 else ENOUGH_WORKERS,
            "×",
        ),
        Target("private memory of a process", many.memory[2].own, "≤", MOST_MEMORY, "MiB"),
        Target(f"p95 / p50 at {connections} connections", float(p95 / p50), "≤", SLOWEST, "×"),
        Target("private memory, end / middle", many.memory[2].own / many.memory[1].own, "≤", GROWTH, "×"),
        Target("errors", float(errors), "≤", 0.0, ""),
        Target("acknowledged writes lost", float(lost), "≤", 0.0, ""),
    )
    return tables, targets


def make_store(directory: Path, size: int, progress: Progress) -> Path:
    """Return the path of a store with this many memories, built if it does not exist."""
    path = directory / f"load-{size}.db"
    if not path.exists():
        embedder = open_embedder(EmbedderSettings())
        assert embedder is not None
        with progress.task(f"{size:,} memories: write texts, mix vectors"):
            corpus = make_corpus(size, queries=1, seed=7, embedder=embedder, progress=progress)
        FilledStore(str(path), corpus, embedder.model, progress).close()
    return path


def main() -> None:
    """Measure and print; the exit code is 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description="Measure the service under load.")
    parser.add_argument("--memories", type=int, default=100_000, metavar="N")
    parser.add_argument("--connections", type=int, default=16, metavar="N")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes of the service (default: 1)")
    parser.add_argument("--seconds", type=float, default=30, metavar="S", help="of load, each (default: 30)")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="build the store in this directory, or use the one there"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    options = parser.parse_args()
    progress, started, load = Progress(), perf_counter(), {"before": load_average()}
    with tempfile.TemporaryDirectory(prefix="retentive-load-") as name:
        store = make_store(options.keep or Path(name), options.memories, progress)
        settings = {name: getattr(options, name) for name in ("connections", "seconds", "workers")}
        found = measure(store, **settings, progress=progress)
    load["after"] = load_average()
    tables, targets = result(*found, options.connections, options.workers)
    size = SizeResult(options.memories, tables, targets)
    measured = Result(versions(), machine(), settings, DESCRIPTION, load, perf_counter() - started, (size,))
    report.publish(measured, json=options.json, markdown=options.markdown)
    sys.exit(not all(target.met for target in targets))


if __name__ == "__main__":
    main()
