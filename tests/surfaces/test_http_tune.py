"""Tuning in the background of the service: with progress, stopped, one at a time, separate for each profile."""

from __future__ import annotations

import sys

import pytest

from retentive.engine import Engine
from retentive.extras import pip_install
from retentive.stores import open_store
from tests.surfaces.service import until
from tests.surfaces.serving import client, problem, token

IDLE = {"state": "idle", "stage": None, "done": 0, "total": 0, "detail": None, "result": None}
LONG = {"budget": 2000}
THINGS = ("lamp", "chair", "kettle", "ladder", "mirror", "pillow", "bucket", "hammer", "basket", "candle", "carpet")


def judge_things(engine: Engine, profile: str = "default") -> None:
    for number, thing in enumerate(THINGS):
        kept = engine.remember(f"the {thing} is in room {number}", profile=profile)
        engine.judge(f"where is the {thing}?", good=[kept.id], profile=profile)


def test_a_tuning_runs_in_the_background_and_gives_its_result_without_keeping_it(engine):
    judge_things(engine)
    before = engine.tuning.current()
    asking = client(engine)
    assert asking.get("/v1/tune").json() == IDLE

    with asking:
        begun = asking.post("/v1/tune", json={"metric": "MRR", "budget": 3})
        seen = []
        until(lambda: seen.append(asking.get("/v1/tune").json()) or seen[-1]["state"] != "running")

    assert (begun.status_code, begun.json()["state"]) == (202, "running")
    done = seen[-1]
    assert (done["state"], done["detail"]) == ("done", None)
    assert done["done"] == done["total"] == len(THINGS)
    result = done["result"]
    assert (result["metric"], result["n"], result["folds"], result["foldsBy"]) == ("MRR", len(THINGS), 5, "query")
    assert result["verdict"] == "no_gain"  # everything is found as it is
    figures = result["heldOut"]["MRR"]
    assert (figures["before"], figures["after"], figures["gain"]) == (1.0, 1.0, 0.0)
    assert figures["gainInterval"] == [0.0, 0.0]
    assert engine.tuning.current() == before


def test_one_runs_at_a_time_and_stops_when_it_is_told_to(engine):
    judge_things(engine)
    with client(engine) as asking:
        asking.post("/v1/tune", json=LONG)
        until(lambda: asking.get("/v1/tune").json()["done"] > 0)
        second = asking.post("/v1/tune", json=LONG)
        running = asking.get("/v1/tune").json()
        stopped = asking.delete("/v1/tune").json()
        later = asking.get("/v1/tune").json()
        again = asking.post("/v1/tune", json={"budget": 1})

    problem(second, 409, "conflict")
    assert (running["state"], running["stage"], running["total"]) == ("running", "searching", 2000 * 6)
    assert (stopped["state"], stopped["result"]) == ("stopped", None)
    assert later == stopped
    assert stopped["done"] < stopped["total"]
    assert again.status_code == 202


def test_the_end_of_the_service_stops_it_before_it_is_done(engine):
    judge_things(engine)
    with client(engine) as asking:
        asking.post("/v1/tune", json=LONG)
        until(lambda: asking.get("/v1/tune").json()["done"] > 0)

    stopped = asking.get("/v1/tune").json()
    assert stopped["state"] == "stopped"
    assert stopped["done"] < stopped["total"]


def test_each_profile_is_told_of_its_own_tuning_alone_and_stops_no_other(engine):
    judge_things(engine, "me")
    with client(engine) as owner:
        mine = {"X-Profile": "me"}
        assert owner.post("/v1/tune", json=LONG, headers=mine).status_code == 202
        theirs = {"Authorization": f"Bearer {token(engine, 'them', 'admin')}"}

        assert owner.get("/v1/tune", headers=theirs).json() == IDLE
        assert owner.delete("/v1/tune", headers=theirs).json() == IDLE
        assert owner.get("/v1/tune", headers=mine).json()["state"] == "running"


def test_with_too_few_judged_queries_nothing_begins(engine):
    engine.judge("hello?", good=[engine.remember("hello").id])
    asking = client(engine)

    refused = asking.post("/v1/tune", json={})

    assert "at least 10 queries" in problem(refused, 409, "conflict")["detail"]
    assert asking.get("/v1/tune").json() == IDLE


def test_a_tuning_that_fails_says_why():
    with Engine(open_store("memory://")) as engine, client(engine) as asking:
        judge_things(engine)
        asking.post("/v1/tune", json={})
        until(lambda: asking.get("/v1/tune").json()["state"] != "running")
        failed = asking.get("/v1/tune").json()

    assert failed["state"] == "failed"
    assert "no embedder is configured" in failed["detail"]


@pytest.mark.parametrize("body", [{"metric": "fame"}, {"budget": 0}, {"sample": 9}, {"seed": -1}, {"keep": True}])
def test_what_cannot_be_asked_for_is_refused(engine, body):
    judge_things(engine)

    problem(client(engine).post("/v1/tune", json=body), 422, "invalid")


def test_without_the_library_of_metrics_the_answer_is_the_line_to_type(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)

    refused = client(engine).post("/v1/tune", json={})

    assert pip_install("eval") in problem(refused, 501, "missing_extra")["detail"]
