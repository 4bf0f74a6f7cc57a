"""MCP at /mcp of the service, with a real server and with the test client."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi.testclient import TestClient
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from retentive import Engine
from retentive.server.http.app import create_app
from retentive.settings import ServerSettings, Settings
from retentive.stores import open_store
from tests.surfaces.serving import wrong_fields

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"}


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(open_store("memory://")) as opened:
        yield opened


def settings(**server: Any) -> Settings:
    return Settings(store="memory://", server=ServerSettings(**server))


@contextmanager
def listening(engine: Engine, **server: Any) -> Iterator[str]:
    """A real server on a free port; requests wait in its socket until it is up."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        app = create_app(engine, settings(**server))
        running = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", lifespan="on"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
        finally:
            running.should_exit = True
            thread.join(timeout=60)
    assert not thread.is_alive()


async def talk(
    url: str, say: Callable[[Client], Awaitable[Any]], *, token: str | None = None, mode: str = "auto"
) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=90) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        return await say(client)


def test_over_real_http_what_is_remembered_is_recalled_in_both_protocols(engine: Engine):
    async def remember(client: Client) -> Any:
        return await client.call_tool("memory_remember", {"text": "The spare key is here"})

    async def recall(client: Client) -> Any:
        recent = await client.read_resource("memory://recent")
        prompt = await client.get_prompt("recall", {"query": "spare key?"})
        return await client.call_tool("memory_recall", {"query": "spare key"}), recent, prompt

    with listening(engine) as url:
        stored = asyncio.run(talk(url, remember))
        answers = [asyncio.run(talk(url, recall, mode=mode)) for mode in ("auto", "legacy")]

    for found, recent, prompt in answers:
        assert [hit["id"] for hit in found.structured_content["hits"]] == stored.structured_content["ids"]
        assert "spare key is here" in recent.contents[0].text
        assert "spare key is here" in prompt.messages[0].content.text


def test_two_tokens_at_the_same_time_never_see_each_other(engine: Engine):
    secrets = {name: engine.tokens.create(profile=name, access="write")[1] for name in ("ana", "ben")}
    ids = {name: engine.remember(f"the key of {name}", profile=name).id for name in secrets}
    other = {"ana": "ben", "ben": "ana"}

    async def look(client: Client, name: str) -> None:
        for _ in range(5):
            found = await client.call_tool("memory_recall", {"query": "key"})
            assert {hit["text"] for hit in found.structured_content["hits"]} == {f"the key of {name}"}
            assert (await client.call_tool("memory_get", {"id": ids[other[name]]})).is_error
            gone = await client.call_tool("memory_forget", {"ids": [ids[other[name]]]})
            assert gone.is_error
            recent = await client.read_resource("memory://recent")
            assert f"the key of {other[name]}" not in recent.contents[0].text
            prompt = await client.get_prompt("recall", {"query": "key"})
            assert f"the key of {other[name]}" not in prompt.messages[0].content.text
            assert (await client.call_tool("memory_status", {})).structured_content["profile"] == name

    async def all_at_once(url: str) -> None:
        talks = [
            talk(url, lambda client, name=name: look(client, name), token=secrets[name], mode=mode)
            for name in secrets
            for mode in ("auto", "legacy")
        ]
        await asyncio.gather(*talks)

    with listening(engine, require_token=True) as url:
        asyncio.run(all_at_once(url))

    assert engine.stats().memories == 2


def test_a_token_that_may_only_read_meets_no_writing_tools(engine: Engine):
    _, secret = engine.tokens.create(profile="ana", access="read")

    async def look(client: Client) -> Any:
        return await client.list_tools(), await client.call_tool("memory_remember", {"text": "x"})

    with listening(engine) as url:
        tools, refused = asyncio.run(talk(url, look, token=secret))

    assert "memory_remember" not in {tool.name for tool in tools.tools}
    assert refused.content[0].text.startswith("this connection is read-only")
    assert engine.stats().memories == 0


@contextmanager
def browser(engine: Engine, host: str = "127.0.0.1", **server: Any) -> Iterator[TestClient]:
    with TestClient(create_app(engine, settings(**server)), base_url=f"http://{host}", headers=HEADERS) as client:
        yield client


def test_a_post_is_answered_where_it_is_sent_without_a_redirect(engine: Engine):
    with browser(engine) as client:
        answer = client.post("/mcp", json=LIST, follow_redirects=False)

    assert answer.status_code == 200
    assert len(answer.json()["result"]["tools"]) == 7


def test_it_has_the_same_request_guard_as_everything_else(engine: Engine):
    with browser(engine) as client:
        other_host = client.post("/mcp", json=LIST, headers={"Host": "evil.example"})
        other_page = client.post("/mcp", json=LIST, headers={"Origin": "http://evil.example"})
        get = client.get("/mcp")

    assert (other_host.status_code, other_host.json()["code"]) == (421, "unknown_host")
    assert (other_page.status_code, other_page.json()["code"]) == (403, "not_allowed")
    assert (get.status_code, get.json()["code"]) == (405, "method_not_allowed")


def test_hosts_and_origins_that_the_settings_allow_are_let_in(engine: Engine):
    _, secret = engine.tokens.create()
    with browser(engine, "memory.example", hosts=("memory.example",), origins=("http://page.example",)) as client:
        sent = {"Origin": "http://page.example", "Authorization": f"Bearer {secret}"}
        answer = client.post("/mcp", json=LIST, headers=sent)
        asked = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}
        preflight = client.options("/mcp", headers={**asked, "Access-Control-Request-Headers": "mcp-protocol-version"})

    assert answer.status_code == 200
    assert preflight.status_code == 200


def test_without_the_token_that_is_needed_or_with_a_wrong_one_nobody_comes_in(engine: Engine):
    token, secret = engine.tokens.create(profile="ana", access="write")
    with browser(engine, require_token=True) as client:
        none = client.post("/mcp", json=LIST)
        wrong = client.post("/mcp", json=LIST, headers={"Authorization": "Bearer rtv_wrong"})
        right = client.post("/mcp", json=LIST, headers={"Authorization": f"Bearer {secret}"})
        other = client.post("/mcp", json=LIST, headers={"Authorization": f"Bearer {secret}", "X-Profile": "ben"})
        engine.tokens.revoke(token.id)
        revoked = client.post("/mcp", json=LIST, headers={"Authorization": f"Bearer {secret}"})

    assert [one.status_code for one in (none, wrong, right, other, revoked)] == [401, 401, 200, 403, 401]
    assert "retentive token create" in none.json()["detail"]


def test_whoever_runs_the_service_may_name_a_profile_and_a_project_in_the_clients_settings(engine: Engine):
    engine.remember("the key at work", profile="ana", project="work")
    engine.remember("the key at home", profile="ana", project="home")
    ask = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "memory_recall", "arguments": {"query": "key"}},
    }

    with browser(engine) as client:
        answer = client.post("/mcp", json=ask, headers={"X-Profile": "ana", "X-Project": "work"}).json()

    assert [hit["text"] for hit in answer["result"]["structuredContent"]["hits"]] == ["the key at work"]


@pytest.mark.parametrize("header", ["X-Profile", "X-Project"])
def test_an_empty_name_in_a_header_is_refused_and_does_not_widen_the_scope(engine: Engine, header: str):
    with browser(engine) as client:
        refused = client.post("/mcp", json=LIST, headers={"X-Profile": "ana", "X-Project": "work", header: ""})

    assert wrong_fields(refused) == [header]
    assert "leave the header out" in refused.json()["detail"]


def test_a_token_of_a_profile_takes_no_empty_name_either(engine: Engine):
    _, secret = engine.tokens.create(profile="ana")
    with browser(engine, require_token=True) as client:
        refused = client.post("/mcp", json=LIST, headers={"Authorization": f"Bearer {secret}", "X-Profile": ""})

    assert wrong_fields(refused) == ["X-Profile"]


def test_the_application_can_be_started_again_and_says_so_while_it_is_down(engine: Engine):
    app = create_app(engine, settings())
    for _ in range(2):
        with TestClient(app, base_url="http://127.0.0.1", headers=HEADERS) as client:
            assert client.post("/mcp", json=LIST).status_code == 200

    down = TestClient(app, base_url="http://127.0.0.1", headers=HEADERS).post("/mcp", json=LIST)

    assert down.status_code == 503


def test_a_body_that_is_too_large_is_refused(engine: Engine):
    with browser(engine, max_body=2000) as client:
        told = client.post("/mcp", json={**LIST, "params": {"filler": "x" * 3000}})
        pieces = (b" " * 100 for _ in range(30))
        untold = client.post("/mcp", content=pieces, headers={"Content-Type": "application/json"})

    for answer in (told, untold):
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
