"""Searches of the PostgreSQL store beyond the contract: large scopes, statistics, round trips, one transaction."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from retentive.errors import Unavailable
from retentive.models import Recall, Scope
from retentive.pipeline.recall import recall
from retentive.stores.base import Store
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.postgres import PostgresStore, maintenance
from retentive.stores.postgres.search_statements import nearest_part
from retentive.stores.values import Record
from tests.stores import postgres_server
from tests.stores.build import (
    ALL,
    HERE,
    MODEL,
    OTHER,
    Meanwhile,
    axis,
    embedded,
    fill,
    find_keyword,
    find_nearest,
    id_of,
    keyword_ids,
    make_query,
    memory,
    nearest_ids,
    record,
    rows,
    scores_by_id,
    search,
    semantic_scores,
    vector,
)
from tests.stores.postgres_proxy import proxied
from tests.stores.postgres_store import connected, fetch, has_index, open_transactions, opened, stats_of, until


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    with opened(postgres_server.address()) as one:
        yield one
        assert one.check() == []


def recall_from(store: Store, text: str = "green tea", scope: Scope = HERE, *, limit: int = 5, **tuning: Any) -> Recall:
    """Recall with a vector that is given."""
    query = make_query(text, scope, limit=limit, vector=vector(3), **{"max_document_frequency": 0.05, **tuning})
    with ThreadPoolExecutor(1) as threads:
        return recall(query, store, lambda: None, threads)


# Large scopes


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scopes of more than 50 memories count as large."""
    monkeypatch.setattr(maintenance, "EXACT_STORE_LIMIT", 50)
    monkeypatch.setattr(maintenance, "EXACT_SCOPE_LIMIT", 50)


def nearest_text(store: PostgresStore, scope: Scope) -> str:
    """The part of a statement that selects the nearest memories."""
    stats = stats_of(store, scope=scope)
    assert stats.active is not None
    assert stats.scope is not None
    return nearest_part(stats.active, stats.scope, limit=10, depth=10, excluding=False)


def nearest_plan(store: PostgresStore, scope: Scope = HERE) -> str:
    """How the server selects the nearest memories."""
    found = stats_of(store, scope=scope).scope
    assert found is not None
    statement = f"EXPLAIN WITH {nearest_text(store, scope)} SELECT * FROM near".encode()
    parameters = {**found.parameters, "vector": vector(1), "rounding": 0.0}
    return "\n".join(line for (line,) in store._connections.fetch(statement, parameters))


@pytest.fixture
def indexed(small_limit: None) -> Iterator[tuple[PostgresStore, InMemoryStore]]:
    """A store whose index is used although there are few vectors, and the same memories in memory."""
    with opened(f"{postgres_server.address()}&options=-c%20enable_sort%3Doff") as store:
        reference = InMemoryStore()
        kinds = {n: "semantic" if n % 3 == 0 else "episodic" for n in range(2000)}
        for one in (store, reference):
            one.add([embedded(n, session=f"s{n % 2}", kind=kind) for n, kind in kinds.items()], model=MODEL)
        assert "vectors_near" not in nearest_plan(store)
        assert store.run_maintenance()
        yield store, reference


def test_the_index_of_a_large_scope_finds_what_an_exact_search_finds(indexed: tuple[PostgresStore, InMemoryStore]):
    store, reference = indexed
    for scope in (HERE, Scope(sessions=("s1",)), Scope(kinds=("semantic",))):
        assert "Index Scan using vectors_near" in nearest_plan(store, scope)
        found = expected = 0
        for seed in range(5000, 5020):
            near = scores_by_id(find_nearest(store, vector(seed), scope, limit=10))
            best = nearest_ids(reference, vector(seed), scope, limit=10)
            expected += len(best)
            found += len(set(near) & set(best))
            assert near == pytest.approx(semantic_scores(reference, vector(seed), list(near)))
        assert found >= 0.98 * expected


def test_a_scope_is_searched_exactly_up_to_a_larger_size_than_a_whole_store(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(maintenance, "EXACT_STORE_LIMIT", 50)
    store.add([embedded(n, session=f"s{n % 2}") for n in range(200)], model=MODEL)
    assert store.run_maintenance()

    assert "halfvec(" in nearest_text(store, HERE)
    assert "halfvec(" not in nearest_text(store, Scope(sessions=("s1",)))


def test_with_the_index_many_parts_do_not_crowd_out_other_memories(store: PostgresStore, small_limit: None):
    crowd = [record(n, vectors=rows(*[axis(0, lean=1, by=n / 1000)] * 40)) for n in range(30)]
    others = [record(100 + n, vectors=rows(axis(2, lean=0, by=n / 100))) for n in range(60)]
    store.add([*crowd, *others], model=MODEL)
    store.run_maintenance()

    assert nearest_ids(store, axis(0), limit=40)[:31] == [id_of(n) for n in range(30)] + [id_of(159)]


def test_without_the_index_many_parts_do_not_crowd_out_other_memories(store: PostgresStore):
    crowd = [record(n, vectors=rows(*[axis(0, lean=1, by=n / 1000)] * 40)) for n in range(10)]
    others = [record(100 + n, vectors=rows(axis(2, lean=0, by=n / 100))) for n in range(60)]
    store.add([*crowd, *others], model=MODEL)

    assert nearest_ids(store, axis(0), limit=12) == [id_of(n) for n in [*range(10), 159, 158]]


def test_memories_that_only_single_precision_can_order_are_ordered_by_it(store: PostgresStore):
    asked = axis(0, lean=1, by=0.7070 / 0.7072)  # both numbers are 0.70703125 in half precision
    farther = [record(n, vectors=rows(axis(1, lean=0, by=0.75))) for n in range(100)]
    nearer = [record(100 + n, vectors=rows(axis(0, lean=1, by=0.75))) for n in range(50)]
    store.add([*farther, *nearer], model=MODEL)

    assert nearest_ids(store, asked, limit=10) == [id_of(100 + n) for n in range(10)]


def test_an_interrupted_build_of_the_index_is_reported_and_repeated(small_limit: None):
    address = postgres_server.address(empty=True)
    with opened(address) as store:
        store.add([embedded(n) for n in range(60)], model=MODEL)
        with connected(address) as connection:
            connection.execute("CREATE INDEX vectors_near_1 ON vectors (part)")
            connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'vectors_near_1'::regclass")
        assert "vectors_near_1 is not complete" in store.check()[0]
        assert len(nearest_ids(store, vector(1), limit=10)) == 10

        store.run_maintenance()

        assert store.check() == []
        assert has_index(store)


def test_a_new_model_has_its_index_before_it_is_searched_and_the_old_one_leaves_nothing(
    store: PostgresStore, small_limit: None
):
    store.add([embedded(n) for n in range(60)], model=MODEL)
    store.run_maintenance()
    store.attach([Record(one, rows(vector(1))) for one in store.unembedded(OTHER, limit=ALL)], model=OTHER)
    assert nearest_ids(store, vector(3), limit=1) == [id_of(3)]

    assert store.switch_model(OTHER)

    active = stats_of(store).active
    assert active is not None
    assert (active.model, active.indexed) == (OTHER, True)
    store.run_maintenance()
    left = fetch(
        store,
        "SELECT (SELECT count(DISTINCT model) FROM vectors), "
        "(SELECT count(*) FROM pg_indexes WHERE schemaname = 'retentive' AND indexname LIKE 'vectors_near%')",
    )
    assert left == [(1, 1)]


@pytest.mark.parametrize("by", ["writing", "searching"])
def test_an_index_that_is_due_is_created_in_the_background(
    store: PostgresStore, small_limit: None, monkeypatch: pytest.MonkeyPatch, by: str
):
    monkeypatch.setattr(maintenance, "QUIET_SECONDS", 0.05 if by == "writing" else 3600)
    store.add([embedded(n) for n in range(60)], model=MODEL)
    if by == "searching":
        store._maintenance.close()
        store._maintenance = maintenance.Maintenance(store._connections, store._preselector)
        monkeypatch.setattr(maintenance, "QUIET_SECONDS", 0.05)
        nearest_ids(store, vector(1), limit=5)

    timer = store._maintenance._timer
    if timer is not None:  # otherwise it is done already
        timer.join()
    assert has_index(store)


# Recalls


@pytest.mark.parametrize(
    "tuning",
    [{}, {"fusion": "rrf"}, {"keyword_weight": 0}, {"semantic_weight": 0}, {"neighbour_weight": 0}, {"diversity": 0.3}],
    ids=lambda tuning: ",".join(tuning) or "default",
)
@pytest.mark.parametrize("scope", [HERE, Scope(sessions=("s1",)), Scope(profile="nobody")], ids=["all", "one", "none"])
def test_a_recall_gives_the_same_hits_as_on_the_store_in_memory(
    store: PostgresStore, scope: Scope, tuning: dict[str, Any]
):
    reference = InMemoryStore()
    for one in (store, reference):
        fill(one)

    ours, theirs = (recall_from(one, scope=scope, **tuning) for one in (store, reference))

    assert [hit.id for hit in ours.hits] == [hit.id for hit in theirs.hits]
    assert [hit.score for hit in ours.hits] == pytest.approx([hit.score for hit in theirs.hits], abs=1e-6)
    assert [[(why.step, why.rank) for why in hit.why] for hit in ours.hits] == [
        [(why.step, why.rank) for why in hit.why] for hit in theirs.hits
    ]
    assert [(one.name, one.ran, one.found, one.note) for one in ours.retrievers] == [
        (one.name, one.ran, one.found, one.note) for one in theirs.retrievers
    ]


def test_without_an_embedder_the_keyword_retriever_answers_alone_and_the_recall_says_so(store: PostgresStore):
    def broken() -> None:
        raise Unavailable("the embedder is away")

    fill(store)
    with ThreadPoolExecutor(1) as threads:
        answer = recall(make_query("green tea"), store, broken, threads)

    assert answer.hits
    assert (answer.degraded, answer.degraded_reason) == ("keyword-only", "the embedder is away")


def test_the_server_computes_every_digit_of_the_score_that_we_compute(store: PostgresStore):
    dice, words = random.Random(3), ["tea", "teapot", "milk", "東京", "café", "runs", "ERR_CONN_42", "🚀"]
    store.add([record(n, " ".join(dice.choices(words, k=dice.randint(1, 30)))) for n in range(200)], model=None)
    for _ in range(10):
        query = make_query(" ".join(dice.sample(words, 4)))
        by_server = scores_by_id(search(store, query, keyword=200).candidates["keyword"])
        ours = search(store, query, ids=list(by_server), scores=True).scores["keyword"]

        assert len(by_server) > 100
        assert by_server == ours


def test_where_many_memories_match_the_best_are_selected_by_all_their_terms(store: PostgresStore):
    texts = {n: f"tea {'milk' if n % 50 == 0 else 'lemon'} cup{n % 7}" for n in range(2000)}
    store.add([record(n, text) for n, text in texts.items()], model=None)

    assert keyword_ids(store, "tea milk cup0", limit=5) == [id_of(n) for n in (0, 350, 700, 1050, 1400)]


# Counts


def test_counts_are_compacted_and_stay_right(store: PostgresStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(maintenance, "COMPACT_EVERY_KEYS", 10)
    for n in range(30):
        store.add([record(n, f"tea number{n}", session="a")], model=None)
    store.remove([id_of(n) for n in range(0, 30, 2)])
    store.move_session("default", "a", project="p")

    assert fetch(store, "SELECT count(*) < 150 FROM count_changes") == [(True,)]
    assert store.check() == []
    assert find_keyword(store, "tea", Scope(project="p")) == find_keyword(store, "tea")


def test_counts_are_compacted_after_updates_alone(store: PostgresStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(maintenance, "COMPACT_EVERY_WRITES", 5)
    store.add([record(1, "tea")], model=None)
    for n in range(20):
        store.update(Record(memory(1, f"tea number{n}")), model=None)

    [(changes, tokens)] = fetch(store, "SELECT (SELECT count(*) FROM count_changes), (SELECT count(*) FROM writes)")

    assert changes <= 15
    assert tokens == 21  # each is kept for an hour


# Round trips


@contextmanager
def behind_proxy() -> Iterator[tuple[PostgresStore, Callable[[Callable[[], object]], int]]]:
    """A store, and a function that counts the round trips of a call."""
    with proxied(postgres_server.address()) as proxy, opened(proxy.address) as store:

        def count(call: Callable[[], object]) -> int:
            call()  # the first time statements are prepared
            before = proxy.trips
            call()
            return proxy.trips - before

        yield store, count


def test_a_recall_is_two_round_trips_however_much_it_finds():
    with behind_proxy() as (store, count):
        texts = ["tea with milk", "green tea", "coffee", "a cup of tea", "lemon"]
        store.add([embedded(n, f"{texts[n % 5]} {n}", session=f"s{n % 9}") for n in range(900)], model=MODEL)
        trips = {
            name: count(lambda text=text, scope=scope, limit=limit: recall_from(store, text, scope, limit=limit))
            for name, text, scope, limit in [
                ("few", "green tea 1", Scope(sessions=("s1",)), 1),
                ("many", "tea milk coffee lemon cup green", HERE, 10),
                ("very many", " ".join(str(n) for n in range(60)) + " tea", HERE, 30),
            ]
        }
        alone = count(lambda: recall_from(store, semantic_weight=0, neighbour_weight=0, session_weight=0))

    assert set(trips.values()) == {2}, trips
    assert alone == 2


def test_statistics_are_read_while_the_query_is_embedded_and_one_more_round_trip_reads_the_rest():
    query = make_query("green tea", limit=5)
    options = {"keyword": query.pool, "semantic": query.pool, "depth": query.depth, "centres": query.centres}
    with proxied(postgres_server.address()) as proxy, opened(proxy.address) as store:
        fill(store)
        for _ in range(2):  # the first time statements are prepared
            trips = [proxy.trips]
            wait = Meanwhile(vector(3), lambda seen=trips: seen.append(proxy.trips))
            search(store, query, vector=wait, **options, scores=True)
            trips.append(proxy.trips)

    assert [after - trips[0] for after in trips] == [0, 1, 2]


def test_a_query_without_text_makes_no_round_trip():
    with behind_proxy() as (store, count):
        fill(store)

        assert count(lambda: recall_from(store, "  ")) == 0


def test_removing_many_memories_takes_as_many_round_trips_as_removing_one():
    with behind_proxy() as (store, count):
        store.add([embedded(n, session="a") for n in range(400)], model=MODEL)
        numbers = iter(range(400))

        one, many = (
            count(lambda size=size: store.remove([id_of(next(numbers)) for _ in range(size)], within=HERE))
            for size in (1, 100)
        )

        assert one == many
        assert store.stats().memories == 400 - 2 - 200


# One transaction


def test_a_search_is_one_read_only_transaction_that_ends_with_it():
    address = postgres_server.address()
    with opened(address) as store, connected(address) as connection:
        fill(store)

        def look() -> None:
            assert open_transactions(address) == 1

        search(store, make_query("tea"), keyword=5, semantic=5, vector=Meanwhile(vector(1), look))
        until(lambda: open_transactions(address) == 0)
        connection.execute("SELECT 1")


def test_a_failed_statement_leaves_no_transaction_open(monkeypatch: pytest.MonkeyPatch):
    address = postgres_server.address()
    with opened(address) as store:
        fill(store)
        monkeypatch.setattr("retentive.stores.postgres.search.COLUMNS", "1 / 0, m.key")
        with pytest.raises(Unavailable, match="division by zero"):
            keyword_ids(store, "tea")
        assert open_transactions(address) == 0

        monkeypatch.undo()
        assert keyword_ids(store, "tea")


# Switching models


def test_the_model_of_a_search_is_that_of_its_snapshot_after_another_process_has_switched():
    address = postgres_server.address()
    with opened(address) as ours, opened(address) as theirs:
        ours.add([embedded(n, "tea") for n in range(5)], model=MODEL)
        assert search(theirs, make_query("tea"), keyword=5).model == MODEL
        ours.attach([Record(one, rows(axis(1))) for one in ours.unembedded(OTHER, limit=9)], model=OTHER)
        assert ours.switch_model(OTHER)

        assert search(theirs, make_query("tea"), keyword=5).model == OTHER
