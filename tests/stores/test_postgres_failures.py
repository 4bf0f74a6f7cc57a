"""A PostgreSQL server that is lost, restarted or behind: nothing acknowledged is lost, nothing happens twice."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import psycopg
import pytest

from retentive.errors import Unavailable
from retentive.models import Scope
from retentive.stores.postgres import PostgresStore
from tests.stores import postgres_server
from tests.stores.build import HERE, MODEL, by_words, embedded, id_of, listed, record, vector
from tests.stores.postgres_proxy import proxied
from tests.stores.postgres_server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of our own, to be killed."""
    started = Server()
    yield started
    started.close()


@contextmanager
def opened(address: str) -> Iterator[PostgresStore]:
    store = PostgresStore(address)
    try:
        yield store
    finally:
        store.close()


def count_hits(store: PostgresStore) -> list[int]:
    found = store._connections.read(lambda one: one.execute("SELECT number FROM hits ORDER BY number").fetchall())
    return [number for (number,) in found]


def hit(store: PostgresStore, number: int) -> None:
    """A write that would show if it happened twice."""
    store._connections.write(lambda one: one.execute("INSERT INTO hits VALUES (%s)", (number,)) and None)


def make_hits(store: PostgresStore) -> None:
    store._connections.write(lambda one: one.execute("CREATE TABLE hits (number bigint)") and None)


# The moment of the commit


@pytest.mark.parametrize("behind", [True, False], ids=["carried out and not heard of", "not carried out"])
@pytest.mark.parametrize("word", [b"COMMIT", b"INSERT INTO writes", b"INSERT INTO hits"])
def test_a_write_whose_connection_ends_at_any_moment_happens_once(word: bytes, behind: bool):
    address = postgres_server.address(empty=True)
    with opened(address) as store, proxied(address) as proxy, opened(proxy.address) as ours:
        make_hits(store)

        proxy.cut_once(word, behind=behind)
        hit(ours, 1)

        assert proxy.has_cut
        assert count_hits(store) == [1]


def test_memories_whose_commit_was_not_heard_of_are_stored_once_and_given_back():
    with proxied(postgres_server.address()) as proxy, opened(proxy.address) as store:
        store.add([record(1, session="a")], model=None)

        proxy.cut_once(b"COMMIT", behind=True)
        stored = store.add([embedded(2, session="a"), embedded(3, session="a")], model=MODEL)

        assert proxy.has_cut
        assert [one.position for one in stored] == [1, 2]
        assert listed(store) == [id_of(3), id_of(2), id_of(1)]
        assert store.check() == []


@pytest.mark.parametrize("word", [b"WITH", b"by_words"])
def test_a_read_whose_connection_ends_is_made_again(word: bytes):
    address = postgres_server.address()
    with opened(address) as store:
        store.add([embedded(1, "green tea")], model=MODEL)
    with proxied(address) as proxy, opened(proxy.address) as store:
        proxy.cut_once(word, behind=False)

        assert by_words(store, "tea") == [id_of(1)]
        assert proxy.has_cut


# Under load


class Load:
    """Threads that write and read without a pause, and what they were told."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.stored: list[str] = []
        self.hits: list[int] = []
        self.reads = 0
        self.problems: list[str] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep_on, args=(work, n))
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

    def go_on(self, seconds: float = 0.3) -> None:
        """Wait until everybody has got on."""
        before = len(self.stored), len(self.hits), self.reads
        deadline = time.monotonic() + 30
        time.sleep(seconds)
        while not all(
            now > then for now, then in zip((len(self.stored), len(self.hits), self.reads), before, strict=True)
        ):
            assert time.monotonic() < deadline, self.problems
            time.sleep(0.02)

    def _keep_on(self, work: Callable[[int, int], None], thread: int) -> None:
        number = 0
        while not self._ended.is_set():
            try:
                work(thread, number)
            except Exception as error:  # every one is a failure of the test
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
        self.store.search_words("note", HERE, limit=5)
        self.store.search_vectors(vector(number), HERE, limit=5)
        self.reads += 1


def restart_at_once(server: Server) -> None:
    server.stop(signal.SIGQUIT)
    server.start()


def kill(server: Server) -> None:
    server.kill()
    server.start()


def terminate(server: Server) -> None:
    """End every connection, again and again."""
    with psycopg.connect(server.address(), autocommit=True) as connection:
        for _ in range(20):
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retentive'"
            )
            time.sleep(0.02)


@pytest.mark.parametrize("harm", [kill, restart_at_once, terminate])
def test_under_load_nothing_acknowledged_is_lost_nothing_happens_twice_and_reads_go_on(
    server: Server, harm: Callable[[Server], None]
):
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {harm.__name__}")
    with opened(f"{server.address(harm.__name__)}&deadline=30") as store:
        make_hits(store)
        with Load(store) as load:
            load.go_on()
            harm(server)
            load.go_on()

        look_at(store, load)


def look_at(store: PostgresStore, load: Load) -> None:
    """Everything that was acknowledged is there, once, and nothing else."""
    assert load.problems == []
    assert count_hits(store) == sorted(load.hits)
    assert sorted(listed(store)) == sorted(load.stored)
    for session in ("s0", "s1"):
        page = store.list(Scope(sessions=(session,)), limit=100_000).memories
        assert sorted(one.position for one in page) == list(range(len(page)))
    assert store.check() == []


@pytest.fixture
def pair() -> Iterator[tuple[Server, Server]]:
    """A server, and a standby without which it acknowledges nothing."""
    first = Server()
    second = Server(copy_of=first)
    with psycopg.connect(first.address(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [("sync",)])
    yield first, second
    first.close()
    second.close()


def test_when_a_standby_takes_over_nothing_is_lost_or_happens_twice(pair: tuple[Server, Server]):
    first, second = pair
    with opened(f"postgresql://postgres@/postgres?host={first.folder},{second.folder}&deadline=30") as store:
        make_hits(store)
        with Load(store) as load:
            load.go_on()
            first.kill()
            with psycopg.connect(second.address(), autocommit=True) as connection:
                connection.execute("SELECT pg_promote()")
            load.go_on()

        look_at(store, load)


def test_a_server_that_stays_away_is_waited_for_until_the_deadline(server: Server):
    with opened(f"{server.address()}&schema=away&deadline=0.3") as store:
        store.add([record(1)], model=None)
        server.stop(signal.SIGINT)
        try:
            started = time.monotonic()
            for work in (lambda: store.get([id_of(1)]), lambda: store.add([record(2)], model=None)):
                with pytest.raises(Unavailable, match=r"cannot be reached .*see that the server runs"):
                    work()
            assert 0.6 <= time.monotonic() - started < 10
        finally:
            server.start()
        assert listed(store) == [id_of(1)]


# A replica


@pytest.fixture(scope="module")
def replica(server: Server) -> Iterator[Server]:
    started = Server(copy_of=server)
    yield started
    started.close()


def test_recalls_read_from_the_replica_and_still_see_what_this_process_wrote(server: Server, replica: Server):
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

        assert by_words(ours, "tea") == [id_of(1), id_of(2)]
        assert by_words(theirs, "tea") == [id_of(1)]  # others' writes may come later on a replica
        with opened(address.replace("schema=copied", "schema=late")) as late:  # of which the replica knows nothing
            late.add([record(3, "tea")], model=None)
            assert by_words(late, "tea") == [id_of(3)]

        there.execute("SELECT pg_wal_replay_resume()")
        until(lambda: by_words(theirs, "tea") == [id_of(1), id_of(2)])
        busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'retentive'"
        assert by_words(ours, "tea") == [id_of(1), id_of(2)]
        assert there.execute(busy).fetchone() == (2,)


def test_without_its_replica_a_store_reads_from_the_server(server: Server):
    gone = quote("postgresql://postgres@/postgres?host=/nowhere", safe="")
    with opened(f"{server.address()}&schema=alone&replica={gone}") as store:
        store.add([record(1, "tea")], model=None)

        assert by_words(store, "tea") == [id_of(1)]


def until(come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not come():
        assert time.monotonic() < deadline
        time.sleep(0.02)
