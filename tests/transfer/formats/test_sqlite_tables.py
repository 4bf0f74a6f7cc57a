"""Episodes of another program's SQLite file, with sessions and projects by integer ids."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.transfer.formats.sqlite_tables import SqliteTables
from tests.transfer.formats.samples import entries, items, reasons, texts, truncated, warnings, write_database

SERVICE = """
    CREATE TABLE projects (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE sessions (id INTEGER PRIMARY KEY, title TEXT, project_id INTEGER);
    CREATE TABLE episodes (id INTEGER PRIMARY KEY, session_id INTEGER, role TEXT, content TEXT, created_at TEXT);
    INSERT INTO projects VALUES (7, 'lighthouse');
    INSERT INTO sessions VALUES (1, 'The lamp', 7), (2, NULL, NULL);
    INSERT INTO episodes VALUES
        (1, 1, 'user', 'The lamp flickers', '2026-05-08 13:56:00'),
        (2, 1, 'assistant', 'The relay is worn', '2026-05-08T13:56:10+02:00'),
        (3, 2, 'user', 'Buy oil', 'yesterday'),
        (4, 2, 'user', '  ', NULL),
        (5, NULL, 'user', 'No session', NULL);
"""


def test_episodes_keep_speakers_times_and_order_in_sessions_named_by_their_ids(open_engine, tmp_path):
    path = write_database(tmp_path / "service.db", SERVICE)
    engine: Engine = open_engine()

    done = engine.import_from(path)

    assert (done.format, done.added, done.skipped) == ("sqlite", 4, {"no text": 1})
    assert done.warnings == {"no valid time": 1}
    sessions = {one.name: (one.project, one.memories) for one in engine.sessions()}
    assert sessions == {"1": ("lighthouse", 2), "2": (None, 1)}
    lamp = engine.list(engine.scope(session="1")).memories[::-1]
    assert [(one.text, one.speaker, one.position, one.metadata["title"]) for one in lamp] == [
        ("The relay is worn", "assistant", 1, "The lamp"),
        ("The lamp flickers", "user", 0, "The lamp"),
    ]  # listed by their own times: 11:56:10 and 13:56:00 in UTC
    assert {one.occurred.isoformat() for one in lamp if one.occurred} == {
        "2026-05-08T11:56:10+00:00",
        "2026-05-08T13:56:00+00:00",
    }
    assert lamp[0].metadata["project_id"] == "7"


def test_an_import_can_be_tried_repeated_continued_with_new_rows_and_undone(open_engine, tmp_path):
    path = write_database(tmp_path / "service.db", SERVICE)
    engine: Engine = open_engine()
    before = hashlib.sha256(path.read_bytes()).digest()

    trial = engine.import_from(path, dry_run=True)
    assert engine.stats().memories == 0
    first, again = engine.import_from(path), engine.import_from(path)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    write_database(path, "INSERT INTO episodes VALUES (6, 1, 'user', 'Order a relay', '2026-05-09')")
    later = engine.import_from(path)

    assert (trial.added, first.added, again.added, later.added) == (4, 4, 0, 1)
    assert engine.imports.undo(later.run).memories == 1
    assert engine.imports.undo(first.run).memories == 4
    assert engine.stats().memories == 0


def test_columns_are_recognised_by_other_usual_names_and_the_rest_is_named(tmp_path):
    script = """
        CREATE TABLE Episodes (uuid TEXT, Speaker TEXT, Text TEXT, sessionId TEXT, projectId INTEGER, timestamp REAL,
            metadata TEXT, importance REAL, is_deleted INTEGER, colour TEXT, embedding BLOB);
        INSERT INTO Episodes VALUES ('a', 'Ana', 'One', 's', 3, 1780000000000, '{"mood": 1}', 0.9, 0, 'red', x'00');
        INSERT INTO Episodes VALUES ('b', 'Ana', 'Two', 's', 3, 'yesterday', '[', 9, 1, 'red', NULL);
        INSERT INTO Episodes VALUES ('c', 'Ana', 'Three', 's', 3, 'yesterday', '[', 9, 0, 'red', NULL);
    """
    found = entries(SqliteTables(), write_database(tmp_path / "other.db", script))

    one, three = items(found)
    assert dict(one.draft) == {
        "text": "One", "project": "3", "session": "s", "kind": "episodic", "speaker": "Ana", "importance": 0.9,
        "occurred": one.draft["occurred"], "source": "episodes:a", "metadata": {"mood": 1},
    }  # fmt: skip
    assert one.draft["occurred"].isoformat() == "2026-05-28T20:26:40+00:00"
    assert three.draft["metadata"] == {}
    assert reasons(found) == ["deleted there"]
    assert warnings(found) == [
        "columns left out: colour, embedding",
        "no valid time",
        "an importance that is not from 0 to 1 was left out",
    ]


def test_rows_without_an_id_are_told_apart_by_session_time_and_speaker(tmp_path):
    script = """
        CREATE TABLE episodes (content TEXT, session_id INTEGER, created_at TEXT);
        INSERT INTO episodes VALUES ('yes', 1, '2026-05-08'), ('yes', 2, '2026-05-08'), ('yes', 1, '2026-05-09');
    """
    assert len({item.key for item in items(SqliteTables().read(write_database(tmp_path / "a.db", script)))}) == 3


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("CREATE TABLE messages (content TEXT)", "no table 'episodes'"),
        ("CREATE TABLE episodes (number INTEGER)", "no table 'episodes' with a column 'content'"),
        ("CREATE TABLE a (b); CREATE VIEW episodes AS SELECT 'x' AS content", "no table 'episodes'"),
    ],
)
def test_a_file_without_episodes_is_refused_with_what_is_missing(tmp_path, script, says):
    with pytest.raises(Invalid, match=says):
        entries(SqliteTables(), write_database(tmp_path / "a.db", script))


def test_a_store_of_retentive_is_not_imported_but_copied(open_engine, tmp_path):
    open_engine().remember("The key is under the pot")

    with pytest.raises(Invalid, match="retentive copy"):
        open_engine(path=tmp_path / "other.db").import_from(tmp_path / "store.db")


def test_text_that_is_not_valid_is_replaced_with_a_warning(tmp_path):
    script = (
        "CREATE TABLE episodes (id INTEGER, content TEXT); INSERT INTO episodes VALUES (1, CAST(x'61ff62' AS TEXT))"
    )

    found = entries(SqliteTables(), write_database(tmp_path / "a.db", script))

    assert (texts(found), warnings(found)) == (["a\ufffdb"], ["invalid UTF-8 was replaced"])


def test_a_damaged_file_is_imported_up_to_the_damage(tmp_path):
    script = """
        CREATE TABLE episodes (id INTEGER PRIMARY KEY, content TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
        INSERT INTO episodes SELECT i, printf('note number %d ', i) || hex(randomblob(100)) FROM n;
    """
    path = write_database(tmp_path / "a.db", script)
    data = bytearray(path.read_bytes())
    data[4096 * 60 : 4096 * 61] = b"\xff" * 4096
    path.write_bytes(data)

    found = entries(SqliteTables(), path)

    assert 100 < len(items(found)) < 2000
    (reason,) = truncated(found)
    assert "malformed" in reason


def test_a_number_in_a_column_of_text_is_a_time(open_engine, tmp_path):
    path = write_database(
        tmp_path / "service.db",
        """
        CREATE TABLE episodes (id INTEGER PRIMARY KEY, content TEXT, created_at TEXT);
        INSERT INTO episodes (content, created_at) VALUES
            ('seconds', 1712110500), ('milliseconds', 1712110500000),
            ('a fraction', '1712110500.0'), ('a day', '20240403')
        """,
    )
    engine: Engine = open_engine()

    assert engine.import_from(path).warnings == {}

    times = {one.text: one.occurred for one in engine.list().memories}
    at = datetime(2024, 4, 3, 2, 15, tzinfo=UTC)
    assert times == {
        "seconds": at, "milliseconds": at, "a fraction": at, "a day": datetime(2024, 4, 3, tzinfo=UTC),
    }  # fmt: skip
