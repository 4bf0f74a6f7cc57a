"""The SQLite store with several processes on one file, and with processes that are killed."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any

import apsw
import numpy as np
import pytest

from retentive.errors import Unavailable
from retentive.models import Model, Scope
from retentive.stores.sqlite import SqliteStore
from retentive.stores.values import Record
from tests.stores.build import (
    MODEL,
    embedded,
    find_nearest,
    id_of,
    keyword_ids,
    listed,
    memory,
    nearest_ids,
    rows,
    vector,
)
from tests.stores.sqlite_file import EVERYWHERE, finds, opened

# A fork server that has imported everything starts a process in milliseconds.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.stores.test_sqlite_processes"])


@contextmanager
def child(work: Any, *arguments: Any) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """Start a process and return it with our end of a pipe to it; it is killed when the block ends."""
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=work, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


def rest_of(line: Connection) -> Iterator[Any]:
    """Receive until the other end is closed."""
    while True:
        try:
            yield line.recv()
        except (EOFError, ConnectionResetError):
            return


# Several processes


def write_batches(path: str, first: int, size: int, line: Connection) -> None:
    with opened(path) as store:
        for start in range(first, first + 60, size):
            stored = store.add(
                [embedded(number, session=f"s{first}") for number in range(start, start + size)], model=MODEL
            )
            line.send([int(one.id[-12:]) for one in stored])


def look_for_each(path: str, line: Connection) -> None:
    with opened(path) as store:
        for number in iter(line.recv, None):
            line.send(finds(store, number))


def test_two_processes_write_while_a_third_finds_every_acknowledged_memory_immediately(path: str):
    seen = {}
    with (
        child(look_for_each, path) as (reader, reading),
        child(write_batches, path, 1000, 1) as (single, singles),
        child(write_batches, path, 2000, 6) as (batched, batches),
    ):
        writing = [singles, batches]
        while writing:
            for line in wait(writing, timeout=60):
                try:
                    acknowledged = line.recv()
                except EOFError:
                    writing.remove(line)
                    continue
                for number in acknowledged:
                    reading.send(number)
                    seen[number] = reading.recv()
        reading.send(None)
        for process in (single, batched, reader):
            process.join(60)
        assert [process.exitcode for process in (single, batched, reader)] == [0, 0, 0]

    assert seen == dict.fromkeys([*range(1000, 1060), *range(2000, 2060)], EVERYWHERE)
    with opened(path) as store:
        assert len(listed(store)) == 120
        assert [one.position for one in store.get([id_of(1059), id_of(2059)])] == [59, 59]
        assert store.check() == []


def open_and_add(path: str, number: int, start: Any, line: Connection) -> None:
    start.wait(60)
    with opened(path) as store:
        store.add([embedded(number)], model=MODEL)


@pytest.mark.parametrize("attempt", range(5))
def test_processes_that_open_a_new_file_at_the_same_moment_all_succeed(path: str, attempt: int):
    start = PROCESSES.Barrier(8)
    processes = [PROCESSES.Process(target=open_and_add, args=(path, n, start, None), daemon=True) for n in range(8)]

    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert [process.exitcode for process in processes] == [0] * 8
    with opened(path) as store:
        assert len(listed(store)) == 8
        assert store.check() == []


def open_many_times(path: str, first: int, start: Any, line: Connection) -> None:
    start.wait(60)
    for number in range(first, first + 15):
        with opened(path) as store:
            store.add([embedded(number)], model=MODEL)


def test_processes_that_open_and_close_repeatedly_do_not_interfere(path: str):
    start = PROCESSES.Barrier(3)
    firsts = (100, 200, 300)
    processes = [PROCESSES.Process(target=open_many_times, args=(path, n, start, None), daemon=True) for n in firsts]

    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert [process.exitcode for process in processes] == [0] * 3
    with opened(path) as store:
        assert len(listed(store)) == 45
        assert store.check() == []


def test_an_open_store_sees_what_another_one_adds_changes_and_removes(path: str):
    with opened(path) as reader, opened(path) as writer:
        writer.add([embedded(number, session="a") for number in range(3)], model=MODEL)
        assert finds(reader, 1) == EVERYWHERE

        writer.update(Record(memory(1, "changed", session="a"), rows(vector(77))), model=MODEL)
        writer.remove([id_of(2)])
        writer.move_session("default", "a", project="p")

        assert keyword_ids(reader, "changed", Scope(project="p")) == [id_of(1)]
        assert nearest_ids(reader, vector(77), Scope(project="p")) == [id_of(1), id_of(0)]
        assert keyword_ids(reader, "number2") == []


def test_an_open_store_searches_the_new_model_when_another_one_switches(path: str):
    small = Model("small", "1", 2, "fingerprint of small")
    with opened(path) as reader, opened(path) as writer:
        writer.add([embedded(1)], model=MODEL)
        assert nearest_ids(reader, vector(1)) == [id_of(1)]

        flat = np.array([[0.6, 0.8]], np.float32)
        writer.attach([Record(one, flat) for one in writer.unembedded(small, limit=9)], model=small)
        writer.switch_model(small)

        [found] = find_nearest(reader, flat[0], limit=5)
        assert found.score == pytest.approx(1.0, abs=1e-3)
        assert reader.model() == small


# Killed processes


def write_one_by_one(path: str, first: int, line: Connection) -> None:
    store = SqliteStore(path)
    for number in count(first):
        store.add([embedded(number, session=f"s{first}")], model=MODEL)
        line.send(number)


def test_nothing_acknowledged_is_lost_and_nothing_is_half_written_when_a_process_is_killed_50_times(path: str):
    dice = random.Random(50)
    acknowledged: list[int] = []

    for turn in range(50):
        with child(write_one_by_one, path, 1000 * turn) as (process, line):
            mine = [line.recv() for _ in range(dice.randint(1, 6))]
            process.join(dice.uniform(0, 0.006))  # any moment of the writes that follow
            process.kill()
            mine += rest_of(line)

        with opened(path) as store:
            assert [finds(store, number) for number in mine] == [EVERYWHERE] * len(mine), turn
            assert store.check() == [], turn
        acknowledged += mine

    with opened(path) as store:
        kept = {int(id[-12:]) for id in listed(store)}
    # Each killed process may have written one memory more than it acknowledged.
    assert set(acknowledged) <= kept
    assert len(kept - set(acknowledged)) <= 50
    assert len(acknowledged) > 150


def write_up_to_a_limit(path: str, line: Connection) -> None:
    """Write until files of this process may grow no further, as on a full disk."""
    with opened(path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
        stored = []
        for number in count():
            try:
                store.add([embedded(number)], model=MODEL)
            except Unavailable as error:
                line.send(str(error))
                break
            stored.append(number)
        found = [finds(store, number) for number in stored]
        problems = store.check()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        store.add([embedded(10**6)], model=MODEL)
        line.send((len(stored), found, problems))


def test_a_write_that_the_system_refuses_is_unavailable_and_later_writes_succeed(path: str):
    with child(write_up_to_a_limit, path) as (process, line):
        message = line.recv()
        stored, found, problems = line.recv()
        process.join(60)

    assert path in message
    assert (process.exitcode, problems) == (0, [])
    assert stored > 5
    assert found == [EVERYWHERE] * stored
    with opened(path) as store:
        assert len(listed(store)) == stored + 1
        assert finds(store, 10**6) == EVERYWHERE
        assert store.check() == []


def hold_the_lock(path: str, line: Connection) -> None:
    connection = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE")
    line.send("locked")
    line.recv()
    connection.execute("ROLLBACK")
    connection.close()
    line.send("released")


def test_a_store_that_another_process_keeps_locked_is_unavailable_for_writing_and_can_be_read(path: str):
    with opened(path) as store:
        store.add([embedded(1)], model=MODEL)
    with opened(path, busy_seconds=0.02) as store:
        with child(hold_the_lock, path) as (_, line):
            assert line.recv() == "locked"

            for write in (
                lambda: store.add([embedded(2)], model=MODEL),
                lambda: store.remove([id_of(1)]),
                lambda: store.compare_and_set({"name": "value"}),
            ):
                with pytest.raises(
                    Unavailable, match=r"another process held the lock on .* for too long; nothing was changed"
                ):
                    write()
            assert finds(store, 1) == EVERYWHERE
            with opened(path) as another:
                assert listed(another) == [id_of(1)]

            line.send("release")
            assert line.recv() == "released"
            store.add([embedded(2)], model=MODEL)

        assert (finds(store, 2), store.get_value("name"), store.check()) == (EVERYWHERE, None, [])
