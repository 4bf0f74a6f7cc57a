"""The command line: in processes of its own where that matters, else with Typer's runner."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from typer.testing import CliRunner

from retentive.cli.app import app
from retentive.cli.commands import COMMANDS as PROGRAM
from retentive.cli.options import LazyCommands
from retentive.cli.show import safe
from retentive.engine import Engine
from retentive.models import snippet
from retentive.stores import open_store
from retentive.stores.values import Compaction

COMMANDS = (
    "remember", "recall", "explain", "get", "list", "update", "forget", "sessions", "sessions move", "projects",
    "status", "doctor", "backup", "recover", "reembed", "copy", "config", "config set", "config reset", "samples",
    "judge", "tune", "watch", "import", "export", "imports", "imports undo", "serve", "token create", "token list",
    "token revoke",
)  # fmt: skip


def run(*words: str, stdin: str | None = None, code: int = 0, env: dict[str, str] | None = None):
    result = CliRunner().invoke(app, [*words], input=stdin, env=env)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def json_of(*words: str, **options):
    return json.loads(run(*words, "--json", **options).stdout)


def remember(*words: str, **options) -> str:
    return json.loads(run("--json", "--embedder", "none", "remember", *words, **options).stdout)["id"]


@pytest.fixture
def empty_store(tmp_path: Path) -> None:
    """The store of the commands, created and empty: commands that read do not create one."""
    open_store(str(tmp_path / "store.db")).close()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    text = run(*command.split(), "--help").stdout

    assert "Usage" in text
    assert len(text) > 150


@pytest.mark.parametrize("name", PROGRAM)
def test_the_list_of_commands_has_the_first_sentence_of_the_help_of_each(name):
    told = " ".join(LazyCommands()[name].help.split("\n\n")[0].split())

    assert told.startswith(PROGRAM[name].summary)


def test_a_remembered_text_is_recalled():
    id = json_of("remember", "The spare key is under the blue pot", "--project", "home", "--speaker", "Ana")["id"]

    answer = json_of("recall", "where is the key?", "--project", "home")

    assert answer.keys() >= {"hits", "retrievers", "degraded", "elapsed_ms"}
    hit = answer["hits"][0]
    assert hit.keys() == {"rank", "id", "score", "relevance", "memory", "why"}
    assert (hit["rank"], hit["id"], hit["memory"]["speaker"]) == (1, id, "Ana")
    assert answer["degraded"] is None
    assert {retriever["name"] for retriever in answer["retrievers"]} == {"semantic", "keyword"}


def test_common_options_can_be_given_before_or_after_the_command(tmp_path):
    store = str(tmp_path / "other.db")
    run("remember", "apples", "--store", store, "--embedder", "none")

    assert json.loads(run("--store", store, "--json", "status").stdout)["memories"] == 1
    remember("pears")
    remember("plums")
    assert json_of("status")["memories"] == 2


def test_text_after_two_dashes_is_text():
    id = remember("--", "--json is an option")

    assert json_of("get", id)["text"] == "--json is an option"


def test_standard_input_is_remembered():
    id = remember(stdin="from a pipe\nsecond line\n")

    assert json_of("get", id)["text"] == "from a pipe\nsecond line"


def test_memories_of_a_jsonl_file_get_defaults_from_the_options(tmp_path):
    file = tmp_path / "many.jsonl"
    lines = [{"text": "a", "occurred": "2026-05-08", "speaker": "Ana"}, {"text": "b", "kind": "semantic"}]
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")

    stored = json_of("remember", "--jsonl", str(file), "--project", "p", "--session", "s", "--embedder", "none")

    assert stored["stored"] == 2
    a, b = (json_of("get", id) for id in stored["ids"])
    assert (a["project"], a["position"], a["speaker"], a["occurred"]) == ("p", 0, "Ana", "2026-05-08T00:00:00+00:00")
    assert (b["session"], b["position"], b["kind"]) == ("s", 1, "semantic")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('{"text": ""}', "text: a memory needs some text"),
        ('{"text": 1}', "text: it must be a string, not int"),
        ('{"text": null}', "a memory needs a text"),
        ("{", "line 1 column 2"),
        ("[]", "a memory is an object with a text"),
        ('{"text": "x", "colour": 1}', "there is no field 'colour'"),
        ("[" * 100_000, ""),
    ],
)
def test_an_invalid_line_is_reported_and_nothing_of_the_file_is_stored(tmp_path, bad, says):
    lines = "".join(f'{{"text": "good {at}"}}\n' for at in range(300)) + bad

    result = run("remember", "--jsonl", "-", "--embedder", "none", stdin=lines, code=2)

    assert "line 301" in result.stderr
    assert says in result.stderr
    assert "nothing was stored" in result.stderr
    remember("pears")
    remember("plums")
    assert json_of("status")["memories"] == 2


def test_a_file_whose_last_line_has_an_id_of_the_first_is_not_stored_in_part():
    id = "01900000-0000-7000-8000-000000000001"
    lines = f'{{"text": "first", "id": "{id}"}}\n' + '{"text": "x"}\n' * 300 + f'{{"text": "last", "id": "{id}"}}\n'

    result = run("remember", "--jsonl", "-", "--embedder", "none", stdin=lines, code=4)

    assert "nothing was stored" in result.stderr
    remember("pears")
    assert json_of("status")["memories"] == 1


def test_texts_of_a_file_that_are_stored_already_are_refused_or_counted_as_asked():
    words = ("remember", "--jsonl", "-", "--embedder", "none")
    run(*words, stdin='{"text": "green tea"}')

    assert "same text" in run(*words, "--on-duplicate", "refuse", stdin='{"text": "Green tea"}', code=4).stderr
    run(*words, "--on-duplicate", "count", stdin='{"text": "Green tea"}')
    assert [one["metadata"] for one in json_of("list")["memories"]] == [{"repeats": 1}]
    assert "--similar is for one memory" in run(*words, "--similar", stdin='{"text": "tea"}', code=2).stderr


def test_a_memory_that_has_expired_already_is_stored_with_a_warning():
    words = ("--embedder", "none", "remember")
    lines = '{"text": "a", "expires": "2020-01-01"}\n{"text": "b"}\n{"text": "c", "expires": "2020-01-01"}'

    one = run(*words, "the offer ends", "--expires", "2020-01-01").stderr
    assert "warning: 1 memory has already expired; recall and list leave out" in one
    assert "warning: 2 memories have already expired; " in run(*words, "--jsonl", "-", stdin=lines).stderr
    assert "expired" not in run(*words, "the offer ends soon", "--expires", "2w").stderr
    assert [memory["text"] for memory in json_of("list")["memories"]] == ["the offer ends soon", "b"]


def test_list_gives_pages_with_a_cursor():
    ids = [remember(f"memory {at}") for at in range(3)]

    first = json_of("list", "--limit", "2")
    second = json_of("list", "--limit", "2", "--cursor", first["next_cursor"])

    assert [memory["id"] for memory in first["memories"] + second["memories"]] == ids[::-1]
    assert second["next_cursor"] is None


def test_update_and_forget_change_what_recall_finds():
    id = remember("apples")

    assert json_of("update", id, "--text", "pears", "--importance", "0.9", "--embedder", "none")["text"] == "pears"
    assert json_of("recall", "pears", "--embedder", "none")["hits"][0]["id"] == id
    for written in (id.replace("-", ""), f"{{{id}}}", id.upper()):
        assert json_of("get", written)["id"] == id
    assert run("forget", id.replace("-", "")).stderr == ""
    assert json_of("recall", "pears", "--embedder", "none")["hits"] == []


def test_update_clears_fields_that_can_have_no_value():
    id = remember("The offer ends soon", "--speaker", "Ana", "--expires", "30d", "--valid-from", "2026-01-01")

    run("update", id, "--clear", "expires", "--clear", "valid-from", "--speaker", "Ben", "--embedder", "none")

    changed = json_of("get", id)
    assert (changed["expires"], changed["valid_from"], changed["speaker"]) == (None, None, "Ben")


def test_an_update_or_a_deletion_for_a_version_that_has_changed_is_a_conflict():
    id = remember("apples")
    version = json_of("get", id)["version"]
    assert version in run("get", id).stdout

    changed = json_of("update", id, "--importance", "1", "--if-version", version)

    assert (changed["importance"], changed["version"] != version) == (1, True)
    refused = run("update", id, "--text", "pears", "--if-version", version, code=4)
    assert "has changed since it was read" in refused.stderr
    assert json_of("get", id)["text"] == "apples"
    assert "has changed since it was read" in run("forget", id, "--if-version", version, code=4).stderr
    assert "--if-version is for one id" in run("forget", "--all", "--if-version", version, code=2).stderr
    assert json_of("forget", id, "--if-version", changed["version"]) == {"forgotten": 1}


def test_doctor_finds_a_vector_of_another_text_and_repairs_it():
    id = json_of("remember", "The spare key is under the blue pot")["id"]
    with closing(apsw.Connection(os.environ["RETENTIVE_STORE"])) as connection:
        connection.execute("UPDATE vectors SET text_hash = zeroblob(16)")

    assert json_of("doctor", code=1)["checks"]["store"] == [
        "1 memory has a vector of another text; run: retentive doctor --repair"
    ]
    assert "1 memory had a vector of another text; embedded again" in run("doctor", "--repair").stderr
    assert json_of("doctor", "--repair")["healthy"]
    assert json_of("recall", "how do I get in?")["hits"][0]["id"] == id


def test_compact_returns_the_space_of_forgotten_memories_and_says_how_much():
    for number in range(3):
        run("remember", f"note {number} " + "with many words " * 2000, "--project", "long")
    run("forget", "--project", "long", "--yes")

    done = json_of("compact")

    assert done["gained"] == done["bytes_before"] - done["bytes_after"] > 0
    assert done["bytes_after"] == json_of("status")["bytes"]
    assert re.fullmatch(r"[\d.]+ MB before, [\d.]+ MB after: [\d.]+ MB gained\n", run("compact").stdout)


def test_a_compaction_that_gained_nothing_says_so_without_a_sign(monkeypatch, empty_store):
    monkeypatch.setattr(Engine, "compact", lambda *_, **__: Compaction(8_000_000, 8_004_096))

    assert run("compact").stdout == "8.0 MB before, 8.0 MB after: 0.0 MB gained\n"


def test_options_are_grouped_in_the_help():
    for command, panels in (
        ("recall", ("Scope", "Ranking")),
        ("remember", ("Fields of the memory",)),
        ("tune", ("Search",)),
    ):
        text = run(command, "--help").stdout
        assert all(f"\n{panel}\n" in text for panel in panels), text
    text = " ".join(run("recall", "--help", env={"COLUMNS": "300"}).stdout.split())
    assert "Search this session and the others of its project; --only-session limits it." in text


def test_recall_excludes_ids_and_limits_the_scope():
    apples, pears = remember("apples and pears", "--session", "a"), remember("pears and plums", "--session", "b")

    def found(*words: str) -> list[str]:
        return [hit["id"] for hit in json_of("recall", "pears", "--embedder", "none", *words)["hits"]]

    assert set(found()) == {apples, pears}
    assert found("--exclude", pears) == [apples]
    assert found("--session", "b", "--only-session") == [pears]
    assert found("--kind", "semantic", "--kind", "identity") == []


def test_recall_filters_by_time_and_metadata():
    details = ("--occurred", "2026-05-08", "--metadata", '{"topic": "fruit", "n": 2}')
    apples, pears = remember("apples and pears", *details), remember("pears", "--occurred", "2026-06-01")

    def found(*words: str) -> list[str]:
        return [hit["id"] for hit in json_of("recall", "pears", "--embedder", "none", *words)["hits"]]

    assert found("--until", "2026-05-08") == found("--metadata", "topic=fruit", "--metadata", "n=2") == [apples]
    assert found("--since", "2026-05-09") == [pears]
    assert "write a key as key=value, such as topic=kitchen" in run("recall", "x", "--metadata", "y", code=2).stderr
    explained = json_of("explain", "pears", apples, "--embedder", "none", "--since", "2026-05-09")
    assert (explained["outcome"], explained["part"]) == ("outside", "time")


def test_the_time_of_an_event_is_given_by_occurred():
    id = remember("apples", "--occurred", "2026-05-08")

    assert json_of("get", id)["occurred"] == "2026-05-08T00:00:00+00:00"
    assert json_of("update", id, "--occurred", "2026-05-09")["occurred"] == "2026-05-09T00:00:00+00:00"


def test_a_scope_is_not_forgotten_without_confirmation():
    remember("apples", "--project", "p")

    assert "--yes" in run("forget", "--project", "p", code=2).stderr
    assert json_of("forget", "--project", "p", "--yes") == {"forgotten": 1}


def test_sessions_are_listed_and_moved():
    remember("apples", "--session", "s")

    assert [s["project"] for s in json_of("sessions")["sessions"]] == [None]
    assert json_of("sessions", "move", "s", "--project", "p")["project"] == "p"
    assert json_of("projects")["projects"] == [{"name": "p", "profile": "default", "sessions": 1, "memories": 1}]
    assert json_of("recall", "apples", "--project", "p", "--embedder", "none")["hits"]
    assert json_of("sessions", "move", "s", "--no-project")["project"] is None


def test_presets_and_parameters_affect_one_recall_and_config_all_of_them():
    remember("apples and pears")
    json_of("config", "set", "judge=off")

    def score(*words: str) -> float:
        return json_of("recall", "apples", "--embedder", "none", *words)["hits"][0]["score"]

    assert score("--preset", "classic-rrf") == pytest.approx(1 / 61)
    assert score("--preset", "classic-rrf", "--set", "rrf-k=8") == pytest.approx(1 / 9)
    assert score("--set", 'hybrid={"fusion": "rrf", "textWeight": 0.3}') == pytest.approx(1 / 61)
    assert score("--set", "preset=steep-rrf") == pytest.approx(1 / 5)
    json_of("config", "set", "--preset", "classic-rrf", "rrfK=19")
    assert score() == pytest.approx(1 / 20)
    json_of("config", "reset", "rrf_k")
    assert score() == pytest.approx(1 / 61)
    assert json_of("config", "reset")["saved"] == {}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["recall", "x", "--set", "nonsense=1"], 2, "there is no parameter 'nonsense'"),
        (["recall", "x", "--set", "keyword_weight=9"], 2, "keyword_weight"),
        (["recall", "x", "--limit", "-1"], 2, "value for '--limit': it must be greater than or equal to 0; see: "),
        (["mcp", "config", "--client", "nope"], 2, "invalid value for '--client': 'nope' is not one of 'claude-"),
        (["serve", "--port", "99999999"], 2, "--port: input should be less than or equal to 65535"),
        (["config", "set", 'hybrid={"textWeight": "a"}'], 2, "hybrid.textWeight: input should be a valid number"),
        (["recall", "x", "--set", "keyword_weight"], 2, "parameter=value"),
        (["recall", "x", "--preset", "nonsense"], 2, "classic-rrf"),
        (["recall", "x", "--kind", "nonsense"], 2, "episodic"),
        (["get", "nonsense"], 3, "no memory"),
        (["forget"], 2, "what to forget"),
        (["update", "x"], 2, "nothing to change"),
        (["sessions", "move", "nonsense", "--project", "p"], 3, "no session"),
        (["remember", "x", "--importance", "2"], 2, "importance"),
        (["remember", "x", "--metadata", "[]"], 2, "metadata"),
        (["status", "--embedder", "nonsense"], 0, ""),
        (["config", "set"], 2, "parameter=value"),
        (["config", "reset", "keyword_weigth"], 2, "no parameter 'keyword_weigth'; did you mean 'keyword_weight'?"),
        (["config", "reset", "rrf_k", "nope"], 2, "there is no parameter 'nope'; the parameters are fusion, "),
        (["--config", "/nowhere.toml", "status"], 3, "there is no config file /nowhere.toml"),
        (["--config", "/nowhere.toml", "recall", "x"], 3, "there is no config file /nowhere.toml"),
        (["--config", "/nowhere.toml", "config"], 3, "there is no config file /nowhere.toml"),
        (["remember", "--jsonl", "/nowhere.jsonl"], 3, "there is no /nowhere.jsonl"),
        (["remember", "--jsonl", "/"], 2, "/ cannot be read: Is a directory"),
        (["list", "--limit", "0"], 2, "1 to 1000"),
        (["recall"], 2, "error: missing argument 'query'; see: retentive recall -h\n"),
        (["recall", "x", "--limit", "x"], 2, "error: invalid value for '--limit': it must be a whole number; see: "),
        (["recall", "x", "--limi", "3"], 2, "error: no such option: --limi; did you mean --limit? see: retentive rec"),
        (["recall", "-milk", "tea"], 2, "write -- before a query that begins with a minus: retentive recall -- '-milk"),
        (["update", "x", "--clear", "text"], 2, "--clear: 'text' is not one of speaker, occurred, source, key, expire"),
        (["update", "x", "--key", "k", "--clear", "key"], 2, "give --key or --clear key, not both"),
        (["recal"], 2, "error: no such command 'recal'; did you mean 'recall'"),
        (["--nonsense"], 2, "error: no such option: --nonsense; see: retentive -h"),
        (["recall", "x", "--embedder", "none"], 0, "the store has no memories yet; add one with: retentive"),
        (["list"], 0, "the store has no memories yet"),
    ],
)
def test_errors_have_a_helpful_message_and_their_own_exit_code(words, code, says, empty_store):
    result = run(*words, code=code)

    assert says in result.stderr
    assert "Traceback" not in result.output


def test_errors_are_json_with_the_json_option(empty_store):
    error = json.loads(run("get", "nonsense", "--json", code=3).stderr)["error"]

    assert error == {"code": "not_found", "message": "there is no memory nonsense"}
    error = json.loads(run("recall", "--json", code=2).stderr)["error"]
    assert error == {"code": "usage", "message": "missing argument 'query'; see: retentive recall -h"}


def test_explain_shows_the_rank_in_each_retriever_and_the_effect_of_each_step():
    run("samples", "--profile", "default")

    shown = run("recall", "which version broke the login?", "--explain", "--limit", "2").stdout

    for expected in ("keyword", "semantic", "judge", "#1", "█", "ms total", "found"):
        assert expected in shown
    explained = json_of("recall", "which version broke the login?", "--explain", "--limit", "2")
    assert explained["tuning"]["fusion"] == "full"
    assert explained["dropped"]


def test_samples_are_loaded_once_into_a_profile_of_their_own_and_can_be_removed():
    own = remember("why did they choose induction?")
    assert "sample memories loaded" in run("samples").stdout
    assert "were already stored" in run("samples").stdout
    assert json_of("status")["memories"] == 43
    assert [hit["memory"]["id"] for hit in json_of("recall", "why did they choose induction?")["hits"]] == [own]
    assert len(json_of("recall", "why did they choose induction?", "--profile", "samples")["hits"]) > 3

    note = remember("the cooker came", "--profile", "samples", "--project", "sample-kitchen")
    assert "42 sample memories removed" in run("samples", "--remove").stdout
    assert [one["id"] for one in json_of("list", "--profile", "samples")["memories"]] == [note]
    assert json_of("status")["memories"] == 2


def test_memory_text_cannot_control_the_terminal():
    id = remember("[b]innocent[/]\x1b]0;\x07\x1b[2J\x9b31m\u202eright to left")

    for words in (["get", id], ["list"], ["recall", "innocent", "--embedder", "none", "--explain"]):
        shown = run(*words).stdout
        assert "\x1b]" not in shown
        assert "\x9b" not in shown
        assert "\u202e" not in shown
        assert "[b]innocent[/]·]0;" in shown
    assert safe("a\tb\nc\x00") == "a\tb\nc·"


@pytest.mark.parametrize("text", ["می\u200cخواهم کتاب بخوانم", "क्\u200dष", "👩\u200d👩\u200d👧\u200d👦"])
def test_characters_that_join_or_separate_letters_are_shown(text):
    id = remember(text)

    for words in (["get", id], ["list"], ["recall", text, "--embedder", "none"]):
        assert text in run(*words).stdout
    for control in "\u200b\u200e\u200f\u202a\u202e\u2066\u2069\u061c\x1b\x9b\u2028":
        assert safe(f"{text}{control}") == f"{text}·"
        assert snippet(f"a{control}b", 10) in ("a·b", "a b")


def test_a_store_without_vectors_is_searched_by_the_keyword_retriever_with_a_warning():
    result = run("remember", "apples", "--embedder", "none")

    assert "only the keyword retriever can find it" in result.stderr
    recalled = run("recall", "apples", "--embedder", "none")
    assert "keyword-only: no embedder is configured" in recalled.stdout
    assert recalled.stderr == ""  # it is said once
    assert json_of("doctor", code=1)["checks"]["vectors"] == ["1 memory has no vector; run: retentive reembed"]
    assert json_of("reembed") == {"embedded": 1, "refused": []}
    assert json_of("doctor")["healthy"]


def test_a_closed_pipe_is_no_traceback(tmp_path):
    env = {**os.environ, "RETENTIVE_STORE": str(tmp_path / "p.db"), "RETENTIVE_EMBEDDER": "none"}
    program = Path(sys.executable).with_name("retentive")
    subprocess.run([program, "remember"], env=env, input=b"x" * 200_000, check=True, capture_output=True)

    process = subprocess.Popen(
        [program, "list", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()
    process.wait(90)

    assert "Traceback" not in complaint


def test_explain_tells_why_a_memory_did_not_appear():
    remember("The spare key is under the blue pot")
    id = remember("The attic is dusty", "--project", "home")

    text = run("--embedder", "none", "explain", "spare key", id).stdout
    outside = json_of("--embedder", "none", "explain", "spare key", id, "--project", "work")

    assert "The attic is dusty" in text
    assert "no term of the query occurs in it" in text
    assert (outside["outcome"], outside["part"]) == ("outside", "project")
    assert run("explain", "spare key", "nothing", code=3).stderr.startswith("error: there is no memory")


def test_vectors_is_a_flag_of_export(tmp_path):
    file = tmp_path / "all.jsonl"
    run("remember", "The key is under the pot")
    run("export", str(file), "--everything", "--vectors", "--force")
    assert "The key is under the pot" in file.read_text(encoding="utf-8")
