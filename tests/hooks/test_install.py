"""Installing hooks into the configuration of clients, and removing them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright._impl._driver import compute_driver_executable

from retentive.cli.mcp import in_cache
from retentive.errors import Invalid
from retentive.hooks.events import CLIENTS, EVENTS
from retentive.hooks.install import (
    FileChange,
    config_file,
    hook_program,
    installed_events,
    plan_install,
    plan_uninstall,
)
from retentive.hooks.options import HookOptions
from tests.surfaces.service import run

PROGRAM = ["/opt/with space/retentive"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCLAW_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


def options(client: str, **given: Any) -> HookOptions:
    return HookOptions(event="", client=client, store="/data/m.db", **given)


def apply(changes: list[FileChange]) -> int:
    for change in changes:
        change.apply()
    return sum(change.before != change.after for change in changes)


FOREIGN: dict[str, dict[str, Any]] = {
    "claude-code": {
        "model": "opus",
        "hooks": {
            "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "say done"}]}],
            "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}],
        },
    },
    "codex": {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "retentive-like hook"}]}]}},
    "cursor": {"version": 1, "hooks": {"stop": [{"command": "./audit.sh"}]}},
    "openclaw": {"agents": {"defaults": {}}, "plugins": {"allow": ["voice"], "entries": {"voice": {"enabled": True}}}},
}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_there_is_kept_and_comes_back_by_uninstalling(client: str) -> None:
    file = config_file(client)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(FOREIGN[client]))
    file.chmod(0o600)
    assert installed_events(client) == []
    assert apply(plan_install(PROGRAM, options(client))) > 0
    assert installed_events(client) == list(EVENTS)
    assert file.stat().st_mode & 0o777 == 0o600
    written = file.read_text()
    assert apply(plan_install(PROGRAM, options(client))) == 0  # a second time changes nothing
    assert file.read_text() == written
    assert apply(plan_install(PROGRAM, options(client, profile="ana"))) == 1  # and other options replace the first
    assert apply(plan_uninstall(client)) > 0
    assert json.loads(file.read_text()) == FOREIGN[client]
    assert installed_events(client) == []
    assert apply(plan_uninstall(client)) == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_without_capture_only_the_hooks_that_recall_are_installed(client: str) -> None:
    apply(plan_install(PROGRAM, options(client, capture=False)))
    if client == "openclaw":
        assert not json.loads((config_file(client).parent / "extensions/retentive/retentive.json").read_text())[
            "capture"
        ]
    else:
        assert installed_events(client) == ["session-start", "prompt"]


@pytest.mark.parametrize("content", [b"{ // a comment\n}", b"[1]", b'{"hooks": 3}', b'{"a": "\xff"}'])
def test_a_configuration_that_cannot_be_read_is_left_alone(content: bytes) -> None:
    file = config_file("claude-code")
    file.parent.mkdir()
    file.write_bytes(content)
    for plan in (lambda: plan_install(PROGRAM, options("claude-code")), lambda: plan_uninstall("claude-code")):
        with pytest.raises(Invalid, match=r"claude.*; nothing was changed\. Correct the file"):
            plan()
    assert file.read_bytes() == content


def test_the_status_names_a_configuration_that_cannot_be_read_beside_the_others(home: Path) -> None:
    file = config_file("claude-code")
    file.parent.mkdir()
    file.write_text("{,}")
    apply(plan_install(PROGRAM, options("codex")))

    status = json.loads(_run("--store", str(home / "m.db"), "hook", "status", "--json"))

    problems = {one["client"]: one["problem"] for one in status["clients"] if one["problem"]}
    assert problems.keys() == {"claude-code"}
    assert problems["claude-code"].startswith(f"{file} is not plain JSON")
    assert [one["client"] for one in status["clients"] if one["events"]] == ["codex"]
    assert f"claude-code  {file} is not plain JSON" in _run("--store", str(home / "m.db"), "hook", "status")


def test_a_link_to_a_configuration_stays_a_link(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}")
    file = config_file("cursor")
    file.parent.mkdir()
    file.symlink_to(real)
    apply(plan_install(PROGRAM, options("cursor")))
    assert file.is_symlink()
    assert "beforeSubmitPrompt" in real.read_text()


def test_the_command_line_shows_installs_reports_and_removes(home: Path) -> None:
    words = ("--store", str(home / "m.db"))
    shown = _run(*words, "hook", "install", "claude-code", "--dry-run")
    assert '+            "command": ' in shown
    assert not config_file("claude-code").exists()
    assert "changed" in _run(*words, "hook", "install", "claude-code")
    status = json.loads(_run(*words, "hook", "status", "--json"))
    assert [one["client"] for one in status["clients"] if one["events"]] == ["claude-code"]
    assert (status["service"], status["queued"]) == (None, 0)
    command = json.loads(config_file("claude-code").read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert f"--store={home / 'm.db'}" in command
    done = subprocess.run(command, shell=True, input=b"{}", capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert "the client sent no session" in (home / "m.db.hooks/hooks.log").read_text()
    config = home / "other.toml"
    config.write_text('[embedder]\nname = "http://127.0.0.1:9/v1"\nmodel = "nomic-embed-text"\n')
    assert f"--config={config}" in _run(*words, "--config", str(config), "hook", "install", "claude-code", "--dry-run")
    assert "changed" in _run(*words, "hook", "uninstall", "claude-code")
    assert json.loads(config_file("claude-code").read_text()) == {}


@pytest.mark.parametrize("url", ["localhost:4000", "https://127.0.0.1:4000", "http://127.0.0.1:4000/v1", "x"])
def test_an_address_that_no_hook_can_use_is_refused(home: Path, url: str) -> None:
    words = [sys.executable, "-m", "retentive", "hook", "install", "claude-code", "--url", url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--url: the address of the service is http://HOST:PORT, not {url}" in done.stderr


def test_an_installation_in_a_cache_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_cache()
    for folder in ("/home/ana/.cache/uv/archive-v0/x1", "/Users/ana/Library/Caches/pipx/x1"):
        monkeypatch.setattr(sys, "prefix", folder)
        assert in_cache()


def test_a_hook_imports_little_and_does_not_stop_a_prompt_if_the_package_is_gone() -> None:
    python, *flags, start, folder = hook_program()
    code = "import sys; sys.path.append(sys.argv[1]); import retentive.hooks.main; print(*sys.modules)"
    loaded = subprocess.run([python, *flags, code, folder], capture_output=True, text=True, check=True).stdout.split()
    assert not {"enum", "json", "pathlib", "re", "site", "socket", "typing"} & set(loaded)
    gone = subprocess.run([python, *flags, start, f"{folder}/gone", "hook", "prompt"], capture_output=True, check=False)
    assert (gone.returncode, gone.stdout) == (1, b"")


def _run(*words: str) -> str:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_openclaw_plugin_runs_the_hooks(home: Path) -> None:
    """The plugin in Node, with a program that records what it is given and answers like the hooks."""
    program = home / "fake"
    program.write_text(
        '#!/bin/sh\nread -r line; echo "$2 $line" >> '
        + str(home / "calls")
        + "\necho '{\"prependContext\": \"'$2'\"}'\n"
    )
    program.chmod(0o755)
    apply(plan_install([str(program)], options("openclaw")))
    script = home / "drive.mjs"
    script.write_text("""
        import plugin from "./.openclaw/extensions/retentive/index.js";
        const on = {};
        plugin.register({ on: (name, handler) => (on[name] = handler) });
        const context = { sessionId: "s1", workspaceDir: "/home/ana/boat", runId: "r1" };
        const first = await on.before_prompt_build({ prompt: "Where?" }, context);
        const second = await on.before_prompt_build({ prompt: "And now?" }, context);
        await on.agent_end({ messages: [{ role: "user", content: "Where?" }], success: true }, context);
        await on.session_end({ sessionId: "s1" }, context);
        console.log(JSON.stringify([plugin.id, first, second]));
    """)
    done = subprocess.run(
        [compute_driver_executable()[0], str(script)], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == [
        "retentive",
        {"prependContext": "session-start\n\nprompt"},
        {"prependContext": "session-start\n\nprompt"},
    ]
    calls = [line.split(" ", 1) for line in (home / "calls").read_text().splitlines()]
    assert [event for event, _ in calls] == [*["session-start", "prompt"] * 2, "turn-end", "session-end"]
    assert json.loads(calls[4][1]) == {
        "sessionId": "s1",
        "workspaceDir": "/home/ana/boat",
        "runId": "r1",
        "messages": [{"role": "user", "content": "Where?"}],
    }
