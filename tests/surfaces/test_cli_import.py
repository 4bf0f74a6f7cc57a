"""`retentive import`, `export` and `imports`, in processes of their own where that matters."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from retentive.extras import pip_install
from retentive.stores import open_store
from tests.surfaces.test_cli import json_of, run
from tests.transfer.formats.samples import (
    a_chatgpt_conversation,
    chatgpt_conversation,
    chatgpt_node,
    write_json,
    write_lines,
)

NONE = ("--embedder", "none")
RETENTIVE = (sys.executable, "-m", "retentive", *NONE)


def process(*words: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RETENTIVE, *map(str, words)], capture_output=True, text=True, **options)


def sample(tmp_path: Path) -> Path:
    noise = chatgpt_node("x", "root", "tool", "42")
    return write_json(tmp_path / "conversations.json", [a_chatgpt_conversation(), chatgpt_conversation(noise, id="c2")])


def test_an_import_can_be_tried_listed_and_undone(tmp_path):
    path = sample(tmp_path)

    trial = run("import", str(path), "--dry-run").stdout
    done = run("import", str(path), "--embedder", "none").stdout

    assert "chatgpt: 3 would be added, 0 already stored" in trial
    assert "chatgpt: 3 added, 0 already stored" in done
    assert "1  a tool result" in done
    (imported,) = json_of("imports")["imports"]
    assert imported["id"] in done
    assert imported["id"] in run("imports").stdout
    assert json_of("imports", "undo", imported["id"]) == {
        "run": imported["id"], "memories": 3, "judgements": 0, "settings": 0,
    }  # fmt: skip
    assert "no imports" in run("imports").stdout
    assert json_of("list")["memories"] == []
    assert "there is no import" in run("imports", "undo", "nothing", code=3).output


def test_everything_is_in_the_json_and_one_by_one_in_the_report(tmp_path):
    report = tmp_path / "report.jsonl"

    done = json_of("import", str(sample(tmp_path)), "--report", str(report), "--project", "home", "--embedder", "none")

    assert done == {
        "format": "chatgpt", "path": str(tmp_path / "conversations.json"), "dry_run": False, "run": done["run"],
        "resumed": False, "added": 3, "existing": 0, "judgements": 0, "settings": 0, "unembedded": 3,
        "skipped": {"a tool result": 1}, "warnings": {}, "truncated": [], "profiles": {"default": 3},
    }  # fmt: skip
    assert [json.loads(line) for line in report.read_text().splitlines()] == [
        {"kind": "skipped", "where": "conversations.json, element 2, message x", "reason": "a tool result"}
    ]
    assert {memory["project"] for memory in json_of("list")["memories"]} == {"home"}

    run("import", str(sample(tmp_path)), "--report", str(report), "--embedder", "none")  # takes the old one's place
    assert len(report.read_text().splitlines()) == 1


def test_a_truncated_file_is_imported_up_to_its_end_with_exit_code_1(tmp_path):
    path = sample(tmp_path)
    path.write_text(path.read_text()[:-200])

    done = run("import", str(path), "--embedder", "none", code=1).stdout

    assert "3 added" in done
    assert "reading stopped: conversations.json, after element 1: invalid or incomplete JSON" in done


def test_a_file_that_has_nothing_of_the_named_format_is_said_to_be_of_another(tmp_path):
    path, empty = sample(tmp_path), write_json(tmp_path / "empty.json", [])

    def imported(*words: str) -> str:
        return run("import", *words, "--embedder", "none").stdout

    wrong = imported(str(path), "--format", "claude")
    assert wrong.startswith("claude: 0 added, 0 already stored\n")
    assert f"no conversation of the format claude was found in {path}; it looks like chatgpt, which is read" in wrong
    assert f"no memory of the format mem0 was found in {empty}\n" in imported(str(empty), "--format", "mem0")
    for _ in range(2):
        assert "was found in" not in imported(str(path), "--format", "chatgpt")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["import", "nothing.json"], 3, "there is no nothing.json"),
        (["import", "{tmp}/x.bin"], 2, "--format"),
        (["import", "{tmp}/x.bin", "--format", "word"], 2, "the formats are jsonl, chatgpt"),
        (["import", "{tmp}/x.bin", "--format", "chatgpt", "--report", "{tmp}/no/report"], 2, "cannot be written"),
        (["import", "{tmp}/x.bin", "--format", "chatgpt", "--report", "{tmp}/x.bin"], 4, "is not a report"),
        (["export", "{tmp}/x.bin"], 4, "--force"),
        (["export", "{tmp}/y", "--everything", "--project", "p"], 2, "everything exports the whole store"),
    ],
)
def test_errors_have_the_exit_code_of_their_kind(tmp_path, words, code, says):
    (tmp_path / "x.bin").write_bytes(b"\0\1")
    open_store(str(tmp_path / "store.db")).close()

    assert says in run(*(word.format(tmp=tmp_path) for word in words), code=code).output
    assert (tmp_path / "x.bin").read_bytes() == b"\0\1"


def test_texts_from_files_cannot_control_the_terminal(tmp_path):
    node = chatgpt_node("x\x1b[2J", "root", "\x1b]0;owned\x07", "hello")

    output = run("import", str(write_json(tmp_path / "a.json", [chatgpt_conversation(node)]))).output

    assert "\x1b" not in output
    assert "unknown role" in output


def test_a_hit_from_an_imported_note_shows_its_file_and_line(tmp_path, monkeypatch):
    note = tmp_path / "notes" / "house" / "key.md"
    note.parent.mkdir(parents=True)
    note.write_text("\nThe spare key lies under the pot.\n")
    run("import", str(tmp_path / "notes"), "--embedder", "none")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert f"{note}:2" in run("recall", "spare key", "--embedder", "none").output.replace("\n", "")


def test_an_export_goes_to_a_file_or_to_standard_output_and_comes_back(tmp_path):
    run("import", str(sample(tmp_path)), "--embedder", "none")
    run("remember", "Ben's own", "--profile", "ben", "--embedder", "none")

    written = run("export", str(tmp_path / "mine.jsonl"))
    piped = process("export", "-", "--everything")

    assert "3 memories and 0 judgements written" in written.stdout
    assert "1 other profile was not exported; --everything" in written.output
    assert piped.stdout.splitlines()[-1] == '{"end": {"memories": 4, "judgements": 0, "kept": 0}}'
    (tmp_path / "all.jsonl").write_text(piped.stdout)
    done = json_of("import", str(tmp_path / "all.jsonl"), "--store", str(tmp_path / "other.db"), "--embedder", "none")
    assert (done["format"], done["added"], done["skipped"]) == ("jsonl", 4, {})
    assert len(json_of("list", "--profile", "ben", "--store", str(tmp_path / "other.db"))["memories"]) == 1


def test_a_killed_import_continues_and_is_undone_exactly(tmp_path):
    store = tmp_path / "store.db"
    path = write_lines(tmp_path / "notes.jsonl", ({"text": f"note number {at}"} for at in range(8_000)))
    early = write_lines(tmp_path / "early.jsonl", ({"text": f"note number {at}"} for at in range(0, 8_000, 40)))
    assert json_of("import", str(early), *NONE)["added"] == 200
    opened = open_store(str(store))

    gate = apsw.Connection(str(store))
    gate.set_busy_timeout(90_000)

    for _ in range(2):
        before = opened.stats().memories
        killed = subprocess.Popen([*RETENTIVE, "import", str(path)], stdout=subprocess.DEVNULL)
        while opened.stats().memories < before + 500:
            assert killed.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        gate.execute("BEGIN IMMEDIATE")  # it is somewhere in the middle now, and comes no further
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        gate.execute("ROLLBACK")
    there = opened.stats().memories
    gate.close()
    assert 1200 <= there < 8_000

    done = json_of("import", str(path), *NONE)
    again = json_of("import", str(path), *NONE)

    assert (done["added"], done["existing"], done["resumed"]) == (8_000 - there, there, True)
    assert (again["added"], again["existing"], again["run"]) == (0, 8_000, None)
    assert opened.check() == []
    assert [run["added"] for run in json_of("imports")["imports"]] == [7_800, 200]
    assert json_of("imports", "undo", done["run"], *NONE)["memories"] == 7_800
    assert opened.stats().memories == 200
    opened.close()


MANY = 12_000


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_says_what_was_stored_and_how_to_continue_and_the_list_shows_it(tmp_path, as_json):
    path = write_lines(tmp_path / "notes.jsonl", ({"text": f"note number {at}"} for at in range(MANY)))
    opened = open_store(str(tmp_path / "store.db"))
    command = [*RETENTIVE, "import", str(path), *(["--json"] if as_json else [])]

    # A shell starts what runs in the background with SIGINT ignored, and children inherit that.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    stopped = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, heard)
    while opened.stats().memories < 1000:
        assert stopped.poll() is None, "it ended before it could be stopped"
        time.sleep(0.01)
    stopped.send_signal(signal.SIGINT)
    output, said = stopped.communicate()

    stored = opened.stats().memories
    opened.close()
    (run_,) = json_of("imports")["imports"]
    assert (stopped.returncode, output, run_["added"], run_["ended"]) == (130, "", stored, None)
    message = json.loads(said)["error"]["message"] if as_json else said
    assert f"{stored:,} memories are stored. To continue, run the same command again" in message
    assert f"to undo it: retentive imports undo {run_['id']}" in message
    assert f"{stored:,}" in run("imports").stdout
    assert "interrupted" in run("imports").stdout
    assert json_of("import", str(path), *NONE)["added"] == MANY - stored


def peak_memory(*words: str | Path) -> tuple[int, dict[str, object]]:
    """The most memory that a process ever had, in bytes, and what it said."""
    script = (
        "import re, sys; from retentive.cli.app import app\n"
        "app(standalone_mode=False)\n"
        "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)"
    )
    options = ["--embedder", "none", *map(str, words), "--json"]
    done = subprocess.run([sys.executable, "-c", script, *options], capture_output=True, text=True)
    return 1024 * int(done.stderr.splitlines()[-1]), json.loads(done.stdout)


def test_memory_stays_flat_however_many_items_there_are(tmp_path):
    def many(count: int) -> Path:
        facts = (json.dumps({"id": str(at), "memory": f"fact {at}" + ", and more of it" * 60}) for at in range(count))
        path = tmp_path / f"{count}.json"
        path.write_text('{"results": [' + ",\n".join(facts) + "]}")
        return path

    small, _ = peak_memory("import", many(1_000), "--dry-run")
    large, done = peak_memory("import", many(20_000), "--dry-run")

    assert done["added"] == 20_000
    assert large < small + 12_000_000  # of 20 MB of text


def test_a_line_of_a_quarter_of_a_gigabyte_is_skipped_without_being_held_in_memory(tmp_path):
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(b'{"text": "before"}\n{"text": "')
        file.seek(1 << 28, os.SEEK_CUR)  # a hole, which takes no room on the disk
        file.write(b'"}\n{"text": "behind"}\n')

    peak, done = peak_memory("import", path)
    plain, _ = peak_memory("imports")

    assert (done["added"], done["skipped"], done["truncated"]) == (2, {"the line is too long": 1}, [])
    assert peak < plain + 100_000_000


def test_a_terminal_shows_a_progress_bar_with_rate_and_remaining_time(tmp_path):
    path = write_lines(tmp_path / "notes.jsonl", ({"text": f"note number {at}"} for at in range(5000)))
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}

    shown = subprocess.Popen(
        [*RETENTIVE, "import", str(path)], stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
    )
    os.close(theirs)
    drawn = b""
    with suppress(OSError):  # a terminal whose other end is closed
        while chunk := os.read(ours, 4096):
            drawn += chunk
    os.close(ours)
    said = shown.communicate()[0]

    assert "5,000 added" in said
    assert drawn.index(b"importing: counting") < drawn.index(b"5000/5000")
    assert b"/s" in drawn


def test_without_the_parser_only_formats_that_need_it_are_refused(tmp_path):
    script = "import sys; sys.modules['ijson'] = None; from retentive.cli import main; main()"
    notes = write_lines(tmp_path / "notes" / "a.md", ["The board has 16 A left."]).parent
    chats = write_json(tmp_path / "conversations.json", [a_chatgpt_conversation()])

    def without(path: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, "--embedder", "none", "import", str(path)]
        return subprocess.run(command, capture_output=True, text=True)

    assert "markdown: 1 added" in without(notes).stdout
    refused = without(chats)
    assert refused.returncode == 6
    assert pip_install("import") in refused.stderr


def test_the_people_of_a_source_become_profiles_that_can_be_named_and_chosen(tmp_path, monkeypatch):
    facts = [
        {"id": str(number), "memory": f"{who} is here", "user_id": who} for number, who in enumerate(("u17", "bo"))
    ]
    source, store = write_json(tmp_path / "mem0.json", {"results": facts}), str(tmp_path / "m.db")
    monkeypatch.setenv("RETENTIVE_PROFILE", "me")  # whose memories are nobody's, not everybody's

    done = json_of("--store", store, *NONE, "import", str(source), "--profile", "ana=u17")
    assert (done["added"], done["profiles"]) == (2, {"ana": 1, "bo": 1})
    assert [one["text"] for one in json_of("--store", store, "list", "--profile", "ana")["memories"]] == ["u17 is here"]
    again = json_of("--store", store, *NONE, "import", str(source), "--profile=ana=u17")
    assert (again["added"], again["existing"]) == (0, 2)

    other = str(tmp_path / "other.db")
    some = json_of("--store", other, *NONE, "import", str(source), "--only-profile", "bo")
    assert (some["profiles"], some["skipped"]) == ({"bo": 1}, {"of a profile that is not imported": 1})
    whole = json_of("--store", other, *NONE, "import", str(source), "--profile", "all")
    assert whole["profiles"] == {"all": 2}


def test_a_file_that_was_imported_is_not_stored_again_by_remember_nor_the_other_way_round(tmp_path):
    file = write_lines(tmp_path / "notes.jsonl", [{"text": "the key is red"}, {"text": "the pot is blue", "id": "7"}])
    file.write_text(file.read_text().replace('"id": "7"', '"id": "01900000-0000-7000-8000-000000000007"'))
    more = tmp_path / "more.jsonl"
    more.write_text('{"text": "ok"}\n{"text": "ok"}\n')
    given = ("--embedder", "none", "--project", "p")

    assert json_of("import", str(file), *given)["added"] == 2
    again = json_of("remember", "--jsonl", str(file), *given)
    assert (again["stored"], again["existing"]) == (0, 2)
    assert "0 memories stored, 2 stored already" in run("remember", "--jsonl", str(file), *given).stdout
    assert json_of("remember", "--jsonl", str(more), *given)["stored"] == 2
    assert json_of("remember", "--jsonl", str(more), *given)["existing"] == 2
    assert json_of("import", str(more), *given)["added"] == 0
