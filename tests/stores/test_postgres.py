"""The PostgreSQL store beyond the contract: any text, opening, addresses, integrity checks, concurrent writers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.errors import Conflict, Invalid, MissingExtra, Unavailable
from retentive.extras import pip_install
from retentive.models import Model, Scope
from retentive.settings import public_address
from retentive.stores import open_store
from retentive.stores.postgres import PostgresStore, migrations
from retentive.stores.postgres.address import parse_address
from retentive.stores.postgres.type_adapters import escape, unescape
from retentive.stores.values import Record
from tests.stores import postgres_server
from tests.stores.build import (
    ALL,
    HERE,
    MODEL,
    embedded,
    id_of,
    keyword_ids,
    listed,
    memory,
    record,
    rows,
    unit,
)
from tests.stores.postgres_store import connected, fetch, opened

# Real processes, started by a server process that has imported everything: each takes milliseconds to start.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.stores.test_postgres"])


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    with opened(postgres_server.address()) as one:
        yield one
        assert one.check() == []


# Any text


@given(st.text(st.characters(), max_size=40) | st.text("\0\ufdd0\ue000\ue001\ud800\udfffa", max_size=8))
def test_any_text_can_be_escaped_and_restored(text: str):
    stored = escape(text)

    assert unescape(stored) == text
    assert "\0" not in stored
    assert stored.encode().decode() == stored


def test_ordinary_text_is_stored_unchanged_for_other_programs(store: PostgresStore):
    store.add([record(1, "Straße, 東京 🚀", session="días")], model=None)

    assert fetch(store, "SELECT text, terms FROM memories") == [("Straße, 東京 🚀", "strass 東 京 東京 🚀")]


def test_names_and_values_can_contain_what_postgresql_cannot_store(store: PostgresStore):
    store.add([record(1, "tea", session="a\0b", project="half \ud83d", speaker="\ufdd0")], model=None)
    store.compare_and_set({"n\0": "v\0\ufdd0"})

    assert store.sessions("default")[0].name == "a\0b"
    assert listed(store, Scope(project="half \ud83d")) == [id_of(1)]
    assert store.get([id_of(1)])[0].speaker == "\ufdd0"
    assert store.list_values("n") == {"n\0": "v\0\ufdd0"}


def test_a_memory_of_a_million_characters_is_stored_and_found(store: PostgresStore):
    text = "word " * 199_998 + "zebra"
    store.add([record(1, text), record(2)], model=None)

    assert keyword_ids(store, "zebra") == [id_of(1)]
    assert store.get([id_of(1)])[0].text == text


def test_of_more_different_terms_than_the_index_can_hold_the_first_are_found(store: PostgresStore):
    text = "".join(map(chr, random.Random(1).choices(range(0x4E00, 0x9FFF), k=200_000)))
    store.add([record(1, text), record(2)], model=None)

    assert keyword_ids(store, text[:2]) == [id_of(1)]
    assert store.get([id_of(1)])[0].text == text


# Opening


def open_and_add(number: int, address: str, pipe: Connection) -> None:
    pipe.send("ready")
    pipe.recv()
    try:
        store = open_store(address)
        store.add([embedded(number, session="all")], model=MODEL)
        store.close()
        pipe.send("done")
    except BaseException as error:
        pipe.send(repr(error))


def test_processes_that_open_a_new_database_together_create_one_schema_and_take_no_position_twice():
    address = postgres_server.address(empty=True)
    ends = []
    for number in range(6):
        ours, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=open_and_add, args=(number, address, theirs))
        process.start()
        ends.append((ours, process))
    for ours, _ in ends:
        assert ours.recv() == "ready"
    for ours, _ in ends:
        ours.send("go")

    assert [ours.recv() for ours, _ in ends] == ["done"] * 6
    for _, process in ends:
        process.join(90)
    with opened(address) as store:
        stored = store.get([id_of(number) for number in range(6)])
        assert sorted(one.position for one in stored) == list(range(6))
        assert store.check() == []


def test_two_schemas_of_a_database_are_two_stores():
    address = postgres_server.address(empty=True)
    with opened(f"{address}&schema=one") as one, opened(f"{address}&schema=two") as two:
        one.add([record(1)], model=None)
        assert (listed(one), listed(two)) == ([id_of(1)], [])


def test_a_schema_of_an_earlier_version_is_refused():
    address = postgres_server.address(empty=True)
    with opened(address), connected(address) as connection:
        connection.execute(f"UPDATE schema_version SET version = {migrations.FIRST_VERSION - 1}")

    with pytest.raises(Invalid, match=f"has version {migrations.FIRST_VERSION - 1}"):
        PostgresStore(address)


def test_a_schema_of_a_newer_version_or_of_another_program_is_refused():
    address = postgres_server.address(empty=True)
    with opened(address), connected(address) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
        connection.execute("CREATE SCHEMA theirs")
        connection.execute("CREATE TABLE theirs.memories (id int)")

    with pytest.raises(Invalid, match=r"newer Retentive \(schema 99.*pip install --upgrade"):
        PostgresStore(address)
    with pytest.raises(Invalid, match=r"belongs to another program; choose another one with \?schema="):
        PostgresStore(f"{address}&schema=theirs")


def sql_on(address: str, *statements: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.skipif(bool(postgres_server._ELSEWHERE), reason="creates roles and changes settings of a server")
@pytest.mark.parametrize(
    ("prepare", "user", "message"),
    [
        ([], "plain", "the role may not create it; ask an administrator to run: CREATE EXTENSION vector"),
        (["ALTER DATABASE {} SET extension_control_path = '/nowhere'"], "postgres", "does not have pgvector; install"),
        (
            ["CREATE EXTENSION vector", "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'"],
            "postgres",
            "pgvector 0.7.4 is too old, 0.8 is needed; update it with: ALTER EXTENSION vector UPDATE",
        ),
    ],
    ids=["may not", "not there", "too old"],
)
def test_without_pgvector_the_error_says_what_to_do(prepare: list[str], user: str, message: str):
    server = postgres_server.server()
    address = postgres_server.address(empty=True)
    name = postgres_server.name_of(address)
    sql_on(server.address(), "DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN")
    sql_on(address, *(statement.format(name) for statement in prepare))

    with pytest.raises(Invalid, match=message):
        PostgresStore(server.address(name, user=user))


@pytest.mark.skipif(bool(postgres_server._ELSEWHERE), reason="creates roles and changes settings of a server")
def test_a_refused_connection_is_explained_without_showing_a_password():
    server = postgres_server.server()
    sql_on(server.address(), "DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'right horse'")

    for address, message in {
        server.address(user="locked", password="wrong horse"): "refuses the connection .*check user and password",
        server.address("nowhere"): "no such database .*createdb",
        server.address(user="nobody_we_know"): "refuses the connection",
        "postgresql://ana:wrong%20horse@/x?host=/nowhere&password=horse": "cannot be reached .*check that",
    }.items():
        with pytest.raises((Invalid, Unavailable), match=message) as caught:
            PostgresStore(address)
        assert "horse" not in str(caught.value)


def test_an_address_is_parsed_and_an_error_names_the_wrong_parameter():
    address = parse_address(
        "postgresql://ana:secret@db:5433/memories?schema=mine&replica=postgresql%3A%2F%2Fana%3Asecret%40db2%2Fmemories"
        "&deadline=3&readers=4&bm25=off&sslmode=require"
    )

    assert address.server == "postgresql://ana:secret@db:5433/memories?sslmode=require"
    assert (address.schema, address.deadline, address.readers, address.bm25) == ("mine", 3.0, 4, False)
    assert address.replica == "postgresql://ana:secret@db2/memories"
    assert address.shown == "postgresql://ana:***@db:5433/memories?sslmode=require"
    wrongs = {"schema=a;b": "schema:", "deadline=soon": "deadline:", "replica=db2": "replica:", "bm25=maybe": "bm25:"}
    wrongs |= {
        "pasword=a": "no PostgreSQL parameter 'pasword'; did you mean 'password'",
        "a": "?name=value",
        "a=%": "%25",
    }
    for wrong, message in wrongs.items():
        with pytest.raises(Invalid, match=re.escape(message)):
            parse_address(f"postgresql:///x?{wrong}")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("memories.db", "memories.db"),
        ("postgresql://ana:sec%40ret@db/x", "postgresql://ana:***@db/x"),
        ("postgresql://ana:s#e?c/r%t@[::1]:5432/x?a=b", "postgresql://ana:***@[::1]:5432/x?a=b"),
        ("postgresql://ana:secret/x", "postgresql://ana:***"),
        ("postgresql://db/x?p%61ssword=secret&a=b", "postgresql://db/x?p%61ssword=***&a=b"),
        ("postgresql://db/x?user=ana&password=secret&a=b", "postgresql://db/x?user=ana&password=***&a=b"),
        (
            "postgresql://db/x?replica=postgresql%3A%2F%2Fana%3Asecret%40db2%2Fx&deadline=3",
            "postgresql://db/x?replica=postgresql://ana:***@db2/x&deadline=3",
        ),
        (
            "postgresql://db/x?replica=postgresql://ana:secret@db2/x",
            "postgresql://db/x?replica=postgresql://ana:***@db2/x",
        ),
    ],
)
def test_a_password_is_not_shown(address: str, shown: str):
    assert public_address(address) == shown


def test_without_the_driver_the_error_is_the_install_command(monkeypatch: pytest.MonkeyPatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("retentive.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingExtra, match=re.escape(pip_install("postgres"))):
        open_store("postgresql:///x")


# Integrity checks


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM counts; DELETE FROM count_changes", "counts of terms and memories differ"),
        ("UPDATE vectors SET kind = 3", "2 vectors are in another scope"),
        ("UPDATE memories SET session = 99", "2 memories are in a profile"),
        (
            "ALTER TABLE vectors DISABLE TRIGGER vector_length; UPDATE vectors SET embedding = '[1,2]'",
            "2 vectors do not have the dimension",
        ),
    ],
)
def test_a_check_finds_tables_that_disagree(damage: str, message: str):
    address = postgres_server.address(empty=True)
    with opened(address) as store, connected(address) as connection:
        store.add([embedded(1), embedded(2, session="a")], model=MODEL)
        assert store.check() == []

        connection.execute(damage)

        assert any(message in line for line in store.check()), store.check()


def test_a_vector_of_a_wrong_length_is_refused():
    address = postgres_server.address(empty=True)
    shorten = "UPDATE vectors SET embedding = '[1,2]' WHERE part = 0 AND memory = 1"
    with opened(address) as store, connected(address) as connection:
        store.add([embedded(1, "apples"), embedded(2, "plums")], model=MODEL)
        with pytest.raises(psycopg.errors.CheckViolation, match="dimension"):
            connection.execute(shorten)


# Concurrent writers


def test_concurrent_writers_of_a_session_take_each_position_once_and_do_not_deadlock_on_new_names(
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


def test_of_concurrent_writers_of_one_id_all_but_one_get_a_conflict(store: PostgresStore):
    def add(text: str) -> bool:
        try:
            store.add([Record(memory(1, text))], model=None)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(add, ["a", "b", "c", "d"]))

    assert sorted(outcomes) == [False, False, False, True]


def test_a_writer_that_waits_too_long_for_a_lock_fails_and_changes_nothing():
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


def test_a_reader_that_waits_too_long_for_a_lock_fails():
    address = postgres_server.address()
    with opened(address) as store:
        store.add([record(1, "tea")], model=None)
    waiting = PostgresStore(address, busy_seconds=0.2)
    with connected(address) as connection, connection.transaction():
        connection.execute("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
        for read in (lambda: keyword_ids(waiting, "tea"), lambda: waiting.get([id_of(1)])):
            with pytest.raises(Unavailable, match="locked for too long"):
                read()
    assert keyword_ids(waiting, "tea") == [id_of(1)]
    waiting.close()


def test_a_model_of_too_large_a_dimension_is_refused(store: PostgresStore):
    large = Model("large", "1", 4001, "fingerprint of large")

    with pytest.raises(Invalid, match="up to 4,000 numbers"):
        store.add([record(1, vectors=rows(unit(np.ones(4001))))], model=large)

    assert listed(store) == []


def test_a_closed_store_raises_unavailable():
    store = open_store(postgres_server.address())
    store.close()

    with pytest.raises(Unavailable, match="closed; open it again"):
        store.get([id_of(1)])
    store.close()


def test_a_key_is_never_used_for_a_second_memory(store: PostgresStore):
    keys = []
    for _ in range(2):
        store.add([record(1)], model=None)
        keys += fetch(store, "SELECT key FROM memories")
        store.remove([id_of(1)])

    assert len(set(keys)) == 2
