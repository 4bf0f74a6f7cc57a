"""Facts that change, over HTTP and on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from typer.testing import CliRunner

from retentive.cli.app import app
from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.settings import ServerSettings, Settings
from retentive.stores import open_store
from tests.surfaces.service import until
from tests.surfaces.serving import client


def remembered(http: TestClient, text: str, **fields: Any) -> dict[str, Any]:
    answer = http.post("/v1/memories", json={"text": text, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


def recalled(http: TestClient, **options: Any) -> list[str]:
    return [hit["memory"]["text"] for hit in http.post("/v1/recall", json={"query": "lives", **options}).json()["hits"]]


def test_over_http_a_fact_is_replaced_retracted_restored_and_asked_for_at_a_time() -> None:
    with Engine.open("memory://", embedder="none") as engine, client(engine) as http:
        paris = remembered(http, "lives in Paris", key="home", occurred="2024-01-01T00:00:00Z")
        berlin = remembered(http, "lives in Berlin", key="home", occurred="2025-01-01T00:00:00Z")
        rome = remembered(http, "lives in Rome", occurred="2026-01-01T00:00:00Z")
        at = f"/v1/memories/{berlin['id']}"

        old = http.post(f"{at}/supersede", json={"by": rome["id"], "reason": "moved", "actor": "ana"}).json()
        assert (old["supersededBy"], old["reason"], old["actor"]) == (rome["id"], "moved", "ana")
        assert recalled(http) == ["lives in Rome"]
        assert recalled(http, asOf="2024-06-01") == ["lives in Paris"]
        assert len(recalled(http, includeRetired=True)) == 3
        dropped = http.post("/v1/recall", json={"query": "lives", "dropped": True}).json()["dropped"]
        assert {one["id"] for one in dropped} == {paris["id"], berlin["id"]}
        versions = http.get(f"{at}/history").json()["memories"]
        assert [one["id"] for one in versions] == [paris["id"], berlin["id"], rome["id"]]
        assert http.post(f"{at}/retract", json={}).status_code == 409
        assert http.post(f"{at}/restore").json()["validTo"] is None
        assert http.post(f"/v1/memories/{paris['id']}/restore").status_code == 409
        assert http.post(f"/v1/memories/{rome['id']}/retract").json()["validTo"] is not None  # without a body: now
        http.post(f"/v1/memories/{rome['id']}/restore")
        assert http.post(f"/v1/memories/{rome['id']}/retract", json={"at": "2026-02-01T00:00:00Z"}).status_code == 200
        assert recalled(http) == ["lives in Berlin"]
        listed = http.get("/v1/memories", params={"asOf": "2026-01-15"}).json()["memories"]
        assert [one["text"] for one in listed] == ["lives in Rome", "lives in Berlin"]
        assert len(http.get("/v1/memories", params={"includeRetired": True}).json()["memories"]) == 3
        unknown = "01900000-0000-7000-8000-000000000000"
        assert http.post(f"{at}/supersede", json={"by": unknown}).status_code == 404
        assert http.get(f"/v1/memories/{unknown}/history").status_code == 404


def test_over_http_what_has_expired_is_swept_and_a_duration_counts_from_now() -> None:
    with Engine.open("memory://", embedder="none") as engine, client(engine) as http:
        remembered(http, "gone", expires="2020-01-01T00:00:00Z")
        kept = remembered(http, "kept", expires="2w")
        assert datetime.fromisoformat(kept["expires"]) > datetime.now(UTC) + timedelta(days=13)
        assert http.post("/v1/memories", json={"text": "x", "expires": "soon"}).status_code == 422
        assert http.post("/v1/memories/sweep").json() == {"swept": 1}
        assert engine.stats().memories == 1


def test_the_service_deletes_by_itself_what_has_expired_long_ago() -> None:
    settings = Settings(store="memory://", server=ServerSettings(keep_expired_days=1))
    with Engine(open_store("memory://"), settings=settings) as engine:
        now = datetime.now(UTC)
        engine.remember("gone", expires=now - timedelta(days=2))
        recent = engine.remember("recent", expires=now - timedelta(hours=2))
        with TestClient(create_app(engine, settings), base_url="http://127.0.0.1"):
            until(lambda: engine.stats().memories == 1)
        assert [one.id for one in engine.list(include_retired=True).memories] == [recent.id]


def test_on_the_command_line_a_fact_is_replaced_retracted_restored_and_asked_for_at_a_time(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        given = ["--store", str(tmp_path / "memories.db"), "--embedder", "none", "--json", *arguments]
        done = CliRunner().invoke(app, given)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def found(*options: str) -> list[str]:
        return [hit["memory"]["text"] for hit in run("recall", "lives", *options)["hits"]]

    paris = run("remember", "lives in Paris", "--key", "home", "--occurred", "2024-01-01")
    berlin = run("remember", "lives in Berlin", "--key", "home", "--occurred", "2025-01-01")
    rome = run("remember", "lives in Rome", "--occurred", "2026-01-01", "--expires", "30d")
    assert run("supersede", berlin["id"], rome["id"], "--reason", "moved")["superseded_by"] == rome["id"]
    assert found() == ["lives in Rome"]
    assert found("--as-of", "2024-06-01") == ["lives in Paris"]
    assert len(found("--include-retired")) == 3
    assert [one["id"] for one in run("history", paris["id"])["memories"]] == [paris["id"], berlin["id"], rome["id"]]
    assert run("restore", berlin["id"])["valid_to"] is None
    assert run("retract", rome["id"], "--actor", "ana")["actor"] == "ana"
    assert [one["text"] for one in run("list")["memories"]] == ["lives in Berlin"]
    assert len(run("list", "--include-retired")["memories"]) == 3
    run("update", rome["id"], "--expires", "2020-01-01")
    common = ["--store", str(tmp_path / "memories.db"), "--embedder", "none"]
    assert CliRunner().invoke(app, [*common, "sweep"]).stdout == "1 expired memory deleted\n"
    assert run("sweep") == {"swept": 0}

    plain = [*common, "history", paris["id"]]
    lines = CliRunner().invoke(app, plain).stdout.splitlines()
    assert "2024-01-01 – 2025-01-01" in lines[0]
    assert lines[0].startswith("→")


def test_over_http_suggestions_are_listed_and_decided_and_repeats_are_counted() -> None:
    with Engine.open("memory://", embedder="none") as engine, client(engine) as http:
        old = remembered(http, "my flat is in Paris", occurred="2024-01-01T00:00:00Z")
        new = remembered(http, "my flat is no longer in Paris", occurred="2025-01-01T00:00:00Z")
        [review] = http.get("/v1/reviews").json()["reviews"]
        assert (review["old"]["id"], review["new"]["id"]) == (old["id"], new["id"])
        at = f"/v1/reviews/{review['suggestion']['id']}"
        assert http.post(at, json={"action": "confirm", "actor": "ana"}).json()["status"] == "confirmed"
        assert engine.get(old["id"]).superseded_by == new["id"]
        assert http.post(at, json={"action": "confirm"}).status_code == 409
        assert http.post(at, json={"action": "undo"}).json()["status"] == "open"
        assert engine.get(old["id"]).valid_to is None
        assert http.post(at, json={"action": "dismiss"}).json()["status"] == "dismissed"
        assert http.get("/v1/reviews").json() == {"reviews": [], "total": 0}
        assert len(http.get("/v1/reviews", params={"status": "dismissed"}).json()["reviews"]) == 1
        unknown = "/v1/reviews/01900000-0000-7000-8000-000000000000"
        assert http.post(unknown, json={"action": "dismiss"}).status_code == 404

        again = http.post("/v1/memories?onDuplicate=count", json={"text": "My flat is in Paris!"})
        assert (again.json()["id"], again.json()["metadata"]) == (old["id"], {"repeats": 1})
        assert http.post("/v1/memories?onDuplicate=refuse", json={"text": "my flat is in paris"}).status_code == 409
        stored = http.post("/v1/memories?similar=true", json={"text": "my flat is in Rome"}).json()
        alike = stored.pop("similar")
        assert stored == http.get(f"/v1/memories/{stored['id']}").json()
        assert {one["id"] for one in alike} <= {old["id"], new["id"]}
        assert alike[0]["words"] == ["flat"]


def test_on_the_command_line_suggestions_are_listed_and_decided(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["--store", str(tmp_path / "m.db"), "--embedder", "none", *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    run("remember", "my flat is in Paris", "--occurred", "2024-01-01")
    run("remember", "my flat is no longer in Paris", "--occurred", "2025-01-01", "--similar")
    listed = run("review").splitlines()
    assert listed[1:] == ["  old 2024-01-01  my flat is in Paris", "  new 2025-01-01  my flat is no longer in Paris"]
    id = listed[0].split()[0]
    assert "is replaced by" in run("review", "confirm", id, "--actor", "ana")
    assert run("review") == "no open suggestions\n"
    assert "open again" in run("review", "undo", id)
    assert "both memories are kept" in run("review", "dismiss", id)
    assert len(json.loads(run("--json", "review", "--status", "dismissed"))["reviews"]) == 1
    refused = CliRunner().invoke(app, ["--store", str(tmp_path / "m.db"), "--embedder", "none", "review", "--propose"])
    assert refused.exit_code == 2
    assert "--model" in refused.output
