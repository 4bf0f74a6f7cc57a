"""Settings over HTTP: changed at run time for every process on the store, with undo."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from retentive.engine import Engine
from retentive.ranking import Tuning, preset
from retentive.server.http.app import create_app
from retentive.settings import LlmSettings, Settings
from retentive.stores import open_store
from tests.surfaces.serving import client, listening, problem, token, wrong_fields

CURL = 'curl -X PATCH http://localhost:4000/settings -H "Content-Type: application/json" -d '
CALLS = {
    CURL + """'{"keywordWeight": 1.0}'""": {"semanticWeight": 1.0, "keywordWeight": 1.0},
    CURL + """'{"semanticWeight": 0.5, "keywordWeight": 2.0}'""": {"semanticWeight": 0.5, "keywordWeight": 2.0},
}


@pytest.fixture
def engine():
    with Engine(open_store("memory://")) as engine:
        yield engine


def test_both_curl_calls_work_as_they_are_written_on_a_real_server(engine):
    with listening(create_app(engine)) as port:
        for call, expected in CALLS.items():
            command = shlex.split(call.replace(":4000", f":{port}"))
            done = subprocess.run(
                [*command, "--silent", "--show-error", "--fail"],
                capture_output=True,
                check=True,
                env={**os.environ, "no_proxy": "*"},
            )
            answered = json.loads(done.stdout)
            assert {name: answered[name] for name in expected} == expected
            assert engine.tuning.current().keyword_weight == expected["keywordWeight"]


def test_settings_are_every_parameter_in_camel_case(engine):
    settings = client(engine).get("/settings").json()

    assert settings == Tuning().model_dump(by_alias=True)
    assert {"semanticWeight", "keywordWeight", "rrfK", "fusion", "halfLifeDays"} <= set(settings)


def test_if_match_changes_and_undoes_settings_only_as_they_were_read(engine):
    asking = client(engine)
    read = asking.get("/settings").headers["etag"]

    first = asking.patch("/settings", json={"keywordWeight": 2}, headers={"If-Match": read})
    refused = [
        asking.patch("/settings", json={"rrfK": 7}, headers={"If-Match": read}),
        asking.post("/settings/undo", headers={"If-Match": read}),
    ]

    assert first.headers["etag"] == asking.get("/settings").headers["etag"] != read
    for response in refused:
        assert "the tuning has changed since it was read" in problem(response, 412, "version_conflict")["detail"]
    assert engine.tuning.saved() == {"keyword_weight": 2}
    undone = asking.post("/settings/undo", headers={"If-Match": first.headers["etag"]})
    assert (undone.status_code, undone.headers["etag"], engine.tuning.saved()) == (200, read, {})


def test_a_change_holds_for_the_very_next_recall(engine):
    asking = client(engine)
    engine.remember("hello there")

    asking.patch("/settings", json={"keyword_weight": 3.5})

    retrievers = asking.post("/v1/recall", json={"query": "hello"}).json()["retrievers"]
    assert {retriever["name"]: retriever["weight"] for retriever in retrievers}["keyword"] == 3.5


def test_a_change_is_seen_by_other_processes_on_the_store_and_survives_a_restart(open_engine):
    one, other = client(open_engine()), client(open_engine())
    assert other.get("/settings").json()["rrfK"] == 60

    one.patch("/settings", json={"rrfK": 7})

    assert other.get("/settings").json()["rrfK"] == 7
    assert client(open_engine()).get("/settings").json()["rrfK"] == 7


def test_null_takes_a_parameter_back_to_its_default(engine):
    asking = client(engine)
    asking.patch("/settings", json={"keywordWeight": 5, "rrfK": 9})

    answered = asking.patch("/settings", json={"keywordWeight": None}).json()

    assert (answered["keywordWeight"], answered["rrfK"]) == (Tuning().keyword_weight, 9)
    assert engine.tuning.saved() == {"rrf_k": 9}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"keywordWeight": 5.1}, "keywordWeight"),
        ({"keywordWeight": -1}, "keywordWeight"),
        ({"keywordWeight": "2"}, "keywordWeight"),
        ({"keywordWeight": True}, "keywordWeight"),
        ({"judgeDepth": 0.5}, "judgeDepth"),
        ({"fusion": "magic"}, "fusion"),
        ({"keywordWait": 1}, "keywordWait"),
        ({"sourceWeights": {"notes/*": -1}}, "sourceWeights.notes/*"),
        ({"keywordWeight": 1, "keyword_weight": 2}, "keyword_weight"),
        ({"hybrid": {"vectorWeight": -1}}, "hybrid.vectorWeight"),
        ({"preset": "none-such"}, "preset"),
        ({"hybrid": {"fusion": "full"}}, "hybrid.fusion"),
        ([], "body"),
    ],
)
def test_a_wrong_parameter_is_named_and_nothing_is_changed(engine, body, field):
    asking = client(engine)
    good = {"rrfK": 9, **body} if isinstance(body, dict) else body

    assert wrong_fields(asking.patch("/settings", json=good)) == [field]

    assert engine.tuning.saved() == {}
    assert asking.get("/settings/history").json() == {"changes": []}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"hybrid": {"fusion": "rrf", "vectorWeight": 0.6, "textWeight": 0.4, "rrfK": 20}},
            preset("classic-rrf").with_parameters(rrf_k=20),
        ),
        ({"hybrid": {"fusion": "weighted", "vectorWeight": 70, "textWeight": 30}}, preset("weighted")),
        ({"hybrid": {}}, preset("weighted")),
        ({"hybrid": {"enabled": False}}, preset("semantic-only")),
        ({"hybrid": None}, Tuning()),
        ({"preset": "classic-rrf"}, preset("classic-rrf")),
        ({"preset": "classic-rrf", "keywordWeight": 2}, preset("classic-rrf").with_parameters(keyword_weight=2)),
        ({"preset": "default"}, Tuning()),
        ({"preset": None}, Tuning()),
    ],
)
def test_a_preset_or_a_hybrid_block_replaces_the_whole_tuning(engine, body, expected):
    asking = client(engine)
    asking.patch("/settings", json={"fusion": "relative", "quality": "add", "decay": True})

    found = asking.patch("/settings", json=body).json()

    assert found == expected.model_dump(by_alias=True)
    assert asking.get("/settings").json() == found
    assert engine.tuning.current() == expected
    asking.post("/settings/undo")
    assert engine.tuning.saved() == {"fusion": "relative", "quality": "add", "decay": True}


def test_a_recall_takes_a_hybrid_block_and_rrf_ignores_its_weights(engine):
    engine.remember("the key is under the pot")
    block = {"fusion": "rrf", "vectorWeight": 0.7, "textWeight": 0.3}

    found = client(engine).post("/v1/recall", json={"query": "key", "tuning": {"hybrid": block}}).json()

    keyword = next(reason for reason in found["hits"][0]["why"] if reason["step"] == "keyword")
    assert keyword["change"] == pytest.approx(1 / 61)
    assert {reason["step"] for reason in found["hits"][0]["why"]} <= {"relevance", "keyword", "semantic"}


def test_a_parameter_that_the_configuration_sets_cannot_be_turned_and_the_answer_says_so():
    settings = Settings(store="memory://", tuning={"keywordWeight": 0.5})
    with Engine(open_store("memory://"), settings=settings) as engine:
        asking = client(engine)

        refused = problem(asking.patch("/settings", json={"keywordWeight": 2, "rrfK": 9}), 409, "conflict")

        assert refused["detail"].startswith("keywordWeight: set by the service's configuration")
        assert engine.tuning.saved() == {}
        assert asking.get("/settings").json()["keywordWeight"] == 0.5
        parameters = asking.get("/settings/schema").json()["properties"]
        assert [name for name, parameter in parameters.items() if parameter.get("readOnly")] == ["keywordWeight"]
        assert asking.patch("/settings", json={"rrfK": 9}).json()["rrfK"] == 9


def test_the_schema_gives_every_parameter_its_range_default_and_meaning(engine):
    parameters = client(engine).get("/settings/schema").json()["properties"]

    assert set(parameters) == set(client(engine).get("/settings").json())
    weight = parameters["semanticWeight"]
    assert (weight["minimum"], weight["maximum"], weight["default"]) == (0, 5, 1.0)
    assert all(parameter["description"] for parameter in parameters.values())


def test_changes_are_remembered_with_who_made_them_and_any_can_be_undone(engine):
    asking = client(engine, token=token(engine, access="admin"))
    for weight in (1, 2, 3):
        asking.patch("/settings", json={"keywordWeight": weight})
    changes = asking.get("/settings/history").json()["changes"]
    assert [(change["id"], change["after"]) for change in changes] == [
        (3, {"keywordWeight": 3}),
        (2, {"keywordWeight": 2}),
        (1, {"keywordWeight": 1}),
    ]
    assert all(change["by"] == f"token {engine.tokens.list()[0].id}" for change in changes)

    assert asking.post("/settings/undo").json()["keywordWeight"] == 2
    assert asking.post("/settings/undo", json={"id": 1}).json()["keywordWeight"] == Tuning().keyword_weight
    assert asking.post("/settings/undo").json()["keywordWeight"] == 2  # an undoing can be undone
    problem(asking.post("/settings/undo", json={"id": 99}), 404, "not_found")


def test_with_nothing_changed_there_is_nothing_to_undo(engine):
    problem(client(engine).post("/settings/undo"), 404, "not_found")


def test_presets_are_whole_tunings_by_name(engine):
    presets = client(engine).get("/settings/presets").json()

    assert presets["steep-rrf"]["rrfK"] == 4
    assert presets["default"] == Tuning().model_dump(by_alias=True)


@pytest.mark.parametrize("access", ["read", "write"])
def test_only_an_administrator_may_turn_parameters(engine, access):
    asking = client(engine, token=token(engine, access=access))

    assert asking.get("/settings").status_code == 200
    problem(asking.patch("/settings", json={"rrfK": 9}), 403, "not_allowed")
    problem(asking.post("/settings/undo"), 403, "not_allowed")
    assert engine.tuning.saved() == {}


def test_the_token_budget_and_the_recent_turns_of_chat_are_settings():
    settings = Settings(store="memory://", llm=LlmSettings(context_tokens=300, recent_turns=1))
    with Engine(open_store("memory://"), settings=settings) as engine:
        engine.remember_many([{"text": f"llama {number}", "session": "s"} for number in range(3)])

        found = client(engine).post("/v1/context", json={"query": "anything", "session": "s"}).json()

    assert (sum(item["part"] == "recent" for item in found["items"]), found["budget"]) == (1, 300)
