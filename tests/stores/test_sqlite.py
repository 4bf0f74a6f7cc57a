"""What the SQLite store promises beyond the contract: several processes, sudden death, foreign files, large scopes."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import apsw
import numpy as np
import pytest

from retentive.errors import Invalid, Unavailable
from retentive.models import Judgement, Model, Scope
from retentive.stores import Record, Vector
from retentive.stores.sqlite import SqliteStore, migrations, vector_index, word_index
from retentive.stores.sqlite.connections import Connections
from tests.stores.build import (
    ALL,
    HERE,
    MODEL,
    NOW,
    by_vector,
    by_words,
    embedded,
    everything,
    id_of,
    ids,
    listed,
    memory,
    record,
    rows,
    vector,
)

# Real processes, from a server that has the imports behind it: a start takes milliseconds.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.stores.test_sqlite"])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "memories.db")


@contextmanager
def opened(path: str) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def child(work: Any, *arguments: Any) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """A process at work, and our end of the line to it; it is gone when the block ends."""
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
    """What still comes over a line until the other end is gone."""
    while True:
        try:
            yield line.recv()
        except (EOFError, ConnectionResetError):
            return


def finds(store: SqliteStore, number: int) -> tuple[bool, bool, bool]:
    """Whether a memory is there by its id, by its own word and by its vector."""
    id = id_of(number)
    return (
        [one.id for one in store.get([id])] == [id],
        by_words(store, f"number{number}") == [id],
        by_vector(store, vector(number), limit=1) == [id],
    )


EVERYWHERE = (True, True, True)


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


def test_two_processes_write_while_a_third_finds_every_acknowledged_memory_at_once(path: str):
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


def test_processes_that_open_and_close_all_the_time_do_not_disturb_one_another(path: str):
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

        assert by_words(reader, "changed", Scope(project="p")) == [id_of(1)]
        assert by_vector(reader, vector(77), Scope(project="p")) == [id_of(1), id_of(0)]
        assert by_words(reader, "number2") == []


def test_an_open_store_follows_when_another_one_changes_the_model(path: str):
    small = Model("small", "1", 2, "fingerprint of small")
    with opened(path) as reader, opened(path) as writer:
        writer.add([embedded(1)], model=MODEL)
        assert by_vector(reader, vector(1)) == [id_of(1)]

        flat = np.array([[0.6, 0.8]], np.float32)
        writer.attach(dict.fromkeys(writer.unembedded(small, limit=9), flat), model=small)
        writer.switch_model(small)

        [found] = reader.search_vectors(flat[0], HERE, limit=5)
        assert found.score == pytest.approx(1.0, abs=1e-3)
        assert reader.model() == small


# Sudden death


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
    # One more than acknowledged may have been written each time, durable but cut off before it could say so.
    assert set(acknowledged) <= kept
    assert len(kept - set(acknowledged)) <= 50
    assert len(acknowledged) > 150


# Files that are not ours


def test_a_store_of_a_newer_version_is_refused_with_what_to_do_and_left_as_it_is(path: str, tmp_path: Path):
    with opened(path) as store:
        store.add([embedded(1)], model=MODEL)
    with_version(path, 99)
    before = Path(path).read_bytes()

    with pytest.raises(Invalid, match=r"newer Retentive \(schema 99, this one knows \d+\).*pip install -U retentive"):
        SqliteStore(path)

    assert Path(path).read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["memories.db"]


def with_version(path: str, version: int) -> None:
    connection = apsw.Connection(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_a_file_of_another_program_is_refused_and_left_as_it_is(path: str, tmp_path: Path):
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    connection.close()
    before = Path(path).read_bytes()

    with pytest.raises(Invalid, match="SQLite file of another program"):
        SqliteStore(path)

    assert Path(path).read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["memories.db"]


@pytest.mark.parametrize("content", [b"Dear diary, " * 1000, b"SQLite format 3\0" + b"x" * 5000, b"\0" * 4096])
def test_a_file_that_is_not_a_database_is_refused_and_left_as_it_is(path: str, content: bytes):
    Path(path).write_bytes(content)

    with pytest.raises((Invalid, Unavailable), match=r"memories\.db is (not a Retentive store|damaged)"):
        SqliteStore(path)

    assert Path(path).read_bytes() == content


def test_an_empty_file_becomes_a_store(path: str):
    Path(path).touch()

    with opened(path) as store:
        assert listed(store) == []


@pytest.mark.parametrize("place", [".", "file/memories.db", "/proc/retentive.db", "/dev/null"])
def test_a_place_that_cannot_hold_a_store_is_named_in_the_error(tmp_path: Path, place: str):
    (tmp_path / "file").touch()
    chosen = str(tmp_path / place)

    with pytest.raises((Unavailable, Invalid)) as error:
        SqliteStore(chosen)

    assert chosen in str(error.value)


def test_a_closed_store_says_so(path: str):
    store = SqliteStore(path)
    store.close()
    store.close()

    for use in (lambda: store.get([id_of(1)]), lambda: store.add([record(1)], model=None)):
        with pytest.raises(Unavailable, match="the store is closed"):
            use()


# Failing half-way


@pytest.mark.parametrize("steps", [("broken.sql",), ("001_memories.sql", "broken.sql")])
def test_a_migration_that_fails_leaves_nothing_of_itself_behind(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...]
):
    scripts = tmp_path / "sql"
    scripts.mkdir()
    real = migrations.resources.files("retentive.stores.sqlite").joinpath("sql", "001_memories.sql").read_text()
    (scripts / "001_memories.sql").write_text(real)
    (scripts / "broken.sql").write_text("CREATE TABLE half (x); INSERT INTO half VALUES (1); SELECT no_such_column;")
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "resources", SimpleNamespace(files=lambda _: tmp_path))
        patched.setattr(migrations, "MIGRATIONS", steps)
        with pytest.raises(Unavailable, match="no_such_column"):
            SqliteStore(path)

    connection = apsw.Connection(path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    version = connection.pragma("user_version")
    connection.close()

    assert "half" not in tables
    assert (version, "memories" in tables) == (len(steps) - 1, len(steps) == 2)
    with opened(path) as store:
        assert len(store.add([embedded(1)], model=MODEL)) == 1


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


def write_up_to_a_limit(path: str, line: Connection) -> None:
    """Files of this process may grow no further than a limit, as on a disk without room."""
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


def test_a_write_that_the_system_refuses_is_unavailable_and_the_store_goes_on_afterwards(path: str):
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


def test_a_store_that_another_process_keeps_locked_is_unavailable_for_writing_while_readers_go_on(path: str):
    with opened(path) as store:
        store.add([embedded(1)], model=MODEL)
        store._connections.close()
        store._connections = Connections(path, wait_seconds=0.02)
        with child(hold_the_lock, path) as (_, line):
            assert line.recv() == "locked"

            for write in (
                lambda: store.add([embedded(2)], model=MODEL),
                lambda: store.remove([id_of(1)]),
                lambda: store.keep({"name": "value"}),
            ):
                with pytest.raises(Unavailable, match=r"another process has kept .* locked for too long; try again"):
                    write()
            assert finds(store, 1) == EVERYWHERE
            with opened(path) as another:
                assert listed(another) == [id_of(1)]

            line.send("release")
            assert line.recv() == "released"
            store.add([embedded(2)], model=MODEL)

        assert (finds(store, 2), store.get_value("name"), store.check()) == (EVERYWHERE, None, [])


def test_a_long_read_holds_no_writer_up_and_sees_one_picture_of_the_store(path: str):
    with opened(path) as store:
        store.add([embedded(1)], model=MODEL)
        store._connections.close()
        store._connections = Connections(path, wait_seconds=0.02)
        with store._connections.read() as reading:
            reading.execute("BEGIN")
            before = reading.execute("SELECT count(*) FROM memories").get

            store.add([embedded(2)], model=MODEL)

            assert (before, reading.execute("SELECT count(*) FROM memories").get) == (1, 1)
            reading.execute("ROLLBACK")
        assert finds(store, 2) == EVERYWHERE


# Large scopes

WIDE = Model("wide", "1", 128, "fingerprint of wide")


def cloud(size: int) -> Vector:
    """Unit vectors in clusters, as texts on a few subjects make them."""
    dice = np.random.default_rng(1)
    centres = dice.standard_normal((20, WIDE.dimension))
    points = centres[dice.integers(20, size=size)] + 0.8 * dice.standard_normal((size, WIDE.dimension))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


POINTS, QUERIES = np.split(cloud(3030), [3000])


@pytest.fixture(scope="module")
def large_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """2,400 memories of one part and 300 of two, a third of them in session `third`."""
    path = str(tmp_path_factory.mktemp("large") / "memories.db")
    with opened(path) as store:
        parts = [POINTS[n : n + 1] for n in range(2400)] + [POINTS[n : n + 2] for n in range(2400, 3000, 2)]
        homes = ["third" if n % 3 == 0 else "rest" for n in range(len(parts))]
        store.add([record(n, vectors=parts[n], session=homes[n]) for n in range(len(parts))], model=WIDE)
        store.remove([id_of(n) for n in range(0, 2700, 50)])
    return path


THIRD = Scope(sessions=("third",))


@pytest.mark.parametrize("scope", [HERE, THIRD], ids=["most of the store", "a part of it"])
def test_a_large_scope_is_searched_by_codes_and_its_best_are_the_true_best(
    large_path: str, monkeypatch: pytest.MonkeyPatch, scope: Scope
):
    with opened(large_path) as store:
        exact = [store.search_vectors(query, scope, limit=10) for query in QUERIES]
        monkeypatch.setattr(vector_index, "EXACT", 100)
        monkeypatch.setattr(vector_index, "RESCORED", 300)
        coded = [store.search_vectors(query, scope, limit=10) for query in QUERIES]

        for query, found in zip(QUERIES, coded, strict=True):
            true = store.score_vectors(query, [one.key for one in found])
            assert [one.score for one in found] == [pytest.approx(true[one.key], abs=1e-6) for one in found]
            assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert all(len(found) == len({one.key for one in found}) == 10 for found in coded)
        same = [len(set(ids(store, a)) & set(ids(store, b))) for a, b in zip(exact, coded, strict=True)]
        assert np.mean(same) / 10 > 0.95
        assert [a[0] for a in exact] == [b[0] for b in coded]
        if scope is THIRD:
            assert all(memory.session == "third" for memory in store.fetch([one.key for one in coded[0]]).values())


def test_codes_are_really_used_for_a_large_scope(large_path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vector_index, "EXACT", 100)
    monkeypatch.setattr(vector_index, "RESCORED", 10)
    with opened(large_path) as store:
        coded = store.search_vectors(QUERIES[0], HERE, limit=ALL // 1000)
        assert len(coded) == ALL // 1000

        found = store.search_vectors(QUERIES[0], HERE, limit=1)  # 30 to rescore are less than a 25th of all
        read = int(np.count_nonzero(store._index._cache._row_of > 0))  # type: ignore[union-attr]

    assert found[0] == coded[0]
    assert read < 3000


def test_excluded_memories_do_not_use_up_the_places_of_a_large_scope(large_path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vector_index, "EXACT", 100)
    monkeypatch.setattr(vector_index, "RESCORED", 50)
    with opened(large_path) as store:
        recent = by_vector(store, QUERIES[0], limit=400)

        found = by_vector(store, QUERIES[0], limit=10, exclude=recent)

    assert len(found) == 10
    assert not set(found) & set(recent)


def test_vectors_that_do_not_fit_into_memory_give_the_same_results(large_path: str, monkeypatch: pytest.MonkeyPatch):
    def results() -> list[Any]:
        with opened(large_path) as store:
            found = [store.search_vectors(query, THIRD, limit=20) for query in QUERIES[:5]]
            keys = [one.key for one in found[0]]
            first = {key: row.tolist() for key, row in store.vectors(keys).items()}
            return [ids(store, one) for one in found] + [store.score_vectors(QUERIES[0], keys), first]

    cached = results()
    for limit in (0, 100, 1500, 2999):
        monkeypatch.setattr(vector_index, "CACHED", limit)
        *found, scores, first = results()
        assert found == cached[:-2]
        assert scores == pytest.approx(cached[-2], abs=1e-6)
        assert first == cached[-1]


@pytest.mark.parametrize("limit", [2, 40])
@pytest.mark.parametrize("scope", [HERE, Scope(project="p"), Scope(kinds=("episodic",))])
def test_words_find_and_score_alike_whether_memories_are_looked_at_one_by_one_or_left_to_the_index(
    path: str, monkeypatch: pytest.MonkeyPatch, scope: Scope, limit: int
):
    said = ["tea", "tea milk", "tea tea honey", "milk honey cup", "cup saucer spoon", "garden"]
    with opened(path) as store:
        homes = [{"project": "p"}, {"project": "q"}, {}]
        store.add([record(at, said[at % 6], **homes[at % 3 - at % 2]) for at in range(1, 60)], model=None)

        def asked(few: int):
            monkeypatch.setattr(word_index, "FEW", few)
            query = "tea with honey and a spoon"
            found = store.search_words(query, scope, limit=limit, exclude=[id_of(3)])
            return found, store.score_words(query, scope, list(range(1, 60)))

        assert asked(few=1000) == asked(few=10) == asked(few=0)
        assert asked(few=1000)[0]


# Forgetting


def test_the_words_of_a_forgotten_memory_are_nowhere_in_the_file(path: str):
    secrets = [f"zq{letter}xkvbjsecret" for letter in "abcdefghij"]
    with opened(path) as store:
        store.add([embedded(n, f"alpha beta word{n} zebra") for n in range(200)], model=MODEL)
        for n, secret in enumerate(secrets, 1000):
            kept = {"speaker": secret, "source": f"{secret}.md", "metadata": {secret: secret}}
            store.add([embedded(n, f"the {secret} and {secret}-{n} of it", **kept)], model=MODEL)
        store.add([embedded(n, "zqa zqb zqz zoo") for n in range(2000, 2005)], model=MODEL)

        store.remove([id_of(1000), id_of(1001), id_of(1002)])
        store.remove([id_of(1003)])
        store.move_session(
            "default", store.add([record(3000, secrets[4], session="s")], model=None)[0].session or "", project="p"
        )
        store.remove([id_of(1004), id_of(3000)])
        for n in range(1005, 1010):
            store.update(record(n, "something else"), model=None)

    content = Path(path).read_bytes()

    # FTS5 leaves out what a term shares with the one before it, so the ends of the words are looked for.
    assert content.count(b"kvbjsecret") == 0
    assert not Path(path + "-wal").exists()
    with opened(path) as store:
        assert store.check() == []
        assert len(by_words(store, "zebra")) == 200


def test_the_words_of_a_forgotten_memory_are_not_in_the_log_either_while_the_store_is_open(path: str):
    with opened(path) as store:
        store.add([embedded(n, f"the zqaxkvbjsecret{n} of it", session="s") for n in range(4)], model=MODEL)
        assert secrets_on_disk(path) > 0

        store.remove([id_of(0)])
        store.update(record(1, "something else"), model=None)
        store.remove_scope(Scope(sessions=("s",)))

        assert secrets_on_disk(path) == 0


def test_a_reader_in_the_way_keeps_no_removal_waiting(path: str):
    with opened(path) as store, opened(path) as other:
        store.add([embedded(n, f"the zqaxkvbjsecret{n} of it") for n in range(2)], model=MODEL)
        with other._connections.read() as reading:
            reading.execute("BEGIN; SELECT count(*) FROM memories").fetchall()
            started = perf_counter()
            assert store.remove([id_of(0)]) == 1
            assert perf_counter() - started < 5
            reading.execute("ROLLBACK")

        store.remove([id_of(1)])

        assert secrets_on_disk(path) == 0


def secrets_on_disk(path: str) -> int:
    return sum(Path(path + end).read_bytes().count(b"kvbjsecret") for end in ("", "-wal"))


def test_the_words_of_a_kept_memory_are_in_the_file_in_plain_sight(path: str):
    with opened(path) as store:
        store.add([embedded(1, "the zqaxkvbjsecret of it")], model=MODEL)

    assert Path(path).read_bytes().count(b"kvbjsecret") >= 2


def test_the_vector_of_a_forgotten_memory_is_nowhere_in_the_file(path: str):
    forgotten, kept = (vector(number).astype("<f2").tobytes() for number in (500, 501))
    with opened(path) as store:
        store.add([embedded(n) for n in (500, 501)], model=MODEL)

        store.remove([id_of(500)])

    content = Path(path).read_bytes()
    assert (content.count(forgotten), content.count(kept)) == (0, 1)


# What check finds


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            "INSERT INTO words (rowid, terms, scope) VALUES (99, 'stray', 'p1')",
            "1 entries of the word index belong to no",
        ),
        ("DELETE FROM words_docsize WHERE id = 1", "1 memories are missing from the word index"),
        ("DELETE FROM memories WHERE key = 1", "vectors belong to no memory"),
        ("UPDATE memories SET terms = 'other' WHERE key = 1", "the counts of terms differ"),
        ("UPDATE state SET memories = 7", "the count of memories is wrong"),
        (
            "UPDATE vectors SET embedding = zeroblob(32) WHERE slot = 1 << 40",
            "1 entries of the vector index do not match",
        ),
        ("DELETE FROM vectors WHERE memory = 1", "1 entries of the vector index do not match"),
        ("DELETE FROM blocks", "3 entries of the vector index do not match"),
        ("UPDATE memories SET kind = 2 WHERE key = 1", "1 entries of the vector index do not match"),
    ],
)
def test_check_names_what_does_not_agree(path: str, damage: str, sentence: str):
    with opened(path) as store:
        store.add([embedded(n) for n in range(3)], model=MODEL)
        assert store.check() == []

        store._connections._writer.execute(damage)

        assert any(sentence in line for line in store.check()), store.check()


def test_a_store_of_schema_1_is_brought_up_to_date_with_all_its_memories(path: str, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:1])
        with opened(path) as old:
            old.add([embedded(1), embedded(2)], model=MODEL)
            before = everything(old)

    with opened(path) as store:
        assert everything(store) == before
        store.judge([Judgement("where?", id_of(1), 2, NOW)])

        assert [one.relevance for one in store.judgements("default")] == [2]
        assert store.check() == []


def test_a_store_checked_before_and_after_a_change_is_sound_both_times(path):
    with opened(path) as store:
        store.add([record(1)], model=None)
        assert store.check() == []
        store.update(record(1, source="elsewhere"), model=None, keep_vectors=True)
        assert store.check() == []
        store.remove([id_of(1)])
        assert store.check() == []
