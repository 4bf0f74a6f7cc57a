"""The command line of the comparison with peers."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from bench.machine import machine
from bench.peers import environments
from bench.peers.embedding_server import prepared as prepared_vectors
from bench.peers.embedding_server import serving
from bench.peers.process import PeerError, PeerProcess
from bench.peers.protocol import Setup
from bench.peers.run import Comparison, compare, prepare
from bench.peers.table import to_markdown, write_into
from bench.progress import Progress
from retentive.errors import RetentiveError
from retentive.evaluation.evaluation_set import EvaluationSet, read_evaluation_set
from retentive.evaluation.run import open_evaluation_embedder
from retentive.inference.embedders.disk_cache import default_cache
from retentive.settings import EmbedderSettings

ADAPTERS = "bench.peers.adapters"


def _arguments() -> argparse.Namespace:
    known = [*environments.OURS_TOO, *environments.names()]
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description="Compare Retentive with other libraries and memory products."
    )
    parser.add_argument("sets", nargs="+", metavar="SET", help="evaluation sets, as for retentive eval")
    parser.add_argument("--only", nargs="+", choices=known, metavar="NAME", help=f"some of {', '.join(known)}")
    parser.add_argument("--queries", type=int, metavar="N", help="ask N queries, spread over the set (default: all)")
    parser.add_argument("--environments", type=Path, default=environments.default_cache(), metavar="DIR")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the tables into this Markdown page")
    options = parser.parse_args()
    options.names = list(dict.fromkeys([environments.OURS, *(options.only or known)]))
    if options.write and not options.write.is_file():
        parser.error(f"--write: there is no page {options.write}")
    try:
        options.read = [read_evaluation_set(path) for path in options.sets]
    except RetentiveError as error:
        parser.error(str(error))
    return options


def _start(pythons: dict[str, Path], name: str, folder: Path) -> PeerProcess:
    home = None
    if name not in environments.OURS_TOO:
        home = folder / "home"
        home.mkdir()
    return PeerProcess(pythons[name], f"{ADAPTERS}.{name}", folder / "log.txt", home=home)


def _install(names: Sequence[str], cache: Path, progress: Progress) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the interpreter of each peer, and why the others could not be installed."""
    pythons: dict[str, Path] = {}
    failures: dict[str, str] = {}
    for name in names:
        with progress.task(f"{name}: environment"):
            try:
                pythons[name] = environments.interpreter(name, cache)
            except environments.NotInstalledError as error:
                failures[name] = f"it could not be installed: {error}"
    return pythons, failures


def _compare(
    read: EvaluationSet, pythons: dict[str, Path], options: argparse.Namespace, progress: Progress
) -> Comparison:
    cache = default_cache()
    progress.log(f"{read.name}: {read.corpus.memories:,} memories, {len(read.queries):,} queries")
    with open_evaluation_embedder(EmbedderSettings(), cache=cache, queries=len(read.queries)) as embedder:
        if embedder is None:
            raise PeerError("the comparison needs an embedder")
        prepared = prepare(read, embedder, options.queries, progress)
        answers = prepared_vectors(prepared.vectors, embedder.embed)
        with serving(answers) as url, tempfile.TemporaryDirectory(prefix="retentive-peers-") as place:
            setup = Setup(place, embedder.model.dimension, url, str(cache))
            start = partial(_start, pythons)
            return compare(prepared, list(pythons), start, Path(place), setup, progress)


def main() -> None:
    """Install the peers, compare them on each set, and print and write the tables."""
    options, progress = _arguments(), Progress()
    pythons, failures = _install(options.names, options.environments, progress)
    console = Console()
    for read in options.read:
        comparison = _compare(read, pythons, options, progress)
        comparison = replace(comparison, failures={**failures, **comparison.failures})
        markdown = to_markdown(comparison, machine())
        console.print(Markdown(markdown) if console.is_terminal else markdown, soft_wrap=True)
        if options.write:
            write_into(options.write, comparison.set, markdown)


if __name__ == "__main__":
    main()
