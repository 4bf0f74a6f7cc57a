"""Reranking in a recall: off by default, bounded in time, and never a reason to fail."""

from __future__ import annotations

import threading

import pytest

from retentive import Unavailable
from retentive.engine import Engine
from retentive.stores import open_store
from tests.conftest import NOW


class Counting:
    """A reranker that prefers texts with a higher number, and fails or hangs when told to."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failure: Exception | None = None
        self.answered = 0
        self.released: threading.Event | None = None
        self.closed = False

    def score(self, query, texts, *, deadline):
        self.asked.append(list(texts))
        if self.released:
            self.released.wait(60)
        if self.failure:
            raise self.failure
        self.answered += 1
        return [float(text.split()[-1]) for text in texts]

    def close(self):
        self.closed = True


@pytest.fixture
def reranker():
    return Counting()


@pytest.fixture(params=["sqlite", "memory"])
def engine(request, tmp_path, reranker):
    """An engine without an embedder on each store, so that the order before reranking is that of the words."""
    store = open_store("memory://" if request.param == "memory" else str(tmp_path / "store.db"))
    with Engine(store, None, reranker=reranker, clock=lambda: NOW) as opened:
        yield opened


def remember(engine, count: int = 40) -> None:
    """Apples from 0 up; the lower its number, the better words find one."""
    engine.remember_many([{"text": f"apple {'filler ' * at}{at}"} for at in range(count)])


def recalled(engine, limit: int = 10, **parameters):
    return engine.recall("apple", limit=limit, tuning={"semantic_weight": 0, **parameters})


def numbers(answer) -> list[int]:
    return [int(hit.memory.text.split()[-1]) for hit in answer.hits]


def test_off_by_default_and_then_never_asked(engine, reranker):
    remember(engine)

    answer = recalled(engine)

    assert numbers(answer) == list(range(10))
    assert (reranker.asked, answer.degraded) == ([], None)
    assert "rerank" not in answer.stages
    assert "rerank" not in {reason.step for hit in answer.hits for reason in hit.why}


def test_the_best_hits_are_reranked_and_only_then_is_the_result_cut(engine, reranker):
    remember(engine)

    answer = recalled(engine, limit=3, rerank=20, rerank_weight=1)

    assert numbers(answer) == [19, 18, 17]
    assert [len(texts) for texts in reranker.asked] == [20]
    assert [hit.rank for hit in answer.hits] == [1, 2, 3]
    assert answer.hits[0].why[-2].step == "rerank"
    assert answer.hits[0].why[-2].score == answer.hits[0].score
    assert sum(reason.change for reason in answer.hits[0].why) == pytest.approx(answer.hits[0].score)
    assert answer.stages["rerank"] > 0
    assert answer.degraded is None


def test_hits_beyond_those_reranked_follow_in_their_order(engine):
    remember(engine)

    answer = recalled(engine, limit=6, rerank=4, rerank_weight=1)

    assert numbers(answer) == [3, 2, 1, 0, 4, 5]
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)


def test_the_retrievers_bring_as_many_as_are_to_be_reranked(engine, reranker):
    remember(engine, 80)

    answer = recalled(engine, limit=5, rerank=70, rerank_weight=1)

    assert [len(texts) for texts in reranker.asked] == [70]
    assert numbers(answer) == [69, 68, 67, 66, 65]


def test_duplicates_are_not_read_twice_and_take_no_place(engine, reranker):
    engine.remember_many([{"text": f"apple {at % 6}", "session": f"s{at}"} for at in range(24)])

    answer = recalled(engine, limit=5, rerank=6, rerank_weight=1)

    assert [sorted(texts) for texts in reranker.asked] == [[f"apple {at}" for at in range(6)]]
    assert [hit.memory.text for hit in answer.hits] == [f"apple {at}" for at in (5, 4, 3, 2, 1)]


def test_the_reranker_reads_who_said_it(engine, reranker):
    engine.remember("apple 1", speaker="Ann")

    recalled(engine, rerank=5)

    assert reranker.asked == [["Ann: apple 1"]]


def test_diversity_chooses_among_reranked_hits(engine):
    remember(engine)

    answer = recalled(engine, limit=5, rerank=10, rerank_weight=1, diversity=0.1)

    assert numbers(answer)[0] == 9
    assert [reason.step for reason in answer.hits[0].why][-3:-1] == ["rerank", "diversity"]


def test_a_reranker_that_hangs_is_not_waited_for(engine, reranker):
    remember(engine)
    reranker.released = threading.Event()

    answer = recalled(engine, rerank=20, rerank_seconds=0.05)

    assert reranker.answered == 0
    reranker.released.set()
    assert numbers(answer) == numbers(recalled(engine))
    assert answer.degraded == "not-reranked"
    assert answer.degraded_reason == "the reranker did not answer within 0.05 seconds"
    assert "rerank" not in {reason.step for hit in answer.hits for reason in hit.why}


def test_a_reranker_that_is_missing_is_said_beside_a_missing_embedder(engine, reranker):
    remember(engine)
    reranker.failure = Unavailable("the reranker's model is not installed")

    answer = engine.recall("apple", tuning={"rerank": 20})

    assert numbers(answer) == numbers(recalled(engine))
    assert answer.degraded == "keyword-only, not-reranked"
    assert answer.degraded_reason == "no embedder is configured; the reranker's model is not installed"


def test_where_nothing_is_found_the_reranker_is_not_asked(engine, reranker):
    remember(engine)

    assert engine.recall("zebra", tuning={"semantic_weight": 0, "rerank": 20}).degraded is None
    assert engine.recall("", tuning={"rerank": 20}).hits == ()
    assert reranker.asked == []


def test_a_reranker_that_was_handed_over_is_left_open(reranker):
    Engine(open_store("memory://"), None, reranker=reranker).close()

    assert not reranker.closed


def test_the_real_model_puts_the_answer_before_what_only_shares_words(open_engine, model):
    engine = open_engine(model)
    alike = engine.remember("Ann likes the move of the knight")
    wanted = engine.remember("Since 2019 Ann has lived in a flat in Berlin")
    engine.remember("Ann asked when Berlin has rain")
    words = {"keyword_weight": 5, "short_keyword_share": 1, "rerank_weight": 0.7}

    plain, reranked = (
        engine.recall("When did Ann move to Berlin?", tuning={**words, "rerank": rerank, "rerank_seconds": 30})
        for rerank in (0, 30)
    )

    assert (plain.hits[0].id, reranked.hits[0].id) == (alike.id, wanted.id)
    logits = {hit.id: hit.why[-2].value for hit in reranked.hits}
    assert logits[wanted.id] > logits[alike.id]
    assert reranked.degraded is None
