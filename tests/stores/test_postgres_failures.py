"""A PostgreSQL server that is lost, restarted or behind: no acknowledged write is lost, and none takes effect twice."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

import psycopg
import pytest

from retentive.errors import Unavailable
from retentive.models import Scope
from retentive.stores.postgres import PostgresStore, connections
from tests.stores import postgres_server
from tests.stores.build import (
    MODEL,
    Meanwhile,
    embedded,
    fill,
    id_of,
    keyword_ids,
    listed,
    make_query,
    nearest_ids,
    record,
    search,
    vector,
)
from tests.stores.postgres_proxy import proxied
from tests.stores.postgres_server import Server
from tests.stores.postgres_store import connected, fetch, open_transactions, opened, until


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that tests may kill."""
    started = Server()
    yield started
    started.close()


def count_hits(store: PostgresStore) -> list[int]:
    return [number for (number,) in fetch(store, "SELECT number FROM hits ORDER BY number")]


def hit(store: PostgresStore, number: int) -> None:
    """A write of which one can see whether it took effect twice."""
    store._connections.write(lambda one: one.execute("INSERT INTO hits VALUES (%s)", (number,)) and None)


def make_hits(store: PostgresStore) -> None:
    store._connections.write(lambda one: one.execute("CREATE TABLE hits (number bigint)") and None)


# During a commit


@pytest.mark.parametrize("behind", [True, False], ids=["committed without an answer", "not committed"])
@pytest.mark.parametrize("word", [b"COMMIT", b"INSERT INTO writes", b"INSERT INTO hits"])
def test_a_write_whose_connection_breaks_at_any_moment_takes_effect_once(word: bytes, behind: bool):
    address = postgres_server.address(empty=True)
    with opened(address) as store, proxied(address) as proxy, opened(proxy.address) as ours:
        make_hits(store)

        proxy.cut_once(word, behind=behind)
        hit(ours, 1)

        assert proxy.has_cut
        assert count_hits(store) == [1]


def test_memories_whose_commit_got_no_answer_are_stored_once_and_returned():
    with proxied(postgres_server.address()) as proxy, opened(proxy.address) as store:
        store.add([record(1, session="a")], model=None)

        proxy.cut_once(b"COMMIT", behind=True)
        stored = store.add([embedded(2, session="a"), embedded(3, session="a")], model=MODEL)

        assert proxy.has_cut
        assert [one.position for one in stored] == [1, 2]
        assert listed(store) == [id_of(3), id_of(2), id_of(1)]
        assert store.check() == []


# During a read

READS = {
    "statistics": b"named_sessions",
    "candidates": b"near AS",
}
"""A part of the statement of each step of a search."""


@pytest.mark.parametrize("part", READS.values(), ids=READS)
@pytest.mark.parametrize("behind", [True, False], ids=["while it is answered", "while it is sent"])
def test_a_search_whose_connection_breaks_at_any_step_gives_the_same_result(part: bytes, behind: bool):
    address = postgres_server.address()
    with opened(address) as store:
        fill(store)
        expected = search_all(store)
    with proxied(address) as proxy, opened(proxy.address) as store:
        proxy.cut_once(part, behind=behind)

        assert search_all(store) == expected
        assert proxy.has_cut
        until(lambda: open_transactions(address) == 0)


def search_all(store: PostgresStore, meanwhile: Callable[[], object] = lambda: None) -> list[object]:
    """Every read of a search."""
    found = search(
        store,
        make_query("green tea", exclude=[id_of(6)]),
        keyword=10,
        semantic=10,
        vector=Meanwhile(vector(3), meanwhile),
        depth=20,
        centres=10,
        ids=[id_of(6), id_of(500)],
        scores=True,
    )
    return [found.candidates, found.tails, found.neighbours, found.scores, found.model]


def test_a_search_survives_that_the_server_ends_its_connection_while_it_waits_for_the_vector():
    address = postgres_server.address()
    with opened(address) as store, connected(address) as there:
        fill(store)

        def end() -> None:
            there.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retentive'")
            until(lambda: open_transactions(address) == 0)

        found = search(store, make_query("green tea"), keyword=10, semantic=10, vector=Meanwhile(vector(3), end))

        assert all(found.candidates.values())


def test_a_connection_that_breaks_when_a_search_is_closed_is_replaced():
    address = postgres_server.address()
    with proxied(address) as proxy, opened(proxy.address) as store:
        fill(store)
        proxy.cut_once(b"COMMIT", behind=False)

        assert len(keyword_ids(store, "green tea")) > 0
        until(lambda: proxy.has_cut)  # a search does not wait for its COMMIT
        assert len(keyword_ids(store, "green tea")) > 0


def test_a_read_whose_connection_breaks_is_repeated():
    address = postgres_server.address()
    with opened(address) as store:
        store.add([embedded(1, "green tea")], model=MODEL)
    with proxied(address) as proxy, opened(proxy.address) as store:
        proxy.cut_once(b"m.id = ANY", behind=False)

        assert [one.text for one in store.get([id_of(1)])] == ["green tea"]
        assert proxy.has_cut


# Under load


class Load:
    """Threads that write and read without a pause, and the answers they got."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.stored: list[str] = []
        self.hits: list[int] = []
        self.reads = 0
        self.problems: list[str] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(work, n))
            for n, work in enumerate((self._add, self._add, self._hit, self._hit, self._read, self._read))
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def wait_for_progress(self, seconds: float = 0.3) -> None:
        """Wait until every kind of thread has made progress."""
        before = len(self.stored), len(self.hits), self.reads
        time.sleep(seconds)
        until(
            lambda: all(
                now > then for now, then in zip((len(self.stored), len(self.hits), self.reads), before, strict=True)
            )
        )

    def _repeat(self, work: Callable[[int, int], None], thread: int) -> None:
        number = 0
        while not self._ended.is_set():
            try:
                work(thread, number)
            except Exception as error:  # the test fails if there is one
                self.problems.append(repr(error))
            number += 1

    def _add(self, thread: int, number: int) -> None:
        one = embedded(1_000_000 * thread + number, session=f"s{thread}")
        self.store.add([one], model=MODEL)
        self.stored.append(one.memory.id)

    def _hit(self, thread: int, number: int) -> None:
        hit(self.store, 1_000_000 * thread + number)
        self.hits.append(1_000_000 * thread + number)

    def _read(self, thread: int, number: int) -> None:
        options = {"keyword": 5, "semantic": 5, "depth": 20, "centres": 5, "scores": True}
        search(self.store, make_query("note"), vector=vector(number), **options)
        self.reads += 1


def restart_at_once(server: Server) -> None:
    server.stop(signal.SIGQUIT)
    server.start()


def kill(server: Server) -> None:
    server.kill()
    server.start()


def terminate(server: Server) -> None:
    """End every connection, repeatedly."""
    with psycopg.connect(server.address(), autocommit=True) as connection:
        for _ in range(20):
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retentive'"
            )
            time.sleep(0.02)


@pytest.mark.parametrize("harm", [kill, restart_at_once, terminate])
def test_under_load_no_acknowledged_write_is_lost_or_repeated_and_reads_succeed(
    server: Server, harm: Callable[[Server], None]
):
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {harm.__name__}")
    with opened(f"{server.address(harm.__name__)}&deadline=30") as store:
        make_hits(store)
        with Load(store) as load:
            load.wait_for_progress()
            harm(server)
            load.wait_for_progress()

        check_acknowledged(store, load)


def check_acknowledged(store: PostgresStore, load: Load) -> None:
    """Assert that exactly the acknowledged writes are there, each once."""
    assert load.problems == []
    assert count_hits(store) == sorted(load.hits)
    assert sorted(listed(store)) == sorted(load.stored)
    for session in ("s0", "s1"):
        page = store.list(Scope(sessions=(session,)), limit=100_000).memories
        assert sorted(one.position for one in page) == list(range(len(page)))
    assert store.check() == []


@pytest.fixture
def pair() -> Iterator[tuple[Server, Server]]:
    """A server, and a synchronous standby."""
    first = Server()
    second = Server(copy_of=first)
    with psycopg.connect(first.address(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [("sync",)])
    yield first, second
    first.close()
    second.close()


def test_when_a_standby_takes_over_no_write_is_lost_or_repeated(pair: tuple[Server, Server]):
    first, second = pair
    with opened(f"postgresql://postgres@/postgres?host={first.folder},{second.folder}&deadline=30") as store:
        make_hits(store)
        with Load(store) as load:
            load.wait_for_progress()
            first.kill()
            with psycopg.connect(second.address(), autocommit=True) as connection:
                connection.execute("SELECT pg_promote()")
            load.wait_for_progress()

        check_acknowledged(store, load)


class Clock:
    """A clock that runs while somebody sleeps, and not otherwise."""

    def __init__(self) -> None:
        self.slept = 0.0
        self._start = time.monotonic()

    def monotonic(self) -> float:
        return self._start + self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_attempts_to_reach_a_lost_server_end_at_the_deadline(server: Server, monkeypatch: pytest.MonkeyPatch):
    with opened(f"{server.address()}&schema=away&deadline=3") as store:
        store.add([record(1)], model=None)
        server.stop(signal.SIGINT)
        try:
            for work in (
                lambda: store.get([id_of(1)]),
                lambda: store.add([record(2)], model=None),
                lambda: nearest_ids(store, vector(1)),
            ):
                clock = Clock()
                with monkeypatch.context() as patch:
                    patch.setattr(connections, "monotonic", clock.monotonic)
                    patch.setattr(connections, "sleep", clock.sleep)
                    with pytest.raises(Unavailable, match=r"cannot be reached .*check that the server is running"):
                        work()
                assert 3 < clock.slept < 3 + 0.5  # the longest pause between two attempts
        finally:
            server.start()
        assert listed(store) == [id_of(1)]


# A replica


@pytest.fixture(scope="module")
def replica(server: Server) -> Iterator[Server]:
    started = Server(copy_of=server)
    yield started
    started.close()


def test_searches_read_from_the_replica_and_still_see_the_writes_of_this_process(server: Server, replica: Server):
    plain = server.address() + "&schema=copied"
    with opened(plain) as setup:
        setup.add([record(1, "tea")], model=None)
    address = f"{plain}&replica={quote(replica.address(), safe='')}"

    with (
        opened(address) as ours,
        opened(address) as theirs,
        psycopg.connect(replica.address(), autocommit=True) as there,
    ):
        until(lambda: there.execute("SELECT to_regclass('copied.memories') IS NOT NULL").fetchone() == (True,))
        until(lambda: there.execute("SELECT count(*) FROM copied.memories").fetchone() == (1,))
        there.execute("SELECT pg_wal_replay_pause()")
        until(lambda: there.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() == ("paused",))

        ours.add([record(2, "tea")], model=None)

        assert keyword_ids(ours, "tea") == [id_of(1), id_of(2)]
        assert keyword_ids(theirs, "tea") == [id_of(1)]  # on a replica the writes of other processes may appear later
        with opened(
            address.replace("schema=copied", "schema=late")
        ) as late:  # the replica does not have this schema yet
            late.add([record(3, "tea")], model=None)
            assert keyword_ids(late, "tea") == [id_of(3)]

        there.execute("SELECT pg_wal_replay_resume()")
        until(lambda: keyword_ids(theirs, "tea") == [id_of(1), id_of(2)])
        busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'retentive'"
        assert keyword_ids(ours, "tea") == [id_of(1), id_of(2)]
        until(lambda: there.execute(busy).fetchone() == (2,))  # the connections of `late` end after it was closed


def test_a_search_goes_on_on_the_server_when_its_replica_fails(server: Server, replica: Server):
    plain = server.address() + "&schema=failing"
    with opened(plain) as setup:
        fill(setup)
        expected = search_all(setup)
    with (
        opened(f"{plain}&replica={quote(replica.address(), safe='')}") as store,
        psycopg.connect(replica.address(), autocommit=True) as there,
    ):
        until(lambda: there.execute("SELECT to_regclass('failing.memories') IS NOT NULL").fetchone() == (True,))
        until(lambda: there.execute("SELECT count(*) FROM failing.memories").fetchone() == (121,))

        def fail() -> None:
            assert store._connections._replica_paused_until == 0
            there.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retentive'")

        assert search_all(store, fail) == expected
        assert store._connections._replica_paused_until > 0


def test_a_store_whose_replica_is_unreachable_reads_from_the_server(server: Server):
    gone = quote("postgresql://postgres@/postgres?host=/nowhere", safe="")
    with opened(f"{server.address()}&schema=alone&replica={gone}") as store:
        store.add([record(1, "tea")], model=None)

        assert keyword_ids(store, "tea") == [id_of(1)]
