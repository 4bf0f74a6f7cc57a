"""The command line as a person sees it: short ids, texts that fit, help, suggestions, no colour, closed pipes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from retentive.cli import options, show
from retentive.cli.app import app
from retentive.cli.commands import COMMANDS as ENTRIES
from retentive.cli.help import SECTIONS, summary
from retentive.engine import Engine
from retentive.ranking import Tuning
from retentive.stores import open_store
from tests.surfaces.terminal import terminal

LONG = "The plumber comes on Monday at nine, and he brings the new tap, the hose and a bill for the last visit. 日本語"


def run(*words: str, code: int = 0, env: dict[str, str] | None = None):
    result = CliRunner().invoke(app, [*words], env=env)
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture(params=[60, 80])
def columns(request, monkeypatch) -> int:
    """The width of the terminal that commands of this process think they have."""

    def fits() -> bool:
        return not options._CURRENT.get().full

    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setattr(options, "fits_terminal", fits)
    monkeypatch.setattr(show, "fits_terminal", fits)
    monkeypatch.setattr(show, "console", show.Output(soft_wrap=True))
    return request.param


@pytest.fixture
def ids(tmp_path) -> list[str]:
    """The ids of three memories of project `home` that were stored at once, and of one that has another start."""
    with Engine.open(tmp_path / "store.db", embedder="none") as engine:
        drafts = [{"text": f"{LONG} {at}", "project": "home", "session": "phone"} for at in range(3)]
        other = {"text": "The attic", "id": "0f000000-0000-7000-8000-000000000001"}
        return [memory.id for memory in engine.remember_many([*drafts, other])]


def test_control_characters_in_stored_names_do_not_reach_the_terminal(tmp_path):
    with Engine.open(tmp_path / "store.db", embedder="none") as engine:
        engine.remember("The attic", project="kitchen\x1b[2J")

    for words, code in (("forget", "--project", "kitchn", "--yes"), 3), (("recall", "x", "--project", "kitchn"), 0):
        shown = run(*words, "--embedder", "none", code=code).stderr
        assert "kitchen·[2J" in shown
        assert "\x1b[2J" not in shown


def recall(*words: str) -> str:
    return run("recall", "plumber", "--embedder", "none", *words).stdout


def fits(text: str, columns: int) -> bool:
    return all(cell_len(line) <= columns for line in text.splitlines())


def test_in_a_terminal_ids_are_unique_prefixes_and_every_line_fits(ids, columns):
    shown = run("list").stdout
    first = shown.splitlines()[0].split()[0]

    assert fits(shown, columns)
    assert 8 <= len(first) < 20
    assert [id for id in ids if id.startswith(first)] == [run("get", first, "--json").stdout.split('"')[3]]
    assert "…" in shown
    assert fits(recall("--explain"), columns)
    assert fits(run("explain", "plumber", first, "--embedder", "none").stdout, columns)
    assert fits(run("sessions").stdout, columns)
    run("remember", "The plumber sang", "--project", "p" * 100, "--session", "s" * 100, "--embedder", "none")
    assert fits(recall(), columns)
    assert "p" * 100 in recall("--full")
    assert fits(run("status", "--embedder", "none").stdout.replace(os.environ["RETENTIVE_STORE"], ""), columns)


def test_whole_texts_and_ids_are_printed_with_full(ids, columns):
    shown = run("list", "--full").stdout

    assert all(id in shown for id in ids)
    assert f"{LONG} 2" in shown
    assert all(id in recall("--full") for id in ids[:3])


def test_whole_texts_and_ids_are_printed_into_a_pipe(ids):
    shown = run("list").stdout

    assert all(id in shown for id in ids)
    assert shown.count(LONG) == 3
    assert recall().count(LONG) == 3
    assert len(shown.splitlines()) == 4


def test_a_unique_prefix_is_accepted_wherever_an_id_is(ids):
    attic, prefix = ids[3], "0f00"

    assert json.loads(run("get", prefix, "--json").stdout)["id"] == attic
    assert json.loads(run("update", prefix, "--importance", "1", "--json").stdout)["importance"] == 1
    assert attic not in recall("--exclude", prefix)
    assert json.loads(run("explain", "plumber", "0F00", "--embedder", "none", "--json").stdout)["memory"]["id"] == attic
    assert f"{attic} is retired" in run("retract", prefix).stdout
    assert f"{attic} is current" in run("restore", prefix).stdout
    assert f"{attic} is replaced by {ids[0]}" in run("supersede", prefix, ids[0]).stdout
    assert attic in run("history", prefix).stdout
    run("judge", "--query", "attic", "--good", f"{prefix}=3")
    assert json.loads(run("judge", "--list", "--json").stdout)["judgements"][0]["memory"] == attic
    assert "1 judgement removed" in run("judge", "--query", "attic", "--remove", prefix).stdout
    assert run("forget", prefix).stdout == "1 forgotten\n"


def test_an_ambiguous_prefix_lists_what_it_may_mean(ids):
    error = run("forget", ids[0][:8], code=2).stderr

    assert f"several ids start with {ids[0][:8]}" in error
    assert all(id in error for id in ids[:3])
    assert ids[3] not in error
    assert "The plumber comes on Monday" in error


def test_a_prefix_is_searched_in_the_profile_alone(ids):
    run(
        "remember", "a secret", "--id", "0e000000-0000-7000-8000-000000000001", "--profile", "ben", "--embedder", "none"
    )

    assert "there is no memory 0e00" in run("get", "0e00", code=3).stderr
    assert "a secret" in run("get", "0e00", "--profile", "ben").stdout
    assert "first 4 characters" in run("get", "0e0", "--profile", "ben", code=3).stderr


def test_forgetting_nothing_is_an_error_as_getting_nothing_is(ids):
    nothing = "01900000-0000-7000-8000-0000000000ff"

    assert run("get", nothing, code=3).stderr == run("forget", nothing, code=3).stderr
    assert "there is no project 'hme'; did you mean 'home'?" in run("forget", "--project", "hme", "-y", code=3).stderr
    result = run("forget", nothing, ids[3])
    assert (result.stdout, result.stderr) == ("1 forgotten\n", f"there is no memory {nothing}\n")
    run("forget", "--all", "--yes")
    assert "has no memories" in run("forget", "--all", "--yes", code=3).stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["recall", "plumber", "--project", "hom"], "there is no project 'hom'; did you mean 'home'?"),
        (["recall", "plumber", "--session", "fone"], "there is no session 'fone'; did you mean 'phone'?"),
        (["list", "--project", "HOME"], "there is no project 'HOME'; did you mean 'home'?"),
        (["list", "--session", "zebra"], "there is no session 'zebra'; see: retentive sessions"),
        (["sessions", "--project", "hom"], "did you mean 'home'?"),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest_known_one(ids, words, says):
    result = run(*words, "--embedder", "none")

    assert says in result.stderr
    assert says not in result.stdout


def test_an_unknown_parameter_or_session_is_an_error_with_the_nearest_known_one(ids):
    assert "did you mean 'keyword_weight'?" in run("recall", "x", "--set", "keyword_wieght=1", code=2).stderr
    assert "did you mean 'classic-rrf'?" in run("recall", "x", "--preset", "clasic-rrf", code=2).stderr
    assert "did you mean 'phone'?" in run("sessions", "move", "phon", "--project", "p", code=3).stderr
    assert run("recall", "plumber", "--project", "home", "--embedder", "none").stderr == ""


def test_config_prints_what_has_changed_and_no_more(monkeypatch, ids):
    assert run("config", "set", "keyword_weight=1.5").stdout == f"keyword_weight: {Tuning().keyword_weight} → 1.5\n"
    assert run("config", "set", "keyword-weight=1.5").stdout == "nothing changed\n"
    monkeypatch.setenv("RETENTIVE_TUNING_KEYWORD_WEIGHT", "3")
    assert "keyword_weight is saved, but the config file" in run("config", "set", "keyword_weight=2").stdout
    monkeypatch.delenv("RETENTIVE_TUNING_KEYWORD_WEIGHT")
    assert run("config", "reset").stdout == f"keyword_weight: 2.0 → {Tuning().keyword_weight}\n"
    changed = json.loads(run("config", "set", "rrf_k=9", "--json").stdout)
    assert (changed["changed"], changed["saved"]) == ({"rrf_k": [60, 9]}, {"rrf_k": 9})


def commands(group=None, path=()):
    for name, command in getattr(group or typer.main.get_command(app), "commands", {}).items():
        yield (*path, name), command
        yield from commands(command, (*path, name)) if hasattr(command, "commands") else ()


COMMANDS = {" ".join(path): command for path, command in commands()}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_can_be_parsed_and_no_types_in_its_help(name):
    path, command = name.split(), COMMANDS[name]
    text = run(*path, "--help", env={"COLUMNS": "60"}).stdout

    assert not re.search(r"<\w+|bool|list\[|INTEGER", text)
    assert fits(text.partition("\nExamples\n")[0], 60)
    examples = text.partition("\nExamples\n")[2].splitlines()
    assert examples
    for example in examples:
        words = [word for word in shlex.split(example.rpartition(" | ")[2]) if word not in ("--json", "--full")]
        assert words[: len(path) + 1] == ["retentive", *path]
        command.make_context("retentive", words[len(path) + 1 :], resilient_parsing=False).close()


def test_the_help_of_the_program_has_every_command_in_a_section():
    program = typer.main.get_command(app)
    text = run("--help").stdout

    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(program.commands)
    summaries = {name: entry.summary for name, entry in ENTRIES.items()}
    assert summaries == {name: summary(command) for name, command in program.commands.items()}
    assert all(f"\n{title}\n" in text for title in SECTIONS)
    assert run().stdout == text


def test_a_pipe_that_is_closed_early_is_no_error(tmp_path):
    with Engine.open(tmp_path / "store.db", embedder="none") as engine:
        engine.remember_many([{"text": "x" * 1000 + str(at)} for at in range(400)])
    program = f"{shlex.quote(sys.executable)} -m retentive"
    for words in ("list --limit 400", "list --limit 400 --json", "export -"):
        line = f"{program} {words} | head -c 10; echo ${{PIPESTATUS[0]}} >&2"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert (done.stderr.splitlines()[-1], "Traceback" in done.stderr) == ("0", False), done.stderr


def test_without_a_command_a_terminal_shows_the_state_of_the_store_and_what_to_try(tmp_path, ids):
    with terminal(columns=60) as shown:
        assert shown.end() == 0
        text = shown.text
        lines = [line.rstrip() for line in text.partition("\nTry\n")[0].split("\n")]
    names = [line.split("  ")[0] for line in lines if not line.startswith(" ") and line]
    assert names == ["store", "memories", "model", "service", "last write"]
    assert "4 in 1 project and 1 session" in text
    assert "does not run" in text
    assert "just now" in text
    assert "recall" in text.partition("\nTry\n")[2]
    assert "\x1b[" in shown.raw


def test_no_color_means_no_styles_at_all(ids):
    with terminal("recall", "plumber", "--project", "hme", "--embedder", "none", NO_COLOR="1") as shown:
        shown.end()
    assert "\x1b[" not in shown.raw
    assert "did you mean 'home'?" in shown.text
    with terminal("get", "nothing", NO_COLOR="1") as shown:
        assert shown.end() == 3
    assert "\x1b[" not in shown.raw


def test_the_state_of_the_store_is_json_too_and_needs_no_store(tmp_path):
    absent = json.loads(run("--json", "--store", str(tmp_path / "none.db")).stdout)

    assert (absent["memories"], absent["model"]) == (None, "memory-small")
    assert not (tmp_path / "none.db").exists()
    open_store(str(tmp_path / "empty.db")).close()
    assert json.loads(run("--json", "--store", str(tmp_path / "empty.db")).stdout)["memories"] == 0
