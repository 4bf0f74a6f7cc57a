"""The judge in a recall: it orders, gives the relevance and filters; bounded in time, and never a reason to fail."""

from __future__ import annotations

import threading
from contextvars import copy_context
from datetime import timedelta
from time import monotonic

import pytest

from retentive import Unavailable
from retentive.engine import Engine
from retentive.inference.judge import LocalJudge
from retentive.models import JUDGED_MIN_RELEVANCE, begin_work
from retentive.pipeline import judging
from retentive.ranking.judged import why_not_given
from retentive.stores import open_store
from retentive.transfer.samples import QUERIES, load_samples
from tests.conftest import NOW


class Counting:
    """A judge that prefers texts with a higher number, up to a logit of 4, and fails or hangs when told to."""

    name = "counting"

    def __init__(self) -> None:
        self.asked: list[list] = []
        self.failure: Exception | None = None
        self.released: threading.Event | None = None
        self.read = 1000

    def score(self, query, readings, *, deadline):
        self.asked.append(list(readings))
        if self.released:
            self.released.wait(60)
        if self.failure:
            raise self.failure
        logits = [min(float(one.text.split()[-1]), 8.0) - 4.0 for one in readings]
        return [logit if at < self.read else None for at, logit in enumerate(logits)]


@pytest.fixture
def judge():
    return Counting()


@pytest.fixture(params=["sqlite", "memory"])
def engine(request, tmp_path, judge):
    """An engine without an embedder on each store, so that the order before the judge is that of the words."""
    store = open_store("memory://" if request.param == "memory" else str(tmp_path / "store.db"))
    with Engine(store, None, judge=judge, clock=lambda: NOW) as opened:
        yield opened


def remember(engine, count: int = 40) -> None:
    """Apples from 0 up; the lower its number, the better words find one."""
    engine.remember_many([{"text": f"apple {'filler ' * at}{at}"} for at in range(count)])


def recalled(engine, limit: int = 10, **parameters):
    return engine.recall("which apple is it?", limit=limit, tuning={"semantic_weight": 0, **parameters})


def numbers(answer) -> list[int]:
    return [int(hit.memory.text.split()[-1]) for hit in answer.hits]


def test_the_judge_orders_the_best_hits_and_only_then_is_the_result_cut(engine, judge):
    remember(engine)

    answer = recalled(engine, limit=3, judge_depth=8, judge_weight=1)

    assert numbers(answer) == [7, 6, 5]
    assert [len(readings) for readings in judge.asked] == [8]
    reasons = {reason.step: reason for reason in answer.hits[0].why}
    assert reasons["judge"].value == 3.0
    assert sum(reason.change for reason in answer.hits[0].why) == pytest.approx(answer.hits[0].score)
    assert answer.stages["judge"] > 0
    assert answer.degraded is None


def test_hits_that_the_judge_has_not_read_follow_in_their_order_without_a_relevance(engine):
    remember(engine)

    answer = recalled(engine, limit=6, judge_depth=4, judge_weight=1)

    assert numbers(answer) == [3, 2, 1, 0, 4, 5]
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert [hit.relevance is None for hit in answer.hits] == [False] * 4 + [True] * 2
    assert answer.relevance == max(hit.relevance for hit in answer.hits[:4])


def test_a_filter_gives_only_what_passes_and_nothing_where_nothing_passes(engine):
    remember(engine, 9)

    some, none = recalled(engine, judge="filter"), recalled(engine, judge="filter", min_relevance=0.999)

    assert numbers(some)
    assert min(hit.relevance for hit in some) >= JUDGED_MIN_RELEVANCE
    assert 0 not in numbers(some)
    assert len(none) == 0
    assert "nothing relevant is stored" in none.empty_note


def test_switched_off_it_is_never_asked(engine, judge):
    remember(engine)

    answer = recalled(engine, judge="off")

    assert numbers(answer) == list(range(10))
    assert (judge.asked, answer.degraded) == ([], None)
    assert "judge" not in answer.stages


def test_the_retrievers_return_as_many_as_the_judge_reads(engine, judge):
    remember(engine, 80)

    recalled(engine, limit=5, judge_depth=70)

    assert [len(readings) for readings in judge.asked] == [70]


def test_the_judge_reads_the_speaker_the_turn_before_and_whether_it_is_of_the_period_of_the_query(engine, judge):
    engine.remember_many([
        {"text": "pear 0", "speaker": "Ben", "session": "s", "occurred": NOW - timedelta(days=30)},
        {"text": "apple 1", "speaker": "Ann", "session": "s", "occurred": NOW - timedelta(days=1)},
    ])  # fmt: skip

    engine.recall("which apple was it yesterday?", tuning={"semantic_weight": 0})

    read = next(reading for reading in judge.asked[0] if reading.text == "apple 1")
    assert read == judging.Reading("apple 1", "Ann", "pear 0", "Ben", True)


def test_what_it_has_not_read_in_time_is_reported_and_not_given_by_a_filter(engine, judge):
    remember(engine, 9)
    judge.read = 7

    answer = recalled(engine, judge="filter", min_relevance=0.000001)

    assert numbers(answer) == [6, 5, 4, 3, 2, 1, 0]
    assert answer.degraded == "not-judged"
    assert answer.degraded_reason.startswith("the judge has read 7 of 9 memories")


def test_a_filter_gives_nothing_that_was_not_read_before_the_caller_needs_the_result(engine, judge):
    remember(engine, 9)
    judge.released = threading.Event()

    def recalled_by_a_deadline():
        begin_work().deadline = monotonic() + 0.05
        return recalled(engine, judge="filter")

    answer = copy_context().run(recalled_by_a_deadline)

    judge.released.set()
    assert (answer.hits, answer.degraded) == ((), "not-judged")
    assert {why_not_given(hit) for hit in answer.dropped} == {"unjudged"}


def test_a_judge_that_hangs_is_not_waited_for(engine, judge, monkeypatch):
    monkeypatch.setattr(judging, "JUDGE_SECONDS", 0.05)
    monkeypatch.setattr(judging, "LOAD_SECONDS", 0.0)
    remember(engine)
    judge.released = threading.Event()

    answer = recalled(engine)

    judge.released.set()
    assert numbers(answer) == list(range(10))
    assert answer.degraded == "not-judged"
    assert all(hit.relevance is not None for hit in answer)


def test_a_judge_that_is_missing_is_reported_beside_a_missing_embedder(engine, judge):
    remember(engine)
    judge.failure = Unavailable("the model of the judge is not installed")

    answer = engine.recall("which apple is it?")

    assert numbers(answer) == list(range(10))
    assert answer.degraded == "keyword-only, not-judged"
    assert answer.degraded_reason == "no embedder is configured; the model of the judge is not installed"


def test_where_nothing_is_found_the_judge_is_not_asked(engine, judge):
    remember(engine)

    assert engine.recall("zebra", tuning={"semantic_weight": 0}).degraded is None
    assert engine.recall("").hits == ()
    assert judge.asked == []


def test_the_real_judge_prefers_the_answer_to_what_only_shares_words_and_calls_neither_an_answer_to_another_question(
    tmp_path, model
):
    with Engine(open_store(str(tmp_path / "m.db")), model, judge=LocalJudge(), clock=lambda: NOW) as engine:
        engine.remember("Ann likes the move of the knight", speaker="Ben")
        wanted = engine.remember("Since 2019 Ann has lived in a flat in Berlin", speaker="Ben")
        engine.remember("Ann asked when Berlin has rain", speaker="Ben")

        answered = engine.recall("Where does Ann live?")
        never = engine.recall("How much rent does Ann pay?")
        idle = engine.recall("git push", tuning={"judge": "filter"})

    assert answered.hits[0].id == wanted.id
    assert answered.relevance > 0.3 > JUDGED_MIN_RELEVANCE > never.relevance
    assert len(idle) == 0


def test_queries_can_be_judged_beside_the_judge(engine):
    memory = engine.remember("apple 1")

    assert len(engine.judge("apple", good=[memory.id])) == 1


def test_keywords_alone_are_judged_only_if_the_judge_filters(engine, judge):
    remember(engine, 3)

    keywords = engine.recall("apple", tuning={"semantic_weight": 0})
    prompt = engine.recall("apple", tuning={"semantic_weight": 0, "judge": "filter"})

    assert len(judge.asked) == 1
    assert "judge" not in keywords.stages
    assert "judge" in prompt.stages


def test_the_questions_of_the_samples_get_notes_and_small_talk_and_what_was_never_said_get_none(tmp_path, model):
    with Engine(open_store(str(tmp_path / "m.db")), model, judge=LocalJudge()) as engine:
        load_samples(engine)
        tuning = engine.tuning.for_prompt()

        given = {query: len(engine.recall(query, tuning=tuning)) for query in QUERIES}
        idle = ("git push", "hello", "thanks, that works", "make it shorter", "what does my nephew want for Christmas?")
        unwanted = {query: len(engine.recall(query, tuning=tuning)) for query in idle}

    assert min(given.values()) >= 1
    assert max(given.values()) <= 6
    assert set(unwanted.values()) == {0}
