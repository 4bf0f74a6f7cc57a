"""Tuning finds better parameters, reports a gain only if held-out queries confirm it, and ranks as a recall does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.evaluation.cached_ranker import cached_ranker
from retentive.evaluation.evaluation_set import CorpusStats, EvaluationQuery, EvaluationSet
from retentive.evaluation.run import recall_documents
from retentive.evaluation.search_space import GRID, differences, steps
from retentive.evaluation.sensitivity import sensitivities, sensitivity_svg
from retentive.evaluation.tune import folds, tune
from retentive.inference.embedders import Embedder
from retentive.models import Memory, Model
from retentive.ranking import PRESETS, Tuning
from retentive.stores import open_store
from retentive.stores.values import Vector
from tests.conftest import NOW

CURRENT = Tuning(keyword_weight=0.3, min_candidates=20)
COLOURS = ["red", "green", "blue", "white", "black", "amber", "ivory", "coral", "olive", "pearl"]
THINGS = ["lamp", "chair", "kettle", "ladder", "mirror", "pillow", "bucket", "hammer", "basket", "candle"]


class NoisyEmbedder(Embedder):
    """Gives every text a direction of its own, so that nearness says nothing."""

    model = Model("noise", "1", 16, "noise")

    def embed(self, texts: Sequence[str]) -> Vector:
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) for text in texts]
        rows = np.stack([np.random.default_rng(seed).standard_normal(16) for seed in seeds]).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """A hundred things of ten colours in four houses, each in a conversation."""
    with Engine(open_store("memory://"), NoisyEmbedder(), clock=lambda: NOW) as opened:
        opened.remember_many(
            {"text": f"the {colour} {thing} stands in room {at}", "project": f"house{at % 4}", "session": f"s{at % 8}"}
            for at, (colour, thing) in enumerate((c, t) for c in COLOURS for t in THINGS)
        )
        yield opened


def identify(memory: Memory) -> str:
    return memory.id


def judged(engine: Engine, *, noise: bool = False) -> EvaluationSet:
    """Where each thing stands is asked of its house; the answer is that thing, or anything at all."""
    random = Random(5)
    memories = engine.list(limit=1000).memories
    queries = []
    for at, memory in enumerate(sorted(memories, key=lambda memory: memory.text)[::2]):
        answer = random.choice(memories) if noise else memory
        text = f"where is the {memory.text.split()[1]} {memory.text.split()[2]}?"
        queries.append(EvaluationQuery(f"q{at}", text, {answer.id: 1}, answer.project, None))
    return EvaluationSet(
        "things", tuple(queries), CorpusStats(100, 4, 8, 7.0, 25.0), lambda: iter(()), identify=identify
    )


def test_a_better_tuning_is_found_and_held_out_queries_confirm_it(engine):
    done = tune(engine, judged(engine), current=CURRENT, budget=20)

    figures = done.held_out["nDCG@10"]
    assert done.verdict == "better"
    assert figures.gain_interval.low > 0.1
    assert figures.after > 0.95 > figures.before
    assert figures.p_value < 0.01
    assert done.parameters
    assert (done.queries, done.folds, done.by) == (50, 4, "project")


def test_random_labels_give_no_gain(engine):
    done = tune(engine, judged(engine, noise=True), current=Tuning(), budget=20)

    assert done.verdict == "no_gain"
    assert done.held_out["nDCG@10"].gain_interval.low <= 0


def test_the_same_seed_finds_the_same(engine):
    first, second = (tune(engine, judged(engine), current=CURRENT, budget=8, metric="any@1") for _ in range(2))

    assert first.to_dict() == second.to_dict()


def test_parameters_that_gain_nothing_are_left_as_they_are(engine):
    done = tune(engine, judged(engine), current=CURRENT, budget=20)

    assert set(done.parameters) <= set(GRID)
    assert len(done.parameters) <= 3


def test_the_cached_ranker_gives_what_a_recall_gives(engine):
    rank = cached_ranker(engine, now=NOW)

    for query in judged(engine).queries[::8]:
        for tuning in PRESETS.values():
            expected = recall_documents(engine, query, tuning, identify=identify)
            assert tuple(memory.id for memory in rank(query, tuning)) == expected


def test_the_cached_ranker_searches_no_store_twice(engine, monkeypatch):
    requests, search = [], engine.store.search
    monkeypatch.setattr(engine.store, "search", lambda request: requests.append(request) or search(request))
    rank, query = cached_ranker(engine, now=NOW), judged(engine).queries[0]

    first = rank(query, Tuning())
    assert rank(query, Tuning()) == first
    rank(query, Tuning(keyword_weight=3.0, session_weight=0.0))
    assert len(requests) == 1
    rank(query, Tuning(min_candidates=60))
    assert len(requests) == 2


@pytest.mark.parametrize("parameter", GRID)
def test_every_step_of_a_parameter_ranks_as_a_recall_does(engine, parameter):
    rank = cached_ranker(engine, now=NOW)
    present = Tuning(fusion="rrf") if parameter == "rrf_k" else Tuning()
    tunings = list(steps(parameter, present))

    assert tunings
    for tuning in tunings:
        assert set(differences(present, tuning)) == {parameter}
        for query in judged(engine).queries[:4]:
            expected = recall_documents(engine, query, tuning, identify=identify)
            assert tuple(memory.id for memory in rank(query, tuning)) == expected


def test_folds_are_whole_projects_and_hold_every_query_once():
    projects = [f"p{at % 7}" for at in range(50)]
    queries = [EvaluationQuery(f"q{at}", "?", {}, project) for at, project in enumerate(projects)]

    parts, by = folds(queries)

    assert (len(parts), by) == (5, "project")
    assert sorted(int(at) for part in parts for at in part) == list(range(50))
    homes = [{projects[at] for at in part} for part in parts]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 7


def test_one_project_is_split_by_query():
    parts, by = folds([EvaluationQuery(f"q{at}", "?", {}, "p") for at in range(13)])

    assert by == "query"
    assert sorted(map(len, parts)) == [2, 2, 3, 3, 3]


def test_invalid_options_are_refused(engine):
    everything = judged(engine)

    with pytest.raises(Invalid, match="the metrics are any@1"):
        tune(engine, everything, current=CURRENT, metric="accuracy")
    with pytest.raises(Invalid, match="at least 10 queries"):
        tune(engine, everything.first(9), current=CURRENT)
    with pytest.raises(Invalid, match="budget"):
        tune(engine, everything, current=CURRENT, budget=0)


def test_the_sensitivity_to_each_parameter_includes_the_best_value(engine):
    done = tune(engine, judged(engine), current=CURRENT, budget=8)

    drawn = sensitivities(done)

    best = done.scores.mean(done.best)
    for one in drawn:
        assert dict(one.points)[one.best] == best
    assert "keyword_weight" in sensitivity_svg(done, drawn)
