"""A store with an index of its vectors on a Qdrant server: it finds what the store finds alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
import qdrant_edge as edge

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.models import Query, Scope
from retentive.pipeline.recall import INLINE, recall
from retentive.ranking import Tuning
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.qdrant import index as qdrant
from retentive.stores.qdrant.address import parse_address
from retentive.stores.values import Record
from tests.compass import Compass
from tests.stores import postgres_server
from tests.stores.build import MODEL, NOW, OTHER, embedded, id_of, memory, rows, vector
from tests.stores.qdrant_server import ENDPOINTS, QdrantServer, run_server
from tests.stores.test_contract_random import compare_after_random_changes

SCOPES = (
    Scope(), Scope(project="p"), Scope(sessions=("s3",)), Scope(kinds=("semantic",)), Scope("bob"),
    Scope(outside_projects=True), Scope(sessions=("s1", "s2"), only_sessions=True), Scope("ann", project="p"),
)  # fmt: skip

CREATE = {"vectors": {"size": 16, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}}

Opened = Callable[..., Store]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    return str(tmp_path / "memories.db") if request.param == "sqlite" else postgres_server.address()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QdrantServer]:
    """An empty server, which indexes only when a test says so: the thread would do it at any time."""
    monkeypatch.setattr(qdrant, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(qdrant, "PAUSE_SECONDS", 0.0)
    with run_server(tmp_path / "qdrant") as running:
        yield running


@pytest.fixture
def opened(place: str, server: QdrantServer) -> Iterator[Opened]:
    """Opens the store, with the index if `vectors` is not None."""
    with ExitStack() as stack:

        def open_it(vectors: str | None = server.address) -> Store:
            store = open_store(place, vectors=vectors)
            stack.callback(store.close)
            return store

        yield open_it


def some_record(dice: random.Random, number: int) -> Record:
    dated = dice.random()
    made = memory(
        number,
        " ".join(f"word{dice.randrange(60)}" for _ in range(dice.randint(2, 9))),
        profile="default" if dice.random() < 0.8 else dice.choice(["bob", "ann"]),
        session=dice.choice([None, f"s{number % 5}"]),
        project="p" if number % 3 else None,
        kind=dice.choice(["episodic", "semantic", "identity"]),
        valid_to=NOW - timedelta(days=1) if dated < 0.1 else None,
        valid_from=NOW + timedelta(days=1) if dated > 0.95 else None,
    )
    return Record(made, rows(*(vector(dice.randrange(10**6)) for _ in range(dice.choice([1, 1, 1, 3])))))


def queries(dice: random.Random, records: list[Record], count: int) -> Iterator[Query]:
    """Queries about the memories, some of which exclude one or ask for what is not current."""
    for number in range(count):
        about = dice.choice(records)
        assert about.vectors is not None
        near = about.vectors[0] + 0.5 * vector(dice.randrange(10**6))
        yield Query(
            " ".join(about.memory.text.split()[:3]),
            SCOPES[number % len(SCOPES)],
            Tuning(),
            NOW,
            vector=near / float((near**2).sum()) ** 0.5,
            exclude=(about.memory.id,) if number % 7 == 0 else (),
            include_retired=number % 5 == 0,
        )


def recalled(store: Store, query: Query) -> list[object]:
    """Everything that a recall returns, with the note of the semantic retriever, which must be empty."""
    found = recall(query, store, lambda: None, INLINE)
    assert [one.note for one in found.retrievers if one.name == "semantic"] == [""]
    return [[(hit.id, round(hit.score, 5)) for hit in found], sorted(one.id for one in found.dropped)]


def points(server: QdrantServer) -> list[int]:
    """How many points each collection has."""
    return [shard.count(edge.CountRequest(exact=True)) for shard in server.shards.values()]


def test_recalls_have_the_same_hits_and_scores_as_without_the_index(server: QdrantServer, opened: Opened):
    dice = random.Random(1)
    records = [some_record(dice, number) for number in range(1, 801)]
    alone, store = opened(vectors=None), opened()
    store.add(records, model=MODEL)
    assert store.index.follow() == 0
    asked = list(queries(dice, records, 200))
    searches = len([path for _, path in server.calls if path.endswith("/query")])

    for query in asked:
        assert recalled(store, query) == recalled(alone, query), query
    assert len([path for _, path in server.calls if path.endswith("/query")]) >= searches + 200
    assert store.check() == []


def test_memories_that_wait_to_be_indexed_are_found(server: QdrantServer, opened: Opened):
    store = opened()
    store.add([embedded(number) for number in range(1, 6)], model=MODEL)
    store.index.follow()
    server.failures = [503] * 1000
    store.add([embedded(number) for number in range(6, 11)], model=MODEL)
    store.update(embedded(2), model=MODEL)
    server.failures = []

    asked = Query("tea", Scope(), Tuning(keyword_weight=0), NOW, vector=vector(7))
    assert len(server.calls) < 30
    assert recalled(store, asked) == recalled(opened(vectors=None), asked)
    assert points(server) == [5]


@pytest.mark.parametrize("down", ["down", "behind", "wiped"])
def test_without_the_index_the_store_searches_by_itself_and_the_recall_says_so(
    down: str, server: QdrantServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
):
    store, alone = opened(), opened(vectors=None)
    store.add([embedded(number) for number in range(1, 9)], model=MODEL)
    store.index.follow()
    asked = Query("tea", Scope(), Tuning(), NOW, vector=vector(3))
    if down == "down":
        server.failures = [503] * 9
    elif down == "wiped":
        for name in list(server.shards):
            server.drop(name)
    else:
        monkeypatch.setattr(qdrant, "MAX_WAITING", 3)
        store.add([embedded(number) for number in range(9, 13)], model=MODEL)

    found = recall(asked, store, lambda: None, INLINE)

    [note] = [one.note for one in found.retrievers if one.name == "semantic"]
    assert note.startswith("the store searched by itself: ")
    assert {"down": "503", "behind": "more than 3 vectors wait", "wiped": "doesn't exist"}[down] in note
    assert [hit.id for hit in found] == [hit.id for hit in recall(asked, alone, lambda: None, INLINE)]
    server.failures = []
    assert store.index.follow() == 0
    assert points(server) == [12 if down == "behind" else 8]
    recalled(store, asked)  # which has no note


def test_what_processes_without_the_index_write_is_indexed_later(server: QdrantServer, opened: Opened):
    opened().index.follow()
    writer = opened(vectors=None)
    writer.add([embedded(number, session="s") for number in range(1, 9)], model=MODEL)
    writer.remove([id_of(3)])
    store = opened()
    store.index.follow()
    assert points(server) == [7]
    writer.update(Record(memory(4, "a new text"), None), model=None)
    writer.remove([id_of(5)])
    writer.move_session("default", "s", project="elsewhere")
    assert store.index.follow() == 0
    assert points(server) == [5]
    assert store.check() == []


def test_a_store_that_has_vectors_already_is_indexed_whole(server: QdrantServer, opened: Opened):
    opened(vectors=None).add([embedded(number) for number in range(1, 700)], model=MODEL)

    store = opened()

    assert store.index.follow() == 0
    assert points(server) == [699]
    assert store.check() == []


def test_a_request_that_the_server_carries_out_late_changes_nothing(
    server: QdrantServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
):
    store, late = opened(), []
    store.add([embedded(number) for number in (1, 2, 3)], model=MODEL)
    write = server.upsert
    monkeypatch.setitem(
        ENDPOINTS, ("PUT", r"/collections/([^/]+)/points"), lambda one, *given: late.append(given) or write(*given)
    )
    store.index.follow()
    store.update(Record(memory(1, "another text"), rows(vector(40))), model=MODEL)
    store.update(Record(memory(2, "waits to be embedded"), None), model=None)
    store.index.follow()

    write(*late[0])

    assert store.check() == ["1 memory differs between the vector index and the store; run: retentive doctor --repair"]
    store.repair(at=NOW)
    assert store.check() == []


def test_doctor_finds_and_mends_what_was_changed_behind_its_back(server: QdrantServer, opened: Opened):
    store = opened()
    store.add([embedded(number) for number in range(1, 9)], model=MODEL)
    store.index.follow()
    [(name, shard)] = server.shards.items()
    [key, *_] = [one.id for one in shard.scroll(edge.ScrollRequest(limit=9))[0]]
    shard.update(edge.UpdateOperation.delete_points([key]))
    shard.update(edge.UpdateOperation.set_payload([key + 1], {"project": 77}))
    shard.update(edge.UpdateOperation.upsert_points([edge.Point(999, [[0.5] * 16], {"profile": "1", "stamp": 1})]))
    server.create(f"{name.rpartition('_')[0]}_of_another_model", CREATE)

    assert store.check() == [
        "3 memories differ between the vector index and the store; run: retentive doctor --repair",
        "the vector index has 1 collection of models that are not used; run: retentive doctor --repair",
    ]
    store.repair(at=NOW)
    assert store.check() == []
    assert points(server) == [8]


def test_doctor_says_that_the_server_is_not_there(server: QdrantServer, opened: Opened):
    store = opened()
    store.add([embedded(1)], model=MODEL)
    server.failures = [503] * 9

    [problem] = store.check()

    assert "failed: 503" in problem
    assert problem.endswith("1 change waits to be indexed")


def test_after_a_change_of_the_model_the_collection_of_the_old_one_is_deleted(server: QdrantServer, opened: Opened):
    store = opened()
    store.add([embedded(number) for number in range(1, 9)], model=MODEL)
    store.index.follow()
    store.attach([embedded(number) for number in range(1, 9)], model=OTHER)
    store.index.follow()
    assert points(server) == [8, 8]

    assert store.switch_model(OTHER)
    store.add([embedded(9)], model=OTHER)
    store.index.follow()

    assert points(server) == [9]
    assert store.check() == []


def test_after_random_changes_the_store_agrees_with_the_store_in_memory_and_with_the_index(
    place: str, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(qdrant, "POLL_SECONDS", 0.05)
    store = open_store(place, vectors=server.address)
    try:
        compare_after_random_changes(store, InMemoryStore(), seed=4, steps=100)
        assert store.index.follow() == 0
        assert store.check() == []
    finally:
        store.close()


def test_a_change_that_keeps_the_vectors_is_followed(opened: Opened):
    store = opened()
    [stored] = store.add([embedded(1)], model=MODEL)
    assert store.index.follow() == 0

    store.update(Record(stored._replace(kind="identity")), model=None, fields=("kind",))

    assert store.index.follow() == 0
    assert store.check() == []


def test_a_process_that_ends_before_it_has_settled_leaves_the_changes(
    server: QdrantServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
):
    store = opened()
    store.add([embedded(number) for number in range(1, 9)], model=MODEL)
    with monkeypatch.context() as patch:
        patch.setattr(type(store.index._outbox), "settle", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.index.follow()
    assert points(server) == [8]
    store.remove([id_of(1)])

    assert opened().index.follow() == 0
    assert points(server) == [7]
    assert store.check() == []


def test_reembed_brings_the_index_up_to_date(server: QdrantServer, opened: Opened):
    store = opened()
    store.add([Record(memory(number, "tea")) for number in range(1, 4)], model=None)

    assert Engine(store, Compass()).embeddings.reembed() == 3

    assert points(server) == [3]


def test_two_stores_on_one_server_do_not_mix(server: QdrantServer, tmp_path: Path):
    for number in (1, 2):
        store = open_store(str(tmp_path / f"{number}.db"), vectors=server.address)
        store.add([embedded(one) for one in range(number)], model=MODEL)
        assert store.check() == []
        store.close()

    assert sorted(points(server)) == [1, 2]


def test_a_wrong_key_is_named_without_it(server: QdrantServer, opened: Opened):
    server.api_key = "right"
    store = opened(server.address.replace("127", ":wrong@127"))

    store.add([embedded(1)], model=MODEL)

    [problem] = store.check()
    assert "does not accept the API key; set RETENTIVE_QDRANT_API_KEY" in problem
    assert "wrong" not in problem


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://host:6333", "is qdrant\\+http://host:6333/prefix"),
        ("qdrant+http:///x", "is qdrant\\+http://host:6333/prefix"),
        ("qdrant+http://key@host", "after a colon"),
        ("qdrant+http://host/a/b", "1 to 100 letters"),
        ("qdrant+http://host/a?ef=0", "a whole number from 1 to 9999"),
        ("qdrant+http://host/a?vacuum=1", "valid settings: shards"),
        ("qdrant+http://host:x/a", "not valid"),
    ],
)
def test_a_wrong_address_is_refused(address: str, says: str, tmp_path: Path):
    with pytest.raises(Invalid, match=says):
        open_store(str(tmp_path / "memories.db"), vectors=address)
    assert list(tmp_path.iterdir()) == []


def test_the_address_has_the_settings_of_the_collections():
    address = parse_address("qdrant+https://:a%2Fb@host/own?shards=6&replicas=2&quantization=int8&on_disk=true", {})

    assert (address.host, address.port, address.prefix, address.api_key) == ("host", 6333, "own", "a/b")
    assert (address.shards, address.replicas, address.quantization, address.on_disk) == (6, 2, "int8", True)
    assert "a/b" not in repr(address)


def test_a_store_in_memory_has_no_index():
    with pytest.raises(Invalid, match="in memory"):
        open_store("memory://", vectors="qdrant+http://host")
