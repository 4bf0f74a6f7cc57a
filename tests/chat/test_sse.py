"""The text of an answer, read from bytes that may be cut anywhere."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.chat.sse import MAX_EVENT, Answer, AnswerStream, read_answer


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def delta(text: str, *, index: int = 0, finish: str | None = None) -> bytes:
    return event({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]})


STREAM = (
    b": ping\n\n"
    + delta("Grüße, ")
    + delta("not this", index=1)
    + delta("日本 👋").replace(b"\n\n", b"\r\n\r\n")
    + b"data: not JSON\r\r"
    + b'event: x\nid: 1\ndata: {"choices": [{"delta":\ndata:  {"content": "!"}}]}\n\n'
    + event({"choices": [], "usage": {}})
    + event([1])
    + event({"choices": [{"index": 0, "delta": {"tool_calls": []}, "finish_reason": "stop"}]})
    + b"data: [DONE]\n\n"
    + b"rest"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_wherever_a_stream_is_cut_the_bytes_and_the_answer_are_the_same(cuts: list[int]) -> None:
    places = sorted({0, *cuts, len(STREAM)})
    stream = AnswerStream()
    passed = b"".join(stream.feed(STREAM[start:end]) for start, end in itertools.pairwise(places))
    assert passed + stream.rest == STREAM
    assert stream.rest == b"rest"
    assert stream.answer == Answer("Grüße, 日本 👋!", complete=True)
    assert stream.done


def test_a_stream_in_single_bytes_is_the_same() -> None:
    stream = AnswerStream()
    assert b"".join(stream.feed(STREAM[at : at + 1]) for at in range(len(STREAM))) + stream.rest == STREAM
    assert stream.answer.text == "Grüße, 日本 👋!"


def test_the_beginning_of_an_event_is_held_back_until_its_end() -> None:
    stream = AnswerStream()
    assert stream.feed(delta("a") + delta("b")[:10]) == delta("a")
    assert stream.answer == Answer("a", complete=False)
    assert stream.feed(delta("b")[10:]) == delta("b")
    assert stream.answer == Answer("ab", complete=False)


def test_an_answer_is_complete_when_the_model_says_so_in_either_way_and_never_after_an_error() -> None:
    finished, done, failed = AnswerStream(), AnswerStream(), AnswerStream()
    finished.feed(delta("a", finish="length"))
    done.feed(delta("a") + b"data: [DONE]\n\n")
    failed.feed(delta("a", finish="stop") + event({"error": {"message": "no"}}))
    assert [stream.answer.complete for stream in (finished, done, failed)] == [True, True, False]
    assert [stream.done for stream in (finished, done, failed)] == [False, True, False]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b'{"choices": [{"index": 0, "message": {"content": "hi"}}]}', Answer("hi", complete=True)),
        (b'{"choices": [{"message": {"content": [{"type": "text", "text": "hi"}]}}]}', Answer("hi", complete=True)),
        (b'{"choices": [{"message": {"content": null, "tool_calls": []}}]}', Answer("", complete=True)),
        (b'{"choices": []}', Answer()),
        (b"[]", Answer()),
        (b"not JSON", Answer()),
        (b"\xff", Answer()),
        (b"[" * 100_000, Answer()),
    ],
)
def test_a_whole_answer_is_read_if_it_is_one(body: bytes, answer: Answer) -> None:
    assert read_answer(body) == answer


def test_an_event_without_an_end_is_read_once_and_not_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    class Counting:
        def finditer(self, held: bytes, start: int) -> list[Any]:
            searched.append(len(held) - start)
            return []

    monkeypatch.setattr("retentive.chat.sse._EVENT_END", Counting())
    stream = AnswerStream()
    pieces = 0
    while not stream.too_large:
        assert stream.feed(b"x" * 1000) == b""
        pieces += 1

    assert pieces == MAX_EVENT // 1000 + 1
    assert max(searched) <= 1002
