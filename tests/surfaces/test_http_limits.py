"""Bounds on the work of one request and of one caller: over a real server, with the real model."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from retentive.engine import Engine
from retentive.inference.embedders import EmbedderWrapper
from retentive.inference.embedders.onnx import open_memory_small
from retentive.server.connections import TimedProtocol
from retentive.server.http.app import create_app
from retentive.server.run import _Server
from retentive.settings import ServerSettings
from tests.surfaces.serving import client, listening, problem, token

MEGABYTE = 1_000_000


class CountingTokenizer:
    """The real tokenizer; it counts the characters that reach it, and waits when told to."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.characters = 0
        self.reached = threading.Event()
        self.released = threading.Event()
        self.released.set()

    def encode(self, text: str, **options: Any) -> Any:
        self._count(len(text))
        return self._inner.encode(text, **options)

    def encode_batch_fast(self, texts: list[str]) -> Any:
        self._count(sum(map(len, texts)))
        return self._inner.encode_batch_fast(texts)

    def _count(self, characters: int) -> None:
        self.characters += characters
        self.reached.set()
        self.released.wait(60)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture(scope="module")
def tokenizer() -> Iterator[tuple[Any, CountingTokenizer]]:
    embedder = open_memory_small()
    counting = CountingTokenizer(embedder._tokenizer)
    embedder.__dict__["_loaded"] = embedder._loaded._replace(tokenizer=counting)
    yield embedder, counting
    embedder.close()


@pytest.fixture
def counted(open_engine, tokenizer) -> tuple[Engine, CountingTokenizer]:
    embedder, counting = tokenizer
    engine = open_engine(embedder)
    engine.remember("The spare key is under the blue pot.", session="s")
    counting.characters = 0
    counting.reached.clear()
    return engine, counting


def post(port: int, path: str, body: Any, secret: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def health(port: int, timeout: float = 120) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("GET", "/healthz")
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def test_a_message_of_15_megabytes_is_read_in_part_and_health_is_answered_meanwhile(counted):
    engine, counting = counted
    secret = token(engine, access="read")
    message = {"role": "user", "content": "Where is the spare key? " + "word " * 3 * MEGABYTE}
    app = create_app(engine, engine.settings.model_copy(update={"server": ServerSettings()}))
    with listening(app, lifespan="on") as port, ThreadPoolExecutor(1) as threads:
        counting.released.clear()
        asked = threads.submit(post, port, "/v1/context", {"messages": [message], "session": "s"}, secret)
        assert counting.reached.wait(60)

        assert health(port) == (200, {"status": "ok"})

        counting.released.set()
        status, body = asked.result(120)

    assert (status, len(body["items"])) == (200, 1)
    assert counting.characters < MEGABYTE / 5


def test_a_query_of_10_megabytes_is_read_in_part_on_every_surface_that_takes_it(counted):
    engine, counting = counted
    query = "Where is the spare key? " + "word " * 2 * MEGABYTE
    arguments = {"name": "memory_recall", "arguments": {"query": query}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments}
    headers = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"}
    with client(engine, token=token(engine, access="read")) as asking:
        over_mcp = asking.post("/mcp", json=call, headers=headers)
        over_http = asking.post("/v1/recall", json={"query": query})
    found = engine.recall(query)

    assert "blue pot" in over_mcp.text
    problem(over_http, 422, "invalid")
    assert [hit.memory.text for hit in found] == ["The spare key is under the blue pot."]
    assert counting.characters < MEGABYTE / 2


def test_memories_that_do_not_fit_the_budget_are_not_tokenised(counted):
    engine, counting = counted
    engine = Engine(engine.store, None)  # writing them is not what is measured
    for number in range(12):
        engine.remember(f"long {number} " + "word " * 50_000, session="s")
    engine.embeddings = counted[0].embeddings
    with client(engine, token=token(engine, access="read")) as asking:
        answer = asking.post("/v1/context", json={"query": "long words", "session": "s", "recent": 12, "budget": 500})

    assert answer.status_code == 200
    assert answer.json()["tokenCount"] <= 500
    assert counting.characters < MEGABYTE / 2


class Waiting(EmbedderWrapper):
    """An embedder that waits until it is released."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.entered = threading.Semaphore(0)
        self.released = threading.Event()

    def embed(self, texts):
        self.entered.release()
        self.released.wait(60)
        return super().embed(texts)

    def embed_queries(self, texts):
        return self.embed(texts)


def test_a_token_with_too_many_requests_in_progress_gets_429_and_others_are_served(open_engine, model):
    waiting = Waiting(model)
    engine = open_engine(waiting)
    greedy, other = token(engine, "a", "read"), token(engine, "b", "read")
    settings = ServerSettings(max_requests_per_token=2)
    app = create_app(engine, engine.settings.model_copy(update={"server": settings}))
    recall = {"query": "anything", "tuning": "semantic-only"}
    with listening(app) as port, ThreadPoolExecutor(2) as threads:
        running = [threads.submit(post, port, "/v1/recall", recall, greedy) for _ in range(2)]
        for _ in running:
            assert waiting.entered.acquire(timeout=60)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {greedy}"}
        connection.request("POST", "/v1/recall", json.dumps(recall), headers)
        refused = connection.getresponse()
        reason = json.loads(refused.read())
        connection.close()
        others = post(port, "/v1/recall", {"query": "anything", "tuning": "keyword-only"}, other)
        alive = health(port)
        waiting.released.set()
        finished = [one.result(60)[0] for one in running]
        again = post(port, "/v1/recall", recall, greedy)

    assert (refused.status, refused.headers["Retry-After"], reason["code"]) == (429, "1", "too_many_requests")
    assert (others[0], alive[0], finished, again[0]) == (200, 200, [200, 200], 200)


def test_a_costly_recall_or_a_measurement_counts_as_several_requests_of_its_token(open_engine, model):
    waiting = Waiting(model)
    engine = open_engine(waiting)
    secret = token(engine, "a", "read")
    app = create_app(engine, engine.settings.model_copy(update={"server": ServerSettings(max_requests_per_token=4)}))
    costly = {"query": "anything", "tuning": {"judge_depth": 100}}
    with listening(app) as port, ThreadPoolExecutor(1) as threads:
        running = threads.submit(post, port, "/v1/recall", costly, secret)
        assert waiting.entered.acquire(timeout=60)
        refused = [
            post(port, "/v1/recall", {"query": "anything"}, secret)[0],
            post(port, "/v1/measure", {}, secret)[0],
        ]
        waiting.released.set()
        assert running.result(60)[0] == 200
        assert post(port, "/v1/recall", costly, secret)[0] == 200

    assert refused == [429, 429]


def test_a_batch_is_not_stored_after_its_client_has_left(open_engine, model):
    waiting = Waiting(model)
    engine = open_engine(waiting)
    body = json.dumps({"memories": [{"text": f"Box {number} is red"} for number in range(200)]})
    app = create_app(engine, engine.settings.model_copy(update={"server": ServerSettings()}))
    ended = threading.Event()
    app.state.work.leave = lambda scope: scope["path"] == "/v1/memories" and ended.set()
    with listening(app) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/memories", body, {"Content-Type": "application/json"})
        assert waiting.entered.acquire(timeout=60)
        connection.close()
        assert health(port)[0] == 200  # by now, the event loop has seen that the connection is closed
        waiting.released.set()
        assert ended.wait(60)

        assert engine.stats().memories == 0
        assert not waiting.entered.acquire(blocking=False)


def test_a_recall_whose_ranking_takes_too_long_is_503(open_engine, monkeypatch):
    engine = open_engine(None)
    engine.remember("The key is under the pot", source="notes/1.md")
    monkeypatch.setattr("retentive.pipeline.recall.ORDER_SECONDS", -1)
    with client(engine) as asking:
        problem(asking.post("/v1/recall", json={"query": "key"}), 503, "unavailable")


def test_a_tuning_has_at_most_100_source_patterns_of_500_characters(open_engine):
    with client(open_engine(None)) as asking:
        many = {"sourceWeights": {f"*{number}*": 1 for number in range(101)}}
        long = {"sourceWeights": {"*" * 501: 1}}
        for weights in (many, long):
            problem(asking.post("/v1/recall", json={"query": "key", "tuning": weights}), 422, "invalid")
            problem(asking.patch("/settings", json=weights), 422, "invalid")


# Connections


@contextmanager
def serving(app: FastAPI, **options: Any) -> Iterator[int]:
    """Run an application on our own server."""
    started = threading.Event()
    server = _Server(uvicorn.Config(app, log_config=None, lifespan="off", **options), started.set)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert started.wait(60)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_connection_whose_request_does_not_come_is_closed(open_engine, sent):
    class Impatient(TimedProtocol):
        request_seconds = 0.2

    with serving(create_app(open_engine(None)), http=Impatient) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(sent)
            while connection.recv(4096):  # until it is closed; the time-out of the socket fails the test
                pass
        assert health(port) == (200, {"status": "ok"})


def test_a_connection_in_use_is_not_closed_by_the_time_limit(open_engine, model):
    waiting = Waiting(model)
    engine = open_engine(waiting)

    class Impatient(TimedProtocol):
        request_seconds = 0.05

    with serving(create_app(engine), http=Impatient) as port, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(post, port, "/v1/recall", {"query": "x", "tuning": "semantic-only"}, token(engine))
        assert waiting.entered.acquire(timeout=60)
        expired = threading.Event()
        threading.Timer(0.2, expired.set).start()
        assert expired.wait(60)  # four times the limit
        waiting.released.set()
        assert asked.result(60)[0] == 200
