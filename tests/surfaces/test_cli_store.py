"""Which commands create a store, and how messages name the store in use."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from starlette.testclient import TestClient

from retentive.engine import Engine
from retentive.extras import pip_install
from retentive.server.http.app import create_app
from retentive.settings import Settings
from tests.stores import postgres_server
from tests.surfaces.test_cli import json_of, remember, run

ID = "01900000-0000-7000-8000-0000000000d1"
READING = (
    "recall key", f"explain key {ID}", f"get {ID}", "list", "status", "doctor", "export all.jsonl", "imports",
    f"imports undo {ID}", "sessions", "sessions move s --project p", "projects", f"forget {ID}", "forget --all --yes",
    f"update {ID} --text x", "judge --list", "reembed", "token list", f"token revoke {ID}", "config reset",
    "watch . --forget --yes", "eval --own", "tune --own",
)  # fmt: skip


@pytest.mark.parametrize("line", READING)
def test_a_command_that_reads_a_store_never_creates_one(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    done = run(*line.split(), "--store", "no/such.db", "--embedder", "none", code=3)

    assert "there is no store at no/such.db; check the address, or create it" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_and_the_settings_are_shown_without_a_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("The board has 16 A left.")

    assert "1 would be added" in run("import", "notes", "--dry-run", "--store", "new.db", "--embedder", "none").stdout
    assert "added a.md" in run("watch", "notes", "--dry-run", "--store", "new.db", "--embedder", "none").stdout
    assert json_of("config", "--store", "new.db")["store"] == "new.db"
    assert [file.name for file in tmp_path.iterdir()] == ["notes"]


def test_reading_creates_no_schema():
    address = postgres_server.address(empty=True)

    done = run("status", "--store", address, code=3)

    assert "there is no store at postgresql://" in done.stderr
    with psycopg.connect(address) as connection:
        assert connection.execute("SELECT to_regnamespace('retentive')").fetchone() == (None,)
    postgres_server.drop(postgres_server.name_of(address))


def test_suggested_commands_name_the_store_unless_they_would_use_it_anyway(tmp_path, monkeypatch):
    other = str(tmp_path / "my store.db")
    run("remember", "apples", "--store", other, "--embedder", "none")

    assert f"see: retentive --store '{other}' imports" in run("imports", "undo", "x", "--store", other, code=3).stderr
    checks = json_of("doctor", "--store", other, code=1)["checks"]
    assert checks["vectors"] == [f"1 memory has no vector; run: retentive --store '{other}' reembed"]
    notes = tmp_path / "a.md"
    notes.write_text("The board has 16 A left.")
    imported = run("import", str(notes), "--store", other, "--embedder", "none").stdout
    assert f"to undo it: retentive --store '{other}' imports undo" in imported.replace("\n", " ")
    refused = json.loads(run("imports", "undo", "x", "--store", other, "--json", code=3).stderr)
    assert f"--store '{other}'" in refused["error"]["message"]

    monkeypatch.setenv("RETENTIVE_STORE", other)
    assert "see: retentive imports" in run("imports", "undo", "x", code=3).stderr


def test_the_page_names_the_store_only_where_no_token_is_needed(open_engine, tmp_path):
    engine: Engine = open_engine()
    local = Settings(store=str(tmp_path / "store.db"))
    remote = local.model_copy(update={"server": local.server.model_copy(update={"require_token": True})})

    for settings, option in ((local, f"--store {tmp_path}/store.db"), (remote, ""), (Settings(), "")):
        with TestClient(create_app(engine, settings), base_url="http://localhost") as client:
            assert f'<meta name="store-option" content="{option}">' in client.get("/").text


def test_the_configuration_of_a_client_says_what_to_install_if_the_server_is_missing():
    script = "import sys; sys.modules['mcp'] = None; from retentive.cli import main; main()"

    def config(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, "mcp", "config", "--client", "cursor", *words]
        return subprocess.run(command, capture_output=True, text=True)

    missing = config()
    assert (missing.returncode, missing.stdout) == (6, "")
    assert pip_install("server") in missing.stderr
    assert config("--http").returncode == 0  # the server may run elsewhere


def test_doctor_advises_another_model_where_most_memories_are_not_in_english(open_engine, model):
    chinese = ["我把钥匙放在花盆下面了", "明天下午三点开会", "我昨天在北京见了老朋友"]
    german = ["Ich habe das Auto gestern nicht gewaschen", "Die Katze schläft auf dem Sofa und ist müde"]
    english = ["The meeting is at three", "Ana moved to Lisbon in May", "The key is under the pot"]
    engine = open_engine(model)

    advice = engine.embeddings.language_advice([*chinese, *german, english[0]])

    assert "5 of 6 recent memories are not in English" in advice
    assert pip_install("multilingual") in advice
    assert engine.embeddings.language_advice([*english, *english, *chinese]) is None
    assert engine.embeddings.language_advice(chinese) is None  # too few to tell


def test_backup_names_its_file_and_the_files_that_it_deleted(tmp_path: Path):
    store = tmp_path / "store.db"
    id = remember("The tall mast is oak.", "--store", str(store))

    first = json_of("backup", "--store", str(store))
    second = json_of("backup", str(tmp_path / "backups"), "--keep", "1", "--store", str(store))

    assert (first["memories"], first["problems"], second["removed"]) == (1, [], [first["file"]])
    assert [one["id"] for one in json_of("list", "--store", second["file"])["memories"]] == [id]
    run("backup", "--keep", "0", "--store", str(store), code=2)
    assert "retentive export" in run("backup", "--store", "memory://", code=2).output


def test_an_export_of_a_project_or_session_that_does_not_exist_is_refused(tmp_path):
    remember("The key is under the pot", "--project", "kitchen")

    for option, name in (("--project", "kitchn"), ("--session", "nope")):
        done = run("export", str(tmp_path / "all.jsonl"), option, name, code=3)
        assert name in done.stderr
    assert "kitchen" in run("export", str(tmp_path / "all.jsonl"), "--project", "kitchn", code=3).stderr
    assert not (tmp_path / "all.jsonl").exists()


def test_lines_that_begin_with_a_byte_order_mark_are_remembered(tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(b'\xef\xbb\xbf{"text": "The key is under the pot"}\n')

    assert json_of("remember", "--jsonl", str(lines))["stored"] == 1


def test_only_the_owner_can_read_a_store_and_its_folder_also_after_they_were_opened_up(monkeypatch, tmp_path):
    def modes() -> list[str]:
        return [f"{one.name} {stat.S_IMODE(one.stat().st_mode):o}" for one in (folder, *sorted(folder.iterdir()))]

    monkeypatch.delenv("RETENTIVE_STORE")
    folder = tmp_path / "data" / "retentive"
    before = os.umask(0o022)
    try:
        with Engine.open(embedder="none") as engine:
            engine.remember("the spare key is under the blue pot")
            created = modes()
            for one in (*folder.iterdir(), folder):
                one.chmod(0o755 if one.is_dir() else 0o644)
            with Engine.open(embedder="none"):
                opened = modes()
    finally:
        os.umask(before)

    assert created == ["retentive 700", *(f"memories.db{end} 600" for end in ("", "-queue", "-shm", "-wal"))]
    assert opened == created


def test_doctor_tells_about_a_folder_in_which_others_can_replace_the_store(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    store = str(folder / "a.db")
    remember("The spare key is under the blue pot", "--store", store)
    assert json_of("doctor", "--store", store, "--embedder", "none", code=1)["checks"]["store"] == []
    folder.chmod(0o777)

    [problem] = json_of("doctor", "--store", store, "--embedder", "none", code=1)["checks"]["store"]

    assert f"chmod o-w {folder}" in problem


def test_a_named_config_file_is_read_before_there_is_a_store(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text("[tuning]\nkeyword_weight = 0.5\n", encoding="utf-8")

    shown = json_of("--config", str(file), "config")

    assert shown["tuning"]["keyword_weight"] == 0.5


def test_an_empty_preset_is_refused(tmp_path):
    options = ("--store", str(tmp_path / "a.db"), "--embedder", "none")
    id = json_of(*options, "remember", "green tea")["id"]

    for words in (["recall", "tea"], ["explain", "tea", id], ["config", "set"]):
        refused = run(*options, *words, "--preset", "", code=2)
        assert "preset" in refused.stderr
    program = [sys.executable, "-m", "retentive", *options, "recall", "tea", "--preset", ""]
    quick = subprocess.run(program, capture_output=True, text=True)
    assert (quick.returncode, quick.stdout) == (2, "")
