"""Files that cannot be opened: what can be read of them is saved into a new store."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.errors import Invalid, RetentiveError
from retentive.inference.embedders import Embedder
from retentive.stores.damage import Recovery
from retentive.stores.sqlite import SqliteStore
from retentive.stores.sqlite.recovery import recover
from tests.stores.build import MODEL, NOW, embedded, everything, id_of, memory, record, rows, vector

PAGE = 4096
LONG = " ".join(f"word{number}" for number in range(9000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The closed file of a store with 300 memories in two profiles; one has a long text, some have vectors."""
    path = tmp_path / "memories.db"
    with closing(SqliteStore(path)) as store:
        store.add(
            [
                record(number, f"note number{number} " * 20, session="a", project="p", created=NOW, speaker="Ana")
                for number in range(200)
            ],
            model=None,
        )
        store.add(
            [embedded(number, profile="elsewhere", metadata={"n": number}) for number in range(200, 299)], model=MODEL
        )
        store.add([record(299, LONG, vectors=rows(vector(1), vector(2)))], model=MODEL)
        store.compare_and_set({"tuning": '{"dedup": false}'})
    return path


def recovered(path: Path) -> tuple[Recovery, SqliteStore]:
    store = SqliteStore(path.with_name("new.db"))
    return recover(path, store), store


def test_everything_but_the_vectors_of_an_intact_file_is_saved(path: Path):
    done, store = recovered(path)

    with closing(store), closing(SqliteStore(path)) as before:
        assert (done.memories, done.changed, done.lost, done.damaged_rows, done.settings) == (300, (), (), 0, 1)
        assert {one.memory.id: one.memory for one in store.scan().records} == {
            one.memory.id: one.memory for one in before.scan().records
        }
        assert store.check() == []
        assert (store.list_values(""), store.stats().vectors) == (before.list_values(""), 0)


def test_a_file_whose_header_is_lost_cannot_be_opened_but_is_saved(path: Path, model: Embedder):
    content = bytearray(path.read_bytes())
    content[:100] = random.Random(7).randbytes(100)
    path.write_bytes(content)
    with pytest.raises(RetentiveError, match="retentive recover"):
        Engine.open(path, embedder=model)

    done, store = recovered(path)

    with closing(store):
        assert (done.memories, done.lost) == (300, ())
        assert store.get([id_of(299)])[0].text == LONG
        assert {profile.name for profile in store.profiles()} == {"default", "elsewhere"}
        assert store.check() == []


def test_damaged_pages_lose_only_their_own_memories(path: Path):
    content = bytearray(path.read_bytes())
    at = content.index(b"note number57 ") // PAGE * PAGE
    in_page = {n for n in range(200) if content.count(f"note number{n} ".encode(), at, at + PAGE)}
    content[at : at + PAGE] = random.Random(7).randbytes(PAGE)  # one page of memories
    content[:PAGE] = bytes(PAGE)  # and the page with the header and the schema
    path.write_bytes(content)

    done, store = recovered(path)

    with closing(store):
        saved = {one.memory.id for one in store.scan().records}
        assert 57 in in_page
        assert {id_of(n) for n in range(300) if n not in in_page} <= saved
        assert done.memories == len(saved) < 300
        assert store.check() == []


def test_a_text_that_is_not_utf_8_is_reported_as_lost_and_one_with_other_letters_as_changed(path: Path):
    content = path.read_bytes()
    for text, damaged in ((b"note number205", b"note numbe\xff\xfe05"), (b"note number206", b"note numbRR206")):
        assert content.count(text) == 2  # the text, and its terms
        content = content.replace(text, damaged, 1)
    path.write_bytes(content)

    done, store = recovered(path)

    with closing(store):
        assert (done.memories, done.changed, [one.id for one in done.lost]) == (299, (id_of(206),), [id_of(205)])
        assert store.get([id_of(206)])[0].text == "note numbRR206"


def test_what_only_the_write_ahead_log_has_is_saved(tmp_path: Path):
    path = tmp_path / "memories.db"
    with closing(SqliteStore(path)) as running:
        running.add([record(number) for number in range(40)], model=None)
        copy = tmp_path / "copy.db"
        for end in ("", "-wal"):
            Path(f"{copy}{end}").write_bytes(Path(f"{path}{end}").read_bytes())
    assert b"note number33" not in copy.read_bytes()

    done, store = recovered(copy)

    with closing(store):
        assert done.memories == 40
        assert store.get([id_of(33)])[0].text == memory(33).text


def test_a_file_of_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "random.db"
    path.write_bytes(random.Random(1).randbytes(50_000))

    with closing(SqliteStore(tmp_path / "new.db")) as store:
        with pytest.raises(Invalid, match="no memories that can be read"):
            recover(path, store)
        assert everything(store) == everything(SqliteStore(tmp_path / "empty.db"))
