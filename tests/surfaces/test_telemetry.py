"""Metrics, logs and spans of the service, and that they contain no query and no memory."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.models import Recall
from retentive.server.http import request_log
from retentive.server.http.app import create_app
from retentive.server.http.telemetry import Telemetry
from retentive.settings import ServerSettings, Settings
from retentive.stores import open_store

SECRET = "Zanzibar"


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open("memory://", embedder="none") as opened:
        yield opened


def service(engine: Engine, **server: object) -> FastAPI:
    settings = Settings(store="memory://", server=ServerSettings.model_validate({"log": "off", **server}))
    return create_app(engine, settings)


def client(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def figure(text: str, name: str) -> float:
    """The value of one series."""
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} "))


def test_a_callback_gets_every_recall_and_its_failure_does_not_reach_the_caller(engine, caplog):
    heard: list[Recall] = []

    def fail(_: Recall) -> None:
        raise ZeroDivisionError

    engine.on_recall(fail)
    engine.on_recall(heard.append)
    engine.remember("apples are red")

    answer = engine.recall("apples", record_use=False)

    assert len(answer.hits) == 1
    assert heard == [answer]
    assert "a callback of recalls failed" in caplog.text


def test_recalls_requests_errors_and_memories_are_counted(engine):
    asked = client(service(engine))
    asked.post("/v1/memories", json={"text": "apples are red"})
    asked.post("/v1/memories", json={"text": "Ana is a doctor", "kind": "identity"})
    for _ in range(3):
        assert asked.post("/v1/recall", json={"query": "apples"}).json()["degraded"] == "keyword-only"
    asked.get("/v1/memories/019506c0-0000-7000-8000-000000000000")
    asked.get("/v1/memories/019506c0-0000-7000-8000-000000000001")
    asked.get("/no/such/place")
    asked.post("/v1/recall", json={"query": 1})

    text = asked.get("/metrics").text

    for name, value in {
        "retentive_recall_seconds_count": 3,
        'retentive_recall_stage_seconds_count{stage="keyword"}': 3,
        'retentive_recall_candidates_sum{retriever="keyword"}': 3,
        'retentive_recalls_degraded_total{kind="keyword-only"}': 3,
        'retentive_memories{kind="episodic"}': 1,
        'retentive_memories{kind="identity"}': 1,
        'retentive_requests_total{method="POST",route="/v1/memories",status="201"}': 2,
        'retentive_requests_total{method="GET",route="/v1/memories/{id}",status="404"}': 2,
        'retentive_requests_total{method="GET",route="(none)",status="404"}': 1,
        'retentive_request_seconds_count{route="/v1/recall"}': 4,
        'retentive_errors_total{code="not_found"}': 3,
        'retentive_errors_total{code="invalid"}': 1,
    }.items():
        assert figure(text, name) == value, name
    assert 'retriever="semantic"' not in text
    assert figure(text, "process_resident_memory_bytes") > 10_000_000


def test_what_the_request_guard_rejects_and_what_fails_is_counted_too(engine, monkeypatch):
    app = service(engine)
    asked = client(app)
    refused = asked.get("/healthz", headers={"Host": "elsewhere.example"})
    monkeypatch.setattr(Engine, "recall", lambda *_, **__: 1 / 0)
    broken = asked.post("/v1/recall", json={"query": "apples"}, headers={"X-Request-Id": "mine-1"})

    text = asked.get("/metrics").text

    assert (refused.status_code, broken.status_code) == (421, 500)
    assert broken.headers["X-Request-Id"] == "mine-1"
    assert figure(text, 'retentive_errors_total{code="unknown_host"}') == 1
    assert figure(text, 'retentive_errors_total{code="error"}') == 1
    assert figure(text, 'retentive_requests_total{method="POST",route="/v1/recall",status="500"}') == 1


def test_two_services_in_a_process_count_apart(engine):
    one, other = client(service(engine)), client(service(engine))

    one.get("/healthz")

    assert 'route="/healthz"' in one.get("/metrics").text
    assert 'route="/healthz"' not in other.get("/metrics").text


def test_an_application_that_has_stopped_leaves_no_callback_on_the_engine(engine):
    apps = [service(engine) for _ in range(3)]
    for app in apps:
        for _ in range(2):  # an application can be started again
            with client(app) as asked:
                before = engine._recall_log._callbacks
                asked.post("/v1/recall", json={"query": "apples"})
    metrics = client(apps[0]).get("/metrics").text

    assert len(before) == 1  # that of the last application, as long as it runs
    assert engine._recall_log._callbacks == ()
    assert figure(metrics, "retentive_recall_seconds_count") == 2


def test_memories_are_counted_once_in_a_while_and_a_store_that_does_not_answer_hides_no_other_figure(
    engine, monkeypatch
):
    monkeypatch.setattr("retentive.server.http.telemetry.COUNT_SECONDS", 3600.0)
    telemetry = Telemetry(engine)
    engine.remember("one")
    before = telemetry.exposition().decode()
    engine.remember("two")
    at_once = telemetry.exposition().decode()
    monkeypatch.setattr("retentive.server.http.telemetry.COUNT_SECONDS", 0.0)
    later = telemetry.exposition().decode()

    def fail(_: Engine) -> None:
        raise Unavailable

    monkeypatch.setattr(Engine, "stats", fail)
    without = telemetry.exposition().decode()

    counted = [figure(text, 'retentive_memories{kind="episodic"}') for text in (before, at_once, later)]
    assert counted == [1, 1, 2]
    assert "retentive_memories{" not in without
    assert "process_resident_memory_bytes" in without


@pytest.mark.parametrize(("access", "status"), [("read", 403), ("write", 403), ("admin", 200)])
def test_figures_of_all_profiles_are_for_administrators(engine, access, status):
    _, secret = engine.tokens.create(profile="ana", access=access)
    asked = client(service(engine, require_token=True))

    assert asked.get("/metrics").status_code == 401
    assert asked.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == status
    assert asked.get("/healthz").status_code == 200
    assert asked.get("/readyz").status_code == 200


def test_it_is_not_ready_while_the_file_of_the_store_is_gone(tmp_path):
    path = tmp_path / "store.db"
    with Engine(open_store(str(path))) as engine:
        engine.remember("The key is under the pot")
        asked = client(service(engine))
        ready = asked.get("/readyz").status_code
        path.rename(tmp_path / "other.db")
        gone = asked.get("/readyz")
        (tmp_path / "other.db").rename(path)

    assert (ready, gone.status_code) == (200, 503)
    assert str(tmp_path) not in gone.text


def test_it_is_not_ready_while_it_starts_nor_while_the_store_cannot_be_read(engine, monkeypatch):
    app = service(engine)
    asked = client(app)
    app.state.starting = "the embedding model is being loaded"
    starting = asked.get("/readyz")
    app.state.starting = None
    ready = asked.get("/readyz")

    def fail(_: Engine) -> None:
        raise Unavailable("the store is closed; open it again")

    monkeypatch.setattr(engine.tuning, "saved", lambda: fail(engine))
    closed = asked.get("/readyz")

    assert (starting.status_code, starting.json()["code"]) == (503, "not_ready")
    assert "is being loaded" in starting.json()["detail"]
    assert starting.headers["Retry-After"] == "1"
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    assert (closed.status_code, closed.json()["detail"]) == (503, "the store is closed; open it again")
    assert asked.get("/healthz").json() == {"status": "ok"}


# Logs


def _ask_about_a_secret(engine: Engine, app: FastAPI) -> str:
    """Requests of every kind that carry a secret in their bodies, queries, paths and headers; gives the token."""
    _, token = engine.tokens.create(profile=SECRET, access="write")
    asked = client(app)
    asked.headers["Authorization"] = f"Bearer {token}"
    asked.post("/v1/memories", json={"text": f"{SECRET} is an island", "session": SECRET})
    asked.post("/v1/recall", json={"query": f"where is {SECRET}?"})
    asked.post("/v1/recall", json={"query": f"where is {SECRET}?", SECRET: 1})
    asked.get(f"/episodes/search?q={SECRET}&sessionIds={SECRET}")
    asked.patch(f"/v1/sessions/{SECRET}-gone", json={"project": SECRET})
    asked.get(f"/{SECRET}?q={SECRET}", headers={"X-Request-Id": f"a\n{SECRET} {SECRET}"})
    return token


def test_a_request_is_a_line_of_json_without_text_queries_or_tokens(engine, capsys):
    token = _ask_about_a_secret(engine, service(engine, log="json"))

    written = capsys.readouterr().err
    lines = [json.loads(line) for line in written.splitlines()]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("POST", "/v1/memories", 201),
        ("POST", "/v1/recall", 200),
        ("POST", "/v1/recall", 422),
        ("GET", "/episodes/search", 200),
        ("PATCH", "/v1/sessions/{name}", 404),
        ("GET", "(none)", 404),
    ]
    assert lines[0].keys() == {
        "event", "level", "timestamp", "method", "route", "status", "ms", "caller", "request_id",
    }  # fmt: skip
    assert lines[0]["caller"] == f"token {engine.tokens.list()[0].id}"
    assert lines[2]["problem"] == "invalid"
    assert SECRET not in written
    assert token not in written


def test_a_request_is_a_line_of_text_or_none(engine, capsys):
    token = _ask_about_a_secret(engine, service(engine, log="text"))
    text = capsys.readouterr().err
    _ask_about_a_secret(engine, service(engine, log="off"))

    assert len(text.splitlines()) == 6
    assert "method=POST route=/v1/memories status=201" in text
    assert SECRET not in text
    assert token not in text
    assert capsys.readouterr().err == ""


def test_neither_the_figures_nor_the_warnings_tell_what_was_asked(engine, caplog):
    app = service(engine)
    with caplog.at_level(logging.DEBUG):
        token = _ask_about_a_secret(engine, app)

    warnings = "".join(record.getMessage() for record in caplog.records if record.name.startswith("retentive"))
    assert "keyword-only" in warnings
    for told in (client(app).get("/metrics").text, warnings):
        assert SECRET not in told
        assert token not in told


def test_a_request_keeps_the_name_it_comes_with_or_is_given_one(engine, capsys):
    asked = client(service(engine, log="json"))

    named = asked.get("/healthz", headers={"X-Request-Id": "trace-17"}).headers["X-Request-Id"]
    unnamed = asked.get("/healthz").headers["X-Request-Id"]
    refused = asked.get("/healthz", headers={"X-Request-Id": "no\tname"}).headers["X-Request-Id"]

    assert named == "trace-17"
    assert len({named, unnamed, refused}) == 3
    assert "no" not in refused[:2]
    logged = [json.loads(line)["request_id"] for line in capsys.readouterr().err.splitlines()]
    assert logged == [named, unnamed, refused]


def test_a_log_line_cannot_be_forged_by_what_others_wrote():
    event = request_log._replace_unprintable(None, "warning", {"event": "one\n2026 [info] two \x1b[31m", "number": 7})

    assert event == {"event": "one·2026 [info] two ·[31m", "number": 7}


# Spans


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


def test_each_stage_of_a_recall_is_a_span_below_the_requests(engine, spans):
    engine.remember("apples are red")
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client(service(engine)).post("/v1/recall", json={"query": "which apples?"}, headers={"traceparent": caller})

    found: dict[str, ReadableSpan] = {span.name: span for span in spans.get_finished_spans()}
    whole = found["retentive.recall"]
    stages = {name: span for name, span in found.items() if name.startswith("retentive.recall.")}
    assert stages.keys() == {
        f"retentive.recall.{stage}" for stage in ("keyword", "neighbours", "score", "rank", "judge")
    }
    request = found["POST /v1/recall"]
    assert format(request.context.trace_id, "032x") in caller
    assert whole.parent
    assert whole.parent.span_id == request.context.span_id
    assert request.attributes
    assert request.attributes["http.response.status_code"] == 200
    assert whole.attributes == {
        "retentive.hits": 1, "retentive.candidates.semantic": 0, "retentive.candidates.keyword": 1,
        "retentive.degraded": "keyword-only",
    }  # fmt: skip
    for stage in stages.values():
        assert stage.parent
        assert stage.parent.span_id == whole.context.span_id
        assert whole.start_time <= stage.start_time <= stage.end_time
    assert stages["retentive.recall.keyword"].end_time <= stages["retentive.recall.neighbours"].start_time


def test_no_span_carries_what_was_asked(engine, spans):
    token = _ask_about_a_secret(engine, service(engine))

    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "retentive.recall.keyword" in told
    assert "PATCH /v1/sessions/{name}" in told
    assert SECRET not in told
    assert token not in told


def test_without_anybody_who_collects_them_no_spans_are_made(engine, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(trace.ProxyTracerProvider, "get_tracer", fail)

    assert client(service(engine)).post("/v1/recall", json={"query": "apples"}).status_code == 200
