"""What happens to a SQLite store's files beside its writes: failed checkpoints, files that are replaced, free space."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from retentive.errors import Unavailable
from retentive.stores.sqlite import SqliteStore
from tests.stores.build import MODEL, embedded, id_of, listed, record
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
