"""Large changes in parts, and the order of writers on a SQLite store."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import apsw
import pytest

from retentive.errors import Conflict, Unavailable
from retentive.models import Scope
from retentive.stores.sqlite.batches import FIRST_BATCH
from retentive.stores.sqlite.connections import WriteQueue
from retentive.stores.values import Record
from tests.stores.build import MODEL, NOW, embedded, id_of, keyword_ids, listed, nearest_ids, record, vector
from tests.stores.sqlite_file import opened
from tests.stores.test_sqlite_processes import child, hold_the_lock

MANY = 200
SESSION = Scope(sessions=("a",), only_sessions=True)


def fill(path: str) -> None:
    with opened(path) as store:
        store.add([embedded(number, session="a", project="p") for number in range(MANY)], model=MODEL)
        store.add([embedded(1000)], model=MODEL)


# Between the parts of a large change


def test_other_writers_write_between_the_parts_of_a_removal(path: str):
    fill(path)
    numbers = count(2000)
    with opened(path) as store, opened(path, busy_seconds=0.01) as other:
        # With a wait of 10 ms this fails at once if the removal holds the lock.
        count_removed = store.remove_scope(
            SESSION, progress=lambda _: other.add([embedded(next(numbers), session="a")], model=MODEL) and None
        )

        added = next(numbers) - 2000
        assert count_removed == MANY
        assert added > 1
        # What is added during a removal stays.
        assert len(listed(store, SESSION)) == added


def test_a_memory_can_be_changed_while_its_session_is_moved(path: str):
    fill(path)
    last = id_of(MANY - 1)
    changes = iter([lambda other: other.update(record(MANY - 1, "changed", session="a", project="p"), model=None)])
    with opened(path) as store, opened(path) as other:
        moved = store.move_session(
            "default", "a", project="q", progress=lambda _: next(changes, lambda other: None)(other)
        )

        assert moved.memories == MANY
        assert [(one.text, one.project) for one in store.get([last])] == [("changed", "q")]
        assert len(keyword_ids(store, "note changed", Scope(project="q"))) == MANY
        assert store.check() == []


def test_a_fact_that_is_changed_while_its_session_is_moved_is_settled_where_it_goes(path: str):
    homes = [("a", "p", 1), (None, "p", 5), (None, "q", 2)]
    facts = [
        embedded(MANY + at, key="home", session=session, project=project, occurred=NOW + timedelta(days=days))
        for at, (session, project, days) in enumerate(homes)
    ]
    fill(path)
    changed = Record(facts[0].memory._replace(importance=0.9))
    changes = iter([lambda other: other.update(changed, model=None, fields=("importance",))])
    with opened(path) as store, opened(path) as other:
        store.add(facts, model=MODEL)
        store.move_session("default", "a", project="q", progress=lambda _: next(changes, lambda other: None)(other))

        moved, left, there = store.get([id_of(MANY + number) for number in range(3)])
        assert (moved.importance, moved.project) == (0.9, "q")
        assert (moved.valid_to, moved.superseded_by) == (there.occurred, there.id)
        assert left.valid_to is None is there.valid_to
        assert store.check() == []


def test_a_part_of_a_move_may_have_nothing_to_move_because_others_changed_all_of_it(path: str):
    last = FIRST_BATCH
    changes = iter([lambda other: other.update(record(last, "changed", session="a", project="p"), model=None)])
    with opened(path) as store, opened(path) as other:
        store.add([embedded(number, session="a", project="p") for number in range(FIRST_BATCH + 1)], model=MODEL)
        moved = store.move_session(
            "default", "a", project="q", progress=lambda _: next(changes, lambda other: None)(other)
        )

        assert moved.memories == FIRST_BATCH + 1
        assert [(one.text, one.project) for one in store.get([id_of(last)])] == [("changed", "q")]
        assert store.check() == []


def test_a_session_that_is_moved_twice_at_once_is_where_the_later_move_put_it(path: str):
    fill(path)
    moves = iter([lambda other: other.move_session("default", "a", project="r")])
    with opened(path) as store, opened(path) as other:
        with pytest.raises(Conflict, match="another process moved this session"):
            store.move_session("default", "a", project="q", progress=lambda _: next(moves, lambda other: None)(other))

        assert len(listed(store, Scope(project="r"))) == MANY
        assert listed(store, Scope(project="q")) == []
        assert store.check() == []


# A process that is killed in the middle


def remove(path: str, line: Connection) -> None:
    with opened(path) as store:
        store.remove_scope(SESSION, progress=line.send)


def move(path: str, line: Connection) -> None:
    with opened(path) as store:
        store.move_session("default", "a", project="q", progress=line.send)


@pytest.mark.parametrize("work", [remove, move])
def test_a_large_change_that_was_killed_is_finished_by_running_it_again(
    path: str, work: Callable[[str, Connection], None]
):
    fill(path)
    with child(work, path) as (process, line):
        assert 0 < line.recv() < MANY
        process.kill()
        process.join()

    with opened(path) as store:
        assert store.check() == []
        if work is remove:
            left = len(listed(store)) - 1
            assert store.remove_scope(SESSION) == left < MANY
            assert listed(store) == [id_of(1000)]
        else:
            store.move_session("default", "a", project="q")
            assert (
                len(listed(store, Scope(project="q"))) == len(nearest_ids(store, vector(1), Scope(project="q"))) == MANY
            )
        assert store.check() == []


# The order of writers


def test_threads_get_their_turn_in_the_order_in_which_they_came(path: str):
    queue, order = WriteQueue(path), list[int]()

    def work(number: int) -> None:
        with queue.turn(60):
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with queue.turn(60):
        for number, thread in enumerate(threads):
            thread.start()
            while len(queue._waiting) < number + 2:  # the thread is in the queue
                pass
    for thread in threads:
        thread.join()

    assert order == list(range(8))


def test_a_thread_that_waits_too_long_leaves_the_queue_and_the_next_one_gets_its_turn(path: str):
    queue = WriteQueue(path)
    with queue.turn(60):
        late = r"other writes to .* in this process took too long; nothing was changed"
        with pytest.raises(Unavailable, match=late), queue.turn(0.01):
            pass
        assert len(queue._waiting) == 1
    with queue.turn(0.01):
        assert len(queue._waiting) == 1


def add_one(path: str, line: Connection) -> None:
    with opened(path) as store:
        line.send("opened")
        line.recv()
        store.add([embedded(3001)], model=MODEL)
        line.send("added")


def test_a_process_that_waits_for_the_lock_writes_before_one_that_comes_later(path: str):
    fill(path)
    with (
        opened(path) as store,
        child(add_one, path) as (_, waiting),
        child(hold_the_lock, path) as (_, holding),
    ):
        assert (waiting.recv(), holding.recv()) == ("opened", "locked")
        waiting.send("add")
        wait_until_locked(path + "-queue")
        later = threading.Thread(target=lambda: store.add([embedded(3002)], model=MODEL))
        later.start()
        while not store._connections._queue._waiting:
            pass

        holding.send("release")

        assert (holding.recv(), waiting.recv()) == ("released", "added")
        later.join()
        with store._connections.read() as connection:
            ids = (id_of(3001), id_of(3002))
            keys = [connection.execute("SELECT key FROM memories WHERE id = ?", (id,)).get for id in ids]
        assert keys[0] < keys[1]


def wait_until_locked(path: str) -> None:
    """Wait until another process holds the lock on a file."""
    with Path(path).open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            fcntl.flock(file, fcntl.LOCK_UN)


def test_the_file_of_the_queue_is_gone_when_the_store_is_closed(path: str, tmp_path: Path):
    with opened(path) as store:
        store.add([embedded(1)], model=MODEL)
        with opened(path) as other:
            other.add([embedded(2)], model=MODEL)
        store.add([embedded(3)], model=MODEL)

    assert [file.name for file in tmp_path.iterdir()] == ["memories.db"]


# Space


def test_compacting_returns_free_pages_while_another_store_writes(path: str):
    with opened(path) as store, opened(path) as other:
        store.add([embedded(number, "long text " * 300) for number in range(1000)], model=MODEL)
        store.remove([id_of(number) for number in range(2, 1000)])
        numbers = count(5000)

        done = store.compact(progress=lambda _: other.add([embedded(next(numbers))], model=MODEL) and None)

        assert done.bytes_after < done.bytes_before / 4
        assert done.bytes_after == store.stats().bytes
        assert len(listed(other)) == 2 + next(numbers) - 5000 > 3
        assert store.check() == other.check() == []
        assert nearest_ids(store, vector(1), limit=1) == [id_of(1)]


def test_a_large_removal_returns_pages_by_itself(path: str):
    with opened(path) as store:
        store.add([embedded(number, "long text " * 300) for number in range(2500)], model=MODEL)
        before = store.stats().bytes
        store.remove([id_of(number) for number in range(1, 2500)])

        assert store.stats().bytes < before
        assert store.check() == []


def test_a_file_that_could_not_return_pages_can_after_it_was_compacted(path: str):
    connection = apsw.Connection(path)
    connection.execute("PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL; CREATE TABLE x (y); DROP TABLE x")
    connection.execute("PRAGMA application_id = 0x52434C54")
    connection.close()
    with opened(path) as store:
        store.add([embedded(number, "long text " * 300) for number in range(300)], model=MODEL)
        store.remove([id_of(number) for number in range(1, 300)])

        done = store.compact()

        with store._connections.read() as reading:
            reading.execute("SELECT count(*) FROM memories").fetchall()
            assert reading.pragma("auto_vacuum") == 2
        assert done.bytes_after < done.bytes_before / 4
        assert listed(store) == [id_of(0)]
        assert store.check() == []
        store.add([embedded(400)], model=MODEL)
    with opened(path) as again:
        assert nearest_ids(again, vector(400), limit=1) == [id_of(400)]
