"""What happens to a SQLite store's files beside its writes: failed checkpoints, files that are replaced, free space."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from retentive.errors import Unavailable
from retentive.stores.sqlite import SqliteStore, vector_index
from retentive.stores.values import Record
from tests.stores.build import (
    MODEL,
    Meanwhile,
    embedded,
    first_vectors,
    id_of,
    listed,
    make_query,
    nearest_ids,
    record,
    rows,
    search,
    vector,
)
from tests.stores.sqlite_file import EVERYWHERE, finds, opened
from tests.stores.test_sqlite_processes import child

# A checkpoint that fails


def remove_while_the_file_cannot_grow(path: str, line: Connection) -> None:
    """Forget and write while the log can be written, but no page can be added to the store file."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda entry: messages.append(entry.getMessage())  # type: ignore[method-assign]
    logging.getLogger("retentive").addHandler(handler)
    with opened(path) as store:
        store.add([embedded(number, "long text " * 300) for number in range(300)], model=MODEL)
        store.remove([id_of(0)])  # the log is empty now
        store.add([embedded(number, "long text " * 300) for number in range(300, 400)], model=MODEL)
        size = Path(path).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        removed = store.remove([id_of(1)])
        changed = store.update(record(2, "something else"), model=None)
        stored = store.add([embedded(1000)], model=MODEL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        line.send((removed, changed.text, [one.id for one in stored], messages))
        store.remove([id_of(3)])


def test_a_write_whose_checkpoint_fails_is_acknowledged_and_the_failure_is_logged(path: str):
    with child(remove_while_the_file_cannot_grow, path) as (process, line):
        removed, changed, stored, messages = line.recv()
        process.join(60)

    assert (process.exitcode, removed, changed, stored) == (0, [id_of(1)], "something else", [id_of(1000)])
    assert len(messages) == 1
    assert "the change was stored, but its log could not be moved into the file" in messages[0]
    with opened(path) as store:
        assert len(listed(store)) == 398
        assert finds(store, 1000) == EVERYWHERE
        assert store.check() == []


# A file that is replaced


def replace_by_another(path: str) -> None:
    other = f"{path}.other"
    with opened(other) as store:
        store.add([embedded(7)], model=MODEL)
    Path(other).replace(path)


def delete(path: str) -> None:
    Path(path).unlink()


def rename(path: str) -> None:
    Path(path).rename(f"{path}.moved")


def delete_log(path: str) -> None:
    Path(path + "-wal").unlink()


@pytest.mark.parametrize("change", [replace_by_another, delete, rename, delete_log])
def test_a_store_whose_file_was_replaced_acknowledges_no_write(path: str, change: Callable[[str], None]):
    store = SqliteStore(path)
    store.add([embedded(1)], model=MODEL)

    change(path)

    for write in (
        lambda: store.add([embedded(2)], model=MODEL),
        lambda: store.remove([id_of(1)]),
        lambda: store.compare_and_set({"name": "value"}),
    ):
        with pytest.raises(
            Unavailable, match="was deleted, moved or replaced while it was open, so nothing was changed"
        ):
            write()
    store.close()


def test_a_replaced_store_file_is_not_damaged_by_the_process_that_had_the_old_one(path: str):
    store = SqliteStore(path)
    store.add([embedded(1)], model=MODEL)
    delete(path)
    Path(path + "-wal").unlink()
    Path(path + "-shm").unlink()

    with opened(path) as new:
        new.add([embedded(2)], model=MODEL)
        with pytest.raises(Unavailable, match="deleted, moved or replaced"):
            store.add([embedded(3)], model=MODEL)
        store.close()
        new.add([embedded(4)], model=MODEL)

    with opened(path) as again:
        assert listed(again) == [id_of(4), id_of(2)]
        assert again.check() == []


def test_a_store_that_was_moved_back_accepts_writes_again(path: str):
    with opened(path) as store:
        store.add([embedded(1)], model=MODEL)
        rename(path)
        with pytest.raises(Unavailable, match="Move the original file back"):
            store.add([embedded(2)], model=MODEL)

        Path(f"{path}.moved").rename(path)

        store.add([embedded(3)], model=MODEL)
        assert listed(store) == [id_of(3), id_of(1)]


# Blocks of vectors in which most memories were forgotten


PARTS = 50


def in_parts(number: int) -> Record:
    """A memory of many parts, so that few memories fill a block."""
    return record(
        number, vectors=rows(vector(number), *(vector(10**6 + PARTS * number + at) for at in range(1, PARTS)))
    )


def churn(store: SqliteStore, first: int, count: int, *, keep: int) -> list[int]:
    """Add memories and forget all but every `keep`-th of them; return the numbers of those that are left."""
    numbers = range(first, first + count)
    store.add([in_parts(number) for number in numbers], model=MODEL)
    left = [number for number in numbers if number % keep == 0]
    store.remove([id_of(number) for number in numbers if number % keep])
    return left


def block_sizes(store: SqliteStore) -> list[int]:
    with store._connections.read() as connection:
        return [size for (size,) in connection.execute("SELECT length(slots) FROM blocks ORDER BY id")]


def test_blocks_of_forgotten_memories_take_no_space_and_what_is_left_is_found(path: str):
    with opened(path) as store, opened(path) as other:
        left = churn(store, 0, 50, keep=25)
        assert nearest_ids(other, vector(25), limit=1) == [id_of(25)]
        for turn in range(1, 4):
            left += churn(store, 50 * turn, 50, keep=25)

        sizes = block_sizes(store)
        assert len(sizes) > 8
        assert sum(size > 0 for size in sizes) <= 3
        for one in (store, other):
            assert [finds(one, number) for number in left] == [EVERYWHERE] * len(left)
            assert sorted(nearest_ids(one, vector(1))) == sorted(id_of(number) for number in left)
        assert store.check() == []
    with opened(path) as again:
        assert [finds(again, number) for number in left] == [EVERYWHERE] * len(left)


def test_the_parts_of_a_long_memory_keep_their_order_when_their_block_is_emptied(path: str):
    parts = rows(vector(1), vector(2), vector(3), vector(4))
    with opened(path) as store:
        store.add([embedded(number) for number in range(100, 1122)], model=MODEL)
        store.add([record(1, vectors=parts)], model=MODEL)  # two of its parts are in the second block
        store.remove([id_of(number) for number in range(100, 1122)])

        assert block_sizes(store)[0] == 0
        assert first_vectors(store, [id_of(1)])[id_of(1)] == pytest.approx(vector(1), abs=1e-3)
        (scanned,) = store.scan().records
        assert scanned.vectors == pytest.approx(parts, abs=1e-3)
        assert store.check() == []


def test_a_search_that_began_before_blocks_were_emptied_sees_them_as_they_were(path: str):
    with opened(path) as store, opened(path) as fresh:
        store.add([embedded(number) for number in range(1100)], model=MODEL)

        def remove() -> None:
            store.remove([id_of(number) for number in range(1000)])
            assert len(nearest_ids(fresh, vector(1))) == 100

        found = search(fresh, make_query(), semantic=2000, vector=Meanwhile(vector(1), remove, is_ready=True))

        assert len(found.candidates["semantic"]) == 1100
        assert found.candidates["semantic"][0].memory.id == id_of(1)


def test_an_index_in_memory_of_mostly_empty_blocks_is_created_anew(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vector_index, "MOST_EMPTY", 1)
    with opened(path) as store:
        indexes = set()
        for turn in range(4):
            numbers = range(50 * turn, 50 * turn + 50)
            store.add([in_parts(number) for number in numbers], model=MODEL)
            assert nearest_ids(store, vector(numbers[-1]), limit=1) == [id_of(numbers[-1])]
            store.remove([id_of(number) for number in numbers])
            assert nearest_ids(store, vector(1)) == []
            indexes.add(store._index)

        assert len(indexes) > 1
