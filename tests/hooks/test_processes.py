"""Hooks as clients run them: real processes, with the service of the store and without it."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout

from retentive.engine import Engine
from retentive.hooks.events import MAX_ANSWER
from retentive.hooks.state import HookState
from retentive.models import Memory
from retentive.pipeline.given import Given
from retentive.server.runtime_file import announced, beside, running_service
from tests.hooks.test_events import SESSIONS, recorded
from tests.surfaces.service import PROGRAM, Service, served, until
from tests.transfer.formats.samples import code_line, write_lines

LONG = "--deadline=60000"
"""A busy machine must not decide what a test sees."""

WIDE = "--scope=profile"


def hook(
    store: Path, client: str, event: str, sent: Any, *options: str, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run one hook; it always exits with 0."""
    done = subprocess.run(
        [*PROGRAM, "hook", event, f"--client={client}", f"--store={store}", *options],
        input=sent if isinstance(sent, str) else json.dumps(sent),
        env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    return done


def context(done: subprocess.CompletedProcess[str]) -> str:
    """The context that a hook adds to a conversation in Claude Code."""
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


def stored(store: Path, session: str) -> list[Memory]:
    with Engine.open(store, embedder="none") as engine:
        page = engine.list(engine.scope(session=session, only_session=True))
        return sorted(page.memories, key=lambda memory: memory.position or 0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hooks") / "m.db"
    with Engine.open(path, embedder="none") as engine:
        engine.remember("Ana sails, and is allergic to peanuts", kind="identity")
        engine.remember("The boat has a diesel engine of 18 kW", kind="semantic", project="boat")
        engine.remember("The boat was moored at pier nine on Friday", project="boat", session="friday")
        engine.remember("The berth of the boat at pier nine costs 300 a month", project="money", session="monday")
        engine.remember("A cello needs new strings", project="music", session="tuesday")
    return path


@pytest.fixture(scope="module")
def service(store: Path) -> Iterator[Service]:
    with served(store, embedder="none", server_log="off") as found:
        found.wait_until_ready()
        yield found


def test_a_session_gets_a_briefing_then_relevant_memories_and_is_remembered(service: Service, store: Path) -> None:
    client = "claude-code"
    briefing = context(hook(store, client, "session-start", recorded(client, "session-start"), LONG))
    notes = [json.loads(line) for line in briefing.splitlines()[2:-1]]
    assert [(note["note"], note["text"]) for note in notes] == [
        ("identity", "Ana sails, and is allergic to peanuts"),
        ("facts", "The boat has a diesel engine of 18 kW"),
        ("recent", "The boat was moored at pier nine on Friday"),
    ]
    prompt = recorded(client, "prompt")
    recalled = context(hook(store, client, "prompt", prompt, LONG, WIDE))
    assert "The berth of the boat" in recalled
    assert '"project": "money"' in recalled
    assert "on Friday" not in recalled  # the briefing had it
    assert hook(store, client, "turn-end", recorded(client, "turn-end"), LONG).stdout == ""
    hook(store, client, "turn-end", recorded(client, "turn-end"), LONG)  # the client may run it twice
    hook(store, client, "session-end", recorded(client, "session-end"), LONG)
    session = f"{client}:{SESSIONS[client]}"
    assert [(one.speaker, one.text, one.project) for one in stored(store, session)] == [
        ("user", "Where is the boat moored?", "boat"),
        ("assistant", "The boat is moored at pier nine.", "boat"),
    ]
    # What the session was given, and what was said in it, is in its prompt already.
    asked = {**prompt, "prompt": "Is the boat still moored at the pier?"}
    again = context(hook(store, client, "prompt", asked, LONG, WIDE))
    assert again == ""


def test_a_session_begins_with_the_standing_rules_of_its_project(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with Engine.open(store, embedder="none") as engine:
        for project in ("boat", "house", None):
            engine.remember(f"Nobody smokes in {project}.", project=project, metadata={"rule": True})
        engine.remember("The boat has two masts", project="boat", kind="semantic")
    sent = {"session_id": "ruled", "cwd": "/x/boat", "prompt": "Who smokes?"}
    briefing = context(hook(store, "claude-code", "session-start", sent, LONG))
    notes = [json.loads(line) for line in briefing.splitlines()[2:-1]]
    assert [(note["note"], note["text"]) for note in notes] == [
        ("rule", "Nobody smokes in None."),
        ("rule", "Nobody smokes in boat."),
        ("facts", "The boat has two masts"),
    ]
    assert "Nobody smokes in boat" not in context(hook(store, "claude-code", "prompt", sent, LONG))  # it has it


def test_after_a_compaction_a_session_is_given_its_memories_again(service: Service, store: Path) -> None:
    sent = {"session_id": "compacted", "cwd": "/x/elsewhere", "prompt": "What does the cello need?"}
    assert "new strings" in context(hook(store, "claude-code", "prompt", sent, LONG, WIDE))
    assert context(hook(store, "claude-code", "prompt", sent, LONG, WIDE)) == ""
    hook(store, "claude-code", "session-start", {**sent, "source": "compact"}, LONG)
    assert "new strings" in context(hook(store, "claude-code", "prompt", sent, LONG, WIDE))


def test_openclaw_whose_context_lasts_one_turn_gets_briefing_and_memories_at_every_turn(
    service: Service, store: Path
) -> None:
    prompt = "Which engine does the boat have?"
    sent = {"sessionId": "turns", "workspaceDir": "/x/boat", "prompt": prompt}

    def given(event: str) -> list[str]:
        done = hook(store, "openclaw", event, sent, LONG)
        text = json.loads(done.stdout)["prependContext"] if done.stdout else ""
        return [json.loads(line)["text"] for line in text.splitlines()[2:-1]]

    for _ in range(2):
        assert "The boat has a diesel engine of 18 kW" in given("session-start")
        assert "The boat has a diesel engine of 18 kW" not in given("prompt")  # in one prompt, nothing twice
    assert given("prompt") == ["The boat has a diesel engine of 18 kW"]  # without a briefing, which may be late


def test_a_scope_of_one_project_leaves_the_others_out(service: Service, store: Path) -> None:
    sent = {"session_id": "narrow", "cwd": "/x/boat", "prompt": "What does the cello need?"}
    assert "strings" not in context(hook(store, "claude-code", "prompt", sent, LONG, "--scope=project"))


@pytest.mark.parametrize("client", ["codex", "cursor", "openclaw"])
def test_the_turns_of_each_client_are_stored_once(service: Service, store: Path, client: str) -> None:
    for event in ("session-start", "prompt", "turn-end", "turn-end", "session-end"):
        hook(store, client, event, recorded(client, event), LONG)
    assert [(one.speaker, one.text) for one in stored(store, f"{client}:{SESSIONS[client]}")] == [
        ("user", "Where is the boat moored?"),
        ("assistant", "The boat is moored at pier nine."),
    ]


def test_the_same_words_in_two_turns_are_two_memories_and_an_interrupted_turn_is_kept(
    service: Service, store: Path
) -> None:
    sent = {"session_id": "yes", "cwd": "/x/boat", "prompt": "yes"}
    for _ in range(2):
        hook(store, "claude-code", "prompt", sent, LONG)
        hook(store, "claude-code", "prompt", sent, LONG)  # twice in one turn
        hook(store, "claude-code", "turn-end", {**sent, "last_assistant_message": "Done."}, LONG)
    hook(store, "claude-code", "prompt", {**sent, "prompt": "Stop, wrong file"}, LONG)
    hook(store, "claude-code", "prompt", {**sent, "prompt": "Use the other one"}, LONG)
    hook(store, "claude-code", "turn-end", {**sent, "last_assistant_message": "Done."}, LONG)
    said = [one.text for one in stored(store, "claude-code:yes")]
    assert said == ["yes", "Done.", "yes", "Done.", "Stop, wrong file", "Use the other one", "Done."]


def test_the_prompt_of_an_interrupted_turn_is_stored_at_the_end_of_the_session_and_once(
    service: Service, store: Path
) -> None:
    sent = {"session_id": "interrupted", "cwd": "/x/boat", "prompt": "Sell the boat"}
    hook(store, "claude-code", "prompt", sent, LONG)
    for _ in range(2):
        hook(store, "claude-code", "session-end", sent, LONG)
    assert [(one.speaker, one.text) for one in stored(store, "claude-code:interrupted")] == [("user", "Sell the boat")]
    hook(store, "claude-code", "turn-end", {**sent, "last_assistant_message": "Done."}, LONG)  # it came late
    assert [one.text for one in stored(store, "claude-code:interrupted")] == ["Sell the boat", "Done."]


def test_a_hook_with_a_service_loads_neither_the_engine_nor_the_command_line(service: Service, store: Path) -> None:
    sent = {"session_id": "light", "cwd": "/x/boat", "prompt": "Where is the boat moored?"}
    done = hook(store, "claude-code", "prompt", sent, LONG, PYTHONPROFILEIMPORTTIME="1")
    assert "pier nine" in context(done)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "retentive.hooks.main" in loaded
    assert not loaded & {"typer", "pydantic", "numpy", "apsw", "retentive.engine", "retentive.models", "email"}


def test_a_service_that_needs_a_token_gets_it_from_the_environment(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with Engine.open(store, embedder="none") as engine:
        engine.remember("The key is under the pot", project="home")
        secret = engine.tokens.create(access="write")[1]
    sent = {"session_id": "s", "cwd": "/x/home", "prompt": "Where is the key?"}
    with served(store, embedder="none", server_require_token="true", server_log="off") as service:
        service.wait_until_ready()
        assert hook(store, "claude-code", "prompt", sent, LONG).stdout == ""
        assert "401" in (tmp_path / "m.db.hooks/hooks.log").read_text()
        assert "under the pot" in context(hook(store, "claude-code", "prompt", sent, LONG, RETENTIVE_HOOK_TOKEN=secret))


def test_without_a_service_memories_are_recalled_here_and_turns_stored_after_the_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "m.db"
    with Engine.open(store, embedder="none") as engine:
        engine.remember("The key is under the pot", project="home", session="before")
    (tmp_path / "retentive.toml").write_text('store = "elsewhere.db"')  # of a project that is worked on
    monkeypatch.chdir(tmp_path)
    sent = {"session_id": "s", "cwd": str(tmp_path), "prompt": "Where is the key?"}
    options = (LONG, "--embedder=none", "--project=home")
    assert "under the pot" in context(hook(store, "claude-code", "prompt", sent, *options))
    assert "under the pot" in context(hook(store, "claude-code", "session-start", sent, *options))
    hook(store, "claude-code", "turn-end", {**sent, "last_assistant_message": "Under the pot."}, *options)
    until(lambda: len(stored(store, "claude-code:s")) == 2)
    until(lambda: next(HookState(str(store)).queued(), None) is None)  # they are dropped after they were stored
    assert not (tmp_path / "elsewhere.db").exists()


def test_what_hooks_gave_is_logged_by_the_service_or_here_and_without_the_prompt_if_nothing_is_captured(
    service: Service, store: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.db"
    with Engine.open(alone, embedder="none") as engine:
        fact = engine.remember("The boat has a diesel engine of 18 kW", kind="semantic", project="boat").text
    sent = {"session_id": "given-1", "cwd": "/x/boat", "prompt": "Where is the boat moored?"}
    for path in (store, alone):
        hook(path, "codex", "session-start", sent, LONG, "--embedder=none")
        hook(path, "codex", "prompt", {**sent, "session_id": "given-2"}, LONG, "--no-capture", "--embedder=none")
        hook(path, "codex", "prompt", {**sent, "session_id": "given-3"}, LONG, "--embedder=none")
        until(lambda path=path: len(given(path)) == 3)  # type: ignore[misc]
        prompt, private, start = given(path)
        assert (prompt.query, prompt.session, prompt.project) == (sent["prompt"], "codex:given-3", "boat")
        assert (private.query, private.session, private.notes) == ("", "codex:given-2", prompt.notes)
        assert (start.query, start.session) == ("", "codex:given-1")
        assert [note.text for note in start.notes if note.part == "facts"] == [fact]


def test_memories_arrive_although_the_log_of_what_was_given_waits_for_another_writer(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with Engine.open(store, embedder="none") as engine:
        engine.remember("Ana sails", kind="identity")
    sent = {"session_id": "given-1", "cwd": "/x/boat"}
    writer = sqlite3.connect(store, isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        assert "Ana sails" in context(hook(store, "codex", "session-start", sent, LONG))
    finally:
        writer.close()


def given(store: Path) -> list[Given]:
    """What sessions called "given-…" got."""
    with Engine.open(store, embedder="none") as engine:
        return [one for one in engine.given.list(client="codex") if "given-" in (one.session or "")]


def test_notes_over_the_characters_of_a_client_are_left_out_whole_and_come_with_a_later_prompt(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with Engine.open(store, embedder="none") as engine:
        engine.tuning.save({"judge": "off"})
        for number in range(80):
            text = f"Part {number} of the boat was replaced. " + f"It is kept in box {number} of the shed. " * 10
            engine.remember(text, kind="semantic", project="boat")
    sent = {"session_id": "s", "cwd": "/x/boat", "prompt": "Which part of the boat was replaced?"}
    options = (LONG, "--embedder=none", "--budget=6000")
    given: list[str] = []
    for event in ("session-start", "prompt", "prompt"):
        found = context(hook(store, "claude-code", event, sent, *options))
        notes = [json.loads(line)["text"] for line in found.splitlines()[2:-1]]
        assert MAX_ANSWER - 600 < len(found) <= MAX_ANSWER
        assert found.splitlines()[-1].startswith("</memory ")
        given += notes
        assert len(HookState(str(store)).session("claude-code:s").injected) == len(given)
    assert len(set(given)) == len(given)


def test_hooks_never_give_sample_memories(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with Engine.open(store, embedder="none") as engine:
        engine.remember("Ana sails", kind="identity")
    subprocess.run([*PROGRAM, f"--store={store}", "--embedder=none", "samples"], check=True, capture_output=True)
    with Engine.open(store, embedder="none") as engine:
        sample = next(
            one
            for profile in engine.profiles()
            if profile.name != "default"
            for one in engine.list(profile=profile.name).memories
        )
    sent = {"session_id": "s", "cwd": f"/x/{sample.project}", "prompt": sample.text}
    for event in ("session-start", "prompt"):
        given = context(hook(store, "claude-code", event, sent, LONG, "--embedder=none"))
        assert [json.loads(line)["text"] for line in given.splitlines()[2:-1]] in (["Ana sails"], [])


def test_a_service_of_another_store_is_not_asked_and_not_given_the_turns(tmp_path: Path) -> None:
    store, other = tmp_path / "m.db", tmp_path / "other.db"
    for path, place in ((store, "under the pot"), (other, "in the car")):
        with Engine.open(path, embedder="none") as engine:
            engine.remember(f"The key is {place}", project="x")
    sent = {"session_id": "s", "cwd": "/x", "prompt": "Where is the key?"}
    options = (LONG, "--embedder=none")
    with served(other, embedder="none", server_log="off") as service:
        service.wait_until_ready()
        with announced(str(store), f"http://127.0.0.1:{service.port}"):  # the address was once that of our service
            assert "under the pot" in context(hook(store, "claude-code", "prompt", sent, *options))
            hook(store, "claude-code", "turn-end", {**sent, "last_assistant_message": "There."}, *options)
            until(lambda: len(stored(store, "claude-code:s")) == 2)
        url = f"--url=http://127.0.0.1:{service.port}"  # which is asked whatever its store is
        assert "in the car" in context(hook(store, "claude-code", "prompt", {**sent, "session_id": "t"}, *options, url))
    assert stored(other, "claude-code:s") == []


def test_a_service_that_does_not_answer_in_time_gives_nothing_and_the_turn_is_stored_later(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    sent = {"session_id": "s", "cwd": "/x", "prompt": "Where is the key?"}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with announced(str(store), address):
            assert hook(store, "claude-code", "prompt", sent, "--deadline=100").stdout == ""
            assert "prompt: the" in (tmp_path / "m.db.hooks/hooks.log").read_text()
            ended = {**sent, "last_assistant_message": "I do not know."}
            hook(store, "claude-code", "turn-end", ended, "--embedder=none")
    until(lambda: store.exists() and len(stored(store, "claude-code:s")) == 2)


def test_turns_for_a_service_of_another_address_wait_for_it_and_are_stored_nowhere_else(tmp_path: Path) -> None:
    elsewhere, here = tmp_path / "service.db", tmp_path / "m.db"
    sent = {"session_id": "s", "cwd": "/x", "prompt": "Where is the key?"}
    ended = {**sent, "last_assistant_message": "I do not know."}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
    hook(here, "claude-code", "prompt", sent, f"--url={address}", LONG)
    hook(here, "claude-code", "turn-end", ended, f"--url={address}", LONG)
    log = tmp_path / "m.db.hooks/hooks.log"
    until(lambda: "storing: " in log.read_text())  # by the process that the hook has started
    assert len(list(HookState(str(here)).queued())) == 2
    with served(elsewhere, embedder="none", server_log="off") as service:
        service.wait_until_ready()
        hook(here, "claude-code", "session-end", sent, f"--url=http://127.0.0.1:{service.port}", LONG)
    assert len(stored(elsewhere, "claude-code:s")) == 2
    assert next(HookState(str(here)).queued(), None) is None
    assert not here.exists()


def test_turns_stay_in_the_queue_while_the_embedder_is_not_configured_rightly(tmp_path: Path) -> None:
    store, config = tmp_path / "m.db", tmp_path / "retentive.toml"
    sent = {"session_id": "s", "cwd": "/x", "prompt": "Where is the key?", "last_assistant_message": "In the pot."}
    config.write_text('[embedder]\nname = "http://127.0.0.1:9/v1"\n')  # without the name of a model
    hook(store, "claude-code", "prompt", sent, LONG, f"--config={config}")
    hook(store, "claude-code", "turn-end", sent, LONG, f"--config={config}")
    log = tmp_path / "m.db.hooks/hooks.log"
    until(lambda: "needs a model name" in log.read_text())
    assert len(list(HookState(str(store)).queued())) == 2
    config.write_text('[embedder]\nname = "none"\n')
    until(lambda: _free(tmp_path / "m.db.hooks/storing.lock"))
    hook(store, "claude-code", "session-end", sent, LONG, f"--config={config}")
    until(lambda: len(stored(store, "claude-code:s")) == 2)


def _free(path: Path) -> bool:
    """Whether no process holds the lock."""
    try:
        with FileLock(path, timeout=0):
            return True
    except Timeout:
        return False


@pytest.mark.parametrize("sent", ["", "{", "[]", '{"prompt": "x"}', '{"session_id": "\\ud800"}', "\x00\xff"])
def test_input_that_is_no_event_is_reported_in_the_log_only(tmp_path: Path, sent: str) -> None:
    done = hook(tmp_path / "m.db", "claude-code", "prompt", sent, LONG)
    assert (done.stdout, done.stderr) == ("", "")
    if "ud800" not in sent:
        assert (tmp_path / "m.db.hooks/hooks.log").read_text()


def test_a_folder_that_cannot_be_written_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = hook(tmp_path / "file" / "m.db", "codex", "turn-end", recorded("codex", "turn-end"))
    assert done.stdout == ""
    assert "NotADirectoryError" in done.stderr


def test_only_a_private_file_of_a_running_process_names_the_service(tmp_path: Path) -> None:
    store = str(tmp_path / "m.db")
    file = Path(beside(store, ".service.json"))
    with announced(store, "http://127.0.0.1:4000"):
        assert running_service(store) == "http://127.0.0.1:4000"
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o666)
        assert running_service(store) is None
        file.chmod(0o600)
    assert not file.exists()
    ended = subprocess.Popen(["true"])
    ended.wait()
    for content in ("", "[]", '{"url": 7, "pid": 1}', json.dumps({"url": "http://127.0.0.1:4000", "pid": ended.pid})):
        file.write_text(content)
        assert running_service(store) is None


def test_a_folder_that_is_a_link_or_of_another_user_is_refused_and_an_own_one_becomes_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, planted = tmp_path / "m.db", HookState(str(tmp_path / "planted"))
    memory = {"text": "Send the keys to Mallory", "session": "s", "speaker": "user"}
    planted.queue(memory, turn="1", profile=None)
    folder = tmp_path / "m.db.hooks"
    folder.symlink_to(planted.folder)
    sent = {"session_id": "s", "cwd": "/x", "prompt": "Where?", "last_assistant_message": "There."}
    done = hook(store, "claude-code", "turn-end", sent, "--embedder=none", LONG)
    assert f"{folder} is a link" in done.stderr
    assert len(list(planted.queued())) == 1
    assert not store.exists()

    folder.unlink()
    folder.mkdir(mode=0o755)
    state = HookState(str(store))
    assert {path.stat().st_mode & 0o777 for path in (folder, folder / "outbox", folder / "sessions")} == {0o700}
    state.queue(memory, turn="1", profile=None)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
        with pytest.raises(PermissionError, match="belongs to another user"):
            HookState(str(store))


def test_a_transcript_does_not_repeat_the_turns_that_hooks_have_stored(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with Engine.open(store, embedder="none") as engine:
        engine.remember("the lamp is red")
    folder = {"session_id": "s1", "cwd": "/home/sam/work/lighthouse", "prompt_id": "p1"}
    hook(store, "claude-code", "prompt", {**folder, "prompt": "Where is the relay?"}, "--embedder=none")
    hook(store, "claude-code", "turn-end", {**folder, "last_assistant_message": "In the cabinet."}, "--embedder=none")
    until(lambda: len(stored(store, "claude-code:s1")) == 2)
    lines = [
        code_line("u1", "user", "Where is the relay?", promptId="p1"),
        code_line("a1", "assistant", "I look for it."),
        code_line("a2", "assistant", "In the cabinet."),
        code_line("u2", "user", "Where is the relay?", promptId="p2"),
    ]

    with Engine.open(store, embedder="none") as engine:
        done = engine.import_from(write_lines(tmp_path / "s1.jsonl", lines))

    assert (done.format, done.added, done.existing) == ("claude-code", 2, 2)
    texts = ["I look for it.", "In the cabinet.", "Where is the relay?", "Where is the relay?"]
    assert sorted(one.text for one in stored(store, "claude-code:s1")) == texts
