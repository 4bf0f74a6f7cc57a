"""The limiter of concurrent recalls: a fixed number at once, the rest in order."""

from __future__ import annotations

import threading

import pytest

from retentive.engine import Engine
from retentive.errors import Cancelled
from retentive.models import begin_work
from retentive.pipeline.recall import FairLimiter, InlineExecutor


def test_waiting_threads_get_a_slot_in_the_order_in_which_they_came():
    limiter = FairLimiter(1)
    order: list[int] = []
    threads = []

    def work(number: int) -> None:
        with limiter.slot() as shared:
            order.append(number)
            assert shared

    with limiter.slot() as shared:
        assert not shared
        for number in range(5):
            thread = threading.Thread(target=work, args=(number,))
            thread.start()
            threads.append(thread)
            while len(limiter._waiting) <= number:
                pass
        assert order == []
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2, 3, 4]
    with limiter.slot() as shared:
        assert not shared


def test_callers_take_turns_and_one_with_a_token_leaves_a_slot_to_the_others():
    limiter = FairLimiter(2)
    order: list[str] = []
    release = threading.Event()

    def work(caller: str) -> None:
        begin_work().caller = caller
        with limiter.slot():
            order.append(caller)
            release.wait(60)

    def start(caller: str, *, waiting: int, working: int) -> threading.Thread:
        thread = threading.Thread(target=work, args=(caller,))
        thread.start()
        while (len(limiter._waiting), len(order)) != (waiting, working):
            pass
        return thread

    threads = [start("a", waiting=number, working=1) for number in range(3)]
    threads.append(start("b", waiting=2, working=2))
    threads.append(start("b", waiting=3, working=2))
    release.set()
    for thread in threads:
        thread.join()

    assert order[:2] == ["a", "b"]
    assert sorted(order) == ["a", "a", "a", "b", "b"]


def test_a_thread_whose_caller_has_left_no_longer_waits_for_a_slot():
    limiter = FairLimiter(1)
    ended: list[type[BaseException]] = []

    def wait() -> None:
        begin_work().cancelled = True
        try:
            with limiter.slot():
                pass
        except Cancelled as error:
            ended.append(type(error))

    with limiter.slot():
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(60)
        assert ended == [Cancelled]
    with limiter.slot() as shared:
        assert not shared


def test_a_slot_is_released_when_the_work_fails():
    limiter = FairLimiter(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), limiter.slot():
            1 / 0  # noqa: B018

    with limiter.slot() as shared:
        assert not shared


def test_the_inline_executor_returns_the_result_or_raises_the_exception():
    done = InlineExecutor()

    assert done.submit(max, 3, 4).result() == 4
    with pytest.raises(ZeroDivisionError):
        done.submit(divmod, 1, 0).result()


def test_shared_recalls_find_what_a_lone_one_finds(engine: Engine):
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
