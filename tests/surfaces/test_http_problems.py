"""Errors have one format, name the field, do not repeat the text of a memory, and change nothing."""

from __future__ import annotations

import json

import pytest

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.stores import open_store
from retentive.stores.in_memory import InMemoryStore
from tests.surfaces.serving import client, problem, wrong_fields

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def engine():
    with Engine(open_store("memory://")) as engine:
        yield engine


@pytest.fixture
def asking(engine):
    return client(engine)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"text": ', "expecting value at character 9"),
        (b'{"text": "a", "importance": NaN}', "the number NaN does not exist"),
        (b'{"text": "a", "importance": -Infinity}', "the number -Infinity does not exist"),
        (b'{"text": "\xff"}', "cannot be read"),
        (b'{"text": "a", "position": ' + b"9" * 5000 + b"}", "cannot be read"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_json_is_called_so(asking, engine, body, said):
    refused = asking.post("/v1/memories", content=body, headers=JSON)

    assert wrong_fields(refused) == ["body"]
    assert said in refused.json()["detail"]
    assert engine.list().memories == ()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (r'{"text": "half \ud800"}', "text"),
        (r'{"text": "a", "session": "half \ud800"}', "session"),
        (r'{"text": "a", "id": "half \ud800"}', "id"),
        (r'{"text": "a", "id": "nul \u0000"}', "id"),
        (r'{"text": "a", "id": 5}', "id"),
        (r'{"text": "a", "position": 9007199254740992}', "position"),
        (r'{"text": "a", "position": 1e400}', "position"),
        (r'{"text": "a", "position": 99999999999999999999999999}', "position"),
        (r'{"text": "a", "importance": 1e400}', "importance"),
        (r'{"text": "a", "importance": true}', "importance"),
        (r'{"text": "a", "evergreen": 1}', "evergreen"),
        (r'{"text": "a", "created": "0001-01-01T00:00:00+12:00"}', "created"),
        (r'{"text": "a", "occurred": 1746700000}', "occurred"),
        (r'{"text": "a", "speaker": " "}', "speaker"),
        (r'{"text": "a", "kind": "odd"}', "kind"),
        (r'{"text": null}', "text"),
        (r'{"text": "a", "profile": "b"}', "profile"),
        ('{"text": "a", "metadata": {"a": [{"b": 1e400}]}}', "metadata.a.0.b"),
        ('{"text": "a", "metadata": {"a": ' + "[" * 300 + "]" * 300 + "}}", "body"),
        (json.dumps({"text": "a" * 1_000_001}), "text"),
        (json.dumps({"text": "a", "project": "a" * 501}), "project"),
        ("[]", "body"),
        ("null", "body"),
        ("", "body"),
    ],
)
def test_a_field_that_is_wrong_is_named(asking, engine, body, field):
    refused = asking.post("/v1/memories", content=body, headers=JSON)

    assert wrong_fields(refused) == [field]
    assert engine.list().memories == ()


def test_metadata_that_is_nested_too_deeply_is_refused(asking):
    deep = json.loads("[" * 150 + "]" * 150)
    refused = asking.post("/v1/memories", json={"text": "a", "metadata": {"a": deep}})

    assert problem(refused, 422, "invalid")["detail"] == "metadata: nested more than 100 levels deep"


@pytest.mark.parametrize("metadata", [r'{"a": "half \ud800"}', r'{"half \ud800": 1}', '{"a": 1e400}'])
def test_metadata_that_cannot_be_kept_is_refused(asking, engine, metadata):
    refused = asking.post("/v1/memories", content=f'{{"text": "a", "metadata": {metadata}}}', headers=JSON)

    assert "metadata" in problem(refused, 422, "invalid")["detail"]
    assert engine.list().memories == ()


def test_a_name_may_hold_a_nul(asking):
    stored = asking.post("/v1/memories", json={"text": "a", "session": "nul \0 b"}).json()

    assert stored["session"] == "nul \0 b"
    assert len(asking.get("/v1/memories?session=nul%20%00%20b").json()["memories"]) == 1
    assert asking.patch("/v1/sessions/nul%20%00%20b", json={"project": "p"}).json()["project"] == "p"


@pytest.mark.parametrize("path", ["/v1/memories/x", "/v1/memories/%00", "/nothing", "/v1"])
def test_an_address_that_is_none_is_a_problem_too(asking, path):
    problem(asking.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/memories/abc"), ("PATCH", "/v1/memories/abc"), ("DELETE", "/v1/memories/abc"),
        ("GET", "/v1/memories/abc/history"), ("POST", "/v1/memories/abc/retract"),
    ],
)  # fmt: skip
def test_an_id_that_is_no_uuid_is_that_of_no_memory(asking, method, path):
    assert problem(asking.request(method, path), 404, "not_found")["detail"] == "there is no memory abc"
    review = problem(asking.post("/v1/reviews/abc", json={"action": "confirm"}), 404, "not_found")
    assert review["detail"] == "there is no suggestion abc"
    assert "no such path" in problem(asking.get("/v1/memories/abc/nothing"), 404, "not_found")["detail"]


@pytest.mark.parametrize("cursor", ["%00", "%FF"])
def test_odd_bytes_are_no_cursor(asking, cursor):
    problem(asking.get(f"/v1/memories?cursor={cursor}"), 422, "invalid")


@pytest.mark.parametrize("query", ["project=%00", "kinds=episodic"])
def test_odd_bytes_in_a_query_find_nothing_and_break_nothing(asking, query):
    assert asking.get(f"/v1/memories?{query}").json()["memories"] == []


def test_a_method_that_is_not_taken_is_answered_with_those_that_are(asking):
    refused = asking.put("/v1/memories")

    problem(refused, 405, "method_not_allowed")
    assert refused.headers["Allow"] == "GET, POST"
    detail = problem(asking.get("/v1/recall"), 405, "method_not_allowed")["detail"]
    assert detail == "this path accepts POST, not GET"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/xml"])
def test_a_body_must_say_that_it_is_json(asking, engine, kind):
    headers = {"Content-Type": kind} if kind else {}

    problem(asking.post("/v1/memories", content='{"text": "a"}', headers=headers), 415, "not_json")

    assert engine.list().memories == ()


def test_json_may_say_its_charset_or_its_dialect(asking):
    for kind in ("application/json; charset=utf-8", "Application/JSON", "application/merge-patch+json"):
        assert asking.post("/v1/memories", content='{"text": "a"}', headers={"Content-Type": kind}).status_code == 201


def test_an_error_repeats_nothing_of_what_was_sent(asking):
    refused = asking.post("/v1/memories", json={"text": {"secret": "peanuts"}, "importance": "peanuts"})

    assert refused.status_code == 422
    assert "peanuts" not in refused.text


def test_a_store_that_is_busy_says_when_to_come_again():
    class Busy(InMemoryStore):
        def list(self, *_, **__):
            raise Unavailable("the store is busy")

    with Engine(Busy()) as engine:
        refused = client(engine).get("/v1/memories")

    problem(refused, 503, "unavailable")
    assert refused.headers["Retry-After"] == "1"


def test_what_nobody_foresaw_is_a_problem_without_details(caplog):
    class Broken(InMemoryStore):
        def list(self, *_, **__):
            raise ZeroDivisionError("the secret of the store")

    with Engine(Broken()) as engine:
        refused = client(engine).get("/v1/memories")

    assert "secret" not in problem(refused, 500, "error")["detail"]
    assert f"GET /v1/memories failed, request {refused.headers['X-Request-Id']}" in caplog.text
    assert "ZeroDivisionError at" in caplog.text
    assert "secret" not in "".join(entry.getMessage() for entry in caplog.records if entry.name.startswith("retentive"))
