"""`retentive setup` connects the clients of a machine, and undoes it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from retentive.cli.app import app

SETTINGS = '{\n    "model": "x",\r\n "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo hi"}]}]}\n}'
TOML = '# mine\nmodel = "o4"\n\n[mcp_servers.other]\ncommand = "x"'
TURNS = [
    {"type": "user", "uuid": "1", "timestamp": "2026-05-08T10:00:00Z", "message": {"content": "The port is 8080"}},
    {"type": "assistant", "uuid": "2", "timestamp": "2026-05-08T10:00:05Z",
     "message": {"id": "m", "content": [{"type": "text", "text": "I will use port 8080."}]}},
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("RETENTIVE_", "XDG_", "CLAUDE_", "CODEX_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for folder in (".claude", ".codex", ".cursor"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".claude/settings.json").write_bytes(SETTINGS.encode())
    (tmp_path / ".codex/config.toml").write_bytes(TOML.encode())
    return tmp_path


def setup(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["setup", *words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def files(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for folder in (".claude", ".codex", ".cursor", ".claude.json")
        for path in [home / folder, *(home / folder).rglob("*")]
        if path.is_file()
    }


def test_three_clients_are_connected_and_put_back_byte_for_byte(home: Path) -> None:
    before = files(home)
    shown = setup("--dry-run", "--no-service").output
    assert "+[mcp_servers.retentive]" in shown
    assert files(home) == before
    assert "use --yes" in setup("--no-service", code=2).output
    assert files(home) == before

    setup("--yes", "--no-service")
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == "echo hi"
    assert set(hooks) == {"Stop", "SessionStart", "UserPromptSubmit", "SessionEnd"}
    assert "retentive" in json.loads((home / ".claude.json").read_text())["mcpServers"]
    assert (home / ".codex/config.toml").read_text().startswith(TOML)
    connected = files(home)
    setup("--yes", "--no-service")
    assert files(home) == connected

    setup("--undo", "--yes")
    assert files(home) == before


def test_undo_keeps_what_others_have_changed_since(home: Path) -> None:
    setup("--yes", "--no-service")
    for name in (".cursor/mcp.json", ".claude/settings.json"):
        path = home / name
        path.write_text(json.dumps({**json.loads(path.read_text()), "added": 1}))
    codex = home / ".codex/config.toml"
    codex.write_text(codex.read_text() + "\n[mcp_servers.third]\ncommand = 'y'\n")
    setup("--yes", "--no-service", "--client", "codex")

    setup("--undo", "--yes")
    assert json.loads((home / ".cursor/mcp.json").read_text()) == {"added": 1, "mcpServers": {}}
    left = json.loads((home / ".claude/settings.json").read_text())
    assert left == {**json.loads(SETTINGS), "added": 1}
    assert codex.read_text().startswith(TOML)
    assert "third" in codex.read_text()
    assert "retentive" not in codex.read_text()


def test_earlier_sessions_are_imported_and_a_recall_shows_them(home: Path) -> None:
    transcript = home / ".claude/projects/-home-me-work/a.jsonl"
    transcript.parent.mkdir(parents=True)
    lines = [{"sessionId": "s", "cwd": "/home/me/work", **turn} for turn in TURNS]
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = json.loads(setup("--json", "--yes", "--no-service").stdout)
    assert done["memories"] == 2
    assert any("8080" in text for text in done["recalled"])


def test_a_file_that_is_not_plain_json_is_left_out_and_named(home: Path) -> None:
    (home / ".cursor/mcp.json").write_text("// mine\n{}")
    done = json.loads(setup("--json", "--yes", "--no-service").stdout)
    assert "cursor" in done["problems"][0]
    assert (home / ".cursor/mcp.json").read_text() == "// mine\n{}"
    assert not (home / ".cursor/hooks.json").exists()
