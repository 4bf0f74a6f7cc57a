"""Backups of a SQLite store that is in use: one snapshot, checked, private, and the oldest deleted."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from retentive.errors import Invalid, Unavailable
from retentive.stores.sqlite.checkpoints import clear_unallocated
from tests.stores.build import MODEL, NOW, embedded, id_of, record
from tests.stores.sqlite_file import EVERYWHERE, finds, opened
from tests.stores.test_damage import flip

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of 300 memories, more than one step of a backup."""
    path = tmp_path / "store.db"
    with opened(str(path)) as store:
        text = " ".join(f"word{number}" for number in range(400))
        store.add([embedded(number, f"note number{number} {text}") for number in range(1, 301)], model=MODEL)
    return path


def test_a_backup_during_writes_is_one_healthy_snapshot_of_the_store(path: Path, tmp_path: Path):
    ended, written = threading.Event(), []
    steps: list[int] = []

    def write() -> None:
        number = 1000
        while not ended.is_set():
            # Two memories in each transaction: a snapshot has both or none.
            store.add([embedded(number), embedded(number + 1)], model=MODEL)
            written.append(number)
            number += 2

    def step(done: int) -> None:
        before = len(written)
        while writer.is_alive() and len(written) <= before:  # a write ends between two steps of the copy
            pass
        steps.append(done)

    with opened(str(path)) as store:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            done = store.backup(at=NOW, progress=step)
        finally:
            ended.set()
            writer.join()
        assert (store.check(), len(written) >= len(steps)) == ([], True)

    assert (Path(done.file), done.problems, done.removed) == (tmp_path / "backups/store-20250601T120000Z.db", (), ())
    assert steps
    with opened(done.file) as copy:
        assert copy.check() == []
        assert copy.stats().memories == done.memories
        assert finds(copy, 300) == EVERYWHERE
        assert (done.memories - 300) % 2 == 0
        assert done.memories <= 300 + 2 * (len(written) - len(steps) + 1)  # nothing from after its first page


def test_a_backup_is_private_and_has_nothing_beside_it(path: Path, tmp_path: Path):
    with opened(str(path)) as store:
        file = Path(store.backup(tmp_path / "safe", at=NOW).file)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [one.name for one in file.parent.iterdir() if not one.name.endswith(".lock")] == [file.name]


def test_a_folder_that_cannot_be_written_is_named(path: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    with opened(str(path)) as store, pytest.raises(Unavailable, match=r"/file cannot be written .* no backup was made"):
        store.backup(tmp_path / "file", at=NOW)


def test_no_page_of_a_backup_has_bytes_outside_its_rows_which_pages_of_the_log_have(path: Path):
    with opened(str(path)) as store, store._connections.read() as reader:
        reader.execute("BEGIN; SELECT count(*) FROM memories").fetchall()  # the log cannot be moved into the file
        store.add([record(number, f"zebra{number} " + "x" * 300) for number in range(400, 440)], model=None)
        for number in range(400, 440):
            store.update(record(number, f"changed {number} " + "y" * (number % 7) * 200), model=None)
        store.remove([id_of(number) for number in range(400, 440)])
        file = Path(store.backup(at=NOW).file)
        reader.execute("ROLLBACK")

    connection = apsw.Connection(str(file))
    of_rows = [one for (one,) in connection.execute("SELECT pageno FROM dbstat WHERE pagetype IN ('leaf', 'internal')")]
    connection.close()
    content = file.read_bytes()
    pages = {number: content[(number - 1) * PAGE : number * PAGE] for number in of_rows}
    assert [one for one, page in pages.items() if clear_unallocated(page, first=one == 1) != page] == []
    assert b"zebra4" not in content


def test_only_the_newest_backups_of_this_store_are_kept(path: Path, tmp_path: Path):
    other = tmp_path / "backups" / "store-of-others-20200101T000000Z.db"
    other.parent.mkdir()
    other.touch()
    with opened(str(path)) as store:
        made = [store.backup(at=NOW + timedelta(days=day)).file for day in range(3)]
        again = store.backup(at=NOW, keep=2)  # by a clock that was set back
        with pytest.raises(Invalid, match="at least 1"):
            store.backup(at=NOW, keep=0)

    assert again.file == str(tmp_path / "backups" / "store-20250601T120001Z.db")
    assert list(again.removed) == made[:2]
    assert all(Path(file).exists() for file in (again.file, made[2], other))


def test_a_damaged_store_is_backed_up_with_its_problems_and_no_earlier_backup_is_deleted(path: Path):
    with opened(str(path)) as store:
        first = store.backup(at=NOW)
    with opened(str(path)) as store:
        store.add([embedded(500, "The Tall mast is oak.")], model=MODEL)
    flip(path, b"The Tall", to=b"The Fall")
    with opened(str(path)) as store:
        second = store.backup(at=NOW + timedelta(days=1), keep=1)

    assert "another text" in second.problems[0]
    assert Path(first.file).exists()
    assert second.removed == ()


CHILD = """
import sys
from datetime import UTC, datetime
from retentive.stores.sqlite import SqliteStore

def wait(done):
    print("copying", flush=True)
    sys.stdin.read()

SqliteStore(sys.argv[1]).backup(at=datetime(2025, 6, 1, tzinfo=UTC), progress=wait)
"""


def test_a_killed_backup_leaves_no_backup_and_the_next_one_succeeds(path: Path):
    backups = path.parent / "backups"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child, opened(str(path)) as store:
        assert child.stdout is not None
        assert child.stdout.readline() == "copying\n"
        with pytest.raises(Unavailable, match="another backup"):
            store.backup(at=NOW)
        store.add([embedded(500)], model=MODEL)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert list(backups.glob("*.part"))
        assert not list(backups.glob("store-*.db"))

        done = store.backup(at=NOW)

        assert (done.memories, done.problems, store.check()) == (301, (), [])
    assert not list(backups.glob("*.part*"))
    assert [file.name for file in backups.glob("store-*.db")] == ["store-20250601T120000Z.db"]
