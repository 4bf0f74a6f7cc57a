"""What the documents say is run and compared with the program."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recollect.api.app import create_app
from recollect.cli.app import app
from recollect.ranking import PRESETS, Tuning
from tests.surfaces.chatting import chat_service
from tests.surfaces.model_server import model_server
from tests.surfaces.serving import listening

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def write_files(folder: Path) -> None:
    """The files that the documents show, each under the name that the comment before it gives."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for name, content in re.findall(
            r"^<!-- file: ([^\n]+) -->\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")


def test_every_python_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = [block for document in DOCUMENTS for block in blocks("python", document.read_text(encoding="utf-8"))]

    for block in found:
        exec(compile(block, "a block of the documents", "exec"), {})

    assert found
    assert "The spare key is under the blue pot" in capsys.readouterr().out


def test_every_recollect_command_in_the_documents_runs_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text('{"text": "a line of JSONL"}\n')
    write_files(tmp_path)
    lines = [
        line.removeprefix("$ recollect ")
        for document in DOCUMENTS
        for block in blocks("console", document.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if line.startswith("$ recollect ")
    ]

    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line, comments=True))
        assert result.exit_code == 0, (line, result.output)

    assert len(lines) > 8


def test_every_curl_call_in_the_documents_is_answered_well(engine):
    found = [
        call
        for document in DOCUMENTS
        for block in blocks("curl", document.read_text(encoding="utf-8"))
        for call in block.replace("\\\n", " ").splitlines()
    ]

    with listening(create_app(engine)) as port:
        for call in found:
            words = shlex.split(call.replace("localhost:4000", f"127.0.0.1:{port}"))
            done = subprocess.run([words[0], "-sS", "--fail-with-body", *words[1:]], capture_output=True, text=True)
            assert done.returncode == 0, (call, done.stdout, done.stderr)
            assert json.loads(done.stdout), call

    assert len(found) > 6


def test_the_block_for_clients_of_openai_runs(engine):
    block = "".join(blocks("py", (ROOT / "docs/chat.md").read_text(encoding="utf-8")))

    with model_server() as model, chat_service(engine, model.url) as url:
        exec(compile(block.replace("http://127.0.0.1:4000", url), "a block of docs/chat.md", "exec"), {})

    assert [memory.speaker for memory in engine.list(engine.scope(project="home")).memories] == ["assistant", "user"]


def test_every_make_target_in_the_documents_is_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    for document in DOCUMENTS:
        for target in re.findall(r"(?:\$ |`)make ([a-z]+)", document.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), (document.name, target)


def test_the_table_of_knobs_is_complete_and_has_the_defaults():
    section = README.split("## Knobs")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, flags=re.MULTILINE))

    def spelled(value: object) -> str:
        return f"{value:.2f}" if value in (0.80, 0.05, 0.15) else str(value).lower() if value != {} else "{}"

    assert rows == {name: spelled(value) for name, value in Tuning().model_dump().items()}


def test_the_ranges_in_the_table_are_those_of_the_knobs():
    ranges = re.findall(r"^\| `(\w+)` \| .*? \| (-?[\d.]+) – ([\d.]+) \|", README, flags=re.MULTILINE)
    schema = Tuning.model_json_schema(by_alias=False)["properties"]

    assert len(ranges) > 14
    for name, low, high in ranges:
        knob = schema[name]
        assert knob.get("minimum", knob.get("exclusiveMinimum")) == float(low), name
        assert knob["maximum"] == float(high), name


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_documented(name):
    assert f"`{name}`" in README


def test_every_link_to_a_file_leads_to_one():
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert link.startswith("http") or (document.parent / link).exists(), (document.name, link)
