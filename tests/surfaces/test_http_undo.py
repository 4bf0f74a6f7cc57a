"""Forgetting taken back: a memory that is stored again under its id, as it was read, is as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retentive.engine import Engine
from retentive.inference.embedders import Embedder
from retentive.stores import open_store
from tests.conftest import NOW
from tests.surfaces.serving import client, problem

NOT_SENT = ("profile", "accessed", "accessCount", "contentHash")
"""What the service itself knows or counts anew."""


@pytest.fixture(params=["sqlite", "memory"])
def engine(request: pytest.FixtureRequest, open_engine: Callable[..., Engine], model: Embedder):
    if request.param == "sqlite":
        yield open_engine(model)
    else:
        with Engine(open_store("memory://"), model, clock=lambda: NOW) as engine:
            yield engine


@pytest.fixture
def asking(engine):
    return client(engine)


def converse(engine: Engine) -> list[str]:
    """A conversation of which the second turn has everything that a memory can have."""
    told = {"project": "home", "session": "2026-05-08"}
    everything = {
        "speaker": "Ana", "kind": "semantic", "importance": 0.9, "evergreen": True, "source": "notes/allergies.md",
        "metadata": {"someKey": {"snake_key": [1, None, "é"]}}, "position": 7,
        "created": "2026-05-08T13:56:00.123456+02:00", "occurred": "1999-12-31T23:59:59.999999-11:00",
    }  # fmt: skip
    turns = [{"text": "What can you not eat?"}, {"text": "Groundnuts — not even “traces” 🥜", **everything},
             {"text": "Then no satay for us"}]  # fmt: skip
    return [engine.remember(**turn, **told).id for turn in turns]


def recalled(asking) -> list[dict[str, Any]]:
    asked = {"query": "is anybody allergic to peanuts?"}
    return asking.post("/v1/recall/compare", json=asked).json()["a"]["hits"]  # which leaves no trace


def test_a_memory_comes_back_in_every_field_in_its_place_and_is_found_as_before(engine, asking):
    turns = converse(engine)
    address = f"/v1/memories/{turns[1]}"
    before = asking.get(address).json()
    # Where a vector's row is in its block changes the last bits of its product.
    found = [(hit["id"], pytest.approx(hit["score"], abs=1e-6)) for hit in recalled(asking)]
    sessions, listed = asking.get("/v1/sessions").json(), asking.get("/v1/memories").json()

    assert asking.delete(address).status_code == 204
    problem(asking.get(address), 404, "not_found")
    sent = {name: value for name, value in before.items() if name not in NOT_SENT}
    restored = asking.post("/v1/memories", json=sent)

    assert (restored.status_code, restored.json()) == (201, before)
    assert asking.get(address).json() == before
    assert asking.get("/v1/memories").json() == listed
    assert asking.get("/v1/sessions").json() == sessions
    assert [(hit["id"], hit["score"]) for hit in recalled(asking)] == found
    assert engine.check() == []


def test_every_field_that_is_read_can_be_sent_but_what_the_service_counts_itself(asking):
    document = asking.get("/openapi.json").json()["components"]["schemas"]

    assert set(document["Memory"]["properties"]) - set(document["MemoryIn"]["properties"]) == set(NOT_SENT)


def test_many_come_back_at_once_a_whole_session_too(engine, asking):
    converse(engine)
    before = asking.get("/v1/memories").json()["memories"]
    asking.post("/v1/memories/forget", json={"scope": {"session": "2026-05-08"}, "confirm": True})
    assert asking.get("/v1/memories").json()["memories"] == []

    sent = [{name: value for name, value in one.items() if name not in NOT_SENT} for one in before]
    asking.post("/v1/memories", json={"memories": sent})

    assert asking.get("/v1/memories").json()["memories"] == before


def test_what_was_judged_of_it_is_gone_and_the_document_says_so(engine, asking):
    turns = converse(engine)
    asking.post("/v1/judgements", json={"query": "any allergies?", "good": turns})
    before = asking.get(f"/v1/memories/{turns[1]}").json()

    asking.delete(f"/v1/memories/{turns[1]}")
    asking.post("/v1/memories", json={name: value for name, value in before.items() if name not in NOT_SENT})

    judged = asking.get("/v1/judgements").json()["judgements"]
    assert {one["memory"] for one in judged} == {turns[0], turns[2]}
    paths = asking.get("/openapi.json").json()["paths"]
    for said in (paths["/v1/memories/{id}"]["delete"], paths["/v1/memories/forget"]["post"]):
        assert "and their judgements" in said["description"] or "and its judgements" in said["description"]


def test_taking_it_back_twice_changes_nothing(engine, asking):
    converse(engine)
    before = asking.get("/v1/memories").json()["memories"]
    sent = {name: value for name, value in before[0].items() if name not in NOT_SENT}

    problem(asking.post("/v1/memories", json=sent), 409, "conflict")

    assert asking.get("/v1/memories").json()["memories"] == before
