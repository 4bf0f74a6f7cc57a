"""The real judge."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from time import monotonic

import pytest

from retentive.errors import Unavailable
from retentive.extras import pip_install
from retentive.inference import judge as module
from retentive.inference.judge import LocalJudge, Reading

KEY = Reading("The spare key is under the blue pot")
TAX = Reading("The tax return is due")


@pytest.fixture(scope="module")
def judge():
    return LocalJudge()


def soon() -> float:
    return monotonic() + 600


def test_an_answer_scores_above_what_is_none(judge):
    key, tax = judge.score("where is the spare key?", [KEY, TAX], deadline=soon())

    assert key > 0 > tax


def test_what_was_said_by_another_person_is_no_answer(judge):
    right, wrong = judge.score(
        "What instrument does Nora play?",
        [Reading("I play the cello, every evening.", "Nora"), Reading("I play the cello, every evening.", "Ben")],
        deadline=soon(),
    )

    assert right > wrong + 1


def test_the_score_of_a_memory_does_not_depend_on_others_its_position_or_its_thread(judge):
    readings = [Reading(f"The key number {at} is under the pot " + "and so on " * (at % 4)) for at in range(9)]

    together = judge.score("where is key number 3?", readings, deadline=soon())
    backwards = judge.score("where is key number 3?", readings[::-1], deadline=soon())
    with ThreadPoolExecutor(4) as threads:
        alone = list(
            threads.map(lambda one: judge.score("where is key number 3?", [one], deadline=soon())[0], readings)
        )

    assert together == backwards[::-1] == alone
    assert max(range(9), key=together.__getitem__) == 3


def test_of_a_long_memory_the_beginning_is_read_and_of_a_long_query_the_beginning_and_the_end(judge):
    long = Reading(KEY.text + " and so on" * 5000)
    filler = "Tell me about the garden first. " * 200

    def score(query: str) -> float:
        return judge.score(query, [long], deadline=soon())[0]

    plain = score(filler + filler)

    assert score(f"{filler}Where is the spare key? {filler}") == plain
    assert score(f"Where is the spare key? {filler}{filler}") != plain
    assert score(f"{filler}{filler}Where is the spare key?") != plain


@pytest.mark.parametrize(
    "query",
    ["", "   ", "\x00", "🎉", "東京" * 400, "x" * 1_000_000, "a b " * 250_000],
    ids=lambda query: repr(query[:8]),
)
def test_any_text_is_a_safe_query_and_the_memories_are_still_scored(judge, query):
    scores = judge.score(query, [Reading(""), KEY, Reading("東京" * 2000, "\x00" * 1000)], deadline=soon())

    assert len(set(scores)) == 3


def test_no_memory_gives_no_score(judge):
    assert judge.score("where?", [], deadline=soon()) == []


def test_at_the_deadline_it_stops_and_returns_what_it_has_read_the_best_first(judge, monkeypatch):
    assert judge.score("where?", [KEY] * 5, deadline=monotonic()) == [None] * 5
    seconds = count()
    monkeypatch.setattr(module, "monotonic", lambda: next(seconds))  # a second passes with each look at the clock

    scores = judge.score("where?", [KEY] * 100, deadline=20)

    read = [score is not None for score in scores]
    assert sum(read) == 20 * module.AT_ONCE
    assert read.index(False) >= 19 * module.AT_ONCE


def test_a_missing_a_broken_and_another_model_are_named(monkeypatch, tmp_path):
    module._model.cache_clear()
    try:
        monkeypatch.setattr("retentive.inference.loading.MODELS", tmp_path)
        with pytest.raises(Unavailable, match=re.escape(pip_install(options="--force-reinstall"))):
            LocalJudge().score("where?", [KEY], deadline=soon())
        (tmp_path / module.JUDGE).mkdir()
        (tmp_path / module.JUDGE / "model.onnx").write_bytes(b"broken")
        with pytest.raises(Unavailable, match="another model than expected"):
            LocalJudge().score("where?", [KEY], deadline=soon())
        monkeypatch.setattr(module, "JUDGE_SHA256", sha256(b"broken").hexdigest())
        with pytest.raises(Unavailable, match="cannot be loaded"):
            LocalJudge().score("where?", [KEY], deadline=soon())
    finally:
        module._model.cache_clear()
