"""The status of the service: its store and models, degraded recalls, and latency."""

from __future__ import annotations

from dataclasses import replace

import pytest

import retentive
from retentive.engine import Engine
from retentive.models import Recall
from retentive.server.http.telemetry import RECENT_RECALLS, RecentStats
from retentive.settings import LlmSettings, Settings
from retentive.stores import open_store
from tests.surfaces.serving import client, token


def test_it_says_what_recalls_took_by_stage_and_what_they_lacked(engine):
    engine.remember("the cat eats at eight")
    asking = client(engine)
    before = asking.get("/v1/status").json()
    for query in ("cat", "eight"):
        asking.post("/v1/recall", json={"query": query})

    status = asking.get("/v1/status").json()

    assert before["latency"] == {"recalls": 0, "whole": None, "stages": {}}
    assert (status["version"], status["memories"], status["unembedded"]) == (retentive.__version__, 1, 0)
    assert (status["degraded"], status["degradedReason"], status["degradedRecalls"]) == (False, None, {})
    assert (status["recalls"], status["errors"]) == (2, 0)
    assert status["model"]["dimension"] == 384
    assert status["latency"]["recalls"] == 2
    assert 0 < status["latency"]["whole"]["p50"] <= status["latency"]["whole"]["p95"]
    assert {"embed", "keyword", "semantic"} <= set(status["latency"]["stages"])
    assert status["uptimeSeconds"] >= before["uptimeSeconds"]


def test_recall_that_lacks_its_meaning_is_said_to_with_the_reason():
    with Engine(open_store("memory://")) as engine:
        engine.remember("the cat eats at eight")
        asking = client(engine)
        asking.post("/v1/recall", json={"query": "cat"})

        status = asking.get("/v1/status").json()

    assert (status["degraded"], status["degradedReason"]) == (True, "no embedder is configured")
    assert status["degradedRecalls"] == {"keyword-only": 1}
    assert status["model"] is None


@pytest.mark.parametrize(
    ("address", "name"), [("/home/ana/private/store.db", "store.db"), ("sqlite:////home/ana/store.db", "store.db"),
                          ("memory://", "memory://"), ("postgresql://ana:x@db/memories?host=/home/ana", "postgresql://memories"),
                          ("postgresql://ana:s#e/c@host/x", "postgresql://x")],
)  # fmt: skip
def test_it_names_the_stores_file_and_not_where_it_is(address, name):
    with Engine(open_store("memory://"), settings=Settings(store=address)) as engine:
        answer = client(engine).get("/v1/status")

    assert answer.json()["store"] == name
    assert "ana" not in answer.text


def test_a_token_is_told_of_its_own_recalls_and_nothing_of_the_memories_and_recalls_of_others(engine):
    engine.remember("mine", profile="me")
    engine.remember("theirs", profile="them")
    asking = client(engine, token=token(engine, "me", "admin"))
    asking.post("/v1/recall", json={"query": "mine"})
    for _ in range(3):
        engine.recall("theirs", profile="them")

    status = asking.get("/v1/status").json()

    assert (status["profile"], status["memories"]) == ("me", 1)
    assert (status["recalls"], status["degradedRecalls"], status["latency"]["recalls"]) == (1, {}, 1)
    assert {status[name] for name in ("unembedded", "errors")} == {None}
    assert client(engine).get("/v1/status").json()["recalls"] == 0  # another application on the same engine


def test_figures_are_of_the_last_recalls_only_and_of_the_stages_that_ran():
    stats = RecentStats()
    old = Recall("?", (), (), elapsed_ms=10_000.0, stages={"judge": 9_000.0})
    stats.add_recall(old)
    for ms in range(1, RECENT_RECALLS + 1):
        stats.add_recall(replace(old, elapsed_ms=float(ms), stages={"keyword": ms / 2}))

    service = stats.statistics()
    latency = service.latency

    assert latency.recalls == RECENT_RECALLS
    assert latency.whole.p50 == (RECENT_RECALLS + 1) / 2
    assert set(latency.stages) == {"keyword"}
    assert service.recalls == RECENT_RECALLS + 1


def test_it_names_the_llm_of_chat_without_its_address_or_key():
    llm = LlmSettings(url="http://127.0.0.1:9/v1", model="small", api_key="secret")
    with (
        Engine(open_store("memory://")) as plain,
        Engine(open_store("memory://"), settings=Settings(store="", llm=llm)) as chatting,
    ):
        assert client(plain).get("/v1/status").json()["llm"] is None
        assert client(chatting).get("/v1/status").json()["llm"] == {"model": "small", "extractFacts": False}
