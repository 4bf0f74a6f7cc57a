"""Preselection by a BM25 extension: used where there is one, never needed, and without effect on what is found.

No package contains pg_textsearch, so `bm25_stand_in` replaces it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from retentive.models import Candidate, Recall, Scope
from retentive.pipeline.recall import recall
from retentive.stores.postgres import PostgresStore, bm25_extension, maintenance
from retentive.stores.postgres.search_statements import extension_terms
from retentive.text import bm25
from tests.stores import bm25_stand_in, postgres_server
from tests.stores.build import HERE, MODEL, embedded, find_keyword, id_of, ids_of, make_query, record, vector
from tests.stores.postgres_proxy import proxied
from tests.stores.postgres_store import fetch, opened, statements, stats_of

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
def _small_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of more than 50 memories count as large; indexes are created when a test runs maintenance."""
    monkeypatch.setattr(bm25_extension, "MIN_MEMORIES", 50)
    monkeypatch.setattr(maintenance, "QUIET_SECONDS", 3600)


@pytest.fixture(scope="module")
def without() -> str:
    """A store of 300 memories on a server without the extension."""
    return filled()


@pytest.fixture(scope="module")
def stood_in() -> str:
    """The same memories with the stand-in and its index."""
    address = filled()
    bm25_stand_in.make(address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET search_path = retentive")
        connection.execute(bm25_stand_in.INDEX.encode())
    return address


@pytest.fixture
def fresh() -> str:
    """The same memories with the stand-in and without its index, for tests that change them."""
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


def words(
    store: PostgresStore, text: str, *, scope: Scope = HERE, limit: int = 10, **options: Any
) -> Sequence[Candidate]:
    return find_keyword(store, text, scope, limit=limit, **options)


def recall_from(store: PostgresStore, text: str) -> Recall:
    query = make_query(text, vector=vector(3), max_document_frequency=0.05)
    with ThreadPoolExecutor(1) as threads:
        return recall(query, store, lambda: None, threads)


def index_exists(store: PostgresStore) -> bool:
    return fetch(store, "SELECT to_regclass('memories_by_bm25') IS NOT NULL") == [(True,)]


def uses_extension(sent: Sequence[tuple[str, Any]]) -> list[bool]:
    """Whether each of these statements lets the extension select."""
    return ["<@>" in text for text, _ in sent]


KEYWORD = b"selected AS"
"""A part of every keyword search."""


# Without the extension


def test_without_the_extension_nothing_is_created_and_searches_are_the_same_as_with_it_turned_off(
    without: str, monkeypatch: pytest.MonkeyPatch
):
    with (
        opened(without) as store,
        opened(f"{without}&bm25=off") as off,
        statements(monkeypatch, KEYWORD) as sent,
    ):
        assert words(store, "green tea")
        assert store._maintenance._timer is None
        assert store.run_maintenance()
        assert not index_exists(store)
        assert words(store, "green tea") == words(off, "green tea")

    assert len({text for text, _ in sent}) == 1
    assert uses_extension(sent) == [False] * 3


# With the extension


def test_what_the_extension_selects_and_its_scores_are_the_same_as_without_it(
    without: str, stood_in: str, monkeypatch: pytest.MonkeyPatch
):
    with opened(without) as plain, opened(stood_in) as ranked:
        for query in QUERIES:
            with statements(monkeypatch, KEYWORD) as sent:
                for more in ({}, {"limit": 3}, {"exclude": (id_of(1), id_of(50), id_of(200))}):
                    ours, theirs = words(ranked, query, **more), words(plain, query, **more)
                    assert len(ours) > 2
                    assert ids_of(ours) == ids_of(theirs)
                    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-6)
            assert uses_extension(sent) == [True, False] * 3
        for query in QUERIES:
            ours, theirs = recall_from(ranked, query), recall_from(plain, query)
            assert [hit.id for hit in ours.hits] == [hit.id for hit in theirs.hits]
            assert [hit.score for hit in ours.hits] == pytest.approx([hit.score for hit in theirs.hits], abs=1e-6)


def plan(store: PostgresStore, monkeypatch: pytest.MonkeyPatch, text: str, *, limit: int = 10) -> str:
    """How the server executed a search, with what it did not execute."""
    with statements(monkeypatch, KEYWORD) as sent:
        words(store, text, limit=limit)
    [(statement, parameters)] = sent
    return "\n".join(
        line for (line,) in store._connections.fetch(b"EXPLAIN (ANALYZE) " + statement.encode(), parameters)
    )


def test_our_own_selection_is_skipped_unless_the_extension_finds_too_few_or_equal_ones(
    stood_in: str, monkeypatch: pytest.MonkeyPatch
):
    with opened(stood_in) as store:
        enough = plan(store, monkeypatch, "green tea with milk", limit=5)
        too_few = plan(store, monkeypatch, "number7")

    def ours(text: str) -> str:
        return text.partition("CTE by_terms")[2].partition("Limit")[2].splitlines()[0]

    assert "<@>" in enough or "score" in enough
    assert "never executed" in ours(enough), enough
    assert "never executed" not in ours(too_few), too_few


def test_of_memories_with_equal_scores_the_first_are_found_whatever_the_extension_selects(
    fresh: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with opened(fresh) as store, statements(monkeypatch, KEYWORD) as sent:
        store.add([record(2000 - n, "same old kettle") for n in range(90)], model=None)
        store.run_maintenance()
        with psycopg.connect(fresh, autocommit=True) as connection:
            # The memory stored last is read first.
            connection.execute("CLUSTER retentive.memories USING memories_id_key")
        bm25_stand_in.replace_score(fresh, "CASE WHEN document LIKE '%kettl%' THEN -1.0 ELSE 0 END")

        found = words(store, "kettle", limit=5)

    assert ids_of(found) == [id_of(2000 - n) for n in range(5)]
    assert uses_extension(sent) == [True]


def test_a_memory_that_the_extension_does_not_find_is_found(fresh: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with opened(fresh) as store:
        store.run_maintenance()
        bm25_stand_in.replace_score(fresh, "0")

        assert ids_of(words(store, "number299")) == [id_of(299)]


def test_the_extension_decides_which_memories_are_scored(fresh: str, monkeypatch: pytest.MonkeyPatch):
    """With a stand-in that prefers the worst memories, the best ones are not scored."""
    monkeypatch.setattr(bm25, "MIN_SCORED", 10)
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with opened(fresh) as store:
        before = words(store, "green tea with milk", limit=5)
        store.run_maintenance()
        assert words(store, "green tea with milk", limit=5) == before
        bm25_stand_in.replace_score(
            fresh, "(CASE WHEN document ~ 'tea|milk|green' THEN -1000 ELSE 0 END + length(document))"
        )

        turned = words(store, "green tea with milk", limit=5)

    assert len(turned) == 5
    assert turned[0].score < before[0].score


@pytest.mark.parametrize(("query", "terms"), [("half a spoon", {"spoon"}), ("half", {"half"})])
def test_terms_of_more_than_a_third_of_all_memories_are_not_passed_on_unless_there_are_no_others(
    stood_in: str, query: str, terms: set[str]
):
    with opened(stood_in) as store:
        assert set(extension_terms(stats_of(store, query))) == terms


@pytest.mark.parametrize("query", ["tea 🚀", "🚀"])
def test_a_query_with_a_term_that_its_parser_drops_is_answered_without_it(
    fresh: str, query: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with opened(fresh) as store, statements(monkeypatch, KEYWORD) as sent:
        store.add([record(1000, "🚀")], model=None)
        store.run_maintenance()

        assert id_of(1000) in ids_of(words(store, query))
    assert uses_extension(sent) == [False]


def test_in_a_scope_and_in_a_small_store_the_extension_is_not_used(stood_in: str, monkeypatch: pytest.MonkeyPatch):
    with opened(stood_in) as store, statements(monkeypatch, KEYWORD) as sent:
        assert words(store, "green tea", scope=Scope(sessions=("s1",)))
        assert not words(store, "green tea", scope=Scope(kinds=("semantic",)))
        monkeypatch.setattr(bm25_extension, "MIN_MEMORIES", 300)
        assert words(store, "green tea")

    assert sent
    assert not any(uses_extension(sent))


def test_turned_off_in_the_address_it_is_not_used_and_gets_no_index(
    stood_in: str, fresh: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with (
        opened(f"{stood_in}&bm25=off") as used,
        opened(f"{fresh}&bm25=off") as made,
        statements(monkeypatch, KEYWORD) as sent,
    ):
        assert words(used, "green tea") == words(made, "green tea")
        assert made._maintenance._timer is None
        made.run_maintenance()
        assert not index_exists(made)

    assert len({text for text, _ in sent}) == 1
    assert uses_extension(sent) == [False, False]


def test_a_search_without_the_index_schedules_it_and_the_next_one_uses_it_without_another_round_trip(
    fresh: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with proxied(fresh) as proxy, opened(proxy.address) as store, statements(monkeypatch, KEYWORD) as sent:
        trips = []
        for _ in range(2):
            recall_from(store, "green tea")  # the first time statements are prepared
            before = proxy.trips
            recall_from(store, "green tea")
            trips.append(proxy.trips - before)
            assert store._maintenance._timer is not None
            assert store.run_maintenance()
            assert index_exists(store)
        assert store.check() == []

    assert trips == [2, 2]  # statistics, and everything else
    assert uses_extension(sent) == [False, False, True, True]


# Failures


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "pg_textsearch" in one.getMessage()]


def test_a_failure_is_logged_once_and_the_same_recall_is_answered_without_the_extension(
    fresh: str, without: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with opened(fresh) as store, opened(without) as plain:
        store.run_maintenance()
        bm25_stand_in.replace_score(fresh, "1 / (length(document) - length(document))")
        with statements(monkeypatch, KEYWORD) as sent, caplog.at_level(logging.WARNING):
            found = [words(store, "green tea") for _ in range(3)]
        assert found == [words(plain, "green tea")] * 3

    assert uses_extension(sent) == [True, False, False, False]
    [logged] = warnings(caplog)
    assert "searches use the GIN index alone: division by zero" in logged


def test_an_index_that_cannot_be_created_is_logged_once_and_leaves_nothing_behind(
    fresh: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The stand-in has no `text_config`, so that our own statement fails here, and everything else continues."""
    with opened(fresh) as store, caplog.at_level(logging.WARNING):
        before = words(store, "green tea")
        assert store.run_maintenance()
        assert store.run_maintenance()
        assert words(store, "green tea") == before
        assert not index_exists(store)
        assert store.check() == []

    [logged] = warnings(caplog)
    assert 'unrecognized parameter "text_config"' in logged


def test_an_interrupted_build_is_not_used_and_is_repeated(fresh: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with opened(fresh) as store, statements(monkeypatch, KEYWORD) as sent:
        store.run_maintenance()
        with psycopg.connect(fresh) as connection:
            connection.execute(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'retentive.memories_by_bm25'::regclass"
            )
        assert "memories_by_bm25 is not complete" in store.check()[0]
        words(store, "green tea")
        store.run_maintenance()
        words(store, "green tea")
        assert store.check() == []

    assert uses_extension(sent) == [False, True]


def test_an_old_version_is_not_used(fresh: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with psycopg.connect(fresh) as connection:
        connection.execute("UPDATE pg_extension SET extversion = '1.4.0' WHERE extname = 'pg_textsearch'")
    with opened(fresh) as store, caplog.at_level(logging.WARNING):
        store.run_maintenance()
        assert not index_exists(store)
        assert words(store, "green tea")

    assert ["version 1.4.0 is older than 1.5" in logged for logged in warnings(caplog)] == [True]


def test_a_search_during_which_the_server_is_lost_is_repeated_without_the_extension(
    fresh: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The extension may have crashed the server; from outside nobody can tell."""
    monkeypatch.setattr(bm25_extension, "CREATE_INDEX", bm25_stand_in.INDEX)
    with opened(fresh) as store, caplog.at_level(logging.WARNING):
        before = words(store, "green tea")
        store.run_maintenance()
        bm25_stand_in.replace_score(fresh, "pg_terminate_backend(pg_backend_pid())::int::float8")

        assert words(store, "green tea") == before

    assert len(warnings(caplog)) == 1
