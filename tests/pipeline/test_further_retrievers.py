"""Further retrievers of an engine: fused with its own two, in the scope of the query, and never fatal."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.pipeline.recall import INLINE
from retentive.pipeline.retrievers import FurtherRetrievers
from retentive.stores import open_store


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


def test_a_further_retriever_is_fused_by_its_weight_and_explained():
    listed = Listed(weight=2.0)
    with open_engine(listed) as engine:
        by_words = engine.remember("green tea")
        only_listed = engine.remember("something else")
        listed.found = [(only_listed.id, 0.9), (by_words.id, 0.1), ("unknown", 5.0)]

        found = engine.recall("tea", tuning="classic-rrf", limit=4)

        scores = {hit.id: hit.score for hit in found}
        assert scores == {by_words.id: pytest.approx(2 / 62 + 1 / 61), only_listed.id: pytest.approx(2 / 61)}
        assert [reason.step for reason in found[0].why] == ["relevance", "keyword", "listed"]
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


def test_one_that_hangs_is_given_up_also_where_recalls_run_on_the_thread_of_the_caller():
    answer = Event()

    class Hanging(Listed):
        def retrieve(self, query, limit):
            answer.wait(60)
            return []

    with open_engine() as engine:
        further = FurtherRetrievers([Hanging("first"), Hanging("second")], engine.store)
        try:
            results = further.finish(further.start(engine.query("tea"), INLINE), seconds=0.05)
        finally:
            answer.set()
            further.close()

    assert [(one.name, one.ran) for one in results] == [("first", False), ("second", False)]
