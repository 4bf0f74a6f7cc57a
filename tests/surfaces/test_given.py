"""What was given, as users meet it: by chat, `/v1/context` and MCP, over HTTP and on the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from retentive.cli.app import app
from retentive.engine import Engine
from retentive.server.mcp import build_server
from retentive.server.mcp.tools import open_scope
from tests.surfaces import chatting
from tests.surfaces.model_server import answers, model_server
from tests.surfaces.serving import client, problem, token


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open("memory://", embedder="none") as opened:
        yield opened


def test_contexts_briefings_and_recalls_of_mcp_are_listed_over_http(engine: Engine) -> None:
    tea = engine.remember("Ana drinks green tea", project="home")
    with client(engine) as http:
        asked = {"query": "which tea does Ana drink?", "project": "home", "session": "s", "tuning": {"judge": "off"}}
        sent = http.post("/v1/context", json=asked, headers={"X-Client": "desk lämp".encode()}).json()
        http.post("/v1/context", json={**asked, "store": False})
        http.post("/v1/briefing", json={"project": "home"})
        server = build_server(lambda _: open_scope(engine, project="home"))

        async def recall() -> Any:
            async with Client(server) as mcp:
                return await mcp.call_tool("memory_recall", {"query": "zebra"})

        assert not asyncio.run(recall()).is_error
        by_mcp, briefing, unnamed, context = http.get("/v1/given").json()["given"]
        assert http.get("/v1/given", params={"client": "mcp"}).json()["given"] == [by_mcp]
        assert len(http.get("/v1/given", params={"limit": 2}).json()["given"]) == 2
        problem(http.get("/v1/given", params={"limit": 0}), 422, "invalid")
    assert (by_mcp["client"], by_mcp["query"], by_mcp["project"], by_mcp["notes"]) == ("mcp", "zebra", "home", [])
    assert (briefing["client"], briefing["query"]) == ("context", "")
    assert (unnamed["query"], unnamed["notes"]) == ("", context["notes"])
    [item] = sent["items"]
    note = {"id": tea.id, "part": "recalled", "relevance": item["relevance"], "text": tea.text}
    assert (context["client"], context["query"], context["session"]) == ("desk lämp", asked["query"], "s")
    assert (context["notes"], context["tokens"], context["leftOut"]) == ([note], sent["tokenCount"], {})


def test_chats_are_listed_and_a_message_that_is_not_stored_is_not_in_the_log(engine: Engine) -> None:
    engine.remember("Ana drinks green tea")
    with model_server() as model, chatting.chat_service(engine, model.url) as url, chatting.client(url) as openai:
        model.script = [answers("Green tea."), answers("Green tea.")]
        for store in (True, False):
            openai.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "Which tea does Ana drink?"}],
                extra_body={"retentive": {"session": "s", "store": store, "tuning": {"judge": "off"}}},
            )
    private, chat = engine.given.list()
    assert (chat.client, chat.query, chat.session) == ("chat", "Which tea does Ana drink?", "s")
    assert [note.text for note in chat.notes if note.part == "recalled"] == ["Ana drinks green tea"]
    assert (private.query, len(private.notes) > 0) == ("", True)


def test_a_token_sees_what_its_profile_was_given_and_nothing_else(engine: Engine) -> None:
    secrets = {name: token(engine, name, "read") for name in ("ana", "bo")}
    for name, secret in secrets.items():
        engine.remember(f"the key of {name} is here", profile=name)
        with client(engine, token=secret) as http:
            http.post("/v1/context", json={"query": f"the key of {name}?"})
    for name, secret in secrets.items():
        with client(engine, token=secret) as http:
            [one] = http.get("/v1/given").json()["given"]
            assert (one["profile"], one["query"]) == (name, f"the key of {name}?")
            other = next(each for each in secrets if each != name)
            assert http.get("/v1/given", headers={"X-Profile": other}).status_code == 403


def test_the_command_shows_each_prompt_and_how_many_got_memories(tmp_path: Path) -> None:
    store = str(tmp_path / "m.db")
    with Engine.open(store, embedder="none") as engine:
        engine.remember("Ana drinks green tea")
        with client(engine) as http:
            for query in ("which tea does Ana drink?", "zebra"):
                http.post("/v1/context", json={"query": query, "tuning": {"judge": "off"}})

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["--store", store, "--embedder", "none", "given", *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    listed = json.loads(run("--json"))["given"]
    assert [one["query"] for one in listed] == ["zebra", "which tea does Ana drink?"]
    shown = run()
    assert "Ana drinks green tea" in shown
    assert "1 of 2 prompts got memories" in shown
    assert "nothing was given" in run("--client", "codex")
