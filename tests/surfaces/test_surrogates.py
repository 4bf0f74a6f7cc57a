"""Half of a surrogate pair is no character: every surface refuses it, and nothing is stored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection

import pytest
from typer.testing import CliRunner

from retentive.cli.app import app
from retentive.stores import open_store
from tests.surfaces.serving import client, listening, problem, wrong_fields

HALF = r"half \ud800"
JSON = {"Content-Type": "application/json"}
BYTES = b"\xed\xa0\x80"


@pytest.fixture
def asking(open_engine):
    engine = open_engine(None)
    engine.remember("apples", session="s")
    with client(engine) as asking:
        yield asking
        assert [memory.text for memory in engine.list().memories] == ["apples"]
        assert [one.name for one in engine.sessions()] == ["s"]
        assert (engine.tuning.saved(), engine.judgements.list()) == ({}, [])


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/recall", f'{{"query": "{HALF}"}}', "query"),
        ("POST", "/v1/recall", f'{{"query": "x", "session": ["s", "{HALF}"]}}', "session.1"),
        ("POST", "/v1/recall", f'{{"query": "x", "project": "{HALF}"}}', "project"),
        ("POST", "/v1/recall", f'{{"query": "x", "tuning": {{"sourceWeights": {{"{HALF}": 1}}}}}}',
         "tuning.sourceWeights"),
        ("POST", "/v1/memories", f'[{{"text": "a"}}, {{"text": "b", "metadata": {{"x": ["{HALF}"]}}}}]',
         "1.metadata.x.0"),
        ("PATCH", "/settings", f'{{"sourceWeights": {{"{HALF}": 2}}}}', "sourceWeights"),
        ("POST", "/v1/context", f'{{"messages": [{{"role": "user", "content": "{HALF}"}}]}}', "messages.0.content"),
        ("PATCH", "/v1/sessions/s", f'{{"project": "{HALF}"}}', "project"),
        ("POST", "/v1/recall", f'{{"{HALF}": 1}}', "body"),
    ],
)  # fmt: skip
def test_a_body_with_half_a_pair_is_422_and_the_field_is_named(asking, method, path, body, field):
    assert wrong_fields(asking.request(method, path, content=body, headers=JSON)) == [field]


def test_raw_bytes_in_a_body_are_422_too(asking):
    body = b'{"text": "half ' + BYTES + b'"}'
    assert wrong_fields(asking.post("/v1/memories", content=body, headers=JSON)) == ["text"]


def test_a_whole_pair_is_a_character(asking):
    answer = asking.post("/v1/recall", content=r'{"query": "\ud83c\udf89"}', headers=JSON)
    assert (answer.status_code, answer.json()["query"]) == (200, "🎉")


def test_a_chat_request_with_half_a_pair_is_422_in_the_format_of_openai(asking):
    body = f'{{"messages": [{{"role": "user", "content": "{HALF}"}}]}}'
    answer = asking.post("/v1/chat/completions", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "messages.0.content")


@pytest.mark.parametrize("path", ["/v1/memories?session=%ED%A0%80", "/episodes/search?q=x&sessionIds=%ED%BF%BF",
                                  "/v1/sessions/%ED%A0%80"])  # fmt: skip
def test_an_address_with_half_a_pair_is_422(asking, path):
    problem(asking.get(path), 422, "invalid")


@pytest.mark.parametrize("header", ["X-Profile", "X-Session", "X-Project", "Idempotency-Key"])
def test_a_header_with_half_a_pair_is_422(asking, header):
    with listening(asking.app) as port, closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", "/v1/context", '{"query": "x"}', {**JSON, header: b"half " + BYTES})
        answer = connection.getresponse()
        assert answer.status == 422
        assert header.lower() in json.loads(answer.read())["detail"]


def test_arguments_of_mcp_with_half_a_pair_are_refused(asking):
    headers = {**JSON, "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"}
    for name, argument in (("memory_recall", "query"), ("memory_remember", "text")):
        call = (
            f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", '
            f'"params": {{"name": "{name}", "arguments": {{"{argument}": "{HALF}"}}}}}}'
        )
        answer = asking.post("/mcp", content=call, headers=headers)
        assert f"params.arguments.{argument}: half of" in problem(answer, 422, "invalid")["detail"]


@pytest.mark.parametrize(
    "words",
    [
        [b"recall", b"half \xff"], [b"remember", b"half \xff"], [b"remember", b"pears", b"--session", b"half \xff"],
        [b"recall", b"apples", b"--project", b"half \xff"], [b"list", b"--session", b"half \xff"],
        [b"config", b"set", b'source_weights={"\xff": 2}'],
    ],
)  # fmt: skip
def test_arguments_of_the_command_line_that_are_not_utf_8_are_refused(tmp_path, words):
    store = str(tmp_path / "store.db")
    open_store(store).close()
    program = [sys.executable, "-c", "from retentive.cli import main; main()", "--store", store, "--embedder", "none"]
    done = subprocess.run([*program, "--json", *words], capture_output=True, check=False, timeout=120)

    assert done.returncode == 2, done.stderr
    message = json.loads(done.stderr)["error"]["message"]
    assert message.endswith("is not valid UTF-8"), message
    with closing(open_store(store)) as opened:
        assert opened.stats().memories == 0


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("words", [["remember"], ["remember", "--jsonl", "-"], ["remember", "--jsonl", "file.jsonl"]])
def test_input_of_the_command_line_that_is_not_utf_8_is_refused(tmp_path, words, strict):
    (tmp_path / "file.jsonl").write_bytes(b'{"text": "caf\xe9"}')
    program = [sys.executable, "-m", "retentive", "--store", "store.db", "--embedder", "none", *words]
    env = {**os.environ, "PYTHONIOENCODING": f"utf-8:{'strict' if strict else 'surrogateescape'}"}
    given = (tmp_path / "file.jsonl").read_bytes()
    done = subprocess.run(program, cwd=tmp_path, env=env, input=given, capture_output=True, check=False, timeout=120)

    where = "file.jsonl is not valid UTF-8 at byte 14; nothing" if "file.jsonl" in words else "standard input is not"
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"error: {where}"), done.stderr
    with closing(open_store(str(tmp_path / "store.db"))) as opened:
        assert opened.stats().memories == 0


def test_half_a_pair_in_json_on_the_command_line_is_called_so(tmp_path):
    words = ["--store", str(tmp_path / "store.db"), "remember", "--jsonl", "-"]
    refused = CliRunner().invoke(app, words, input='{"text": "\\ud800"}')

    assert (refused.exit_code, "line 1 of -: text: character 1 is half of a surrogate" in refused.stderr) == (2, True)
