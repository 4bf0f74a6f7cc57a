"""Two tunings are measured on the judgements of one profile."""

from __future__ import annotations

import sys

import pytest

from retentive.engine import Engine
from retentive.extras import pip_install
from retentive.stores import open_store
from tests.surfaces.serving import client, problem, token

PERFECT = {"nDCG@10": 1.0, "any@5": 1.0, "MRR": 1.0}


def test_each_tuning_is_measured_for_each_query_and_in_the_mean(engine):
    allergy = engine.remember("I must not eat groundnuts").id
    cello = engine.remember("Bo plays the cello", project="band").id
    engine.remember("Bo likes soup")
    engine.judge("cello", good=[cello], project="band")
    engine.judge("Any allergies?", good=[allergy])
    engine.judge("Is it raining?", bad=[allergy])

    answer = client(engine).post("/v1/measure", json={"b": "keyword-only"}).json()

    assert (answer["n"], answer["sentence"]) == (2, "2 judged queries")
    assert (answer["degraded"], answer["degradedReason"]) == (None, None)
    first, second = answer["queries"]
    assert first == {"query": "cello", "project": "band", "relevant": 1, "a": PERFECT, "b": PERFECT}
    assert (second["query"], second["project"]) == ("Any allergies?", None)
    assert (second["a"], second["b"]) == (PERFECT, dict.fromkeys(PERFECT, 0.0))  # no word of it is in the memory
    assert (answer["a"], answer["b"]) == (PERFECT, dict.fromkeys(PERFECT, 0.5))
    assert answer["p"] == dict.fromkeys(PERFECT, 1.0)  # one query differs, and either sign is as likely
    assert {memory.access_count for memory in engine.list().memories} == {0}


def test_the_paired_test_is_significant_if_each_of_eight_queries_is_worse():
    with Engine(open_store("memory://")) as engine:
        for at in range(8):
            engine.judge(f"word{at}", good=[engine.remember(f"word{at}").id])
        answer = client(engine).post("/v1/measure", json={"b": {"keywordWeight": 0}}).json()

    assert (answer["a"]["MRR"], answer["b"]["MRR"]) == (1.0, 0.0)
    assert answer["p"]["MRR"] == pytest.approx(2 / 2**8, rel=0.5)


def test_the_queries_of_one_project_or_those_judged_last_are_asked_alone(engine):
    for name in ("garden", "band"):
        engine.judge(f"what of the {name}?", good=[engine.remember(name, project=name).id], project=name)
    asking = client(engine)

    band = asking.post("/v1/measure", json={"project": "band"}).json()
    last = asking.post("/v1/measure", json={"limit": 1}).json()

    assert [one["query"] for one in band["queries"]] == ["what of the band?"]
    assert [one["query"] for one in last["queries"]] == ["what of the band?"]
    assert last["sentence"] == "the last 1 judged query of 2"


def test_without_a_judged_query_there_is_a_sentence_and_no_figure(engine):
    engine.judge("hello?", bad=[engine.remember("hello").id])

    answer = client(engine).post("/v1/measure", json={}).json()

    assert (answer["n"], answer["a"], answer["b"], answer["p"], answer["queries"]) == (0, None, None, None, [])
    assert "judge some" in answer["sentence"]


def test_a_profile_is_measured_by_its_own_memories_and_judgements(engine):
    mine = engine.remember("the key is under the pot", profile="me").id
    theirs = engine.remember("the key is under the mat", profile="them").id
    engine.judge("where is the key?", good=[mine], profile="me")
    engine.judge("where is their key?", good=[theirs], profile="them")

    answer = client(engine, token=token(engine, "me", "read")).post("/v1/measure", json={}).json()

    assert [one["query"] for one in answer["queries"]] == ["where is the key?"]
    assert answer["a"] == PERFECT


def test_what_is_measured_from_words_alone_says_so():
    with Engine(open_store("memory://")) as engine:
        engine.judge("cat", good=[engine.remember("the cat").id])

        answer = client(engine).post("/v1/measure", json={}).json()

    assert (answer["degraded"], answer["degradedReason"]) == ("keyword-only", "no embedder is configured")
    assert answer["a"] == PERFECT


def test_without_the_library_of_metrics_the_answer_is_the_line_to_type(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)

    refused = client(engine).post("/v1/measure", json={})

    assert pip_install("eval") in problem(refused, 501, "missing_extra")["detail"]
