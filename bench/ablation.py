"""What each step of the ranking contributes: `python -m bench.ablation SET...`

Each set is evaluated with the default tuning, and with one step switched off at a time. The table has nDCG@10, and
any@5 in per cent.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from bench.machine import machine, versions
from bench.progress import Progress
from retentive.evaluation.cached_ranker import cached_ranker
from retentive.evaluation.evaluation_set import EvaluationSet, read_evaluation_set
from retentive.evaluation.metrics import measure
from retentive.evaluation.run import open_evaluation_embedder, open_loaded_engine
from retentive.inference.embedders import Embedder
from retentive.inference.embedders.disk_cache import default_cache
from retentive.ranking import Tuning
from retentive.settings import EmbedderSettings

VARIANTS: Mapping[str, Mapping[str, float]] = {
    "default": {},
    "without keywords": {"keyword_weight": 0},
    "without context": {"neighbour_weight": 0, "session_weight": 0},
    "without neighbours": {"neighbour_weight": 0},
    "without the session": {"session_weight": 0},
    "`short_keyword_share` 1": {"short_keyword_share": 1},
    "`min_match` 0": {"min_match": 0},
    "`min_lead` 0": {"min_lead": 0},
    "`min_score_range` 0": {"min_score_range": 0},
    "without time": {"time_weight": 0},
    "without the speaker": {"speaker_weight": 0},
}
"""The rows of the table: their names, and the parameters that differ from the default."""


def cells(read: EvaluationSet, embedder: Embedder, progress: Progress) -> dict[str, str]:
    """Return the figures of each variant on one set."""
    found = {}
    with open_loaded_engine(read, embedder) as engine:
        rank = cached_ranker(engine, now=engine.now())
        for name, parameters in VARIANTS.items():
            tuning = Tuning().with_parameters(**parameters)
            ranked = {query.id: [read.identify(memory) for memory in rank(query, tuning)] for query in read.queries}
            documents = {id: [one for one in named if one is not None] for id, named in ranked.items()}
            values = measure(read.queries, documents)
            found[name] = f"{values['nDCG@10'].mean():.3f} / {100 * values['any@5'].mean():.1f}"
            progress.log(f"{read.name}: {name} {found[name]}")
    return found


def main() -> None:
    """Evaluate all variants on all sets, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.ablation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="+", metavar="SET", help="as for retentive eval")
    parser.add_argument("--embedder", help="as for retentive eval")
    options = parser.parse_args()
    settings = EmbedderSettings(**({"name": options.embedder} if options.embedder else {}))
    progress = Progress()
    columns: dict[str, dict[str, str]] = {}
    with open_evaluation_embedder(settings, cache=default_cache()) as embedder:
        if embedder is None:
            parser.error("an embedder is required: the steps of hybrid ranking are compared")
        for place in options.sets:
            read = read_evaluation_set(place)
            columns[f"{read.name}, {len(read.queries):,}"] = cells(read, embedder, progress)
        print("machine", machine(), "versions", versions(), "embedder", embedder.model)
    print(f"\n| nDCG@10 / any@5 | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in VARIANTS:
        print(f"| {name} | {' | '.join(column[name] for column in columns.values())} |")


if __name__ == "__main__":
    main()
