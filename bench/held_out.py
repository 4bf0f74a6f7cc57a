"""Tests whether the default parameters overfit the sets they were chosen on: `python -m bench.held_out SET...`

The queries of every set are split into two halves, by project if there are several. From plain fusion without context,
a search chooses the parameters that find the most in one half of all sets together; the other half is then evaluated
with them, and the other way round. So no figure in the row "chosen on the other half" comes from a query that the
tuning was chosen on. If the default has similar figures, it does not depend on these queries.

Each set is evaluated twice: as it is, and with every second content word of a query hidden from the keyword retriever,
as if the query used other words than the memories. There the semantic retriever is the stronger one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from bench.machine import machine, versions
from bench.progress import Progress
from retentive.engine import Engine
from retentive.evaluation.cached_ranker import CachedStore, rank_memories
from retentive.evaluation.evaluation_set import EvaluationQuery, EvaluationSet, read_evaluation_set
from retentive.evaluation.metrics import Values, measure
from retentive.evaluation.run import LIMIT, open_evaluation_embedder, open_loaded_engine
from retentive.evaluation.tune import folds
from retentive.inference.embedders import Embedder
from retentive.inference.embedders.disk_cache import default_cache
from retentive.models import Query
from retentive.pipeline.periods import retrieve_period
from retentive.ranking import PRESETS, Tuning
from retentive.settings import EmbedderSettings
from retentive.text.language import STOP_WORDS

METRICS = ("any@5", "any@10", "nDCG@10")
MIN_GAIN = 0.0005
"""A step that gains less is not taken."""

START = Tuning(
    keyword_weight=1.0,
    min_score_range=0.0,
    min_lead=0.0,
    short_keyword_share=1.0,
    min_match=0.0,
    neighbour_weight=0.0,
    session_weight=0.0,
    time_weight=0.0,
    speaker_weight=0.0,
)

GRID: Mapping[str, Sequence[float]] = {
    "keyword_weight": (0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5),
    "min_score_range": (0.0, 0.06, 0.12, 0.18, 0.24),
    "min_lead": (0.0, 0.2, 0.4, 0.6, 0.8),
    "short_keyword_share": (0.1, 0.2, 0.35, 0.6, 1.0),
    "min_match": (0.0, 1.5, 2.2, 3.0),
    "neighbour_weight": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "session_weight": (0.0, 0.15, 0.3, 0.5, 0.7, 0.9),
    "time_weight": (0.0, 0.25, 0.5, 0.75, 1.0),
    "speaker_weight": (0.0, 0.1, 0.2, 0.3),
}

Halves = tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True)
class SetVariant:
    """One set in one variant: the values of every query under any tuning, each computed once."""

    name: str
    queries: Sequence[EvaluationQuery]
    halves: Halves
    find: Callable[[EvaluationQuery, Tuning], list[str]]
    known: dict[str, dict[str, Values]]

    def values(self, tuning: Tuning) -> dict[str, Values]:
        """Return the values of each metric, in the order of the queries."""
        key = tuning.model_dump_json()
        if key not in self.known:
            found = {query.id: self.find(query, tuning) for query in self.queries}
            self.known[key] = measure(self.queries, found)
        return self.known[key]


def hide_words(text: str) -> str:
    """Replace every second content word of a query with a word that no memory has."""
    words = text.split()
    content = [at for at, word in enumerate(words) if word.strip("?!.,'\"").lower() not in STOP_WORDS]
    for at in content[1::2]:
        words[at] = f"zqx{at}zqx"
    return " ".join(words)


def finder(engine: Engine, read: EvaluationSet, embedder: Embedder, *, hidden: bool) -> Callable[..., list[str]]:
    """Return a function that recalls the documents of a query; each read of the store is made once."""
    store = CachedStore(engine.store)
    now = engine.now()

    def find(query: EvaluationQuery, tuning: Tuning) -> list[str]:
        vector = embedder.embed_queries([embedder.split(query.text)[0]])[0]
        text = hide_words(query.text) if hidden else query.text
        scope = engine.scope(project=query.project)
        recalled = Query(text, scope, tuning, query.asked_at or now, LIMIT, vector=vector)
        timed = retrieve_period(recalled, engine.store, month_first=engine.settings.month_first)
        memories = rank_memories(recalled, store, engine.embeddings.embedder, timed)
        return [document for memory in memories if (document := read.identify(memory)) is not None]

    return find


def objective(sets: Sequence[SetVariant], half: int, tuning: Tuning) -> float:
    """Return the mean nDCG@10 over one half of each set, with the same weight for every set."""
    return float(np.mean([each.values(tuning)["nDCG@10"][each.halves[half]].mean() for each in sets]))


def choose(sets: Sequence[SetVariant], half: int, step: Callable[[str], None]) -> Tuning:
    """Return the best tuning for one half, by coordinate descent from the start."""
    best, score = START, objective(sets, half, START)
    moved = True
    while moved:
        moved = False
        for parameter, grid in GRID.items():
            for value in grid:
                other = best.with_parameters(**{parameter: value})
                gained = objective(sets, half, other) - score
                if gained >= MIN_GAIN:
                    best, score, moved = other, score + gained, True
            step(f"half {'AB'[half]}: {parameter} {getattr(best, parameter):g}, nDCG@10 {score:.4f}")
    return best


def rows(sets: Sequence[SetVariant], chosen: Sequence[Tuning]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield the means of each set and system. A chosen tuning is evaluated only on the half it was not chosen on."""
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


def halves(queries: Sequence[EvaluationQuery]) -> Halves:
    """Split queries into halves of about equal size, by project if there are several."""
    parts, _ = folds(queries)
    first: list[int] = []
    second: list[int] = []
    for part in sorted(parts, key=len, reverse=True):
        min((first, second), key=len).extend(part.tolist())
    return sorted(first), sorted(second)


def main() -> None:
    """Choose a tuning on each half, evaluate it on the other, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.held_out", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="+", metavar="SET", help="folders in BEIR's layout")
    parser.add_argument("--embedder", default=None, help="as for retentive eval")
    options = parser.parse_args()
    settings = EmbedderSettings(**({"name": options.embedder} if options.embedder else {}))
    progress = Progress()
    with ExitStack() as stack:
        sets: list[SetVariant] = []
        for folder in options.sets:
            read = read_evaluation_set(folder)
            opening = open_evaluation_embedder(settings, cache=default_cache(), queries=len(read.queries))
            embedder = stack.enter_context(opening)
            if embedder is None:
                parser.error("an embedder is required: both retrievers are compared")
            engine = stack.enter_context(open_loaded_engine(read, embedder))
            parts = halves(read.queries)
            for hidden in (False, True):
                name = f"{read.name}{', words hidden' if hidden else ''}"
                find = finder(engine, read, embedder, hidden=hidden)
                sets.append(SetVariant(name, read.queries, parts, find, {}))
        chosen = [choose(sets, half, progress.log) for half in (0, 1)]
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
