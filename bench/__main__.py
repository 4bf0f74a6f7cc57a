"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from bench import report
from bench.corpus import SESSIONS
from bench.figures import Result
from bench.machine import load_average, machine, versions
from bench.progress import Progress
from bench.run import Plan, measure
from bench.vectors import DESCRIPTION, RECALL_DEPTH
from retentive.inference.embedders import open_embedder
from retentive.settings import EmbedderSettings


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Retentive, LanceDB and PostgreSQL.")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[10_000, 100_000], metavar="N", help="numbers of memories"
    )
    parser.add_argument("--only", choices=["retentive"], help="leave LanceDB out")
    parser.add_argument("--no-postgres", action="store_true", help="leave PostgreSQL out")
    parser.add_argument("--queries", type=int, default=200, metavar="N", help="queries per pass (default: 200)")
    parser.add_argument("--passes", type=int, default=5, metavar="N", help="passes per engine, after one to warm up")
    parser.add_argument("--singles", type=int, default=300, metavar="N", help="memories remembered one by one")
    parser.add_argument("--seed", type=int, default=7, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="build the stores in this directory and do not delete them"
    )
    options = parser.parse_args()
    if min(options.sizes) < SESSIONS * RECALL_DEPTH:
        parser.error(
            f"--sizes: at least {SESSIONS * RECALL_DEPTH:,}, so that a scope of 1 % has {RECALL_DEPTH} memories"
        )
    taken = [
        str(options.keep / str(size)) for size in options.sizes if options.keep and (options.keep / str(size)).exists()
    ]
    if options.only != "retentive" and find_spec("lancedb") is None:
        parser.error("LanceDB is not installed; run `make bench`, or measure without it: --only retentive")
    if taken:
        parser.error(f"--keep: {taken[0]} exists; use another directory")
    return options


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="retentive-bench-") as name:
            yield Path(name)
    else:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()


def main() -> None:
    """Measure every size, then print and write the results."""
    options = _arguments()
    started, load = perf_counter(), {"before": load_average()}
    plan = Plan(
        options.queries,
        options.passes,
        options.singles,
        options.seed,
        lancedb=options.only != "retentive",
        postgres=not options.no_postgres,
    )
    progress, sizes = Progress(), []
    embedder = open_embedder(EmbedderSettings())
    assert embedder is not None
    with _directory(options.keep) as directory:
        for size in options.sizes:
            folder = directory / str(size)
            folder.mkdir()
            sizes.append(measure(size, plan, folder, embedder, progress))
    load["after"] = load_average()
    settings = {name: getattr(options, name) for name in ("queries", "passes", "seed")}
    seconds = perf_counter() - started
    result = Result(versions(), machine(), settings, DESCRIPTION, load, seconds, tuple(sizes))
    report.publish(result, json=options.json, markdown=options.markdown)


if __name__ == "__main__":
    main()
