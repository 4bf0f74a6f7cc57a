"""What is the Qdrant store's own: how many requests things take, its collections, and being cut off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qdrant_client import models as q
from retentive.stores.at_once import AtOnce

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, MissingExtra, Unavailable
from retentive.models import Model, Recall, Scope
from retentive.pipeline.recall import Query, recall
from retentive.ranking import Tuning
from retentive.stores import IdempotencyKey, Record, Store, open_store, public_address
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.qdrant import QdrantStore, entries, layout, requests, versions, writing
from retentive.stores.qdrant.address import CollectionSettings, parse_address
from retentive.stores.qdrant.points import point_of
from retentive.stores.qdrant.sparse import MEAN_LENGTH, number_of
from tests.compass import Compass
from tests.stores.build import (
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
    vector,
)
from tests.stores.openers import LocalQdrant
from tests.stores.test_at_once import fill


class Killed(BaseException):
    """As if the process had ended here."""


class Watched(LocalQdrant):
    """Notes every request, and can be cut off before one of them."""

    WRITES = frozenset(
        ("upsert", "delete", "batch_update_points", "create_collection", "delete_collection",
         "update_collection_aliases", "create_payload_index")
    )  # fmt: skip

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.given: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.writes_left: int | None = None
        super().__init__()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in ("requests", "given", "writes_left", "WRITES", "close", "again"):
            return found
        if not callable(found):
            return found

        def noted(*given: Any, **options: Any) -> Any:
            if name in self.WRITES and self.writes_left is not None:
                if self.writes_left == 0:
                    raise Killed
                self.writes_left -= 1
            self.requests.append(name)
            self.given.append((name, given, options))
            return found(*given, **options)

        return noted

    def close(self, *_: Any, **__: Any) -> None:
        """Stay, so that another store can be opened on what is there."""


@pytest.fixture
def client() -> Watched:
    return Watched()


@pytest.fixture
def store(client: Watched) -> QdrantStore:
    return QdrantStore(client)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def ask(
    store: Store, threads: ThreadPoolExecutor, *, scope: Scope = HERE, text: str = "green tea", **parameters: Any
) -> Recall:
    query = Query(text, scope, Tuning(**parameters), 5, NOW, (), vector(3))
    return recall(query, store, lambda: None, threads)


# Requests


@pytest.mark.parametrize("text", ["tea", "green tea with milk", " ".join(f"tea{n} milk coffee" for n in range(40))])
@pytest.mark.parametrize("limit", [1, 5, 50])
def test_a_recall_is_four_requests_at_the_most_however_much_it_finds(
    client: Watched, store: QdrantStore, threads: ThreadPoolExecutor, text: str, limit: int
):
    fill(store)
    client.requests.clear()

    query = Query(text, HERE, Tuning(), limit, NOW, (), vector(3))
    assert recall(query, store, lambda: None, threads).hits

    # How common the terms are; both searches with the missing scores; who stands beside; and what those are, if any of
    # them was not found anyway.
    assert client.requests in (["query_batch_points"] * 4, ["query_batch_points"] * 3)


def test_a_recall_among_many_memories_is_four_requests_and_in_sessions_five_because_sessions_move(
    client: Watched, store: QdrantStore, threads: ThreadPoolExecutor
):
    store.add(
        [embedded(n, f"green tea {n}" if n % 4 == 0 else f"milk {n}", session="s") for n in range(240)], model=MODEL
    )
    requests = []
    for scope in (HERE, Scope(sessions=("s", "nowhere"))):
        client.requests.clear()
        assert ask(store, threads, scope=scope).hits
        requests.append(list(client.requests))

    assert requests == [["query_batch_points"] * 4, ["retrieve", *["query_batch_points"] * 4]]


def test_one_search_alone_takes_no_more(client: Watched, store: QdrantStore, threads: ThreadPoolExecutor):
    fill(store)
    counts = {}
    for name, parameters in {"words": {"semantic_weight": 0}, "vectors": {"keyword_weight": 0}}.items():
        client.requests.clear()
        assert ask(store, threads, neighbour_weight=0, session_weight=0, **parameters).hits
        counts[name] = len(client.requests)

    assert counts == {"words": 2, "vectors": 1}


def test_a_recall_through_the_engine_asks_for_the_kept_tuning_besides(client: Watched):
    with Engine(QdrantStore(client), Compass()) as engine:
        engine.remember("the cat eats fish at30", session="kitchen")
        engine.remember("the dog eats meat at60", session="kitchen")
        client.requests.clear()

        assert engine.recall("what does the cat eat at30?").hits[0].memory.text.startswith("the cat")

        assert client.requests[:1] == ["retrieve"]
        assert client.requests[1:] == ["query_batch_points"] * 3


def test_both_searches_and_the_missing_scores_go_in_one_request_with_the_scope_inside_each(
    client: Watched, store: QdrantStore, threads: ThreadPoolExecutor
):
    fill(store)
    client.given.clear()

    ask(store, threads, scope=Scope(kinds=("episodic",)), common_words=1.0)

    batches = [given[1] for name, given, _ in client.given if name == "query_batch_points"]
    words, near, near_in_words, words_nearby = batches[1]
    used = [near.using, words.using, near_in_words.using, words_nearby.using]
    assert used == [near.using, "words", "words", near.using]
    assert near_in_words.prefetch.using == near.using
    assert words_nearby.prefetch.using == "words"
    for scope in (words.filter, near.filter, near_in_words.prefetch.filter, words_nearby.prefetch.filter):
        assert [condition.key for condition in scope.must] == ["profile", "kind"]


def test_writing_many_memories_takes_no_request_for_each(client: Watched, store: QdrantStore):
    store.add([embedded(1, session="a")], model=MODEL)
    counts = []
    for first, size in ((100, 2), (200, 40)):
        client.requests.clear()
        store.add([embedded(first + n, session="a") for n in range(size)], model=MODEL)
        counts.append(len(client.requests))

    assert counts[0] == counts[1] <= 9


def test_large_batches_are_written_in_portions_that_the_server_takes(
    client: Watched, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writing, "BYTES", 20_000)
    store.add([record(1)], model=None)
    client.given.clear()

    store.add([record(2), *(record(n, "word " * 1000) for n in range(10, 14)), record(3)], model=None)

    sizes = [len(given[1]) for name, given, _ in client.given if name == "upsert" and "memories" in given[0]]
    assert sizes == [2, 1, 1, 2]
    assert len(listed(store)) == 7


# The same answers


class Apart:
    """The same store for whoever cannot ask everything at once."""

    def __init__(self, store: QdrantStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in ("search_both", "look"):
            raise AttributeError(name)
        return getattr(self._store, name)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"fusion": "rrf"}, {"semantic_weight": 0}, {"keyword_weight": 0}, {"diversity": 0.3}, {"common_words": 1.0}],
    ids=lambda parameters: ",".join(parameters) or "default",
)
@pytest.mark.parametrize(
    "scope", [HERE, Scope(sessions=("s1",)), Scope(profile="nobody")], ids=["all", "session", "none"]
)
def test_a_recall_at_once_answers_as_one_in_pieces_and_as_the_store_in_memory(
    store: QdrantStore, threads: ThreadPoolExecutor, scope: Scope, parameters: dict[str, Any]
):
    apart, twin = Apart(store), InMemoryStore(mean_length=MEAN_LENGTH)
    for one in (store, twin):
        fill(one)
    assert isinstance(store, AtOnce)
    assert not isinstance(apart, AtOnce)

    at_once, in_pieces, in_memory = (ask(one, threads, scope=scope, **parameters) for one in (store, apart, twin))

    assert at_once.hits == in_pieces.hits
    assert [hit.memory for hit in at_once.hits] == [hit.memory for hit in in_memory.hits]
    assert [hit.score for hit in at_once.hits] == pytest.approx([hit.score for hit in in_memory.hits], abs=1e-5)


# Addresses


def test_an_address_names_server_prefix_key_and_settings():
    address = parse_address(
        "qdrant+https://:s%2Fcret@qdrant.example/team-1?shards=6&replicas=2&consistency=1&quantization=int8&on_disk=true&ef=99&timeout=2.5",
        {"RETENTIVE_QDRANT_API_KEY": "another"},
    )

    assert (address.url, address.prefix, address.api_key) == ("https://qdrant.example:6333", "team-1", "s/cret")
    assert address.settings == CollectionSettings(6, 2, 1, "int8", True, 99, 2.5)
    assert "s/cret" not in repr(address)
    plain = parse_address("qdrant+http://[::1]:7000", {"RETENTIVE_QDRANT_API_KEY": "of the environment"})
    assert (plain.url, plain.prefix, plain.api_key) == ("http://[::1]:7000", "retentive", "of the environment")
    assert (plain.settings.shards, plain.settings.write_consistency) == (None, 1)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("", "host is missing"),
        ("host:port/x", "not valid"),
        ("host/a b", "prefix"),
        ("host/a/b", "prefix"),
        ("host/x?shard=2", "no setting 'shard'.*shards"),
        ("host/x?shards=0", "shards: a whole number"),
        ("host/x?replicas=two", "replicas: a whole number"),
        ("host/x?replicas=2&consistency=3", "consistency: at most"),
        ("host/x?quantization=int4", "quantization: one of none, int8, binary"),
        ("host/x?on_disk=yes", "on_disk: true or false"),
        ("host/x?timeout=0", "timeout: seconds"),
    ],
)
def test_what_is_wrong_with_an_address_is_named_but_never_the_key(rest: str, said: str):
    with pytest.raises(Invalid, match=said) as error:
        open_store(f"qdrant+http://:hidden@{rest}")

    assert "hidden" not in str(error.value)


def test_a_key_in_the_place_of_a_user_is_refused_because_it_would_be_shown():
    with pytest.raises(Invalid, match="behind a colon") as error:
        open_store("qdrant+https://hidden@host/x")

    assert "hidden" not in str(error.value)


def test_a_key_in_an_address_is_shown_nowhere(client: Watched):
    address = "qdrant+https://:hidden@host:6333/x?shards=2"
    with Engine(QdrantStore(client), Compass()) as engine:
        engine._settings = engine.settings.model_copy(update={"store": address})
        assert engine.address == public_address(address) == "qdrant+https://:***@host:6333/x?shards=2"


def test_a_server_that_is_not_there_is_said_to_be_unreachable_without_its_key():
    with pytest.raises(Unavailable, match=r"Qdrant at http://127.0.0.1:1 cannot be reached .*is it running") as error:
        open_store("qdrant+http://:hidden@127.0.0.1:1/x?timeout=0.2")

    assert "hidden" not in str(error.value)


def test_without_the_package_the_error_is_the_line_to_type(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "retentive.stores.qdrant", None)
    monkeypatch.setitem(__import__("sys").modules, "qdrant_client", None)
    for name in [name for name in __import__("sys").modules if name.startswith("retentive.stores.qdrant")]:
        monkeypatch.delitem(__import__("sys").modules, name)

    with pytest.raises(MissingExtra, match=r"pip install 'retentive\[qdrant\]'"):
        open_store("qdrant+http://host/x")


# Collections


def test_the_settings_reach_the_collections(client: Watched):
    settings = CollectionSettings(shards=6, replicas=3, consistency=2, quantization="int8", on_disk=True, ef=99)
    store = QdrantStore(client, prefix="team", settings=settings)
    store.add([embedded(1)], model=MODEL)

    made = {given[0]: options for name, given, options in client.given if name == "create_collection"}
    notes, memories = made["team_notes"], list(made.values())[-1]
    assert (notes["replication_factor"], notes["write_consistency_factor"]) == (3, 2)
    assert (memories["shard_number"], memories["replication_factor"]) == (6, 3)
    assert memories["write_consistency_factor"] == 2
    assert memories["quantization_config"].scalar.type == q.ScalarType.INT8
    assert memories["sparse_vectors_config"]["words"].modifier == q.Modifier.IDF
    [params] = memories["vectors_config"].values()
    assert (params.size, params.distance, params.on_disk) == (16, q.Distance.DOT, True)
    assert params.multivector_config.comparator == q.MultiVectorComparator.MAX_SIM

    client.given.clear()
    store.search_vectors(vector(1), HERE, limit=1)
    [request] = client.given[-1][1][1]
    assert (request.params.hnsw_ef, request.params.quantization.rescore) == (99, True)


def test_tenants_lie_together_and_everything_filtered_or_sorted_by_is_indexed(client: Watched, store: QdrantStore):
    indexes: dict[str, Any] = {}
    for name, given, options in client.given:
        if name == "create_payload_index" and "memories" in given[0]:
            indexes[given[1]] = options["field_schema"]

    assert indexes.pop("profile").is_tenant is True
    assert set(indexes) == {"project", "session", "kind", "position", "born", "when", "day", "parts"}
    assert all(schema.range and schema.lookup for schema in indexes.values() if schema.type == "integer")
    [made] = [options for name, given, options in client.given if name == "create_collection" and "mem" in given[0]]
    assert (made["hnsw_config"].m, made["hnsw_config"].payload_m) == (0, 16)


def target(client: Watched) -> str:
    [alias] = client.get_aliases().aliases
    assert alias.alias_name == "retentive_memories"
    return alias.collection_name


def collections(client: Watched) -> set[str]:
    return {one.name for one in client.get_collections().collections}


def test_changing_over_to_another_model_turns_the_alias_when_all_is_there_and_drops_the_old(
    client: Watched, store: QdrantStore
):
    store.add([record(n, vectors=rows(axis(0)), session="a") for n in range(4)], model=MODEL)
    old = target(client)
    waiting = store.unembedded(OTHER, limit=3)
    store.attach({key: rows(axis(1)) for key in waiting}, model=OTHER)
    assert target(client) == old
    assert len(collections(client)) == 3

    # What is written meanwhile is in both.
    store.add([record(9, "a later note", vectors=rows(axis(2)))], model=OTHER)
    store.update(Record(memory(1, "changed note", session="a"), rows(axis(3))), model=MODEL)
    store.move_session("default", "a", project="p")
    store.remove([id_of(2)])
    assert store.switch_model(OTHER) is False
    assert by_words(store, "later") == [id_of(9)]
    assert by_vector(store, axis(3), limit=1) == [id_of(1)]
    store.attach({key: rows(axis(1)) for key in store.unembedded(OTHER, limit=9)}, model=OTHER)
    assert store.switch_model(OTHER) is True

    assert target(client) != old
    assert collections(client) == {"retentive_notes", target(client)}
    assert sorted(listed(store, Scope(project="p"))) == [id_of(0), id_of(1), id_of(3)]
    assert by_words(store, "changed") == [id_of(1)]
    assert by_vector(store, axis(2), limit=1) == [id_of(9)]
    assert store.check() == []


def test_another_process_that_has_not_heard_of_the_new_model_compares_nothing_with_it(
    client: Watched, store: QdrantStore, threads: ThreadPoolExecutor
):
    store.add([record(1, "green tea", vectors=rows(axis(0)))], model=MODEL)
    elsewhere = QdrantStore(client)
    assert by_vector(elsewhere, axis(0)) == [id_of(1)]

    store.attach({key: rows(axis(0)) for key in store.unembedded(OTHER, limit=9)}, model=OTHER)
    assert store.switch_model(OTHER)

    assert elsewhere.model() == MODEL
    assert [retriever.found for retriever in ask(elsewhere, threads).retrievers] == [0, 1]
    assert elsewhere.model() == OTHER
    assert by_vector(elsewhere, axis(0)) == [id_of(1)]


def test_another_process_that_embeds_for_the_old_model_still_stores_its_memory_to_be_embedded_later(
    client: Watched, store: QdrantStore
):
    store.add([embedded(1)], model=MODEL)
    elsewhere = QdrantStore(client)
    store.attach({key: rows(axis(0)) for key in store.unembedded(OTHER, limit=9)}, model=OTHER)
    assert store.switch_model(OTHER)

    elsewhere.add([embedded(2)], model=MODEL)

    assert [one.id for one in store.unembedded(OTHER, limit=9).values()] == [id_of(2)]
    assert len(collections(client)) == 2


def test_a_memory_written_by_a_process_that_did_not_see_the_new_collection_in_time_is_not_lost(
    client: Watched, store: QdrantStore
):
    store.add([embedded(n) for n in range(3)], model=MODEL)
    store.attach({key: rows(axis(0)) for key in store.unembedded(OTHER, limit=9)}, model=OTHER)
    [copy] = store.get([id_of(0)])
    # As if it had been cut off between the two collections.
    old = target(client)
    [point] = client.retrieve(old, [point_of(copy.id)], with_vectors=True)
    payload = {**point.payload, "id": id_of(7), "written": 1}
    client.upsert(old, [q.PointStruct(id=point_of(id_of(7)), vector=point.vector, payload=payload)])
    client.delete(old, q.PointIdsList(points=[point_of(id_of(1))]))

    assert store.switch_model(OTHER) is False
    store.attach({key: rows(axis(0)) for key in store.unembedded(OTHER, limit=9)}, model=OTHER)
    assert store.switch_model(OTHER) is True

    assert sorted(listed(store)) == [id_of(0), id_of(2), id_of(7)]
    assert store.check() == []


def test_a_change_of_model_waits_until_the_new_collection_is_indexed(
    client: Watched, store: QdrantStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(layout, "PAUSE", 0.001)
    store.add([embedded(1)], model=MODEL)
    store.attach({key: rows(axis(0)) for key in store.unembedded(OTHER, limit=9)}, model=OTHER)
    statuses = [q.CollectionStatus.YELLOW, q.CollectionStatus.YELLOW, q.CollectionStatus.GREEN]
    seen: list[q.CollectionStatus] = []

    def look(**_: Any) -> Any:
        seen.append(statuses[len(seen)])
        return q.CollectionInfo.model_construct(status=seen[-1])

    monkeypatch.setattr(client._client, "get_collection", look)
    assert store.switch_model(OTHER)
    assert seen == statuses

    monkeypatch.setattr(
        client._client, "get_collection", lambda **_: q.CollectionInfo.model_construct(status=q.CollectionStatus.YELLOW)
    )
    with caplog.at_level(logging.WARNING):
        layout.wait_until_indexed(store._connection, target(client), 0.01)
    assert "still being indexed" in caplog.text

    monkeypatch.setattr(
        client._client, "get_collection", lambda **_: q.CollectionInfo.model_construct(status=q.CollectionStatus.RED)
    )
    with pytest.raises(Unavailable, match="damaged"):
        layout.wait_until_indexed(store._connection, target(client), 0.01)


# Cut off


def until_it_is_done(client: Watched, act: Callable[[], Any]) -> Iterator[int]:
    """Do this again and again, each time cut off one write later; the last time it is not."""
    for writes in range(100):
        client.writes_left = writes
        try:
            act()
        except Killed:
            client.writes_left = None
            yield writes
        else:
            client.writes_left = None
            return
    raise AssertionError("it is never done")


def test_an_add_that_is_cut_off_anywhere_and_sent_again_is_there_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(requests, "PATIENCE", 0)
    cuts = 0
    done = False
    while not done:
        client = Watched()
        idempotency_key = IdempotencyKey("key", "print", NOW)
        store = QdrantStore(client)
        client.writes_left = cuts
        try:
            store.add(
                [embedded(1, session="s"), embedded(2, session="s", project=None)],
                model=MODEL,
                idempotency_key=idempotency_key,
            )
            done = True
        except Killed:
            cuts += 1
        client.writes_left = None

        again = QdrantStore(client)
        written = again.add(
            [embedded(3, session="s"), embedded(4, session="s")], model=MODEL, idempotency_key=idempotency_key
        )

        assert len(written) == 2
        assert sorted(listed(again)) == sorted(one.id for one in written)
        assert [one.position for one in written] == [0, 1]
        assert len(by_words(again, "note")) == len(by_vector(again, vector(1))) == 2
        assert [line for line in again.check() if "begun and left" not in line] == []
    assert cuts > 10


def test_a_removal_that_is_cut_off_anywhere_and_sent_again_tells_what_it_removed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(requests, "PATIENCE", 0)
    cuts = 0
    done = False
    while not done:
        client = Watched()
        store = QdrantStore(client)
        store.add([embedded(n) for n in (1, 2, 3)], model=MODEL)
        client.writes_left = cuts
        try:
            store.remove([id_of(1), id_of(2)], idempotency_key=IdempotencyKey("key", "print", NOW))
            done = True
        except Killed:
            cuts += 1
        client.writes_left = None

        again = QdrantStore(client)
        assert again.remove([id_of(1), id_of(2)], idempotency_key=IdempotencyKey("key", "print", NOW)) == 2
        assert listed(again) == [id_of(3)]
    assert cuts >= 3


def test_a_move_that_is_cut_off_anywhere_is_mended_by_the_next_write(client: Watched, store: QdrantStore):
    store.add([embedded(n, session="a", project="p") for n in (1, 2)], model=MODEL)
    number = 10

    for _ in until_it_is_done(client, lambda: store.move_session("default", "a", project="q")):
        again = QdrantStore(client)
        # In between it is in the one project or in the other.
        for scope in (Scope(sessions=("a",)), Scope(sessions=("a",), only_sessions=True)):
            assert set(by_words(again, "note", scope)) <= set(listed(again))
        number += 1
        [one] = again.add([embedded(number, session="a")], model=MODEL)
        assert again.check() == []
        assert sorted(listed(again, Scope(project=one.project))) == sorted(listed(again))
        again.move_session("default", "a", project="p")

    assert {one.project for one in store.list(HERE).memories} == {"q"}
    assert store.check() == []


def test_a_change_of_model_that_is_cut_off_anywhere_serves_the_old_or_the_new_and_can_be_taken_up_again():
    def reembed(store: QdrantStore) -> None:
        while not store.switch_model(OTHER):
            waiting = store.unembedded(OTHER, limit=2)
            store.attach({key: rows(axis(1)) for key in waiting}, model=OTHER)

    cuts = 0
    done = False
    while not done:
        client = Watched()
        store = QdrantStore(client)
        store.add([record(n, vectors=rows(axis(0))) for n in range(3)], model=MODEL)
        client.writes_left = cuts
        try:
            reembed(store)
            done = True
        except Killed:
            cuts += 1
        client.writes_left = None

        again = QdrantStore(client)
        model = again.model()
        assert model in (MODEL, OTHER)
        best = again.search_vectors(axis(0 if model == MODEL else 1), HERE, limit=9)
        assert [found.score for found in best] == [pytest.approx(1.0)] * 3
        reembed(again)
        assert (again.model(), again.stats().vectors, len(listed(again))) == (OTHER, 3, 3)
        assert [line for line in again.check() if "begun and left" not in line] == []
    assert cuts > 10


# Two processes


def test_of_two_processes_that_expect_the_same_only_one_keeps_a_note(client: Watched, store: QdrantStore):
    elsewhere = QdrantStore(client)
    for number in range(10):
        with ThreadPoolExecutor(2) as pool:
            kept = list(
                pool.map(
                    lambda one, name=f"n{number}": one.keep({name: str(id(one))}, expected={name: None}),
                    (store, elsewhere),
                )
            )
        assert kept.count(True) == 1
        assert store.get_value(f"n{number}") == str(id((store, elsewhere)[kept.index(True)]))


def test_of_two_processes_that_store_the_same_id_at_once_only_one_does(client: Watched, store: QdrantStore):
    elsewhere = QdrantStore(client)
    for number in range(10):

        def add(one: QdrantStore, number: int = number) -> bool:
            try:
                one.add([record(number, f"said by{id(one)}")], model=None)
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(add, (store, elsewhere)))

        assert outcomes.count(True) == 1
        [kept] = store.get([id_of(number)])
        assert kept.text == f"said by{id((store, elsewhere)[outcomes.index(True)])}"


def test_of_two_processes_that_make_the_same_session_in_two_projects_at_once_one_is_refused(
    client: Watched, store: QdrantStore
):
    elsewhere = QdrantStore(client)

    def add(asked: tuple[QdrantStore, int, str]) -> bool:
        one, number, project = asked
        try:
            one.add([record(number, session="s", project=project)], model=None)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(add, [(store, 1, "p"), (elsewhere, 2, "q")]))

    assert outcomes.count(True) == 1
    [session] = store.sessions("default")
    assert (session.project, session.memories) == ("pq"[outcomes.index(True)], 1)
    assert store.check() == []


def test_two_processes_that_open_a_new_store_at_once_share_it():
    client = Watched()

    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: QdrantStore(client), range(4)))
    for number, one in enumerate(stores):
        one.add([record(number)], model=None)

    assert [len(listed(one)) for one in stores] == [4] * 4
    assert len(collections(client)) == 2


def test_two_processes_that_store_the_first_vectors_at_once_share_their_collection():
    for _ in range(5):
        client = Watched()
        stores = [QdrantStore(client) for _ in range(3)]

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda one: one[1].add([embedded(one[0])], model=MODEL), enumerate(stores)))

        assert [sorted(by_vector(one, vector(1))) for one in stores] == [[id_of(0), id_of(1), id_of(2)]] * 3
        assert collections(client) == {"retentive_notes", target(client)}
        assert stores[0].check() == []


# Small things


def test_ids_that_are_no_uuids_are_refused_in_writing_and_unknown_in_reading(store: QdrantStore):
    with pytest.raises(Invalid, match="not a UUID"):
        store.add([Record(memory(1)._replace(id="mine"))], model=None)
    with pytest.raises(Invalid, match="cursor"):
        store.list(HERE, cursor="mine")

    id = "0190abcd-0000-7000-8000-00000000000a"
    store.add([Record(memory(1)._replace(id=id))], model=None)
    assert store.get([id.upper(), id.replace("-", ""), f"{{{id}}}", id]) == store.get([id])


def test_the_first_and_the_last_of_all_ids_can_be_paged_through(store: QdrantStore):
    first, last = (f"{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}" for digit in "0f")
    store.add([Record(memory(1)._replace(id=first)), Record(memory(2)._replace(id=last))], model=None)

    page = store.list(HERE, limit=1)
    assert ([one.id for one in page.memories], page.next_cursor) == ([last], last)
    page = store.list(HERE, limit=1, cursor=last)
    assert ([one.id for one in page.memories], page.next_cursor) == ([first], None)
    assert store.list(HERE, cursor=first).memories == ()


def test_the_number_of_a_term_never_changes():
    assert (number_of("tea"), number_of("東京")) == (532194854, 3179978821)


def test_of_a_memory_of_more_parts_than_the_server_takes_the_first_are_kept(
    store: QdrantStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(entries, "NUMBERS", 3 * 16 + 15)

    store.add([record(1, vectors=np.stack([axis(n) for n in range(5)]))], model=MODEL)

    assert store.stats().vectors == 3
    assert "only its first 3" in caplog.text


def test_metadata_comes_back_as_it_was_however_large_its_numbers(store: QdrantStore):
    given = {"number": 2**80, "tiny": 1e-300, "text": "half\\u0000"}
    store.add([record(1, metadata=given)], model=None)

    assert store.get([id_of(1)])[0].metadata == given


def test_names_that_look_like_uuids_are_counted_as_they_are(store: QdrantStore):
    name = "0123456789abcdef0123456789abcdef"
    store.add([record(1, profile=name, project=name, session=name)], model=None)

    assert [(one.name, one.memories) for one in store.sessions(name)] == [(name, 1)]
    assert [(one.name, one.memories) for one in store.projects(name)] == [(name, 1)]
    assert [(one.name, one.memories) for one in store.profiles()] == [(name, 1)]


def test_a_check_finds_words_and_projects_that_do_not_fit_and_collections_that_were_left(
    client: Watched, store: QdrantStore
):
    store.add([embedded(1, session="a", project="p"), embedded(2)], model=MODEL)
    name = target(client)
    client.set_payload(name, {"project": "q"}, points=[point_of(id_of(1))])
    client.set_payload(name, {"text": "other words", "parts": 4}, points=[point_of(id_of(2))])
    client.create_collection("retentive_memories_left", vectors_config={})

    assert store.check() == [
        "1 memories are indexed with other words than their own",
        "1 memories have another number of vectors than is written down",
        "1 memories are in another project than their session",
        "the collection retentive_memories_left was begun and left; delete it, if no re-embedding is under way",
    ]


def test_what_a_long_running_process_knows_of_the_collections_is_looked_up_again_after_a_while(
    client: Watched, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = QdrantStore(client)
    store.add([embedded(n) for n in range(3)], model=MODEL)
    assert elsewhere.model() is None

    monkeypatch.setattr(versions, "LATELY", 0.0)

    assert elsewhere.model() == MODEL
    assert elsewhere._versions.lately().memories == 3


def test_a_model_of_another_name_with_the_same_fingerprint_is_the_same_model(store: QdrantStore):
    store.add([embedded(1)], model=MODEL)
    renamed: Model = replace(MODEL, name="renamed")

    store.add([embedded(2)], model=renamed)

    assert (store.model(), store.stats().vectors) == (MODEL, 2)
