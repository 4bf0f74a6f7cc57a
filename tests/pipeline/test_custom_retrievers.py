"""Custom retrievers of an engine: fused with its own two, in the scope of the query, and never fatal."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.pipeline.retrievers import MOST_UNANSWERED, CustomRetrievers
from retentive.pipeline.search import search
from retentive.stores import open_store
from tests.compass import Compass


@dataclass
class Listed:
    """A retriever that returns what it was given."""

    name: str = "listed"
    weight: float = 1.0
    found: list[tuple[str, float]] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    def retrieve(self, query, limit):
        self.asked.append((query.text, limit))
        return self.found


class Failing(Listed):
    def retrieve(self, query, limit):
        raise OSError("the graph is down")


def open_engine(*retrievers) -> Engine:
    return Engine(open_store("memory://"), retrievers=retrievers)


def test_a_custom_retriever_is_fused_by_its_weight_and_explained():
    listed = Listed(weight=2.0)
    with open_engine(listed) as engine:
        by_words = engine.remember("green tea")
        only_listed = engine.remember("something else")
        listed.found = [(only_listed.id, 0.9), (by_words.id, 0.1), ("unknown", 5.0)]

        found = engine.recall("tea", tuning="classic-rrf", limit=4)

        scores = {hit.id: hit.score for hit in found}
        assert scores == {by_words.id: pytest.approx(2 / 62 + 1 / 61), only_listed.id: pytest.approx(2 / 61)}
        assert [reason.step for reason in found[0].why] == ["keyword", "listed", "relevance"]
        assert [(one.name, one.ran, one.found) for one in found.retrievers][2] == ("listed", True, 2)
        assert listed.asked == [("tea", 50)]
        assert "listed (rank 1)" in engine.explain("tea", only_listed.id, tuning="classic-rrf").sentence


@pytest.mark.parametrize("fusion", ["rrf", "relative", "weighted", "full"])
def test_what_it_returns_outside_the_scope_or_excluded_is_left_out(fusion):
    listed = Listed()
    with open_engine(listed) as engine:
        memories = [
            engine.remember("in the project", project="p", session="s"),
            engine.remember("shared by all projects", kind="identity"),
            engine.remember("another project", project="q"),
            engine.remember("another profile", profile="other"),
            engine.remember("excluded", project="p"),
        ]
        listed.found = [(memory.id, 1.0) for memory in memories]

        for scope in ({"project": "p"}, {"session": "s"}):
            found = engine.recall("x", exclude=[memories[4].id], tuning={"fusion": fusion}, **scope)
            assert {hit.memory.text for hit in found} == {"in the project", "shared by all projects"}
        found = engine.recall("x", session="s", only_session=True, tuning={"fusion": fusion})
        assert {hit.memory.text for hit in found} == {"in the project"}


def test_what_it_returns_outside_the_filter_or_against_the_operators_is_left_out():
    listed = Listed()
    with open_engine(listed) as engine:
        old = engine.remember("the old pot", occurred="2020-01-01", metadata={"a": 1})
        listed.found = [(old.id, 1.0)]

        assert [hit.id for hit in engine.recall("x")] == [old.id]
        for options in ({"since": "2024-01-01"}, {"metadata": {"a": 2}}, {"as_of": "2019-01-01"}):
            assert list(engine.recall("x", **options)) == []
        assert list(engine.recall("old -pot", tuning={"semantic_weight": 0})) == []


def test_a_retriever_that_fails_is_reported_and_the_others_answer():
    with open_engine(Failing()) as engine:
        engine.remember("green tea")

        found = engine.recall("tea")

        assert [hit.memory.text for hit in found] == ["green tea"]
        assert "without-listed" in (found.degraded or "")
        assert "the graph is down" in (found.degraded_reason or "")


def test_a_retriever_of_weight_0_does_not_run():
    listed = Listed(weight=0)
    with open_engine(listed) as engine:
        engine.recall("tea")

    assert listed.asked == []


@pytest.mark.parametrize("names", [("keyword",), ("semantic",), ("",), ("a", "a")])
def test_each_retriever_needs_a_name_of_its_own(names):
    with pytest.raises(Invalid, match="name"):
        open_engine(*(Listed(name) for name in names))


def test_a_score_that_is_no_number_is_left_out():
    listed = Listed()
    with open_engine(listed) as engine:
        nan, known = engine.remember("one"), engine.remember("two")
        listed.found = [(nan.id, float("nan")), (known.id, 0.5)]

        assert [hit.id for hit in engine.recall("x")] == [known.id]


def test_one_that_hangs_is_named_and_leaves_every_other_retriever_as_it_is(monkeypatch):
    monkeypatch.setitem(search.__kwdefaults__, "embed_seconds", 0.05)
    answer = Event()

    class Hanging(Listed):
        def retrieve(self, query, limit):
            self.asked.append(query.text)
            answer.wait(60)
            return self.found

    graph, tags = Hanging("graph"), Listed("tags")
    with Engine(open_store("memory://"), Compass(), retrievers=[graph, tags]) as engine:
        tea = engine.remember("green tea")
        graph.found = tags.found = [(tea.id, 1.0)]
        try:
            recalls = [engine.recall("tea") for _ in range(20)]
        finally:
            answer.set()

        assert {recall.degraded for recall in recalls} == {"without-graph"}
        assert {one.name for one in recalls[-1].retrievers if one.ran} == {"keyword", "semantic", "tags"}
        assert "earlier searches have not ended" in (recalls[-1].degraded_reason or "")
        assert len(graph.asked) == MOST_UNANSWERED
        for thread in threading.enumerate():
            if thread.name == "retentive-graph":
                thread.join(10)
        assert engine.recall("tea").degraded is None


def test_one_that_hangs_is_given_up_also_where_another_recall_runs():
    answer = Event()

    class Hanging(Listed):
        def retrieve(self, query, limit):
            answer.wait(60)
            return []

    with open_engine() as engine:
        custom_retrievers = CustomRetrievers([Hanging("first"), Hanging("second")], engine.store)
        try:
            results = custom_retrievers.finish(custom_retrievers.start(engine.query("tea")), seconds=0.05)
        finally:
            answer.set()

    assert [(one.name, one.ran) for one in results] == [("first", False), ("second", False)]


@pytest.mark.parametrize("scope", [{"session": "s7"}, {"project": "p"}])
def test_the_scope_of_its_candidates_is_read_once(monkeypatch, scope):
    listed = Listed()
    with open_engine(listed) as engine:
        memories = [engine.remember(f"turn {at}", project="p", session=f"s{at}") for at in range(20)]
        memories += [engine.remember(f"a trait {at}", kind="identity") for at in range(5)]
        listed.found = [(memory.id, 1.0) for memory in memories]
        reads = []
        for name in ("sessions", "projects"):
            read = getattr(engine.store, name)
            monkeypatch.setattr(engine.store, name, lambda *a, read=read, **b: reads.append(a) or read(*a, **b))

        assert len(engine.recall("x", limit=30, **scope)) == 25
        assert len(reads) == 1


def test_its_ids_are_known_in_any_spelling():
    listed = Listed()
    with open_engine(listed) as engine:
        tea = engine.remember("green tea")
        listed.found = [(tea.id.upper(), 0.5), (f"{{{tea.id}}}", 0.9), (tea.id.replace("-", ""), 0.1)]

        assert [(hit.id, hit.why[0].value) for hit in engine.recall("x", tuning="classic-rrf")] == [(tea.id, 0.9)]
