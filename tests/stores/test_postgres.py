"""What the PostgreSQL store promises beyond the contract: large scopes, any text, few round trips, clear errors."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retentive.stores.at_once import Asked, AtOnce

from retentive.errors import Conflict, Invalid, MissingExtra, Unavailable
from retentive.models import Memory, Model, Scope
from retentive.pipeline.recall import Query, recall
from retentive.ranking import Tuning
from retentive.stores import Record, Store, open_store, public_address
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.postgres import PostgresStore, counts, tending, vector_index
from retentive.stores.postgres import hybrid_query as recalling_module
from retentive.stores.postgres.address import parse_address
from retentive.stores.postgres.type_adapters import Half, Single, escaped, unescaped
from tests.stores import postgres_server
from tests.stores.build import (
    ALL,
    HERE,
    MODEL,
    NOW,
    OTHER,
    axis,
    by_vector,
    by_words,
    embedded,
    id_of,
    listed,
    memory,
    record,
    rows,
    unit,
    vector,
)
from tests.stores.postgres_proxy import proxied
from tests.stores.test_at_once import ask, fill

# Real processes, from a server that has the imports behind it: a start takes milliseconds.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.stores.test_postgres"])


@contextmanager
def opened(address: str) -> Iterator[PostgresStore]:
    store = PostgresStore(address)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    with opened(postgres_server.address()) as one:
        yield one
        assert one.check() == []


@contextmanager
def connected(address: str) -> Iterator[psycopg.Connection]:
    """A connection of somebody else's, who knows the schema."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET search_path = retentive, public")
        yield connection


# Any text


@given(st.text(st.characters(), max_size=40) | st.text("\0\ufdd0\ue000\ue001\ud800\udfffa", max_size=8))
def test_any_text_comes_back_from_what_can_be_stored(text: str):
    stored = escaped(text)

    assert unescaped(stored) == text
    assert "\0" not in stored
    assert stored.encode().decode() == stored


def test_ordinary_text_is_stored_as_it_is_for_everybody_who_reads_the_table(store: PostgresStore):
    store.add([record(1, "Straße, 東京 🚀", session="días")], model=None)

    found = store._connections.read(lambda one: one.execute("SELECT text, terms FROM memories").fetchall())

    assert found == [("Straße, 東京 🚀", "strass 東 京 東京 🚀")]


def test_names_and_settings_may_hold_what_postgresql_cannot(store: PostgresStore):
    store.add([record(1, "tea", session="a\0b", project="half \ud83d", speaker="\ufdd0")], model=None)
    store.keep({"n\0": "v\0\ufdd0"})

    assert store.sessions("default")[0].name == "a\0b"
    assert listed(store, Scope(project="half \ud83d")) == [id_of(1)]
    assert store.get([id_of(1)])[0].speaker == "\ufdd0"
    assert store.list_values("n") == {"n\0": "v\0\ufdd0"}


def test_a_memory_of_a_million_characters_is_stored_and_found(store: PostgresStore):
    text = "word " * 199_998 + "zebra"
    store.add([record(1, text), record(2)], model=None)

    assert by_words(store, "zebra") == [id_of(1)]
    assert store.get([id_of(1)])[0].text == text


def test_more_different_terms_than_the_index_can_hold_are_stored_and_the_first_are_found(store: PostgresStore):
    text = "".join(map(chr, random.Random(1).choices(range(0x4E00, 0x9FFF), k=200_000)))
    store.add([record(1, text), record(2)], model=None)

    assert by_words(store, text[:2]) == [id_of(1)]
    assert store.get([id_of(1)])[0].text == text


# Large scopes


@pytest.fixture
def small_scopes(monkeypatch: pytest.MonkeyPatch) -> int:
    """Scopes of more than 50 memories count as large."""
    monkeypatch.setattr(vector_index, "EXACT", 50)
    monkeypatch.setattr(tending, "EXACT", 50)
    return 50


def plan(store: PostgresStore, asked: Asked) -> str:
    """How the server goes about a search by vector."""

    def work(connection):
        ground = store._ground(connection, asked)
        near = vector_index.near(
            ground.serving, ground.footing.reach, depth=asked.depth, least=asked.depth, excluding=False
        )
        values = {**ground.footing.reach.parameters, "vector": Single(asked.vector), "half": Half(asked.vector)}
        lines = connection.execute(f"EXPLAIN WITH {near} SELECT * FROM near".encode(), values).fetchall()
        return "\n".join(line for (line,) in lines)

    return store._connections.read(work)


@pytest.fixture
def indexed(small_scopes: int) -> Iterator[tuple[PostgresStore, InMemoryStore]]:
    """A store whose index is used though there are few vectors, and its twin."""
    with opened(f"{postgres_server.address()}&options=-c%20enable_sort%3Doff") as store:
        twin = InMemoryStore()
        kinds = {n: "semantic" if n % 3 == 0 else "episodic" for n in range(2000)}
        for one in (store, twin):
            one.add([embedded(n, session=f"s{n % 2}", kind=kind) for n, kind in kinds.items()], model=MODEL)
        assert "vectors_near" not in plan(store, Asked(None, vector(1), HERE, 1, 10))
        assert store.tend()
        yield store, twin


def test_a_large_scope_is_searched_by_the_index_and_finds_what_a_look_at_everything_finds(
    indexed: tuple[PostgresStore, InMemoryStore],
):
    store, twin = indexed
    for scope in (HERE, Scope(sessions=("s1",)), Scope(kinds=("semantic",))):
        assert "Index Scan using vectors_near" in plan(store, Asked(None, vector(1), scope, 1, 10))
        found = expected = 0
        for seed in range(5000, 5020):
            near = store.search_vectors(vector(seed), scope, limit=10)
            best = by_vector(twin, vector(seed), scope, limit=10)
            expected += len(best)
            memories = store.fetch([one.key for one in near])
            found += len({memories[one.key].id for one in near} & set(best))
            keys = twin.keys([memories[one.key].id for one in near])
            true = twin.score_vectors(vector(seed), list(keys.values()))
            assert [one.score for one in near] == pytest.approx([true[keys[memories[one.key].id]] for one in near])
        assert found >= 0.98 * expected


def test_with_the_index_many_parts_still_do_not_crowd_others_out(store: PostgresStore, small_scopes: int):
    crowd = [record(n, vectors=rows(*[axis(0, lean=1, by=n / 1000)] * 40)) for n in range(30)]
    others = [record(100 + n, vectors=rows(axis(2, lean=0, by=n / 100))) for n in range(60)]
    store.add([*crowd, *others], model=MODEL)
    store.tend()

    assert by_vector(store, axis(0), limit=40)[:31] == [id_of(n) for n in range(30)] + [id_of(159)]


def test_a_build_of_the_index_that_was_broken_off_is_seen_and_made_good(small_scopes: int):
    address = postgres_server.address(empty=True)
    with opened(address) as store:
        store.add([embedded(n) for n in range(60)], model=MODEL)
        with connected(address) as connection:
            connection.execute("CREATE INDEX vectors_near_1 ON vectors (part)")
            connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'vectors_near_1'::regclass")
        assert "vectors_near_1 is not complete" in store.check()[0]
        assert len(by_vector(store, vector(1), limit=10)) == 10

        store.tend()

        assert store.check() == []
        assert store._connections.read(
            lambda one: store._ground(one, Asked(None, vector(1), HERE, 1, 1))
        ).serving.indexed


def test_a_new_model_has_its_index_before_it_serves_and_the_old_one_leaves_nothing(
    store: PostgresStore, small_scopes: int
):
    store.add([embedded(n) for n in range(60)], model=MODEL)
    store.tend()
    store.attach({key: rows(vector(1)) for key in store.unembedded(OTHER, limit=ALL)}, model=OTHER)
    assert by_vector(store, vector(3), limit=1) == [id_of(3)]

    assert store.switch_model(OTHER)

    ground = store._connections.read(lambda one: store._ground(one, Asked(None, vector(1), HERE, 1, 1)))
    assert (ground.serving.model, ground.serving.indexed) == (OTHER, True)
    store.tend()
    left = store._connections.read(
        lambda one: one.execute(
            "SELECT (SELECT count(DISTINCT model) FROM vectors), "
            "(SELECT count(*) FROM pg_indexes WHERE schemaname = 'retentive' AND indexname LIKE 'vectors_near%')"
        ).fetchall()
    )
    assert left == [(1, 1)]


@pytest.mark.parametrize("by", ["writing", "searching"])
def test_the_index_is_made_by_itself_when_it_is_due(
    store: PostgresStore, small_scopes: int, monkeypatch: pytest.MonkeyPatch, by: str
):
    monkeypatch.setattr(tending, "QUIET_SECONDS", 0.05 if by == "writing" else 3600)
    store.add([embedded(n) for n in range(60)], model=MODEL)
    if by == "searching":
        store._tending.close()
        store._tending = tending.Tending(store._connections, store._chooser)
        monkeypatch.setattr(tending, "QUIET_SECONDS", 0.05)
        monkeypatch.setattr(recalling_module, "EXACT", 50)
        store.search_both(Asked(None, vector(1), HERE, 5, 10))

    deadline = time.monotonic() + 30
    while not store._connections.read(
        lambda one: store._ground(one, Asked(None, vector(1), HERE, 1, 1))
    ).serving.indexed:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("parameters", [{}, {"fusion": "rrf"}, {"keyword_weight": 0}, {"diversity": 0.3}], ids=str)
@pytest.mark.parametrize("scope", [HERE, Scope(sessions=("s1",)), Scope(profile="nobody")], ids=["all", "one", "none"])
def test_a_recall_gives_what_it_gives_on_the_store_in_memory(
    store: PostgresStore, scope: Scope, parameters: dict[str, Any]
):
    twin = InMemoryStore()
    with ThreadPoolExecutor(2) as threads:
        ours, theirs = (ask(fill(one), threads, scope=scope, **parameters) for one in (store, twin))

    assert [hit.id for hit in ours.hits] == [hit.id for hit in theirs.hits]
    assert [hit.score for hit in ours.hits] == pytest.approx([hit.score for hit in theirs.hits], abs=1e-6)
    assert [[(why.step, why.rank) for why in hit.why] for hit in ours.hits] == [
        [(why.step, why.rank) for why in hit.why] for hit in theirs.hits
    ]


def test_words_of_a_large_store_are_found_by_all_their_terms_where_many_match(store: PostgresStore):
    texts = {n: f"tea {'milk' if n % 50 == 0 else 'lemon'} cup{n % 7}" for n in range(2000)}
    store.add([record(n, text) for n, text in texts.items()], model=None)

    found = by_words(store, "tea milk cup0", limit=5)

    assert found == [id_of(n) for n in (0, 350, 700, 1050, 1400)]


def test_counts_are_folded_and_stay_right(store: PostgresStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(counts, "FOLDED_EVERY", 10)
    for n in range(30):
        store.add([record(n, f"tea number{n}", session="a")], model=None)
    store.remove([id_of(n) for n in range(0, 30, 2)])
    store.move_session("default", "a", project="p")

    rows_left = store._connections.read(lambda one: one.execute("SELECT count(*) FROM count_changes").fetchone())

    assert rows_left[0] < 150
    assert store.check() == []
    assert store.search_words("tea", Scope(project="p"), limit=ALL) == store.search_words("tea", HERE, limit=ALL)


def test_changes_alone_are_folded_too(store: PostgresStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("retentive.stores.postgres._FOLDED_EVERY", 5)
    store.add([record(1, "tea")], model=None)
    for n in range(20):
        store.update(Record(memory(1, f"tea number{n}")), model=None)

    [(changes, tokens)] = store._connections.read(
        lambda one: one.execute("SELECT (SELECT count(*) FROM count_changes), (SELECT count(*) FROM writes)").fetchall()
    )

    assert changes <= 15
    assert tokens == 21  # each is kept for an hour


# Round trips


@contextmanager
def recalling(store: Store) -> Iterator[object]:
    with ThreadPoolExecutor(2) as threads:
        yield lambda text, scope=HERE, limit=10: recall(
            Query(text, scope, Tuning(), limit, NOW, (), vector(3)), store, lambda: None, threads
        )


def test_a_recall_is_four_round_trips_however_much_it_finds_and_wherever():
    with proxied(postgres_server.address()) as proxy, opened(proxy.address) as store, recalling(store) as ask:
        assert isinstance(store, AtOnce)
        texts = ["tea with milk", "green tea", "coffee", "a cup of tea", "lemon"]
        store.add([embedded(n, f"{texts[n % 5]} {n}", session=f"s{n % 9}") for n in range(900)], model=MODEL)
        trips = {}
        for name, text, scope, limit in [
            ("few", "green tea 1", Scope(sessions=("s1",)), 1),
            ("many", "tea milk coffee lemon cup green", HERE, 10),
            ("very many", " ".join(str(n) for n in range(60)) + " tea", HERE, 30),
        ]:
            ask(text, scope, limit)  # statements are prepared the first time
            before = proxy.trips
            assert ask(text, scope, limit).hits
            trips[name] = proxy.trips - before

    assert set(trips.values()) == {4}, trips


def test_a_vector_of_the_old_model_is_not_compared_with_those_of_one_that_somebody_has_changed_to():
    address = postgres_server.address()
    with opened(address) as ours, opened(address) as theirs, recalling(ours) as ask:
        ours.add([embedded(n, "tea") for n in range(5)], model=MODEL)
        assert (ours.model(), theirs.model()) == (MODEL, MODEL)
        theirs.attach({key: rows(axis(1)) for key in theirs.unembedded(OTHER, limit=9)}, model=OTHER)
        assert theirs.switch_model(OTHER)

        first, second = ask("tea"), ask("tea")

        assert [retriever.found for retriever in first.retrievers if retriever.name == "semantic"] == [0]
        assert [retriever.found for retriever in second.retrievers if retriever.name == "semantic"] == [5]
        assert ours.model() == OTHER


# Opening


def open_and_add(number: int, address: str, say: Connection, go: Connection) -> None:
    say.send("here")
    go.recv()
    try:
        store = open_store(address)
        store.add([embedded(number, session="all")], model=MODEL)
        store.close()
        say.send("done")
    except BaseException as error:
        say.send(repr(error))


def test_processes_that_open_a_new_database_at_once_make_one_schema_and_take_no_position_twice():
    address = postgres_server.address(empty=True)
    ends = []
    for number in range(6):
        ours, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=open_and_add, args=(number, address, theirs, theirs))
        process.start()
        ends.append((ours, process))
    for ours, _ in ends:
        assert ours.recv() == "here"
    for ours, _ in ends:
        ours.send("go")

    assert [ours.recv() for ours, _ in ends] == ["done"] * 6
    for _, process in ends:
        process.join(30)
    with opened(address) as store:
        stored = store.get([id_of(number) for number in range(6)])
        assert sorted(one.position for one in stored) == list(range(6))
        assert store.check() == []


def test_two_schemas_of_a_database_are_two_stores():
    address = postgres_server.address(empty=True)
    with opened(f"{address}&schema=one") as one, opened(f"{address}&schema=two") as two:
        one.add([record(1)], model=None)
        assert (listed(one), listed(two)) == ([id_of(1)], [])


def test_a_schema_of_a_newer_version_or_of_another_program_is_refused_and_left_alone():
    address = postgres_server.address(empty=True)
    with opened(address), connected(address) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
        connection.execute("CREATE SCHEMA theirs")
        connection.execute("CREATE TABLE theirs.memories (id int)")

    with pytest.raises(Invalid, match=r"newer Retentive \(schema 99.*pip install -U"):
        PostgresStore(address)
    with pytest.raises(Invalid, match=r"another program's; name another one with \?schema="):
        PostgresStore(f"{address}&schema=theirs")


def sql_on(address: str, *statements: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.skipif(bool(postgres_server._ELSEWHERE), reason="makes roles and breaks settings of a server")
@pytest.mark.parametrize(
    ("prepare", "user", "says"),
    [
        ([], "plain", "the role may not create it; have an administrator run: CREATE EXTENSION vector"),
        (["ALTER DATABASE {} SET extension_control_path = '/nowhere'"], "postgres", "does not have pgvector; install"),
        (
            ["CREATE EXTENSION vector", "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'"],
            "postgres",
            "pgvector 0.7.4 is too old, 0.8 is needed; update it with: ALTER EXTENSION vector UPDATE",
        ),
    ],
    ids=["may not", "not there", "too old"],
)
def test_without_pgvector_the_error_says_what_to_do(prepare: list[str], user: str, says: str):
    server = postgres_server.server()
    address = postgres_server.address(empty=True)
    name = postgres_server.name_of(address)
    sql_on(server.address(), "DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN")
    sql_on(address, *(statement.format(name) for statement in prepare))

    with pytest.raises(Invalid, match=says):
        PostgresStore(server.address(name, user=user))


@pytest.mark.skipif(bool(postgres_server._ELSEWHERE), reason="makes roles and breaks settings of a server")
def test_who_cannot_get_in_is_told_why_and_no_password_is_shown():
    server = postgres_server.server()
    sql_on(server.address(), "DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'right horse'")

    for address, says in {
        server.address(user="locked", password="wrong horse"): "does not let us in .*check user and password",
        server.address("nowhere"): "no such database .*createdb",
        server.address(user="nobody_we_know"): "does not let us in",
        "postgresql://ana:wrong%20horse@/x?host=/nowhere&password=horse": "cannot be reached .*see that the server",
    }.items():
        with pytest.raises((Invalid, Unavailable), match=says) as caught:
            PostgresStore(address)
        assert "horse" not in str(caught.value)


def test_an_address_is_read_and_what_is_wrong_with_it_is_named():
    address = parse_address(
        "postgresql://ana:secret@db:5433/memories?schema=mine&replica=postgresql%3A%2F%2Fana%3Asecret%40db2%2Fmemories"
        "&deadline=3&readers=4&bm25=off&sslmode=require"
    )

    assert address.server == "postgresql://ana:secret@db:5433/memories?sslmode=require"
    assert (address.schema, address.deadline, address.readers, address.bm25) == ("mine", 3.0, 4, False)
    assert address.replica == "postgresql://ana:secret@db2/memories"
    assert address.shown == "postgresql://ana:***@db:5433/memories?sslmode=require"
    wrongs = {"schema=a;b": "schema:", "deadline=soon": "deadline:", "replica=db2": "replica:", "bm25=maybe": "bm25:"}
    for wrong, says in wrongs.items():
        with pytest.raises(Invalid, match=says):
            parse_address(f"postgresql:///x?{wrong}")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("memories.db", "memories.db"),
        ("postgresql://ana:sec%40ret@db/x", "postgresql://ana:***@db/x"),
        ("postgresql://db/x?user=ana&password=secret&a=b", "postgresql://db/x?user=ana&password=***&a=b"),
        (
            "postgresql://db/x?replica=postgresql%3A%2F%2Fana%3Asecret%40db2%2Fx&deadline=3",
            "postgresql://db/x?replica=postgresql%3A%2F%2Fana:***@db2%2Fx&deadline=3",
        ),
        (
            "postgresql://db/x?replica=postgresql://ana:secret@db2/x",
            "postgresql://db/x?replica=postgresql://ana:***@db2/x",
        ),
    ],
)
def test_a_password_is_not_shown(address: str, shown: str):
    assert public_address(address) == shown


def test_without_the_driver_the_error_is_the_line_to_type(monkeypatch: pytest.MonkeyPatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("retentive.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingExtra, match=r"pip install 'retentive\[postgres\]'"):
        open_store("postgresql:///x")


# Checking


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("DELETE FROM counts; DELETE FROM count_changes", "counts of terms and memories differ"),
        ("UPDATE vectors SET kind = 3", "2 vectors are in another scope"),
        ("UPDATE memories SET session = 99", "2 memories are in a profile"),
        ("UPDATE vectors SET embedding = '[1,2]'", "2 vectors are not as long"),
    ],
)
def test_a_check_finds_what_does_not_agree(damage: str, says: str):
    address = postgres_server.address(empty=True)
    with opened(address) as store, connected(address) as connection:
        store.add([embedded(1), embedded(2, session="a")], model=MODEL)
        assert store.check() == []

        connection.execute(damage)

        assert any(says in line for line in store.check()), store.check()


# Writers at once


def test_writers_of_one_session_take_turns_and_those_of_the_same_new_names_do_not_lock_each_other_out(
    store: PostgresStore,
):
    def work(thread: int) -> None:
        order = list(range(8))
        random.Random(thread).shuffle(order)
        for at in range(5):
            names = [record(1000 * thread + 10 * at + n, session=f"s{n}", project=f"p{n}") for n in order]
            store.add(names, model=None)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))

    by_session: dict[str | None, list[int | None]] = {}
    for one in store.list(HERE, limit=ALL).memories:
        by_session.setdefault(one.session, []).append(one.position)
    assert {name: sorted(taken) for name, taken in by_session.items()} == {f"s{n}": list(range(30)) for n in range(8)}


def test_the_same_id_stored_by_two_at_once_is_a_conflict_for_one_of_them(store: PostgresStore):
    def add(text: str) -> bool:
        try:
            store.add([Record(memory(1, text))], model=None)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(add, ["a", "b", "c", "d"]))

    assert sorted(outcomes) == [False, False, False, True]


def test_a_writer_that_waits_too_long_says_so_and_changes_nothing():
    address = postgres_server.address()
    with opened(address) as store:
        store.add([record(1, session="a")], model=None)
    waiting = PostgresStore(address, busy_seconds=0.2)
    with connected(address) as connection, connection.transaction():
        connection.execute("SELECT 1 FROM sessions FOR UPDATE")
        with pytest.raises(Unavailable, match="locked for too long; try again, nothing was changed"):
            waiting.add([record(2, session="a")], model=None)
    assert listed(waiting) == [id_of(1)]
    waiting.close()


def test_a_model_of_too_many_numbers_is_refused(store: PostgresStore):
    large = Model("large", "1", 4001, "fingerprint of large")

    with pytest.raises(Invalid, match="up to 4,000 numbers"):
        store.add([record(1, vectors=rows(unit(np.ones(4001))))], model=large)

    assert listed(store) == []


def test_a_closed_store_says_so():
    store = open_store(postgres_server.address())
    store.close()

    with pytest.raises(Unavailable, match="closed; open it again"):
        store.get([id_of(1)])
    store.close()


def test_memories_are_told_apart_from_the_memory_of_their_rows(store: PostgresStore):
    """A key is never used twice, so an old one leads nowhere."""
    [first] = store.add([record(1)], model=None)
    key = store.keys([first.id])[first.id]
    store.remove([first.id])
    [again] = store.add([record(1)], model=None)

    assert isinstance(again, Memory)
    assert store.keys([again.id])[again.id] != key
