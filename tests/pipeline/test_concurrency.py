"""Turns: as many at once as there is room for, first come, first served."""

from __future__ import annotations

import threading

import pytest

from retentive.engine import Engine
from retentive.pipeline.concurrency import AtOnce, Turns


def test_no_more_work_at_once_than_may_and_those_who_wait_are_served_in_the_order_they_came():
    turns = Turns(1)
    order: list[int] = []
    threads = []

    def work(number: int) -> None:
        with turns.turn() as crowded:
            order.append(number)
            assert crowded

    with turns.turn() as crowded:
        assert not crowded
        for number in range(5):
            thread = threading.Thread(target=work, args=(number,))
            thread.start()
            threads.append(thread)
            while len(turns._waiting) <= number:
                pass
        assert order == []
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2, 3, 4]
    with turns.turn() as crowded:
        assert not crowded


def test_a_turn_ends_when_the_work_fails():
    turns = Turns(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), turns.turn():
            1 / 0  # noqa: B018

    with turns.turn() as crowded:
        assert not crowded


def test_work_done_at_once_gives_what_it_gave_or_raised():
    done = AtOnce()

    assert done.submit(max, 3, 4).result() == 4
    with pytest.raises(ZeroDivisionError):
        done.submit(divmod, 1, 0).result()


def test_crowded_recalls_find_what_a_lone_one_finds(engine: Engine):
    engine.remember("the spare key is under the blue pot")
    alone = engine.recall("where is the key?", record_use=False)
    answers = []

    def ask() -> None:
        answers.append(engine.recall("where is the key?", record_use=False))

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 12
    for answer in answers:
        assert [(hit.id, hit.score) for hit in answer.hits] == [(hit.id, hit.score) for hit in alone.hits]
        assert answer.degraded is None
