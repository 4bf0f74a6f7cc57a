"""Faults of a remote embedder: it hangs, refuses, drops connections, and answers with garbage, NaN or wrong dimensions.

Every remember, update and recall must succeed without it. No text may appear in an error or a log, although the service
repeats it. When the service works again, `reembed` must give every memory the vector of its text.
"""

from __future__ import annotations

import json
import logging
import random
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from retentive.engine import Engine
from retentive.errors import RetentiveError, Unavailable
from retentive.inference.embedders.remote import RemoteEmbedder
from retentive.models import Model
from retentive.stores import open_store
from tests.attack.harness import Run, all_records, is_vector_of, main, text_vector, words
from tests.inference.embedders.embedding_service import (
    Behaviour,
    Handler,
    dropping,
    embedding_service,
    hanging_up,
    saying,
)

COUNTED = ("faults", "calls", "memories")
WRONG = ("failed calls", "wrong vectors", "texts in messages", "problems")

DIMENSION = 16
MODEL = Model("hashed", "", DIMENSION, "")
CALLS = 25
SECRET = "secret"


def _items(texts: Sequence[str], dimension: int = DIMENSION) -> list[dict[str, Any]]:
    """The right answer; with another dimension, a wrong one."""
    rows = [text_vector(text, MODEL).tolist() for text in texts]
    return [{"index": place, "embedding": (row * 9)[:dimension]} for place, row in enumerate(rows)]


def well(handler: Handler, texts: list[str]) -> None:
    """Answer rightly."""
    handler.answer(json.dumps({"data": _items(texts)}).encode())


def hanging(handler: Handler, texts: list[str]) -> None:
    """Answer too late."""
    handler.server.released.wait(1)


def echoing(status: int, **headers: str) -> Behaviour:
    """Answer with an error that repeats the texts."""

    def behave(handler: Handler, texts: list[str]) -> None:
        body = json.dumps({"error": {"message": f"cannot embed {texts}"}}).encode()
        handler.answer(body, status=status, headers=headers)

    return behave


def spoiled(change: Callable[[list[dict[str, Any]]], Any]) -> Behaviour:
    """Answer with the right items after a change."""
    return lambda handler, texts: handler.answer(json.dumps({"data": change(_items(texts))}).encode())


def with_numbers(change: Callable[[list[float]], Any]) -> Behaviour:
    """Answer with the numbers of the first item changed."""
    return spoiled(lambda items: [{**items[0], "embedding": change(items[0]["embedding"])}, *items[1:]])


def echoing_line(handler: Handler, texts: list[str]) -> None:
    """Answer with the text where the status line is expected."""
    handler.wfile.write(f"{texts}\r\n\r\n".encode())


FAULTS: Sequence[Behaviour] = (
    hanging,
    dropping,
    hanging_up,
    echoing_line,
    *(echoing(status) for status in (400, 401, 404, 413, 422, 500, 502, 503)),
    echoing(429, Retry_After="0"),
    echoing(503, Retry_After="1000000"),
    echoing(302, Location="http://127.0.0.1:1/"),
    echoing(200),
    saying(b""),
    saying(b"\xff\xfe\x00garbage"),
    saying(b"[" * 100_000),
    saying(b'{"data": ' + b"9" * 10_000 + b"}"),
    saying({"data": None}),
    saying({"data": [None]}),
    saying(b"not gzip", Content_Encoding="gzip"),
    spoiled(lambda items: items[1:]),
    spoiled(lambda items: [*items, items[-1]]),
    spoiled(lambda items: [{**item, "index": 0} for item in items] * 2),
    spoiled(lambda items: [{**item, "index": -1} for item in items]),
    lambda handler, texts: handler.answer(json.dumps({"data": _items(texts, 7)}).encode()),
    lambda handler, texts: handler.answer(json.dumps({"data": _items(texts, 100)}).encode()),
    with_numbers(lambda row: [float("nan"), *row[1:]]),
    with_numbers(lambda row: [float("inf"), *row[1:]]),
    with_numbers(lambda row: [0.0] * len(row)),
    with_numbers(lambda row: [str(number) for number in row[:-1]] + ["x"]),
    with_numbers(lambda row: [row]),
    with_numbers(lambda row: row[:-1]),
    with_numbers(lambda row: [None] * len(row)),
    with_numbers(lambda row: "0.1 0.2"),
    with_numbers(lambda row: None),
)


class _Script(list[Behaviour]):
    """What the service does next: some faults and some right answers, or right answers only."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run, self.faulty = run, False

    def __bool__(self) -> bool:
        return True

    def pop(self, _place: Any = 0) -> Behaviour:
        if not self.faulty or self._run.dice.random() < 0.2:
            return well
        self._run.count("faults")
        return self._run.dice.choice(FAULTS)


class _Messages(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.exc_text or ''}")


class _Caller:
    """Calls an engine at random, and notes what must hold."""

    def __init__(self, engine: Engine, run: Run, messages: _Messages) -> None:
        self._engine, self._run, self._messages = engine, run, messages
        self._dice = random.Random(run.dice.random())
        self._texts: dict[str, str] = {}

    def call(self) -> None:
        """Make one call."""
        self._run.count("calls")
        chosen = self._dice.choice(
            (self._remember, self._remember, self._update, self._recall, self._recall, self._embed)
        )
        try:
            chosen()
        except RetentiveError as error:
            self._messages.lines.append(str(error))
            self._run.fail("failed calls", f"{chosen.__name__.strip('_')}: {type(error).__name__}: {error}")
        except Exception as error:
            self._run.fail("failed calls", f"{chosen.__name__.strip('_')}: {type(error).__name__}: {error}")

    def _text(self) -> str:
        return f"{SECRET}{self._dice.getrandbits(60):x} {words(self._dice, 6)}"

    def _remember(self) -> None:
        texts = [self._text() for _ in range(self._dice.choice((1, 1, 4)))]
        for memory in self._engine.remember_many([{"text": text} for text in texts]):
            self._texts[memory.id] = memory.text

    def _update(self) -> None:
        if self._texts:
            id = self._dice.choice(list(self._texts))
            self._texts[id] = self._engine.update(id, text=self._text()).text

    def _recall(self) -> None:
        if self._texts:
            id, text = self._dice.choice(list(self._texts.items()))
            found = self._engine.recall(text.split()[0], record_use=False)
            self._messages.lines.append(str(found.degraded_reason))
            if id not in [hit.id for hit in found]:
                self._run.fail("failed calls", f"a recall did not find {id} by its own word")

    def _embed(self) -> None:
        try:
            self._engine.embeddings.reembed()
        except Unavailable as error:
            self._messages.lines.append(str(error))
        self._messages.lines.append(str(self._engine.embeddings.problem()))

    def check(self) -> None:
        """With a service that works again, every memory gets the vector of its text."""
        self._engine.embeddings.reembed()
        records = list(all_records(self._engine.store))
        self._run.count("memories", len(records))
        if {record.memory.id: record.memory.text for record in records} != self._texts:
            self._run.fail("problems", "the store has other texts than those that were acknowledged")
        for record in records:
            if record.vectors is None or not is_vector_of(record, MODEL):
                has = "no vector" if record.vectors is None else "a vector of another text"
                self._run.fail("wrong vectors", f"{record.memory.id} has {has}")
        for problem in self._engine.check():
            self._run.fail("problems", problem)
        for line in self._messages.lines:
            if SECRET in line:
                self._run.fail("texts in messages", line[:300])


def attack(run: Run) -> None:
    """Call an engine while its embedder fails, then while nothing listens at its address."""
    messages = _Messages()
    logger = logging.getLogger("retentive")
    logger.addHandler(messages)
    propagate, logger.propagate = logger.propagate, False
    try:
        with embedding_service() as service:
            script = service.script = _Script(run)
            for number in run.rounds():
                messages.lines.clear()
                run_round(service.url, script, run, run.folder / f"{number}.db", messages)
    finally:
        logger.removeHandler(messages)
        logger.propagate = propagate


def run_round(url: str, script: _Script, run: Run, path: Path, messages: _Messages) -> None:
    """One store, on which calls are made with faults and without."""
    script.faulty = False
    dimension = run.dice.choice((None, DIMENSION))
    with Engine(open_store(str(path)), _open(url, dimension=dimension)) as engine:
        engine.embeddings.problem()  # a service whose first answer is wrong would teach a wrong dimension
        caller = _Caller(engine, run, messages)
        for _ in range(CALLS):
            script.faulty = True
            caller.call()
        script.faulty = False
        caller.check()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with Engine(open_store(str(path.with_suffix(".refused.db"))), _open(address, dimension=DIMENSION)) as engine:
        caller = _Caller(engine, run, messages)
        for _ in range(5):
            caller.call()
        engine.embeddings = type(engine.embeddings)(engine.store, _open(url, dimension=DIMENSION))
        caller.check()


def _open(url: str, *, dimension: int | None) -> RemoteEmbedder:
    return RemoteEmbedder(
        url, model="hashed", dimension=dimension, timeout=0.3, retries=1, wait_initial=0.001, deadline=2, open_seconds=0
    )


if __name__ == "__main__":
    main("embedder_faults")
