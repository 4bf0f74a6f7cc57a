"""Sessions, projects, profiles, counts and judgements over HTTP."""

from __future__ import annotations

import pytest

from retentive.engine import Engine
from retentive.stores import open_store
from tests.surfaces.serving import client, problem, token, wrong_fields

QUERY = "What can Ana not eat?"


@pytest.fixture
def engine():
    with Engine(open_store("memory://")) as engine:
        yield engine


@pytest.fixture
def asking(engine):
    return client(engine)


def test_sessions_and_projects_are_listed_with_their_counts(asking, engine):
    engine.remember("one", session="a", project="p")
    engine.remember("two", session="b")

    sessions = asking.get("/v1/sessions").json()["sessions"]

    assert [(session["name"], session["project"], session["memories"]) for session in sessions] == [
        ("a", "p", 1),
        ("b", None, 1),
    ]
    assert [session["name"] for session in asking.get("/v1/sessions?project=p").json()["sessions"]] == ["a"]
    assert asking.get("/v1/projects").json() == {
        "projects": [{"name": "p", "profile": "default", "sessions": 1, "memories": 1}]
    }


def test_a_session_moves_to_a_project_and_out_of_it_whatever_its_name(asking, engine):
    engine.remember("one", session="2026/05/a b")

    moved = asking.patch("/v1/sessions/2026%2F05%2Fa%20b", json={"project": "garden"})

    assert (moved.json()["name"], moved.json()["project"]) == ("2026/05/a b", "garden")
    assert asking.patch("/v1/sessions/2026/05/a b", json={"project": None}).json()["project"] is None
    assert engine.sessions()[0].project is None


def test_a_session_that_is_not_there_cannot_move(asking):
    problem(asking.patch("/v1/sessions/none", json={"project": "p"}), 404, "not_found")
    assert wrong_fields(asking.patch("/v1/sessions/none", json={})) == ["project"]


def test_the_owner_sees_every_profile_and_a_token_its_own(engine):
    engine.remember("one", profile="ana")
    engine.remember("two", profile="bo", session="s")

    everybody = client(engine).get("/v1/profiles").json()["profiles"]
    own = client(engine, token=token(engine, "bo", "admin")).get("/v1/profiles").json()["profiles"]

    assert [profile["name"] for profile in everybody] == ["ana", "bo"]
    assert own == [{"name": "bo", "projects": 0, "sessions": 1, "memories": 1}]


def test_the_owner_counts_the_whole_store_and_a_token_its_own_profile(engine):
    engine.remember("one", profile="ana")
    engine.remember("two", profile="bo", kind="identity")

    everything = client(engine).get("/v1/stats").json()
    own = client(engine, token=token(engine, "bo", "admin")).get("/v1/stats").json()
    named = client(engine).get("/v1/stats", headers={"X-Profile": "ana"}).json()

    assert (everything["memories"], everything["profiles"], everything["unembedded"]) == (2, 2, 2)
    assert everything["byKind"] == {"episodic": 1, "semantic": 0, "identity": 1}
    assert own == {"profile": "bo", "memories": 1, "projects": 0, "sessions": 0}
    assert named["memories"] == 1


def test_a_profile_may_have_any_name(engine):
    headers = {"X-Profile": "Zoë 日本".encode()}
    stored = client(engine).post("/v1/memories", json={"text": "one"}, headers=headers).json()

    assert stored["profile"] == "Zoë 日本"
    assert [profile.name for profile in engine.profiles()] == ["Zoë 日本"]
    assert wrong_fields(client(engine).get("/v1/stats", headers={"X-Profile": ""})) == ["X-Profile"]


def test_judgements_are_kept_replaced_listed_and_taken_back(asking, engine):
    good, bad = engine.remember("peanuts"), engine.remember("the cello")
    said = {"query": f" {QUERY} ", "good": {good.id: 3}, "bad": [bad.id], "askedAt": "2026-05-08"}

    kept = asking.post("/v1/judgements", json=said)

    assert kept.status_code == 201
    judged = {one["memory"]: one["relevance"] for one in asking.get("/v1/judgements").json()["judgements"]}
    assert judged == {good.id: 3, bad.id: 0}
    asking.post("/v1/judgements", json={"query": QUERY, "good": [bad.id]})
    assert [judgement.relevance for judgement in engine.judgements.list()] == [3, 1]
    named = {"query": QUERY, "memory": bad.id}
    assert asking.request("DELETE", "/v1/judgements", json=named).status_code == 204
    problem(asking.request("DELETE", "/v1/judgements", json=named), 404, "not_found")
    assert [judgement.memory for judgement in engine.judgements.list()] == [good.id]


def test_what_was_asked_in_a_project_is_judged_there(asking, engine):
    stored = engine.remember("peanuts", project="p")
    asking.post("/v1/judgements", json={"query": QUERY, "good": [stored.id], "project": "p"})

    named = {"query": QUERY, "memory": stored.id}
    assert len(asking.get("/v1/judgements?project=p").json()["judgements"]) == 1
    assert asking.get("/v1/judgements?project=q").json()["judgements"] == []
    problem(asking.request("DELETE", "/v1/judgements", json=named), 404, "not_found")
    assert asking.request("DELETE", "/v1/judgements", json={**named, "project": "p"}).status_code == 204


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "good"),
        ({"good": [], "bad": []}, "good"),
        ({"good": ["ID"], "bad": ["ID"]}, "bad"),
        ({"good": {"ID": 4}}, "good.ID"),
        ({"good": {"ID": True}}, "good.ID"),
        ({"good": [1]}, "good"),
        ({"good": "ID"}, "good"),
        ({"bad": ["x"]}, "bad.0"),
        ({"good": ["ID"], "askedAt": "soon"}, "askedAt"),
    ],
)
def test_what_is_wrong_with_a_judgement_is_named_and_nothing_is_kept(asking, engine, body, field):
    stored = engine.remember("peanuts")

    def filled(value):
        if isinstance(value, dict):
            return {filled(key): filled(item) for key, item in value.items()}
        return [filled(item) for item in value] if isinstance(value, list) else stored.id if value == "ID" else value

    answer = asking.post("/v1/judgements", json={"query": QUERY, **filled(body)})

    assert wrong_fields(answer) == [field.replace("ID", stored.id)]
    assert engine.judgements.list() == []


def test_one_memory_that_is_not_there_leaves_all_unjudged(asking, engine):
    stored = engine.remember("peanuts")
    good = [stored.id, "01984c3e-5a60-7c1f-9d3b-2f7a41c08e55"]

    problem(asking.post("/v1/judgements", json={"query": QUERY, "good": good}), 404, "not_found")

    assert engine.judgements.list() == []


def test_the_timeline_counts_the_profiles_own_memories_by_kind(engine):
    asking = client(engine)
    engine.remember("one", occurred="2026-05-08", project="garden")
    engine.remember("two", occurred="2026-05-08T23:59:59Z", kind="semantic")
    engine.remember("theirs", occurred="2024-01-01", profile="other")

    day = {"start": "2026-05-08", "memories": 2, "byKind": {"episodic": 1, "semantic": 1, "identity": 0}}
    assert asking.get("/v1/timeline").json() == {
        "by": "day", "first": "2026-05-08", "last": "2026-05-08", "buckets": [day],
    }  # fmt: skip
    assert asking.get("/v1/timeline", params={"by": "year"}).json()["buckets"][0]["start"] == "2026-01-01"
    assert asking.get("/v1/timeline", params={"project": "garden"}).json()["buckets"][0]["memories"] == 1
    assert asking.get("/v1/timeline", headers={"X-Profile": "nobody"}).json() == {
        "by": "day", "first": None, "last": None, "buckets": [],
    }  # fmt: skip
    assert wrong_fields(asking.get("/v1/timeline", params={"by": "week"})) == ["by"]
