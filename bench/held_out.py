"""Are the default parameters more than a fit to the sets they were chosen on? `python -m bench.held_out SET...`

The queries of every set are split into two halves, by project where there are several. Starting from plain fusion
without context, a search chooses the tuning that finds most in one half of all sets together; that tuning is measured on
the other half, and vice versa. So no figure in the row "chosen on the other half" comes from a query that was used to
choose its tuning. The default is measured beside it: if the two agree, the default is not overfitted to these queries.

Each set is measured twice: as it is, and with every other informative word of a query hidden from the keyword
retriever, as if the query used words that no memory has. There the semantic retriever is the stronger one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from retentive.evaluation.loading import open_loaded_engine, open_measuring_embedder

from bench.machine import machine, versions
from bench.progress import Progress
from retentive.engine import Engine
from retentive.evaluation.evaluation_set import JudgedSet, Query, read_judged_set
from retentive.evaluation.metrics import Values, measure
from retentive.evaluation.run import LIMIT
from retentive.evaluation.tune import folds
from retentive.inference.embedders import Embedder
from retentive.inference.embedders.disk_cache import default_cache
from retentive.pipeline.concurrency import INLINE
from retentive.pipeline.recall import Query as Recalled
from retentive.pipeline.recall import ranked
from retentive.ranking import PRESETS, Tuning, pick
from retentive.settings import EmbedderSettings
from retentive.text.analysis import STOP_WORDS

METRICS = ("any@5", "any@10", "nDCG@10")
LEAST = 0.0005
"""A step that gains less is not taken."""

START = Tuning(
    keyword_weight=1.0,
    spread_least=0.0,
    standout_least=0.0,
    neighbour_weight=0.0,
    session_weight=0.0,
    time_weight=0.0,
)

GRID: Mapping[str, Sequence[float]] = {
    "keyword_weight": (0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5),
    "spread_least": (0.0, 0.06, 0.12, 0.18, 0.24),
    "standout_least": (0.0, 0.2, 0.4, 0.6, 0.8),
    "neighbour_weight": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "session_weight": (0.0, 0.15, 0.3, 0.5, 0.7, 0.9),
    "context_words": (12, 18, 24, 36, 48),
    "time_weight": (0.0, 0.25, 0.5, 0.75, 1.0),
}

Halves = tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One set, asked one way: every query's values under any tuning, each worked out once."""

    name: str
    queries: Sequence[Query]
    halves: Halves
    found: Callable[[Query, Tuning], list[str]]
    known: dict[str, dict[str, Values]]

    def values(self, tuning: Tuning) -> dict[str, Values]:
        """Each metric for every query, in order."""
        key = tuning.model_dump_json()
        if key not in self.known:
            found = {query.id: self.found(query, tuning) for query in self.queries}
            self.known[key] = measure(self.queries, found)
        return self.known[key]


def hide_words(text: str) -> str:
    """A query with every other telling word replaced by one that no memory has."""
    words = text.split()
    telling = [at for at, word in enumerate(words) if word.strip("?!.,'\"").lower() not in STOP_WORDS]
    for at in telling[1::2]:
        words[at] = f"zqx{at}zqx"
    return " ".join(words)


def finder(engine: Engine, judged: JudgedSet, embedder: Embedder, *, hidden: bool) -> Callable[..., list[str]]:
    """What a recall gives for a query of this set, by the path of every recall; each search is made once."""
    gather = engine.gathering(INLINE)
    now = engine.now()

    def found(query: Query, tuning: Tuning) -> list[str]:
        vector = embedder.embed([embedder.split(query.text)[0]])[0]
        text = hide_words(query.text) if hidden else query.text
        scope = engine.scope(project=query.project)
        asked = Recalled(text, scope, tuning, LIMIT, query.asked_at or now, vector=vector)
        gathered = gather(asked)
        hits = pick(ranked(gathered, asked), tuning, limit=LIMIT, vectors=gathered.vectors).hits
        return [name for hit in hits if (name := judged.identify(hit.memory)) is not None]

    return found


def objective(sets: Sequence[Asked], half: int, tuning: Tuning) -> float:
    """The mean nDCG@10 over one half of each set, every set counting alike."""
    return float(np.mean([each.values(tuning)["nDCG@10"][each.halves[half]].mean() for each in sets]))


def choose(sets: Sequence[Asked], half: int, step: Callable[[str], None]) -> Tuning:
    """The tuning that finds most in one half, reached from the start by turning one parameter at a time."""
    best, score = START, objective(sets, half, START)
    moved = True
    while moved:
        moved = False
        for parameter, grid in GRID.items():
            for value in grid:
                other = best.with_parameters(**{parameter: value})
                gained = objective(sets, half, other) - score
                if gained >= LEAST:
                    best, score, moved = other, score + gained, True
            step(f"half {'AB'[half]}: {parameter} {getattr(best, parameter):g}, nDCG@10 {score:.4f}")
    return best


def rows(sets: Sequence[Asked], chosen: Sequence[Tuning]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """For each set and system the means over all queries; the chosen tunings answer only what they did not see."""
    for each in sets:
        named = {name: PRESETS[name] for name in ("keyword-only", "semantic-only", "classic-rrf", "default")}
        for name, tuning in named.items():
            yield each.name, name, {metric: float(each.values(tuning)[metric].mean()) for metric in METRICS}
        whole = {metric: np.empty(len(each.queries)) for metric in METRICS}
        for half in (0, 1):
            for metric in METRICS:
                at = each.halves[1 - half]
                whole[metric][at] = each.values(chosen[half])[metric][at]
        yield each.name, "chosen on the other half", {metric: float(whole[metric].mean()) for metric in METRICS}


def halves(queries: Sequence[Query]) -> Halves:
    """Two halves of about equal size, made of whole projects where there are several."""
    parts, _ = folds(queries)
    first: list[int] = []
    second: list[int] = []
    for part in sorted(parts, key=len, reverse=True):
        min((first, second), key=len).extend(part.tolist())
    return sorted(first), sorted(second)


def main() -> None:
    """Choose on each half, ask the other, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.held_out", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="+", metavar="SET", help="folders in BEIR's layout")
    parser.add_argument("--embedder", default=None, help="as for retentive eval")
    options = parser.parse_args()
    settings = EmbedderSettings(**({"name": options.embedder} if options.embedder else {}))
    progress = Progress()
    with ExitStack() as stack:
        sets: list[Asked] = []
        for folder in options.sets:
            judged = read_judged_set(folder)
            measuring: Any = open_measuring_embedder(settings, cache=default_cache(), queries=len(judged.queries))
            embedder = stack.enter_context(measuring)
            if embedder is None:
                parser.error("an embedder is needed: the two searches are what is weighed")
            engine = stack.enter_context(open_loaded_engine(judged, embedder))
            parts = halves(judged.queries)
            for hidden in (False, True):
                name = f"{judged.name}{', words hidden' if hidden else ''}"
                found = finder(engine, judged, embedder, hidden=hidden)
                sets.append(Asked(name, judged.queries, parts, found, {}))
        chosen = [choose(sets, half, progress.say) for half in (0, 1)]
        print("machine", machine(), "versions", versions(), "embedder", embedder.model)
        for half in (0, 1):
            print(f"chosen on half {'AB'[half]}:", {parameter: getattr(chosen[half], parameter) for parameter in GRID})
        print("\n| set | n | system |", " | ".join(METRICS), "|\n|---|---|---|---|---|---|")
        counts = {each.name: len(each.queries) for each in sets}
        for name, system, means in rows(sets, chosen):
            figures = f"{100 * means['any@5']:.1f} | {100 * means['any@10']:.1f} | {means['nDCG@10']:.3f}"
            print(f"| {name} | {counts[name]} | {system} | {figures} |")


if __name__ == "__main__":
    main()
