"""`retentive mcp` as clients start it: a real process, and the client of the SDK over real pipes."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ListRootsResult, Root
from typer.testing import CliRunner

from retentive import Engine
from retentive.cli.app import app
from retentive.cli.mcp import program
from retentive.server.mcp_front import BEHIND

CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode")


def talk(
    command: list[str], say: Callable[[Client], Awaitable[Any]], *, folder: Path, roots: Sequence[Path] = (), **how: Any
) -> Any:
    """A conversation with a server started as a client does it: elsewhere, and almost without an environment."""

    async def list_roots(_: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=root.as_uri()) for root in roots])  # type: ignore[arg-type]

    if roots:
        how["list_roots_callback"] = list_roots
    environment = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "XDG_DATA_HOME")}

    async def conversation() -> Any:
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=folder)
        async with Client(parameters, **how) as client:
            return await say(client)

    return asyncio.run(conversation())


def config(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["mcp", "config", *words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def entry(settings: dict[str, Any]) -> dict[str, Any]:
    (servers,) = settings.values()
    return servers["retentive"]


def started(settings: dict[str, Any]) -> list[str]:
    return [entry(settings)["command"], *entry(settings)["args"]]


def test_two_processes_share_what_is_remembered_over_real_pipes(tmp_path: Path):
    store = str(tmp_path / "shared.db")
    command = [*program(), "mcp", "--store", store, "--project", "home", "--session", "talk"]

    async def remember(client: Client) -> Any:
        stored = await client.call_tool("memory_remember", {"text": "The feline sleeps on the sofa", "speaker": "Ana"})
        found = await client.call_tool("memory_recall", {"query": "where is the cat?"})
        return stored, found

    async def recall(client: Client) -> Any:
        found = await client.call_tool("memory_recall", {"query": "where does the cat rest?"})
        return found, await client.call_tool("memory_get", {"id": found.structured_content["hits"][0]["id"]})

    stored, first = talk(command, remember, folder=tmp_path)
    second, got = talk(command, recall, folder=tmp_path)

    (id,) = stored.structured_content["ids"]
    assert [hit["id"] for hit in first.structured_content["hits"]] == [id]  # by meaning: the real model
    assert [hit["id"] for hit in second.structured_content["hits"]] == [id]
    assert second.structured_content["degraded"] is None
    memory = got.structured_content["memory"]
    assert (memory["speaker"], memory["project"], memory["session"]) == ("Ana", "home", "talk")


@pytest.mark.parametrize(
    ("roots", "mode", "project"),
    [(["my boat", "car"], "legacy", "my boat"), ([], "legacy", "work"), (["my boat"], "auto", "work")],
)
def test_the_project_auto_is_the_first_root_of_the_client_or_else_the_folder_of_the_server(
    tmp_path: Path, roots: list[str], mode: str, project: str
):
    (tmp_path / "work").mkdir()
    command = [*program(), "mcp", f"--store={tmp_path / 'm.db'}", "--embedder=none", "--project=auto"]

    async def remember(client: Client) -> Any:
        status = await client.call_tool("memory_status", {})
        return status, await client.call_tool("memory_remember", {"text": "The berth costs 300"})

    status, stored = talk(command, remember, folder=tmp_path / "work", roots=[tmp_path / r for r in roots], mode=mode)
    assert status.structured_content["project"] == project
    assert stored.structured_content["project"] == project


def test_the_project_auto_is_none_where_the_server_is_started_in_no_project(tmp_path: Path):
    command = [*program(), "mcp", f"--store={tmp_path / 'm.db'}", "--embedder=none", "--project=auto"]
    status = talk(command, lambda client: client.call_tool("memory_status", {}), folder=Path("/"))
    assert status.structured_content["project"] is None


def test_the_project_auto_is_refused_over_http():
    assert "name the project" in config("--client=cursor", "--http", "--project=auto", code=2).output


def test_read_only_is_read_only_from_outside(tmp_path: Path):
    with Engine.open(tmp_path / "kept.db", embedder="none") as engine:
        engine.remember("The spare key is here")
    command = [
        *program(),
        "mcp",
        "--store",
        str(tmp_path / "kept.db"),
        "--embedder",
        "none",
        "--read-only",
        "--explain",
    ]

    async def look(client: Client) -> Any:
        tools = await client.list_tools()
        return tools, await client.call_tool("memory_remember", {"text": "more"})

    tools, refused = talk(command, look, folder=tmp_path)

    assert {tool.name for tool in tools.tools} == {"memory_recall", "memory_get", "memory_explain", "memory_status"}
    assert refused.is_error
    assert "read-only" in refused.content[0].text


NOISY = """
import logging, os, sys
print("noise before anything")
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG)
from retentive.engine import Engine
quiet = Engine.recall
def noisy(self, *args, **options):
    print("noise by print", flush=True)
    os.write(1, b"noise by the descriptor\\n")
    logging.getLogger("library").info("noise by a log")
    os.system("echo noise by a child")
    return quiet(self, *args, **options)
Engine.recall = noisy
from retentive.cli import main
main()
"""


def test_nothing_but_the_protocol_is_on_standard_output_whatever_libraries_print(tmp_path: Path):
    command = [sys.executable, "-c", NOISY, "mcp", "--store", str(tmp_path / "n.db"), "--embedder", "none"]
    messages = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "memory_recall", "arguments": {"query": "x"}},
        },
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    buffered[BEHIND] = "1"  # the server itself: its front loads no library
    with subprocess.Popen(command, **pipes, text=True, cwd=tmp_path, env=buffered) as process:
        assert process.stdin
        assert process.stdout
        answers = []
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            if "id" in message:
                answers.append(json.loads(process.stdout.readline()))
        rest, errors = process.communicate(timeout=60)

    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["hits"] == []
    assert rest == ""
    assert process.returncode == 0
    for noise in ("before anything", "by print", "by the descriptor", "by a log", "by a child"):
        assert f"noise {noise}" in errors


def test_a_wrong_start_says_why_on_standard_error_and_nothing_on_standard_output(tmp_path: Path):
    command = [*program(), "mcp", "--store", "mongo://here"]

    ended = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "there is no store 'mongo://'" in ended.stderr


def test_it_ends_at_an_interrupt_while_it_waits_for_its_client(tmp_path: Path):
    command = [*program(), "mcp", "--store", str(tmp_path / "i.db"), "--embedder", "none"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        process.stdout.readline()  # it is up
        process.send_signal(signal.SIGINT)

        assert process.wait(timeout=60) == 130


@pytest.mark.parametrize("client", CLIENTS)
def test_what_config_prints_starts_a_working_server(client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RETENTIVE_STORE")
    with Engine.open("here.db", embedder="none", profile="ana") as engine:
        engine.remember("The spare key is here", project="home")
    words = ("--client", client, "--store", "here.db", "--profile", "ana", "--embedder", "none", "--project", "home")

    settings = json.loads(config(*words, "--json").stdout)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    status = talk(started(settings), lambda it: it.call_tool("memory_status", {}), folder=elsewhere)

    assert status.structured_content["memories"] == 1
    assert (status.structured_content["profile"], status.structured_content["project"]) == ("ana", "home")
    assert Path(entry(settings)["command"]).is_absolute()


def test_for_claude_code_the_command_line_is_printed_and_says_the_same_as_the_json(tmp_path: Path):
    words = ("--client", "claude-code", "--store", str(tmp_path / "with space.db"))

    line = shlex.split(config(*words).stdout)

    assert line[:5] == ["claude", "mcp", "add", "retentive", "--"]
    assert line[5:] == started(json.loads(config(*words, "--json").stdout))


@pytest.mark.parametrize(
    ("client", "key", "place"),
    [
        ("claude-desktop", "mcpServers", "claude_desktop_config.json"),
        ("cursor", "mcpServers", ".cursor/mcp.json"),
        ("vscode", "servers", "Code/User/mcp.json"),
        ("windsurf", "mcpServers", ".codeium/windsurf/mcp_config.json"),
        ("zed", "context_servers", "zed/settings.json"),
        ("gemini-cli", "mcpServers", ".gemini/settings.json"),
        ("openclaw", "mcp", ".openclaw/openclaw.json"),
    ],
)
def test_standard_error_says_into_which_file_it_goes(client: str, key: str, place: str):
    result = config("--client", client)

    assert list(json.loads(result.stdout)) == [key]
    assert place in result.stderr
    assert result.stderr.startswith("put it into /")


def test_over_http_the_address_is_printed_and_a_place_for_the_token_where_one_is_needed(monkeypatch):
    here = entry(json.loads(config("--client", "cursor", "--http", "--project", "home").stdout))
    assert here == {"url": "http://127.0.0.1:4000/mcp", "headers": {"X-Project": "home"}}

    monkeypatch.setenv("RETENTIVE_SERVER_HOST", "memory.example")
    monkeypatch.setenv("RETENTIVE_SERVER_PORT", "4100")
    result = config("--client", "vscode", "--http")
    there = entry(json.loads(result.stdout))
    assert there["type"] == "http"
    assert there["url"] == "http://memory.example:4100/mcp"
    assert there["headers"] == {"Authorization": "Bearer YOUR-TOKEN"}
    assert "retentive token create" in result.stderr
    line = shlex.split(config("--client", "claude-code", "--http").stdout)
    assert line[-2:] == ["--header", "Authorization: Bearer YOUR-TOKEN"]
    assert "takes no address" in config("--client", "claude-desktop", "--http", code=2).stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--session", "s"), "--session: over HTTP a client can be limited to a project"),
        (("--read-only",), "--read-only: over HTTP the token determines what is allowed"),
        (("--explain",), "--explain: over HTTP the setting server.mcp_explain"),
    ],
)
def test_an_option_that_a_service_does_not_have_is_refused_with_what_to_do_instead(option: tuple[str, ...], said: str):
    shown = config("--client", "cursor", "--http", *option, code=2).stderr

    assert said in shown
    assert shown.count("over HTTP") == 1


def test_each_client_gets_the_names_of_its_own_file(tmp_path: Path):
    """Codex reads TOML; Windsurf and Gemini CLI have names of their own for an address."""
    store = tmp_path / 'with "quotes".db'
    printed = config("--client", "codex", "--store", str(store))
    codex = tomllib.loads(printed.stdout)["mcp_servers"]["retentive"]
    assert codex["args"][:2] == ["mcp", f"--store={store}"]
    assert ".codex/config.toml" in printed.stderr
    over_http = ("--http", "--project", "home")
    assert tomllib.loads(config("--client", "codex", *over_http).stdout)["mcp_servers"]["retentive"] == {
        "url": "http://127.0.0.1:4000/mcp",
        "http_headers": {"X-Project": "home"},
    }
    for client, path in {
        "windsurf": ("mcpServers", "retentive", "serverUrl"),
        "gemini-cli": ("mcpServers", "retentive", "httpUrl"),
        "zed": ("context_servers", "retentive", "url"),
        "openclaw": ("mcp", "servers", "retentive", "url"),
    }.items():
        found = json.loads(config("--client", client, *over_http).stdout)
        for name in path:
            found = found[name]
        assert found == "http://127.0.0.1:4000/mcp"


def test_behind_a_public_address_the_client_signs_in_by_oauth(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RETENTIVE_SERVER_PUBLIC_URL", "https://memory.example.org/")
    printed = config("--client", "cursor", "--http")
    assert entry(json.loads(printed.stdout)) == {"url": "https://memory.example.org/mcp"}
    assert "approve" in printed.stderr


def test_settings_that_a_client_does_not_hand_on_are_named_without_their_values(monkeypatch):
    monkeypatch.setenv("RETENTIVE_EMBEDDER_API_KEY", "sk-secret")

    result = config("--client", "cursor")

    assert "RETENTIVE_EMBEDDER_API_KEY" in result.stderr
    assert "sk-secret" not in result.output


def test_a_config_file_in_this_folder_is_handed_on_by_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "retentive.toml").write_text("[tuning]\nkeyword_weight = 2.0\n")

    assert f"--config={tmp_path / 'retentive.toml'}" in started(json.loads(config("--client", "cursor").stdout))


def test_places_given_before_config_are_refused_instead_of_forgotten():
    result = CliRunner().invoke(app, ["mcp", "--project", "home", "config", "--client", "cursor"])

    assert result.exit_code == 2
    assert "after 'config'" in result.stderr


def test_what_tools_there_are_is_answered_once_and_before_the_engine_is_imported(tmp_path: Path):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
    ]
    sent = "".join(json.dumps(message) + "\n" for message in messages)
    words = [*program(), "--store", str(tmp_path / "m.db"), "mcp", "--read-only"]
    ended = subprocess.run(words, input=sent, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]

    assert [one["id"] for one in answers] == [0, 1, 2]
    assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
    assert "read-only" in answers[0]["result"]["instructions"]
    assert {one["name"] for one in answers[1]["result"]["tools"]} == {"memory_get", "memory_recall", "memory_status"}

    imported = "import sys; from retentive.server import mcp_front; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", imported], capture_output=True, text=True, timeout=60, check=True)
    assert not {"mcp", "numpy", "pydantic", "typer"} & set(loaded.stdout.split())
