"""Comparing embedding models: the memories are embedded with another model in a copy, and the store is only read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from retentive.engine import Engine
from retentive.errors import Conflict
from retentive.inference.embedders import Embedder, EmbedderWrapper, Matrix
from retentive.server.http import embedder_copies
from retentive.server.http.background import BackgroundWork
from retentive.settings import load_settings
from retentive.stores import open_store
from tests.surfaces.service import until
from tests.surfaces.serving import client, problem, token

ALLERGY = "I must not eat groundnuts"
QUERY = "Any allergies?"


@pytest.fixture
def keyword_engine() -> Iterator[Engine]:
    """An engine without an embedder, so that the included model is another one."""
    with Engine(open_store("memory://")) as engine:
        yield engine


def embed(asking: TestClient, **headers: str) -> dict[str, Any]:
    """Embed the memories with the included model, and wait for it."""
    begun = asking.post("/v1/embedders", json={"name": "memory-small"}, headers=headers)
    assert (begun.status_code, begun.json()["state"]) == (202, "running"), begun.text
    seen: list[dict[str, Any]] = []
    until(lambda: seen.append(state(asking, **headers)) or seen[-1]["state"] != "running")
    return seen[-1]


def state(asking: TestClient, **headers: str) -> dict[str, Any]:
    listed = asking.get("/v1/embedders", headers=headers).json()["embedders"]
    found: dict[str, Any] = next(one for one in listed if one["name"] == "memory-small")
    return found


def compared(asking: TestClient, **headers: str) -> list[str]:
    """The texts of the hits that the included model finds."""
    answer = asking.post(
        "/v1/recall/compare", json={"query": QUERY, "embedderB": "memory-small"}, headers=headers
    ).json()
    assert answer["a"]["hits"] == []  # no word of the query is stored
    return [hit["memory"]["text"] for hit in answer["b"]["hits"]]


def test_two_models_are_compared_on_a_query_and_on_the_judgements(keyword_engine):
    allergy = keyword_engine.remember(ALLERGY)
    keyword_engine.judge(QUERY, good=[allergy.id])
    with client(keyword_engine) as asking:
        asking_first = {"query": QUERY, "embedderB": "memory-small"}
        problem(asking.post("/v1/recall/compare", json=asking_first), 409, "conflict")
        problem(asking.post("/v1/measure", json={"embedderB": "memory-small"}), 409, "conflict")

        done = embed(asking)

        assert (done["state"], done["done"], done["total"], done["memories"]) == ("ready", 1, 1, 1)
        assert compared(asking) == [ALLERGY]
        measured = asking.post("/v1/measure", json={"embedderB": "memory-small"}).json()
    assert (measured["a"]["MRR"], measured["b"]["MRR"]) == (0.0, 1.0)
    assert measured["p"]["MRR"] == 1.0
    assert keyword_engine.store.model() is None
    assert keyword_engine.get(allergy.id).access_count == 0


def test_what_was_forgotten_is_not_shown_and_an_update_copies_what_is_new(keyword_engine):
    first = keyword_engine.remember(ALLERGY)
    with client(keyword_engine) as asking:
        embed(asking)
        keyword_engine.forget(first.id)
        keyword_engine.remember("Nuts make me ill")
        assert compared(asking) == []

        done = embed(asking)

        assert (done["done"], done["memories"]) == (1, 1)
        assert compared(asking) == ["Nuts make me ill"]
        again = embed(asking)
        assert (again["state"], again["done"], again["total"]) == ("ready", 0, 0)


def test_each_profile_has_its_own_copy_and_only_an_administrator_makes_one(keyword_engine):
    keyword_engine.remember(ALLERGY, profile="me")
    keyword_engine.remember("They must not eat shellfish", profile="them")
    with client(keyword_engine) as asking:
        mine = {"Authorization": f"Bearer {token(keyword_engine, 'me', 'read')}"}
        theirs = {"Authorization": f"Bearer {token(keyword_engine, 'them', 'admin')}"}
        refused = asking.post("/v1/embedders", json={"name": "memory-small"}, headers=mine)
        embed(asking, **theirs)

        problem(refused, 403, "not_allowed")
        assert compared(asking, **theirs) == ["They must not eat shellfish"]
        assert state(asking, **mine)["state"] == "absent"
        body = {"query": QUERY, "embedderB": "memory-small"}
        problem(asking.post("/v1/recall/compare", json=body, headers=mine), 409, "conflict")


class WaitingEmbedder(EmbedderWrapper):
    """Embeds nothing until an event, so that a test can act before. It does not close the shared model."""

    def __init__(self, inner: Embedder, event: threading.Event) -> None:
        super().__init__(inner)
        self._event = event

    def embed(self, texts: Sequence[str]) -> Matrix:
        assert self._event.wait(60)
        return super().embed(texts)

    def close(self) -> None:
        pass


def test_it_stops_when_it_is_told_to_and_continues_later(keyword_engine, model, monkeypatch):
    keyword_engine.remember_many([{"text": f"note {number}"} for number in range(100)])
    told = threading.Event()
    stop = BackgroundWork.stop

    def stop_and_tell(work: BackgroundWork) -> None:
        work._stop.set()
        told.set()
        stop(work)

    monkeypatch.setattr(BackgroundWork, "stop", stop_and_tell)
    monkeypatch.setattr(embedder_copies, "open_embedder", lambda settings: WaitingEmbedder(model, told))
    with client(keyword_engine) as asking:
        asking.post("/v1/embedders", json={"name": "memory-small"})
        second = asking.post("/v1/embedders", json={"name": "memory-small"})
        until(lambda: state(asking)["total"] == 100)
        asking.delete("/v1/embedders")
        until(lambda: state(asking)["state"] == "stopped")
        stopped = state(asking)
        done = embed(asking)

    problem(second, 409, "conflict")
    assert 0 < stopped["done"] < 100
    assert (done["state"], done["memories"], done["total"]) == ("ready", 100, 100 - stopped["done"])


def test_the_copy_is_deleted_when_the_service_ends(keyword_engine, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keyword_engine.remember(ALLERGY)
    with client(keyword_engine) as asking:
        embed(asking)
        assert list(tmp_path.glob("retentive-service-*"))

    assert not list(tmp_path.glob("retentive-service-*"))


def test_what_cannot_be_compared_is_refused_with_the_reason(engine, keyword_engine, monkeypatch):
    engine.remember(ALLERGY)
    listed = client(engine).get("/v1/embedders").json()
    assert listed["current"] == "memory-small"
    assert "memory-small" not in [one["name"] for one in listed["embedders"]]
    problem(client(engine).post("/v1/embedders", json={"name": "memory-small"}), 404, "not_found")
    problem(client(engine).post("/v1/embedders", json={"name": "http://127.0.0.1:9/v1"}), 404, "not_found")

    keyword_engine.remember(ALLERGY)
    monkeypatch.setattr(embedder_copies, "MAX_MEMORIES", 0)
    refused = client(keyword_engine).post("/v1/embedders", json={"name": "memory-small"})
    assert "up to 0 memories; this profile has 1" in problem(refused, 409, "conflict")["detail"]
    workers = embedder_copies.EmbedderCopies(keyword_engine, keyword_engine.settings, workers=True)
    with pytest.raises(Conflict, match="several workers"):
        workers.start("default", "memory-small")


def test_another_embedder_is_configured_by_the_environment():
    environment = {
        "RETENTIVE_COMPARE_EMBEDDER": "http://127.0.0.1:9/v1",
        "RETENTIVE_COMPARE_EMBEDDER_MODEL": "large",
        "RETENTIVE_COMPARE_EMBEDDER_RETRIES": "0",
    }
    settings = load_settings(environment=environment)
    with Engine(open_store("memory://"), settings=settings) as engine, client(engine) as asking:
        engine.remember(ALLERGY)
        names = [one["name"] for one in asking.get("/v1/embedders").json()["embedders"]]
        asking.post("/v1/embedders", json={"name": "large"})
        found: list[dict[str, Any]] = []
        until(
            lambda: found.append(asking.get("/v1/embedders").json()["embedders"][-1]) or found[-1]["state"] != "running"
        )

    assert names[-1] == "large"
    assert found[-1]["state"] == "failed"
    assert "could not be reached" in found[-1]["detail"]
