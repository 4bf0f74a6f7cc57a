"""A run uses the recall of the engine, records no use, and is compared with a baseline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, Unavailable
from retentive.evaluation import EvaluationSet, evaluate, read_evaluation_set
from retentive.evaluation.run import load, open_loaded_engine, recall_documents, run, systems
from retentive.inference.embedders import Embedder
from retentive.ranking import PRESETS
from retentive.settings import EmbedderSettings
from tests.evaluation.build import write_set


@pytest.fixture
def judged(tmp_path) -> EvaluationSet:
    return read_evaluation_set(write_set(tmp_path / "tiny"))


@pytest.fixture
def loaded(engine: Engine, judged: EvaluationSet) -> Engine:
    load(engine, judged)
    return engine


def test_a_set_is_loaded_as_memories_with_sessions_and_positions(loaded: Engine):
    page = loaded.list(loaded.scope(session="anna/1", only_session=True))

    assert sorted((memory.position, memory.source, memory.project) for memory in page.memories) == [
        (0, "beir:a1", "anna"),
        (1, "beir:a2", "anna"),
        (2, "beir:a3", "anna"),
    ]
    assert loaded.stats().vectors == 12 + 9  # nine turns have one before them


def test_the_documents_of_a_run_are_those_of_a_recall(loaded: Engine, judged: EvaluationSet):
    rows = run(loaded, judged, systems())

    for row in rows:
        for query in judged.queries:
            hits = loaded.recall(
                query.text, project=query.project, now=query.asked_at, tuning=row.tuning, record_use=False
            ).hits
            assert row.found[query.id] == tuple(str(hit.memory.source).removeprefix("beir:") for hit in hits)


def test_a_query_searches_its_own_project(loaded: Engine, judged: EvaluationSet):
    here, there = judged.queries[0], judged.queries[3]
    assert here.text == there.text

    assert recall_documents(loaded, here, PRESETS["default"])[0] == "a1"
    assert recall_documents(loaded, there, PRESETS["default"])[0] == "c1"


def test_an_evaluation_does_not_record_use(open_engine: Callable[..., Engine], model: Embedder, judged: EvaluationSet):
    first = open_engine(model)
    load(first, judged)
    run(first, judged, systems(["default"]))
    first.close()

    memories = open_engine(model).list(limit=100).memories

    assert {(memory.access_count, memory.accessed) for memory in memories} == {(0, None)}


def test_rows_are_the_retrievers_and_every_preset_and_the_default_is_last_without_the_judge_and_with_it():
    names = [system.name for system in systems()]

    assert names[:2] == ["keyword", "semantic"]
    assert names[-2:] == ["default", "judged"]
    assert set(names) == (PRESETS.keys() - {"keyword-only", "semantic-only"}) | {"keyword", "semantic", "judged"}
    assert len(names) == len(set(names))


def test_a_retriever_can_be_named_by_its_preset_and_an_unknown_row_is_refused_with_the_known_ones():
    assert [system.name for system in systems(["keyword-only", "default", "keyword"])] == ["keyword", "default"]
    with pytest.raises(Invalid, match="there is no preset 'nonsense' to evaluate; use one of keyword, semantic"):
        systems(["nonsense"])


def test_metrics_of_a_row_are_those_of_its_queries(loaded: Engine, judged: EvaluationSet):
    (row,) = run(loaded, judged, systems(["default"]))
    answered = [query.id for query in judged.queries if row.found[query.id][0] in query.relevance]

    assert row.metrics()["any@1"] == pytest.approx(len(answered) / 6)
    assert row.metrics([0])["any@1"] == 1
    assert 0 < row.metrics()["p50_ms"] <= row.metrics()["p95_ms"]


def test_a_degraded_recall_is_an_error(open_engine: Callable[..., Engine], judged: EvaluationSet):
    engine = open_engine(None)
    load(engine, judged)

    with pytest.raises(Unavailable, match="keyword-only: no embedder"):
        run(engine, judged, systems(["default"]))


def test_without_an_embedder_only_the_keyword_row_is_evaluated(judged: EvaluationSet):
    done = evaluate(judged, embedder=EmbedderSettings(name="none"))

    assert [row.name for row in done.rows] == ["keyword"]
    assert done.to_dict()["model"] == "none"
    with pytest.raises(Invalid, match="only the row 'keyword'"):
        evaluate(judged, embedder=EmbedderSettings(name="none"), names=["default"])


def test_a_baseline_that_is_named_is_run_and_compared_with(judged: EvaluationSet):
    done = evaluate(judged, names=["default"], baseline="keyword", by="category")

    assert [row.name for row in done.rows] == ["default", "keyword"]
    assert done.baseline == "keyword"
    default, keyword = done.rows
    assert keyword.p_value is None
    assert default.p_value is not None
    assert default.p_value.keys() == default.intervals.keys()
    assert done.groups == {"what": 2, "when": 1, "where": 3}
    means = sum(done.groups[name] * default.by[name]["MRR"] for name in done.groups) / 6
    assert means == pytest.approx(default.metrics["MRR"])


def test_without_its_baseline_a_row_is_compared_with_nothing(judged: EvaluationSet):
    done = evaluate(judged, names=["semantic"])

    assert (done.baseline, done.rows[0].p_value) == (None, None)


def test_a_named_store_is_filled_once_and_an_interrupted_load_continues(
    tmp_path, judged: EvaluationSet, model: Embedder
):
    store = str(tmp_path / "kept.db")
    with open_loaded_engine(judged, model, store=store) as engine:
        lost = [memory.id for memory in engine.list().memories if memory.source in ("beir:c5", "beir:c6")]
        engine.forget(*lost)
        kept = {memory.id for memory in engine.list().memories}

    with open_loaded_engine(judged, model, store=store) as engine:
        now = {memory.id: memory.source for memory in engine.list().memories}

    assert len(now) == 12
    assert kept < now.keys()


@pytest.mark.parametrize("profile", ["default", "somebody"])
def test_a_store_with_other_memories_is_refused_and_left_as_it_was(
    tmp_path, judged: EvaluationSet, model: Embedder, profile: str
):
    store = str(tmp_path / "mine.db")
    with Engine.open(store, embedder=model, profile=profile) as mine:
        mine.remember("my own diary")

    with (
        pytest.raises(Conflict, match="1 memory that is not of this set"),
        open_loaded_engine(judged, model, store=store),
    ):
        pass

    with Engine.open(store, embedder=model, profile=profile) as mine:
        assert mine.stats().memories == 1
