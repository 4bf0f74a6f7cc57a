"""Access: tokens, hosts, origins, sizes, and the separation of profiles on every operation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from retentive.engine import Engine
from retentive.models import Memory
from retentive.server.http.app import create_app
from retentive.settings import ServerSettings
from retentive.stores import open_store
from tests.stores.build import everything
from tests.surfaces.serving import client, problem, token

SECRET = "xylophone"
"""A word that is all over the other profile, and nowhere else."""

THEIRS = "01900000-0000-7000-8000-00000000beef"
MINE = "01900000-0000-7000-8000-00000000cafe"


@pytest.fixture
def engine():
    with Engine(open_store("memory://")) as engine:
        yield engine


# The separation of profiles

IMPORT = {"content": b'{"text": "mine"}', "headers": {"Content-Type": "application/octet-stream"}}

ATTEMPTS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("GET", "/settings"): [{}],
    ("PATCH", "/settings"): [{"json": {"rrfK": 9}}],
    ("GET", "/settings/schema"): [{}],
    ("GET", "/settings/history"): [{}],
    ("POST", "/settings/undo"): [{}],
    ("GET", "/settings/presets"): [{}],
    ("GET", "/episodes/search"): [{"params": {"q": SECRET, "sessionIds": f"{SECRET}-session,mine"}}],
    ("POST", "/v1/memories"): [
        {"json": {"text": "one", "session": f"{SECRET}-session"}},
        {"json": {"text": "one", "project": f"{SECRET}-project"}},
        {"json": {"text": "one"}, "headers": {"Idempotency-Key": f"{SECRET}-key"}},
        {"json": {"text": "one", "profile": f"{SECRET}-profile"}},
    ],
    ("GET", "/v1/memories"): [
        {},
        {"params": {"session": f"{SECRET}-session"}},
        {"params": {"project": f"{SECRET}-project"}},
        {"params": {"cursor": THEIRS}},
    ],
    ("GET", "/v1/memories/{id}"): [{}],
    ("PATCH", "/v1/memories/{id}"): [{"json": {"text": "taken over"}}, {"json": {}}],
    ("DELETE", "/v1/memories/{id}"): [{}],
    ("POST", "/v1/memories/{id}/supersede"): [{"json": {"by": MINE}}, {"json": {"by": THEIRS}}],
    ("POST", "/v1/memories/{id}/retract"): [{"json": {}}],
    ("POST", "/v1/memories/{id}/restore"): [{}],
    ("GET", "/v1/memories/{id}/history"): [{}],
    ("POST", "/v1/memories/sweep"): [{}],
    ("GET", "/v1/given"): [{}, {"params": {"project": f"{SECRET}-project"}}],
    ("GET", "/v1/reviews"): [{}, {"params": {"status": "dismissed"}}],
    ("POST", "/v1/reviews/{id}"): [{"json": {"action": "confirm"}}, {"json": {"action": "undo"}}],
    ("POST", "/v1/memories/forget"): [
        {"json": {"ids": [THEIRS]}},
        {"json": {"scope": {"session": f"{SECRET}-session"}, "confirm": True}},
        {"json": {"scope": {"project": f"{SECRET}-project"}, "confirm": True}},
    ],
    ("POST", "/v1/recall/explain"): [
        {"json": {"query": SECRET, "id": THEIRS}},
        {"json": {"query": SECRET, "id": THEIRS, "session": f"{SECRET}-session"}},
    ],
    ("POST", "/v1/recall"): [
        {"json": {"query": SECRET, "limit": 200, "dropped": True}},
        {"json": {"query": SECRET, "session": f"{SECRET}-session"}},
        {"json": {"query": SECRET, "project": f"{SECRET}-project", "recentIds": [THEIRS]}},
    ],
    ("POST", "/v1/context"): [
        {"json": {"query": SECRET, "everywhere": True}},
        {"json": {"query": SECRET, "session": f"{SECRET}-session"}},
        {"json": {"query": SECRET}, "headers": {"X-Session": f"{SECRET}-session", "X-Project": f"{SECRET}-project"}},
    ],
    ("POST", "/v1/briefing"): [
        {"json": {}},
        {"json": {"project": f"{SECRET}-project", "session": f"{SECRET}-session"}},
    ],
    ("POST", "/v1/recall/compare"): [{"json": {"query": SECRET, "b": "weighted"}}],
    ("GET", "/v1/sessions"): [{}, {"params": {"project": f"{SECRET}-project"}}],
    ("PATCH", "/v1/sessions/{name}"): [{"json": {"project": "mine"}}],
    ("GET", "/v1/projects"): [{}],
    ("GET", "/v1/profiles"): [{}],
    ("GET", "/v1/stats"): [{}],
    ("GET", "/v1/status"): [{}],
    ("GET", "/v1/timeline"): [{}, {"params": {"by": "day"}}, {"params": {"project": f"{SECRET}-project"}}],
    ("POST", "/v1/judgements"): [
        {"json": {"query": "one?", "good": [THEIRS]}},
        {"json": {"query": "one?", "good": [MINE], "bad": [THEIRS]}},
    ],
    ("POST", "/v1/measure"): [{"json": {}}, {"json": {"b": "weighted", "project": f"{SECRET}-project"}}],
    ("POST", "/v1/tune"): [{"json": {}}],
    ("GET", "/v1/tune"): [{}],
    ("DELETE", "/v1/tune"): [{}],
    ("POST", "/v1/import"): [{**IMPORT, "params": {"name": "m.jsonl", "project": f"{SECRET}-project"}}],
    ("GET", "/v1/tokens"): [{}],
    ("POST", "/v1/tokens"): [{"json": {"allProfiles": True}}, {"json": {"profile": f"{SECRET}-profile"}}],
    ("DELETE", "/v1/tokens/{id}"): [{}],
    ("GET", "/v1/judgements"): [{}, {"params": {"project": f"{SECRET}-project"}}],
    ("DELETE", "/v1/judgements"): [
        {"json": {"query": f"{SECRET}?", "memory": THEIRS}},
        {"json": {"query": f"{SECRET}?", "memory": THEIRS, "project": f"{SECRET}-project"}},
    ],
}
"""How each operation could be used to reach into another profile. A new one needs its own lines here."""

CHAT = ("/v1/chat/completions", "/v1/models")
"""They need a model behind them; test_chat.py tries the same of them."""

HEALTH = ("/healthz", "/readyz", "/metrics")
"""The service's own, in no profile: the first two tell nothing and need no token, the third is for administrators."""

NAMED = {"{id}": THEIRS, "{name}": f"{SECRET}-session"}


def operations() -> list[tuple[str, str]]:
    with Engine(open_store("memory://")) as engine:
        paths = create_app(engine).openapi()["paths"]
    ours = {path: methods for path, methods in paths.items() if path not in (*CHAT, *HEALTH)}
    return [(method.upper(), path) for path, methods in ours.items() for method in methods]


def add_memories(engine: Engine, *, others: bool) -> None:
    """My own few memories, and perhaps somebody else's."""
    engine.remember("my own hello", id=MINE, session="mine", profile="me")
    if others:
        who = {"profile": f"{SECRET}-profile", "project": f"{SECRET}-project", "session": f"{SECRET}-session"}
        engine.remember(f"{SECRET} is what they said", id=THEIRS, speaker=SECRET, source=SECRET, **who)
        engine.judge(f"{SECRET}?", good=[THEIRS], project=who["project"], profile=who["profile"])
        engine.judge(f"{SECRET}?", good=[THEIRS], profile=who["profile"])
        owner = client(engine)
        named = {"Idempotency-Key": f"{SECRET}-key", "X-Profile": f"{SECRET}-profile"}
        assert owner.post("/v1/memories", json={"text": f"{SECRET} again"}, headers=named).status_code == 201


def seen(text: str) -> str:
    """An answer without what differs from one moment to the next."""
    moving = r'"(created|at|elapsedMs|stages|id|by|accessed|first|last|uptimeSeconds|when)":("[^"]*"|\{[^}]*\}|[^,}]*)'
    nonce, minute = r"\b[0-9a-f]{16}\b", r"\d{4}-\d\d-\d\d \d\d:\d\dZ"
    return re.sub(f"{nonce}|{minute}", "…", re.sub(moving, r'"\1":…', text))


@pytest.mark.parametrize(("method", "path"), operations())
def test_through_no_address_can_one_profile_see_change_or_guess_another(method, path):
    assert (method, path) in ATTEMPTS, f"say in ATTEMPTS how {method} {path} could reach into another profile"
    address = path
    for name, value in NAMED.items():
        address = address.replace(name, value)
    for attempt in ATTEMPTS[method, path]:
        answers = []
        for others in (True, False):
            with Engine(open_store("memory://")) as engine:
                add_memories(engine, others=others)
                asking = client(engine, token=token(engine, "me", "admin"))
                theirs = everything(engine.store, f"{SECRET}-profile")[2:]
                judged = engine.judgements.list(profile=f"{SECRET}-profile")

                answer = asking.request(method, address, **attempt)

                assert everything(engine.store, f"{SECRET}-profile")[2:] == theirs
                assert engine.judgements.list(profile=f"{SECRET}-profile") == judged
                answers.append((answer.status_code, seen(answer.text)))
        # Nothing tells a profile that is there from one that is not.
        assert answers[0] == answers[1]


@pytest.mark.parametrize(("method", "path"), operations())
def test_no_address_takes_a_token_to_another_profile(engine, method, path):
    add_memories(engine, others=True)
    asking = client(engine, token=token(engine, "me", "admin"))
    address = path
    for name, value in NAMED.items():
        address = address.replace(name, value)

    for attempt in ATTEMPTS[method, path]:
        headers = {**attempt.get("headers", {}), "X-Profile": f"{SECRET}-profile"}
        answer = asking.request(method, address, **{**attempt, "headers": headers})

        assert SECRET not in answer.text
        if (method, path) not in (("PATCH", "/settings"), ("POST", "/settings/undo")):  # of everybody, not of a profile
            assert answer.status_code in (403, 422), answer.text


# Tokens


def test_an_admin_makes_lists_and_revokes_tokens_over_http(engine):
    admin = client(engine, token=token(engine, "me", "admin"))
    theirs = engine.tokens.create(profile="they")[0]

    made = admin.post("/v1/tokens", json={"access": "write", "note": "laptop"})
    secret, id = made.json()["token"], made.json()["id"]
    bearer = client(engine, token=secret)
    stored = bearer.post("/v1/memories", json={"text": "hello"})
    listed = admin.get("/v1/tokens")
    problem(admin.delete(f"/v1/tokens/{theirs.id}"), 404, "not_found")
    revoked = admin.delete(f"/v1/tokens/{id}")

    assert (made.status_code, stored.status_code, revoked.status_code) == (201, 201, 200)
    assert engine.get(stored.json()["id"]).profile == "me"
    assert [(one["profile"], one["access"], one["note"]) for one in listed.json()["tokens"]] == [
        ("me", "admin", ""),
        ("me", "write", "laptop"),
    ]
    assert secret not in listed.text
    problem(bearer.get("/v1/memories"), 401, "token_needed")
    problem(client(engine, token=token(engine, "me", "write")).get("/v1/tokens"), 403, "not_allowed")


def test_a_token_for_all_profiles_takes_the_profile_of_each_request(engine):
    made = client(engine).post("/v1/tokens", json={"access": "write", "allProfiles": True}).json()
    backend = client(engine, token=made["token"], require_token=True)

    ids = {
        name: backend.post("/v1/memories", json={"text": "hello"}, headers={"X-Profile": name}).json()["id"]
        for name in ("ana", "ben")
    }

    assert made["profile"] is None
    assert {name: engine.get(id).profile for name, id in ids.items()} == {"ana": "ana", "ben": "ben"}
    problem(backend.get(f"/v1/memories/{ids['ana']}", headers={"X-Profile": "ben"}), 404, "not_found")
    limited = client(engine, token=token(engine, "me", "admin"))
    problem(limited.post("/v1/tokens", json={"allProfiles": True}), 403, "not_allowed")


QUERIES = ("/v1/recall", "/v1/recall/compare", "/v1/recall/explain", "/v1/context", "/v1/briefing", "/v1/measure")
WRITES = [(method, path) for method, path in ATTEMPTS if method != "GET" and path not in QUERIES]


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_whoever_may_only_read_changes_nothing(engine, method, path):
    add_memories(engine, others=False)
    asking = client(engine, token=token(engine, "me", "read"))
    before = everything(engine.store, "me")

    address = path.replace("{id}", MINE).replace("{name}", "mine")
    refused = asking.request(method, address, **ATTEMPTS[method, path][0])

    problem(refused, 403, "not_allowed")
    assert everything(engine.store, "me") == before


@pytest.mark.parametrize("path", ["/v1/recall", "/v1/context"])
def test_recalls_of_whoever_may_only_read_record_no_use(engine, path):
    memory = engine.remember("the spare key is under the pot", profile="me")
    for access, expected in (("read", 0), ("write", 1)):
        answer = client(engine, token=token(engine, "me", access)).post(path, json={"query": "spare key"})
        assert answer.status_code == 200
        assert memory.id in answer.text
        engine._recall_log.record_use()
        assert engine.get(memory.id).access_count == expected


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "X-Profile"])
def test_a_header_that_decides_on_access_may_not_be_repeated(engine, name):
    value = {"Host": "127.0.0.1", "Origin": "http://127.0.0.1"}.get(name, "x")
    asking = client(engine)
    refused = asking.get("/settings", headers=[(name, value), (name, "evil.example")])
    assert name.lower() in problem(refused, 400, "invalid")["detail"]


@pytest.mark.parametrize(("method", "path"), operations())
def test_where_tokens_are_required_nobody_comes_in_without_one(engine, method, path):
    asking = client(engine, require_token=True)
    address = path.replace("{id}", MINE).replace("{name}", "mine")

    refused = asking.request(method, address, **ATTEMPTS[method, path][0])

    problem(refused, 401, "token_needed")
    assert refused.headers["WWW-Authenticate"] == "Bearer"


def test_off_loopback_a_token_is_required_whatever_the_settings_say(engine):
    problem(client(engine, host="0.0.0.0").get("/settings"), 401, "token_needed")
    assert client(engine, host="0.0.0.0", token=token(engine)).get("/settings").status_code == 200


@pytest.mark.parametrize("host", ["memory.example.org", "127.0.0.1"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/settings"), ("POST", "/v1/memories"), ("PATCH", "/settings")])
def test_behind_another_host_name_a_token_is_required_on_loopback_too(engine, method, path, host):
    asking = client(engine, hosts=("localhost", "memory.example.org"))

    refused = asking.request(method, path, **ATTEMPTS[method, path][0], headers={"Host": host})

    problem(refused, 401, "token_needed")
    assert engine.list().memories == ()


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({}, None),
        ({"hosts": ("localhost", "LOCALHOST", "127.0.0.1", "::1")}, None),
        ({"hosts": ("localhost", "nas.local")}, "server.hosts has nas.local, which is not a loopback name"),
        ({"public_url": "https://memory.example.org"}, "server.public_url is set"),
        ({"require_token": True}, "server.require_token is set"),
        ({"host": "0.0.0.0", "hosts": ("nas.local",)}, "0.0.0.0 is not a loopback address"),
    ],
)
def test_there_is_a_reason_for_requiring_a_token(server, why):
    assert ServerSettings(**server).token_reason == why


def test_a_token_that_was_taken_back_lets_nobody_in(engine):
    made, secret = engine.tokens.create(access="read")
    asking = client(engine, token=secret)
    assert asking.get("/settings").status_code == 200

    engine.tokens.revoke(made.id)

    problem(asking.get("/settings"), 401, "token_needed")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer rtv_unknown", "rtv_x"])
def test_a_token_that_is_none_does_not_pass_for_the_owner(engine, header):
    problem(client(engine).get("/settings", headers={"Authorization": header}), 401, "token_needed")


# The request guard


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example"])
def test_a_request_for_another_host_is_refused(engine, host):
    problem(client(engine).get("/settings", headers={"Host": host}), 421, "unknown_host")


@pytest.mark.parametrize("host", ["localhost:4000", "127.0.0.1", "[::1]:4000", "memory.home"])
def test_a_request_for_this_host_is_let_in(engine, host):
    asking = client(engine, token=token(engine), hosts=("memory.home",))

    assert asking.get("/settings", headers={"Host": host}).status_code == 200


def test_the_refusal_of_a_host_says_what_allowing_it_entails(engine):
    refused = client(engine).get("/settings", headers={"Host": "memory.home"})

    detail = problem(refused, 421, "unknown_host")["detail"]
    assert "RETENTIVE_SERVER_HOSTS" in detail
    assert "every request needs a token" in detail


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://[", "http://127.0.0.1.evil.example", "http://127.0.0.1:3000"]
)
def test_a_page_from_elsewhere_is_refused_and_changes_nothing(engine, origin):
    refused = client(engine).patch("/settings", json={"rrfK": 9}, headers={"Origin": origin})

    problem(refused, 403, "not_allowed")
    assert "access-control-allow-origin" not in refused.headers
    assert engine.tuning.saved() == {}


def test_a_page_that_the_settings_name_may_call(engine):
    asking = client(engine, origins=("https://page.example",))

    answer = asking.get("/settings", headers={"Origin": "https://page.example"})

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://page.example"


def test_a_page_that_the_settings_name_may_send_and_read_what_clients_need(engine):
    asking = client(engine, origins=("https://page.example",), max_body=1000)
    page = {"Origin": "https://page.example"}
    wanted = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "if-match"}

    preflight = asking.options("/v1/memories", headers=page | wanted)
    readable = asking.get("/settings", headers=page).headers["access-control-expose-headers"]
    too_large = asking.post("/v1/memories", json={"text": "a" * 1000}, headers=page)

    assert preflight.status_code == 200
    assert {"ETag", "Retry-After", "X-Context-Tokens", "X-Context-Left-Out"} <= set(readable.split(", "))
    problem(too_large, 413, "too_large")
    assert too_large.headers["access-control-allow-origin"] == "https://page.example"


@pytest.mark.parametrize(
    "body", [lambda data: data, lambda data: iter([data[:700], data[700:]])], ids=["sized", "chunked"]
)
def test_a_request_that_is_too_large_is_refused_and_changes_nothing(engine, body: Callable[[bytes], Any]):
    asking = client(engine, max_body=1000)
    data = b'{"text": "' + b"a" * 1000 + b'"}'

    refused = asking.post("/v1/memories", content=body(data), headers={"Content-Type": "application/json"})

    assert "at most 1,000 bytes" in problem(refused, 413, "too_large")["detail"]
    assert engine.list().memories == ()


def test_a_chunked_request_of_bearable_size_is_taken(engine):
    asking = client(engine, max_body=1000)
    chunks = iter([b'{"text":', b' "a"}'])

    answer = asking.post("/v1/memories", content=chunks, headers={"Content-Type": "application/json"})

    assert answer.status_code == 201
    assert isinstance(engine.get(answer.json()["id"]), Memory)
