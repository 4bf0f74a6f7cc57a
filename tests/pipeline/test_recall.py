"""The read path: retrievers, scopes, what happens when the embedder is missing, and the explanation."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

from retentive import Invalid, Unavailable
from retentive.inference.embedders import Embedder
from retentive.models import Model, Query
from retentive.pipeline.recall import recall
from retentive.stores import open_store
from retentive.stores.sqlite.search import SqliteSearch
from tests.conftest import NOW


class Counting(Embedder):
    """An embedder that counts its calls, and fails or hangs when told to."""

    def __init__(self, *, fingerprint: str = "a" * 64) -> None:
        self.model = Model("counting", "1", 4, fingerprint)
        self.calls = 0
        self.texts: list[str] = []
        self.failure: Exception | None = None
        self.released: threading.Event | None = None

    def embed(self, texts):
        self.calls += 1
        self.texts += texts
        if self.released:
            self.released.wait(30)
        if self.failure:
            raise self.failure
        rows = [np.array([len(text), text.count("a"), text.count("e"), 1], np.float32) for text in texts]
        return np.stack([row / np.linalg.norm(row) for row in rows])


def ids(answer) -> list[str]:
    return [hit.id for hit in answer.hits]


def test_keywords_lose_weight_among_short_memories_only_with_the_model_that_reads_those_well(
    model, open_engine, tmp_path
):
    def keyword_note(embedder, name: str) -> str:
        engine = open_engine(embedder, path=tmp_path / name)
        engine.remember("The cat sleeps on the warm stove")
        engine.remember("The dog sleeps in the garden")
        why = engine.recall("where does the old cat like to sleep").hits[0].why
        return next(reason.note for reason in why if reason.step == "keyword")

    assert "× 0.23 for how specific the terms are" in keyword_note(model, "own.db")
    assert "how specific" not in keyword_note(Counting(), "general.db")


def test_the_reasons_of_a_hit_tell_each_retriever_and_add_up_to_its_score(engine):
    engine.remember("The cat sleeps on the warm stove", importance=0.9)
    engine.remember("The dog sleeps in the garden")

    hit = engine.recall("where does the cat sleep").hits[0]

    steps = {reason.step: reason for reason in hit.why}
    assert {"relevance", "semantic", "keyword"} == set(steps)
    assert (steps["semantic"].rank, steps["keyword"].rank) == (1, 1)
    assert sum(reason.change for reason in hit.why) == pytest.approx(hit.score)
    assert hit.why[-1].score == hit.score


def test_a_recall_reports_its_retrievers_and_their_times(engine):
    engine.remember("apples")

    answer = engine.recall("apples")

    assert [(retriever.name, retriever.ran, retriever.found) for retriever in answer.retrievers] == [
        ("semantic", True, 1),
        ("keyword", True, 1),
    ]
    assert {"embed", "semantic", "keyword", "neighbours", "rank"} <= set(answer.stages)
    assert answer.degraded is None
    assert answer.elapsed_ms > 0


def test_weight_0_runs_neither_the_search_nor_the_embedder(open_engine):
    embedder = Counting()
    engine = open_engine(embedder)
    engine.remember("apples and pears")
    before = embedder.calls

    answer = engine.recall("apples", tuning={"semantic_weight": 0})

    assert embedder.calls == before
    assert (answer.retrievers[0].name, answer.retrievers[0].ran, answer.retrievers[0].note) == (
        "semantic",
        False,
        "its weight is 0",
    )
    assert answer.degraded is None
    assert engine.recall("zebra", tuning={"semantic_weight": 0}).hits == ()


def test_keyword_weight_0_does_not_search_the_keyword_index(open_engine, monkeypatch):
    engine = open_engine(Counting())
    engine.remember("apples and pears")
    monkeypatch.setattr(SqliteSearch, "_keyword_candidates", lambda *_: pytest.fail("the keyword index was searched"))

    assert len(engine.recall("apples", tuning={"keyword_weight": 0}).hits) == 1


def test_without_an_embedder_recall_answers_from_words_and_says_so(open_engine, caplog):
    engine = open_engine(None)
    engine.remember("apples and pears")

    with caplog.at_level(logging.WARNING):
        answer = engine.recall("apples")

    assert len(answer.hits) == 1
    assert (answer.degraded, answer.degraded_reason) == ("keyword-only", "no embedder is configured")
    assert "apples" not in caplog.text


def test_an_embedder_that_is_down_loses_no_write_and_no_recall(open_engine):
    embedder = Counting()
    engine = open_engine(embedder)
    embedder.failure = Unavailable("connection refused")

    stored = engine.remember("apples and pears")
    answer = engine.recall("pears")

    assert ids(answer) == [stored.id]
    assert answer.degraded == "keyword-only"
    assert "connection refused" in answer.degraded_reason
    embedder.failure = None
    assert engine.embeddings.reembed() == 1
    assert engine.recall("pears", tuning="semantic-only").hits[0].id == stored.id


def test_an_embedder_that_hangs_is_not_waited_for(tmp_path):
    store = open_store(str(tmp_path / "store.db"))
    embedder = Counting()
    from concurrent.futures import ThreadPoolExecutor

    from retentive.engine import Engine

    engine = Engine(store, embedder)
    stored = engine.remember("apples and pears")
    embedder.released = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        query = Query("pears", engine.scope(), engine.tuning.current(), NOW)
        answer = recall(query, store, lambda: embedder, threads, embed_seconds=0.05)
        embedder.released.set()

    assert ids(answer) == [stored.id]
    assert (answer.degraded, answer.retrievers[0].ran) == ("keyword-only", False)
    assert "0.05 seconds" in answer.degraded_reason
    engine.close()


def test_vectors_of_another_model_of_the_same_dimension_are_never_mixed_in(open_engine):
    first = open_engine(Counting(fingerprint="a" * 64))
    old = first.remember("apples and pears")
    second = open_engine(Counting(fingerprint="b" * 64))

    new = second.remember("plums and cherries")
    answer = second.recall("apples")

    assert (answer.degraded, ids(answer)) == ("keyword-only", [old.id])
    assert "retentive reembed" in answer.degraded_reason
    assert second.stats().unembedded == 1
    assert second.embeddings.reembed() == 2
    assert second.recall("apples").degraded is None
    assert {old.id, new.id} == set(ids(second.recall("fruit", tuning="semantic-only")))
    assert first.recall("apples").degraded == "keyword-only"
    assert second.check() == []


def test_re_embedding_that_is_broken_off_goes_on_where_it_stopped(open_engine, monkeypatch):
    monkeypatch.setattr("retentive.pipeline.embeddings.BATCH", 2)
    open_engine(Counting(fingerprint="a" * 64)).remember_many([{"text": f"apple {at}"} for at in range(7)])
    embedder = Counting(fingerprint="b" * 64)
    engine = open_engine(embedder)
    seen: list[int] = []

    def stop(done: int) -> None:
        seen.append(done)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.embeddings.reembed(progress=stop)

    assert engine.recall("apple").degraded == "keyword-only"
    assert open_engine(Counting(fingerprint="a" * 64)).recall("apple").degraded is None
    assert engine.embeddings.count_missing() == 3
    assert engine.embeddings.reembed() == 3
    assert engine.recall("apple").degraded is None


def test_recent_memories_are_left_out_and_the_result_is_still_full(open_engine):
    engine = open_engine(Counting())
    stored = engine.remember_many([{"text": f"apple {at}"} for at in range(80)])
    recent = [memory.id for memory in stored[:60]]

    answer = engine.recall("apple", limit=20, exclude=recent)

    assert len(answer.hits) == 20
    assert not set(recent) & set(ids(answer))


def test_a_limit_of_0_gives_all_that_was_found(open_engine):
    engine = open_engine(Counting())
    engine.remember_many([{"text": f"apple {at}"} for at in range(120)])

    assert len(engine.recall("apple", limit=0).hits) == 120


def test_each_retriever_brings_more_than_the_limit_so_that_fusion_can_choose(open_engine):
    engine = open_engine(Counting())
    engine.remember_many([{"text": f"apple {at}"} for at in range(120)])

    def found(limit: int, **options) -> list[int]:
        return [retriever.found for retriever in engine.recall("apple", limit=limit, **options).retrievers]

    assert (found(3), found(20)) == ([30, 30], [60, 60])
    assert (found(3, tuning="classic-rrf"), found(20, tuning="classic-rrf")) == ([50, 50], [100, 100])


def test_a_session_stands_for_its_project_unless_asked_otherwise(open_engine):
    engine = open_engine(Counting())
    for session, project in (("s1", "p"), ("s2", "p"), ("s3", None), ("s4", "q")):
        engine.remember(f"apple of {session}", session=session, project=project)

    def sessions(**scope) -> set[str | None]:
        return {hit.memory.session for hit in engine.recall("apple", **scope).hits}

    assert sessions(session="s1") == {"s1", "s2"}
    assert sessions(session="s1", only_session=True) == {"s1"}
    assert sessions(session="s3") == {"s3"}
    assert sessions(project="q") == {"s4"}
    assert sessions() == {"s1", "s2", "s3", "s4"}
    assert sessions(session="nonsense") == sessions(session="") == sessions(project="") == set()
    assert sessions(session="s1", project="q") == set()
    assert sessions(profile="somebody else") == set()
    engine.move_session("s2", project="q")
    assert sessions(session="s1") == {"s1"}
    assert sessions(project="q") == {"s2", "s4"}


@pytest.mark.parametrize(
    "query",
    [
        "", "   ", '"', "'", "NOT", "a AND", "NEAR(", "*", "^", "terms:x", "a-b", "x/y", "don't", "🎉", "東京",
        "x" * 1_000_000, "a b " * 250_000, "\x00", "%", "{scope} : p1", "\u202e", "-", "(", ")",
    ],
    ids=lambda query: repr(query[:12]),
)  # fmt: skip
def test_any_text_is_a_safe_query(open_engine, query):
    engine = open_engine(Counting())
    engine.remember("apples")

    assert engine.recall(query).degraded is None


def test_of_a_long_query_the_head_and_the_tail_are_read(open_engine):
    embedder = Counting()
    engine = open_engine(embedder)
    engine.remember("apples and pears")

    answer = engine.recall("x " * 5_000_000 + "pears", tuning="keyword-only")
    engine.recall("pears" + " x" * 5_000_000)

    assert len(answer.hits) == 1
    assert len(answer.query) < 10_000
    assert sum(len(text) for text in embedder.texts) < 100_000


def test_half_of_a_surrogate_pair_is_invalid_wherever_it_is_and_nothing_is_stored(open_engine):
    half = "half \ud800"
    engine = open_engine(Counting())
    memory = engine.remember("apples", session="s")
    calls = {
        "query": lambda: engine.recall(half),
        "session": lambda: engine.recall("apples", session=["s", half]),
        "project": lambda: engine.recall("apples", project=half),
        "profile": lambda: engine.list(engine.scope(profile=half)),
        "text": lambda: engine.remember(half),
        "speaker": lambda: engine.update(memory.id, speaker=half),
        "metadata": lambda: engine.remember("x", metadata={"a": [half]}),
        "idempotency_key": lambda: engine.remember_many([{"text": "x"}], idempotency_key=half),
        "query: char": lambda: engine.judge(half, good=[memory.id]),
        "project: char": lambda: engine.sessions(project=half),
        "session: char": lambda: engine.move_session(half, project="p"),
        "note": lambda: engine.tokens.create(note=half),
        "source_weights": lambda: engine.tuning.save({"source_weights": {half: 2.0}}),
    }

    for name, call in calls.items():
        with pytest.raises(Invalid, match=name):
            call()

    assert [one.text for one in engine.list().memories] == ["apples"]
    assert (engine.get(memory.id), engine.judgements.list(), engine.tokens.list()) == (memory, [], [])
    assert engine.tuning.saved() == {}


def test_two_characters_of_chinese_and_an_emoji_find_their_memory(open_engine):
    engine = open_engine(None)
    tokyo, party = engine.remember("去年我们去了东京旅行"), engine.remember("party 🎉 tonight")

    assert ids(engine.recall("东京")) == [tokyo.id]
    assert ids(engine.recall("🎉")) == [party.id]


def test_a_memory_found_by_words_alone_passes_the_default_floors(open_engine, model):
    engine = open_engine(model)
    wanted = engine.remember("xk7-quibble")
    engine.remember_many([{"text": f"A story about animals in the forest, part {at}"} for at in range(60)])

    assert ids(engine.recall("xk7-quibble"))[0] == wanted.id


def test_nothing_relevant_is_an_empty_list_where_a_floor_is_set(engine):
    engine.remember("The cat sleeps on the warm stove")

    assert engine.recall("turbine maintenance schedule", tuning={"min_cosine": 0.7}).hits == ()
    assert len(engine.recall("where is the cat sleeping", tuning={"min_cosine": 0.7}).hits) == 1


def test_a_preset_a_parameter_and_a_whole_tuning_are_for_one_recall_alone(engine):
    engine.remember("apples")

    both = engine.recall("apples", tuning="classic-rrf").hits[0].score

    assert both == pytest.approx(1 / 61 + 1 / 61)
    assert engine.recall("apples", tuning="steep-rrf").hits[0].score == pytest.approx(1 / 5 + 1 / 5)
    assert engine.tuning.current().fusion == "full"
    with pytest.raises(Invalid, match="no preset"):
        engine.recall("apples", tuning="nonsense")
    with pytest.raises(Invalid, match="no parameter"):
        engine.recall("apples", tuning={"nonsense": 1})


def test_the_same_query_gives_the_same_answer(engine):
    engine.remember_many([{"text": f"apple number {at % 5}", "session": f"s{at}"} for at in range(30)])

    first, second = (engine.recall("apple number", limit=20, tuning={"dedup": False}) for _ in range(2))

    assert [(hit.id, hit.score) for hit in first.hits] == [(hit.id, hit.score) for hit in second.hits]


def test_a_vector_of_the_callers_own_is_checked_and_brought_to_length_1(open_engine):
    engine = open_engine(Counting())
    engine.remember("apples")
    own = engine.embeddings.embedder().embed(["apples"])[0]

    for factor in (7, 1e38):  # the squares of the second are too large for float32
        found = engine.recall("x", vector=list(own.astype(float) * factor), tuning="semantic-only")
        assert found[0].score == pytest.approx(1, abs=1e-3)
    for wrong in ([1.0, 2.0], [0.0] * 4, [float("nan")] * 4, [[1.0] * 4]):
        with pytest.raises(Invalid, match="vector"):
            engine.recall("x", vector=wrong)


def test_a_session_is_not_moved_to_a_project_without_a_name(open_engine):
    engine = open_engine()
    engine.remember("apples", session="s")

    for wrong in ("", "\ud800", "x" * 501):
        with pytest.raises(Invalid, match="project"):
            engine.move_session("s", project=wrong)
    assert engine.projects() == []


def test_the_turn_behind_the_one_that_was_found_comes_along(open_engine):
    engine = open_engine(None)
    asked = engine.remember("Which kettle shall we buy?", session="s", speaker="Ana")
    answer = engine.remember("The blue enamel one.", session="s", speaker="Ben")
    engine.remember_many([{"text": f"Unrelated remark number {at}", "session": f"t{at}"} for at in range(5)])

    answered = engine.recall("kettle")

    assert ids(answered) == [asked.id, answer.id]
    assert answered.hits[1].why[-2].step == "context"
    assert ids(engine.recall("kettle", tuning="classic-rrf")) == [asked.id]


def test_context_brings_in_neither_recent_memories_nor_other_kinds(open_engine):
    engine = open_engine(None)
    asked = engine.remember("Which kettle shall we buy?", session="s")
    answer = engine.remember("The blue enamel one.", session="s")
    engine.remember("Ben always decides late.", session="s", kind="semantic")

    assert ids(engine.recall("kettle", exclude=[answer.id])) == [asked.id]
    assert ids(engine.recall("kettle", kinds=["episodic"])) == [asked.id, answer.id]
