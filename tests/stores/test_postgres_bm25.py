"""A BM25 of the server's own: used where there is one, never needed, and never to be noticed in what is found.

None can be installed from a package, so `bm25_stand_in` stands in for pg_textsearch.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from retentive.stores.at_once import Asked

from retentive.models import Recall, Scope
from retentive.pipeline.recall import Query, recall
from retentive.ranking import Tuning
from retentive.stores import Found
from retentive.stores.postgres import PostgresStore, bm25_extension, recalling, tending
from retentive.stores.postgres.pools import Connection
from tests.stores import bm25_stand_in, postgres_server
from tests.stores.build import HERE, MODEL, NOW, embedded, id_of, record, vector
from tests.stores.postgres_proxy import proxied

WORDS = ["tea", "milk", "lemon", "cup", "green", "v2.13.0", "err_conn_42", "straße", "東京", "coffee", "spoon", "pot"]
OTHERS = [f"w{n}" for n in range(30)]
QUERIES = [
    "green tea with milk",
    "which cup broke on err_conn_42?",
    "v2.13.0 spoon",
    "東京 straße",
    "lemon lemon pot number7 number8",
    "half a spoon of lemon",
]


@pytest.fixture(autouse=True)
def small_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of more than 50 memories count as large; indexes are made when a test says so."""
    monkeypatch.setattr(bm25_extension, "LARGE", 50)
    monkeypatch.setattr(tending, "QUIET_SECONDS", 3600)


@contextmanager
def opened(address: str) -> Iterator[PostgresStore]:
    store = PostgresStore(address)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture(scope="module")
def without() -> str:
    """A store of 300 memories on a server without the extension."""
    return filled()


@pytest.fixture(scope="module")
def stood_in() -> str:
    """The same memories where the stand-in is, with its index."""
    address = filled()
    bm25_stand_in.make(address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET search_path = retentive")
        connection.execute(bm25_stand_in.INDEX.encode())
    return address


@pytest.fixture
def fresh() -> str:
    """The same memories where the stand-in is, without its index, for tests that change them."""
    address = filled()
    bm25_stand_in.make(address)
    return address


def filled() -> str:
    address = postgres_server.address(empty=True)
    chance = random.Random(5)
    texts = [
        " ".join([*chance.sample(WORDS + OTHERS, k=chance.randint(4, 12)), f"number{n}", *["half"] * (n % 5 > 1)])
        for n in range(300)
    ]
    with opened(address) as store:
        store.add([embedded(n, text, session=f"s{n % 3}") for n, text in enumerate(texts)], model=MODEL)
    return address


def asked(query: str, scope: Scope = HERE, limit: int = 10, exclude: tuple[str, ...] = ()) -> Asked:
    return Asked(query, None, scope, limit, limit, exclude)


def words(store: PostgresStore, query: str, **more: object) -> list[Found]:
    return list(store.search_both(asked(query, **more)).words)  # type: ignore[arg-type]


def recalled(store: PostgresStore, text: str) -> Recall:
    with ThreadPoolExecutor(2) as threads:
        return recall(Query(text, HERE, Tuning(), 10, NOW, (), vector(3)), store, lambda: None, threads)


def index_there(store: PostgresStore) -> bool:
    found = store._connections.read(lambda one: one.execute("SELECT to_regclass('memories_by_bm25')").fetchone())
    return found[0] is not None


@contextmanager
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The text of every search that is sent to a server."""
    sent: list[str] = []
    execute = Connection.execute

    def noted(self, query, *arguments, **more):
        if isinstance(query, bytes) and b"by_words" in query:
            sent.append(query.decode())
        return execute(self, query, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", noted)
        yield sent


# Without


def test_without_the_extension_nothing_is_made_and_the_search_is_the_same_as_with_it_turned_off(
    without: str, monkeypatch: pytest.MonkeyPatch
):
    with (
        opened(without) as store,
        opened(f"{without}&bm25=off") as off,
        statements(monkeypatch) as sent,
    ):
        assert words(store, "green tea")
        assert store._tending._timer is None
        assert store.tend()
        assert not index_there(store)
        assert words(store, "green tea") == words(off, "green tea")

    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert "<@>" not in sent[0]


# With


def test_the_extension_chooses_and_what_is_found_and_its_scores_are_the_same(
    without: str, stood_in: str, monkeypatch: pytest.MonkeyPatch
):
    with opened(without) as plain, opened(stood_in) as ranked:
        for query in QUERIES:
            with statements(monkeypatch) as sent:
                for more in ({}, {"limit": 3}, {"exclude": (id_of(1), id_of(50), id_of(200))}):
                    ours, theirs = words(ranked, query, **more), words(plain, query, **more)
                    assert len(ours) > 2
                    assert [one.key for one in ours] == [one.key for one in theirs]
                    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-6)
            assert ["<@>" in text for text in sent] == [True, False] * 3
        for query in QUERIES:
            ours, theirs = recalled(ranked, query), recalled(plain, query)
            assert [hit.id for hit in ours.hits] == [hit.id for hit in theirs.hits]
            assert [hit.score for hit in ours.hits] == pytest.approx([hit.score for hit in theirs.hits], abs=1e-6)


def plan(store: PostgresStore, one: Asked, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the server did for a search."""
    lines: list[str] = []
    execute = psycopg.Connection.execute

    def explained(self, query, *arguments, **more):
        if isinstance(query, bytes) and b"by_words" in query:
            lines.extend(line for (line,) in execute(self, b"EXPLAIN (ANALYZE) " + query, *arguments))
        return execute(self, query, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", explained)
        store.search_both(one)
    return "\n".join(lines)


def test_our_own_way_is_not_gone_unless_the_extension_brings_too_few_or_as_good_ones(
    stood_in: str, monkeypatch: pytest.MonkeyPatch
):
    with opened(stood_in) as store:
        enough = plan(store, asked("green tea with milk", limit=5), monkeypatch)
        too_few = plan(store, asked("number7"), monkeypatch)

    def ours(text: str) -> str:
        return text.partition("CTE ours")[2].partition("Limit")[2].splitlines()[0]

    assert "<@>" in enough or "score" in enough
    assert "never executed" in ours(enough), enough
    assert "never executed" not in ours(too_few), too_few


def test_of_memories_that_are_equally_good_the_first_is_found_whatever_the_extension_brings(
    fresh: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with opened(fresh) as store, statements(monkeypatch) as sent:
        store.add([record(2000 - n, "same old kettle") for n in range(90)], model=None)
        store.tend()
        with psycopg.connect(fresh, autocommit=True) as connection:
            connection.execute(
                "CLUSTER retentive.memories USING memories_id_key"
            )  # the last to be stored is read first
        bm25_stand_in.replace_score(fresh, "CASE WHEN document LIKE '%kettl%' THEN -1.0 ELSE 0 END")

        found = words(store, "kettle", limit=5)
        memories = store.fetch([one.key for one in found])

    assert [memories[one.key].id for one in found] == [id_of(2000 - n) for n in range(5)]
    assert "<@>" in sent[0]


def test_what_the_extension_does_not_find_is_found(fresh: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with opened(fresh) as store:
        store.tend()
        bm25_stand_in.replace_score(fresh, "0")

        found = words(store, "number299")

        assert [memory.id for memory in store.fetch([one.key for one in found]).values()] == [id_of(299)]


def test_what_is_found_came_by_way_of_the_extension(fresh: str, monkeypatch: pytest.MonkeyPatch):
    """One that thinks the worst the best is believed: then the best are not among what ours gets to score."""
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with opened(fresh) as store:
        before = words(store, "green tea with milk", limit=5)
        store.tend()
        assert words(store, "green tea with milk", limit=5) == before
        bm25_stand_in.replace_score(
            fresh, "(CASE WHEN document ~ 'tea|milk|green' THEN -1000 ELSE 0 END + length(document))"
        )

        turned = words(store, "green tea with milk", limit=5)

    assert len(turned) == 5
    assert turned[0].score < before[0].score


@pytest.mark.parametrize(("query", "terms"), [("half a spoon", {"spoon"}), ("half", {"half"})])
def test_words_of_every_third_memory_are_not_what_it_goes_by_unless_there_are_no_others(
    stood_in: str, query: str, terms: set[str]
):
    with opened(stood_in) as store:
        ground = store._connections.read(lambda one: store._ground(one, asked(query)))

    assert set(recalling._telling(ground.footing)) == terms


@pytest.mark.parametrize("query", ["tea 🚀", "🚀"])
def test_a_query_with_a_sign_that_its_parser_drops_is_answered_without_it(
    fresh: str, query: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with opened(fresh) as store, statements(monkeypatch) as sent:
        store.add([record(1000, "🚀")], model=None)
        store.tend()

        found = words(store, query)

        assert id_of(1000) in {memory.id for memory in store.fetch([one.key for one in found]).values()}
    assert "<@>" not in sent[0]


def test_in_a_scope_and_in_a_small_store_ours_choose(stood_in: str, monkeypatch: pytest.MonkeyPatch):
    with opened(stood_in) as store, statements(monkeypatch) as sent:
        assert words(store, "green tea", scope=Scope(sessions=("s1",)))
        assert words(store, "green tea", scope=Scope(kinds=("semantic",))) == []
        monkeypatch.setattr(bm25_extension, "LARGE", 300)
        assert words(store, "green tea")

    assert sent
    assert not any("<@>" in text for text in sent)


def test_turned_off_in_the_address_it_is_neither_used_nor_given_an_index(
    stood_in: str, fresh: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with opened(f"{stood_in}&bm25=off") as used, opened(f"{fresh}&bm25=off") as made, statements(monkeypatch) as sent:
        assert words(used, "green tea") == words(made, "green tea")
        assert made._tending._timer is None
        made.tend()
        assert not index_there(made)

    assert len(set(sent)) == 1
    assert "<@>" not in sent[0]


def test_a_search_that_lacks_the_index_has_it_made_and_the_next_one_uses_it_without_a_further_round_trip(
    fresh: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with proxied(fresh) as proxy, opened(proxy.address) as store, statements(monkeypatch) as sent:
        trips = []
        for _ in range(2):
            recalled(store, "green tea")  # statements are prepared the first time
            before = proxy.trips
            recalled(store, "green tea")
            trips.append(proxy.trips - before)
            assert store._tending._timer is not None
            assert store.tend()
            assert index_there(store)
        assert store.check() == []

    assert trips == [4, 4]
    assert ["<@>" in text for text in sent] == [False, False, True, True]


# Failing


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "pg_textsearch" in one.getMessage()]


def test_one_that_fails_is_said_once_and_the_same_recall_is_answered_without_it(
    fresh: str, without: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with opened(fresh) as store, opened(without) as plain:
        store.tend()
        bm25_stand_in.replace_score(fresh, "1 / (length(document) - length(document))")
        with statements(monkeypatch) as sent, caplog.at_level(logging.WARNING):
            found = [words(store, "green tea") for _ in range(3)]
        assert found == [words(plain, "green tea")] * 3

    assert ["<@>" in text for text in sent] == [True, False, False, False]
    [said] = warnings(caplog)
    assert "searches go by the GIN index: division by zero" in said


def test_an_index_that_cannot_be_made_is_said_once_and_leaves_nothing_behind(
    fresh: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The stand-in knows no `text_config`, so here it is our own statement that fails, and everything else goes on."""
    with opened(fresh) as store, caplog.at_level(logging.WARNING):
        before = words(store, "green tea")
        assert store.tend()
        assert store.tend()
        assert words(store, "green tea") == before
        assert not index_there(store)
        assert store.check() == []

    [said] = warnings(caplog)
    assert 'unrecognized parameter "text_config"' in said


def test_a_build_that_was_broken_off_is_not_used_and_is_made_good(fresh: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with opened(fresh) as store, statements(monkeypatch) as sent:
        store.tend()
        with psycopg.connect(fresh) as connection:
            connection.execute(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'retentive.memories_by_bm25'::regclass"
            )
        assert "memories_by_bm25 is not complete" in store.check()[0]
        words(store, "green tea")
        store.tend()
        words(store, "green tea")
        assert store.check() == []

    assert ["<@>" in text for text in sent] == [False, True]


def test_an_old_version_is_left_alone(fresh: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with psycopg.connect(fresh) as connection:
        connection.execute("UPDATE pg_extension SET extversion = '1.4.0' WHERE extname = 'pg_textsearch'")
    with opened(fresh) as store, caplog.at_level(logging.WARNING):
        store.tend()
        assert not index_there(store)
        assert words(store, "green tea")

    assert ["version 1.4.0 is older than 1.5" in said for said in warnings(caplog)] == [True]


def test_a_server_that_is_lost_while_it_chooses_is_asked_again_without_it(
    fresh: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """It may be the extension that brings a server down, and nobody can tell from outside."""
    monkeypatch.setattr(bm25_extension, "MAKE", bm25_stand_in.INDEX)
    with opened(fresh) as store, caplog.at_level(logging.WARNING):
        before = words(store, "green tea")
        store.tend()
        bm25_stand_in.replace_score(fresh, "pg_terminate_backend(pg_backend_pid())::int::float8")

        assert words(store, "green tea") == before

    assert len(warnings(caplog)) == 1
