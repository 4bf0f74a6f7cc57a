"""The SQLite store and its file: other versions, foreign files, failed writes and what `check` finds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from retentive.errors import Invalid, Unavailable
from retentive.stores.sqlite import SqliteStore
from retentive.stores.sqlite import connections as migrations
from tests.stores.build import (
    MODEL,
    embedded,
    everything,
    id_of,
    listed,
    record,
)
from tests.stores.sqlite_file import EVERYWHERE, finds, opened

# Foreign files


def test_a_store_of_a_newer_version_is_refused_with_advice_and_not_changed(path: str, tmp_path: Path):
    with opened(path) as store:
        store.add([embedded(1)], model=MODEL)
    set_version(path, 99)
    before = Path(path).read_bytes()

    with pytest.raises(Invalid, match=r"newer Retentive \(schema 99, this one knows \d+\).*pip install --upgrade "):
        SqliteStore(path)

    assert Path(path).read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["memories.db"]


def set_version(path: str, version: int) -> None:
    connection = apsw.Connection(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_a_file_of_another_program_is_refused_and_not_changed(path: str, tmp_path: Path):
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    connection.close()
    before = Path(path).read_bytes()

    with pytest.raises(Invalid, match="SQLite file of another program"):
        SqliteStore(path)

    assert Path(path).read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["memories.db"]


@pytest.mark.parametrize("content", [b"Dear diary, " * 1000, b"SQLite format 3\0" + b"x" * 5000, b"\0" * 4096])
def test_a_file_that_is_not_a_database_is_refused_and_not_changed(path: str, content: bytes):
    Path(path).write_bytes(content)

    with pytest.raises((Invalid, Unavailable), match=r"memories\.db is (not a Retentive store|damaged)"):
        SqliteStore(path)

    assert Path(path).read_bytes() == content


def test_an_empty_file_becomes_a_store(path: str):
    Path(path).touch()

    with opened(path) as store:
        assert listed(store) == []


@pytest.mark.parametrize("place", [".", "file/memories.db", "/proc/retentive.db", "/dev/null"])
def test_the_error_names_a_path_that_cannot_hold_a_store(tmp_path: Path, place: str):
    (tmp_path / "file").touch()
    chosen = str(tmp_path / place)

    with pytest.raises((Unavailable, Invalid)) as error:
        SqliteStore(chosen)

    assert chosen in str(error.value)


def test_a_closed_store_is_unavailable(path: str):
    store = SqliteStore(path)
    store.close()
    store.close()

    for use in (lambda: store.get([id_of(1)]), lambda: store.add([record(1)], model=None)):
        with pytest.raises(Unavailable, match="the store is closed"):
            use()


# Failed writes


@pytest.mark.parametrize("steps", [("broken.sql",), ("schema.sql", "broken.sql")])
def test_a_migration_that_fails_changes_nothing(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...]
):
    scripts = tmp_path / "sql"
    scripts.mkdir()
    real = migrations.resources.files("retentive.stores.sqlite").joinpath("sql", "schema.sql").read_text()
    (scripts / "schema.sql").write_text(real)
    (scripts / "broken.sql").write_text("CREATE TABLE half (x); INSERT INTO half VALUES (1); SELECT no_such_column;")
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "resources", SimpleNamespace(files=lambda _: tmp_path))
        patched.setattr(migrations, "SCRIPTS", steps)
        with pytest.raises(Unavailable, match="no_such_column"):
            SqliteStore(path)

    connection = apsw.Connection(path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    version = connection.pragma("user_version")
    connection.close()

    assert "half" not in tables
    assert (version, "memories" in tables) == ((0, False) if len(steps) == 1 else (migrations.FIRST_VERSION, True))
    with opened(path) as store:
        assert len(store.add([embedded(1)], model=MODEL)) == 1


def test_a_store_of_an_earlier_schema_is_rejected(path: str):
    SqliteStore(path).close()
    set_version(path, migrations.FIRST_VERSION - 1)

    with pytest.raises(Invalid, match=f"has schema {migrations.FIRST_VERSION - 1}"):
        SqliteStore(path)


def test_a_full_disk_is_unavailable_and_nothing_is_half_written(path: str):
    with opened(path) as store:
        store.add([embedded(number, session="a") for number in range(20)], model=MODEL)
        before = everything(store)
        writer = store._connections._writer
        pages = writer.pragma("page_count")
        for spare in (0, 1, 5, 20, 60):
            writer.pragma("max_page_count", pages + spare)
            with pytest.raises(Unavailable, match=r"disk of .*memories\.db is full; make room and try again"):
                store.add([embedded(n, "word " * 400, session="a", project=None) for n in range(100, 400)], model=MODEL)
            assert everything(store) == before

        writer.pragma("max_page_count", 2**30)
        store.add([embedded(100, session="a")], model=MODEL)

        assert finds(store, 100) == EVERYWHERE
        assert store.get([id_of(100)])[0].position == 20
        assert store.check() == []


# What `check` finds


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            "INSERT INTO words (rowid, terms, scope) VALUES (99, 'stray', 'p1')",
            "1 entry of the keyword index belongs to no",
        ),
        ("DELETE FROM words_docsize WHERE id = 1", "1 memory is missing from the keyword index"),
        ("DELETE FROM memories WHERE key = 1", "1 vector belongs to no memory"),
        ("UPDATE memories SET terms = 'other' WHERE key = 1", "the document frequencies differ"),
        ("UPDATE profiles SET memories = 7", "the count of memories is wrong"),
        (
            "UPDATE vectors SET embedding = zeroblob(32) WHERE slot = 1 << 40",
            "1 entry of the vector index does not match",
        ),
        ("DELETE FROM vectors WHERE memory = 1", "1 entry of the vector index does not match"),
        ("DELETE FROM blocks", "3 entries of the vector index do not match"),
        ("UPDATE memories SET kind = 2 WHERE key = 1", "1 entry of the vector index does not match"),
    ],
)
def test_check_names_each_inconsistency(path: str, damage: str, sentence: str):
    with opened(path) as store:
        store.add([embedded(n) for n in range(3)], model=MODEL)
        assert store.check() == []

        store._connections._writer.execute(damage)

        assert any(sentence in line for line in store.check()), store.check()


def test_check_finds_nothing_before_and_after_a_change(path: str):
    with opened(path) as store:
        store.add([record(1)], model=None)
        assert store.check() == []
        store.update(record(1, source="elsewhere"), model=None)
        assert store.check() == []
        store.remove([id_of(1)])
        assert store.check() == []
