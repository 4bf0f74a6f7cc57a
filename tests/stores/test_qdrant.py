"""What only the Qdrant store has: the number of requests of each call, addresses, collections and limits."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models as q

from retentive.configuration import public_address
from retentive.engine import Engine
from retentive.errors import Invalid, MissingExtra, Unavailable
from retentive.extras import pip_install
from retentive.models import Model, Recall, Scope
from retentive.pipeline.recall import recall
from retentive.stores import open_store
from retentive.stores.base import Searchable
from retentive.stores.damage import NOT_ITS_TEXT, Damage
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.qdrant import QdrantStore, memories, model_collections, points
from retentive.stores.qdrant.address import CollectionSettings, parse_address
from retentive.stores.qdrant.points import point_of
from retentive.stores.qdrant.sparse import MEAN_LENGTH, number_of
from retentive.stores.values import IdempotencyKey, Judgement, Record
from tests.compass import Compass
from tests.stores.build import (
    HERE,
    MODEL,
    NOW,
    Waited,
    axis,
    embedded,
    fill,
    id_of,
    keyword_ids,
    listed,
    make_query,
    memory,
    nearest_ids,
    record,
    unit,
    vector,
)
from tests.stores.local_qdrant import LocalQdrant
from tests.stores.qdrant_recording import RecordingQdrant

WRITTEN_BEFORE = Path(__file__).parent / "qdrant_written_before.json"
BATCH = "query_batch_points"


@pytest.fixture
def client() -> RecordingQdrant:
    return RecordingQdrant()


@pytest.fixture
def store(client: RecordingQdrant) -> QdrantStore:
    return QdrantStore(client)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def recall_from(
    store: Searchable,
    threads: ThreadPoolExecutor,
    text: str = "green tea",
    *,
    scope: Scope = HERE,
    limit: int = 5,
    **tuning: Any,
) -> Recall:
    query = make_query(text, scope, limit=limit, vector=vector(3), **{"common_words": 0.05, **tuning})
    return recall(query, store, lambda: None, threads)


# Requests of a recall


@pytest.mark.parametrize("text", ["tea", "green tea with milk", " ".join(f"tea{n} milk coffee" for n in range(40))])
@pytest.mark.parametrize("limit", [1, 5, 50])
def test_a_recall_takes_at_most_three_requests_whatever_it_finds(
    client: RecordingQdrant, store: QdrantStore, threads: ThreadPoolExecutor, text: str, limit: int
):
    fill(store)
    client.requests.clear()

    assert recall_from(store, threads, text, limit=limit).hits

    # Document frequencies, the candidates of both retrievers, and neighbours, unless all of those were found.
    assert client.requests in ([BATCH] * 3, [BATCH] * 2)


def test_a_recall_in_named_sessions_takes_one_more_because_sessions_move(
    client: RecordingQdrant, store: QdrantStore, threads: ThreadPoolExecutor
):
    texts = ["green tea", "milk", "milk", "milk"]
    store.add([embedded(n, f"{texts[n % 4]} {n}", session="s") for n in range(240)], model=MODEL)
    requests = []
    for scope in (HERE, Scope(sessions=("s", "nowhere"))):
        client.requests.clear()
        assert recall_from(store, threads, scope=scope).hits
        requests.append(list(client.requests))

    assert requests == [[BATCH] * 3, ["retrieve", *[BATCH] * 3]]


def test_neighbours_beyond_a_gap_of_deleted_memories_take_one_more_request_for_their_scores(
    client: RecordingQdrant, store: QdrantStore, threads: ThreadPoolExecutor
):
    store.add([embedded(n, "green tea" if n == 20 else f"milk {n}", session="s") for n in range(40)], model=MODEL)
    requests = []
    for removed in ((), (19, 21, 22), (23,)):
        store.remove([id_of(n) for n in removed])
        client.requests.clear()
        assert recall_from(store, threads, limit=1, semantic_weight=0).hits[0].id == id_of(20)
        requests.append(len(client.requests))

    assert requests == [3, 3, 4]


def test_a_recall_with_one_retriever_takes_only_its_requests(
    client: RecordingQdrant, store: QdrantStore, threads: ThreadPoolExecutor
):
    fill(store)
    counts = {}
    for name, tuning in {"keyword": {"semantic_weight": 0}, "semantic": {"keyword_weight": 0}}.items():
        client.requests.clear()
        assert recall_from(store, threads, neighbour_weight=0, session_weight=0, **tuning).hits
        counts[name] = len(client.requests)

    assert counts == {"keyword": 2, "semantic": 1}


def test_an_empty_query_takes_no_request(client: RecordingQdrant, store: QdrantStore, threads: ThreadPoolExecutor):
    fill(store)
    client.requests.clear()

    assert recall_from(store, threads, "  ").hits == ()

    assert client.requests == []


def test_without_an_embedder_the_keyword_retriever_answers_alone(store: QdrantStore, threads: ThreadPoolExecutor):
    def broken() -> None:
        raise Unavailable("the embedder is away")

    fill(store)

    found = recall(make_query("green tea", limit=5), store, broken, threads)

    assert found.hits
    assert (found.degraded, found.degraded_reason) == ("keyword-only", "the embedder is away")


def test_a_recall_through_the_engine_also_reads_the_saved_tuning(client: RecordingQdrant):
    with Engine(QdrantStore(client), Compass()) as engine:
        engine.remember("the cat eats fish at30", session="kitchen")
        engine.remember("the dog eats meat at60", session="kitchen")
        engine.recall("anything", record_use=False)  # the first one reads a sample of vectors
        client.requests.clear()

        assert engine.recall("what does the cat eat at30?", record_use=False).hits[0].memory.text.startswith("the cat")

        tuning, *search = [name for name in client.requests if name != "count"]
        assert tuning == "retrieve"
        assert search in ([BATCH] * 3, [BATCH] * 2)


def test_scores_of_memories_that_were_found_take_no_request_and_of_others_one(
    client: RecordingQdrant, store: QdrantStore
):
    fill(store)
    with store.open_search(make_query("green tea", limit=2)) as search:
        keyword, nearest = search.keyword(6).candidates, search.nearest(vector(3), 6, depth=100).candidates
        found = [candidate.memory.id for candidate in (*keyword, *nearest)]
        pairs = search.neighbours(found)
        found += [one.id for pair in pairs.values() for one in pair if one is not None]
        client.requests.clear()
        remembered = search.scores(found)
        assert client.requests == []
        others = [id_of(n) for n in range(120) if id_of(n) not in found]
        fetched = search.scores(others)
        assert client.requests == [BATCH]

    with store.open_search(make_query("green tea", limit=2)) as search:
        search.nearest(vector(3), 1)
        scores = search.scores([*found, *others])
    assert remembered.keyword | fetched.keyword == pytest.approx(scores.keyword, abs=1e-6)
    assert remembered.semantic | fetched.semantic == pytest.approx(scores.semantic, abs=1e-6)


def test_the_scope_is_a_filter_inside_both_retrievers_and_each_scores_what_the_other_found(
    client: RecordingQdrant, store: QdrantStore, threads: ThreadPoolExecutor
):
    fill(store)
    client.arguments.clear()

    recall_from(store, threads, scope=Scope(kinds=("episodic",)), common_words=1.0)

    _, [keyword, retired, nearest, of_nearest, of_keyword, retired_near], *_ = [
        given[1] for name, given, _ in client.arguments if name == BATCH
    ]
    assert [one.using for one in (keyword, of_nearest, of_keyword.prefetch)] == ["words"] * 3
    assert nearest.using == of_keyword.using == of_nearest.prefetch.using
    for one in (
        keyword.filter,
        nearest.filter,
        of_keyword.prefetch.filter,
        of_nearest.prefetch.filter,
        retired_near.filter,
        retired.prefetch.filter,
    ):
        assert [condition.key for condition in one.must[0].must] == ["profile", "kind"]
    for one in (keyword.filter, nearest.filter, of_keyword.prefetch.filter, of_nearest.prefetch.filter):
        assert [condition.key for condition in one.must_not] == ["valid_until", "valid_since"]


def test_the_keyword_search_waits_for_the_vector_so_that_both_are_one_request(
    client: RecordingQdrant, store: QdrantStore
):
    fill(store)
    query, near = make_query("green tea", limit=5), vector(3)
    with store.open_search(query) as search:
        separate = search.keyword(query.pool), search.nearest(near, query.pool, depth=query.depth)
        scores = search.scores([id_of(n) for n in range(120)])
    client.requests.clear()
    with store.open_search(query) as search:
        search.expect(Waited(near))
        together = search.keyword(query.pool), search.nearest(near, query.pool, depth=query.depth)
        assert client.requests == [BATCH] * 2
        again = search.nearest(near, query.pool, depth=query.depth)
        assert client.requests == [BATCH] * 3

        assert together == separate
        assert again == separate[1]
        assert search.scores([id_of(n) for n in range(120)]) == scores


@pytest.mark.parametrize(
    "tuning",
    [{}, {"fusion": "rrf"}, {"semantic_weight": 0}, {"keyword_weight": 0}, {"diversity": 0.3}, {"common_words": 1.0}],
    ids=lambda tuning: ",".join(tuning) or "default",
)
@pytest.mark.parametrize(
    "scope", [HERE, Scope(sessions=("s1",)), Scope(profile="nobody")], ids=["all", "session", "none"]
)
def test_a_recall_has_the_hits_and_scores_of_the_store_in_memory(
    store: QdrantStore, threads: ThreadPoolExecutor, scope: Scope, tuning: dict[str, Any]
):
    reference = InMemoryStore(mean_length=MEAN_LENGTH)
    for one in (store, reference):
        fill(one)

    ours, expected = (recall_from(one, threads, scope=scope, **tuning) for one in (store, reference))

    assert [hit.memory for hit in ours.hits] == [hit.memory for hit in expected.hits]
    assert [hit.score for hit in ours.hits] == pytest.approx([hit.score for hit in expected.hits], abs=1e-5)


# Requests of a write


def test_adding_a_memory_to_a_known_session_takes_four_requests(client: RecordingQdrant, store: QdrantStore):
    store.add([embedded(1, session="a", project="p")], model=MODEL)
    for options in ({}, {"session": "a"}, {"session": "a", "project": "p"}, {"session": "a", "position": 40}):
        client.requests.clear()
        store.add([embedded(100 + len(listed(store)), **options)], model=MODEL)
        writing = client.requests[client.requests.index(BATCH) :]

        # Whether the id exists and the last position; the memory; the state and the session; who was first.
        assert writing == [BATCH, "upsert", "retrieve", "retrieve"]


def test_remembering_through_the_engine_takes_no_further_request(client: RecordingQdrant):
    with Engine(QdrantStore(client), Compass()) as engine:
        engine.remember("the cat eats fish at30", session="kitchen", project="home")
        client.requests.clear()

        engine.remember("the dog eats meat at60", session="kitchen", project="home")

        assert client.requests == [BATCH, "upsert", "retrieve", "retrieve"]


def test_adding_to_an_unknown_session_reads_it_first_and_a_new_one_is_registered(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(1, session="a", project="p")], model=MODEL)
    elsewhere = QdrantStore(client)
    client.requests.clear()

    elsewhere.add([embedded(2, session="a")], model=MODEL)
    known, client.requests = list(client.requests), []
    elsewhere.add([embedded(3, session="new")], model=MODEL)

    assert known == ["retrieve", BATCH, "upsert", "retrieve", "retrieve"]
    assert client.requests == ["retrieve", BATCH, "batch_update_points", "upsert", "retrieve", "retrieve"]


def test_the_other_writes_take_few_requests_too(client: RecordingQdrant, store: QdrantStore):
    store.add([embedded(n, session="a") for n in (1, 2)], model=MODEL)
    key = IdempotencyKey("key", "print", NOW)
    counts = {}
    for name, write in {
        "add with a key": lambda: store.add([embedded(3, session="a")], model=MODEL, idempotency_key=key),
        "update": lambda: store.update(embedded(1, "changed", session="a"), model=MODEL),
        "touch": lambda: store.touch([id_of(1), id_of(2)], at=NOW),
        "remove": lambda: store.remove([id_of(1), id_of(2)], within=HERE),
    }.items():
        client.requests.clear()
        write()
        counts[name] = len(client.requests)

    assert counts == {"add with a key": 8, "update": 5, "touch": 3, "remove": 4}


def test_the_number_of_requests_does_not_grow_with_the_number_of_memories(client: RecordingQdrant, store: QdrantStore):
    store.add([embedded(1, session="a")], model=MODEL)
    counts = []
    for first, size in ((100, 2), (200, 40)):
        client.requests.clear()
        store.add([embedded(first + n, session="a") for n in range(size)], model=MODEL)
        counts.append(len(client.requests))

    assert counts == [4, 4]


def test_large_batches_are_split_into_requests_that_the_server_accepts(
    client: RecordingQdrant, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(memories, "MAX_BYTES", 20_000)
    store.add([record(1)], model=None)
    client.arguments.clear()

    store.add([record(2), *(record(n, "word " * 1000) for n in range(10, 14)), record(3)], model=None)

    sizes = [len(given[1]) for name, given, _ in client.arguments if name == "upsert" and "memories" in given[0]]
    assert sizes == [2, 1, 1, 2]
    assert len(listed(store)) == 7


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
    assert (plain.url, plain.prefix, plain.api_key) == ("http://[::1]:7000", None, "of the environment")
    assert (plain.settings.shards, plain.settings.write_consistency) == (None, 1)


@pytest.mark.parametrize(("replicas", "needed"), [(1, 1), (2, 1), (3, 2)])
def test_a_write_does_not_need_the_last_replica_so_that_the_server_stops_to_read_one_that_failed(
    replicas: int, needed: int
):
    assert parse_address(f"qdrant+http://host/x?replicas={replicas}", {}).settings.write_consistency == needed


@pytest.mark.parametrize(
    ("rest", "message"),
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
        ("host/x?timeout=soon", "timeout: seconds"),
    ],
)
def test_an_error_in_an_address_is_named_and_the_key_is_not(rest: str, message: str):
    with pytest.raises(Invalid, match=message) as error:
        open_store(f"qdrant+http://:hidden@{rest}")

    assert "hidden" not in str(error.value)


def test_a_key_in_the_place_of_a_user_name_is_refused_because_it_would_be_shown():
    with pytest.raises(Invalid, match="after a colon") as error:
        open_store("qdrant+https://hidden@host/x")

    assert "hidden" not in str(error.value)


def test_the_public_form_of_an_address_hides_the_key():
    assert public_address("qdrant+https://:hidden@host:6333/x?shards=2") == "qdrant+https://:***@host:6333/x?shards=2"


def test_an_unreachable_server_is_an_error_without_its_key():
    with pytest.raises(Unavailable, match=r"Qdrant at http://127.0.0.1:1 cannot be reached .*is it running") as error:
        open_store("qdrant+http://:hidden@127.0.0.1:1/x?timeout=0.2")

    assert "hidden" not in str(error.value)


def test_without_the_client_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("retentive.stores.qdrant")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "qdrant_client", None)

    with pytest.raises(MissingExtra, match=re.escape(pip_install("qdrant"))):
        open_store("qdrant+http://host/x")


# Collections


def collections_of(client: LocalQdrant) -> set[str]:
    return {one.name for one in client.get_collections().collections}


def test_a_store_without_a_prefix_uses_the_default_one(client: RecordingQdrant, store: QdrantStore):
    assert client.collection_names == {"retentive_notes", client.alias_target}
    assert client.alias_target.startswith("retentive_memories_")


def written_before() -> LocalQdrant:
    """Return a client with the collections of a store that was written before the project was renamed."""
    client = LocalQdrant()
    written = json.loads(WRITTEN_BEFORE.read_text(encoding="utf-8"))
    for name, collection in written["collections"].items():
        client.create_collection(
            name,
            vectors_config={one: q.VectorParams(**params) for one, params in collection["vectors"].items()},
            sparse_vectors_config={
                one: q.SparseVectorParams(**params) for one, params in collection["sparse_vectors"].items()
            },
        )
        client.upsert(name, [q.PointStruct(**point) for point in collection["points"]])
    for alias, name in written["aliases"].items():
        create = q.CreateAlias(collection_name=name, alias_name=alias)
        client.update_collection_aliases([q.CreateAliasOperation(create_alias=create)])
    return client


def test_a_store_written_under_the_former_name_opens_with_everything_in_it():
    client = written_before()
    before = collections_of(client)
    store = QdrantStore(client)

    tea, other = store.get([id_of(1), id_of(2)])
    assert (tea.text, tea.project, tea.session, tea.position) == ("green tea", "p", "s", 0)
    assert (tea.speaker, tea.metadata, tea.access_count, tea.accessed) == ("Ada", {"n": 1}, 1, NOW)
    assert (other.kind, other.project, other.position) == ("semantic", "p", 1)
    assert listed(store, Scope("bob")) == [id_of(3)]
    assert keyword_ids(store, "black tea") == [id_of(2), id_of(1)]
    assert nearest_ids(store, unit([1, 0])) == [id_of(1), id_of(2)]
    assert store.model() == Model("small", "1", 2, "fingerprint of small")
    assert store.judgements("default") == [Judgement("which tea?", id_of(1), 2, NOW, project="p")]
    assert store.get_value("tuning") == '{"rrf_k": 10}'
    key = IdempotencyKey("key", "print", NOW)
    assert [one.id for one in store.add([record(9)], model=None, idempotency_key=key)] == [id_of(1), id_of(2), id_of(3)]
    [new] = store.add([record(4, "white tea", session="s")], model=None)
    assert (new.project, new.position) == ("p", 2)
    assert store.check() == []
    assert collections_of(client) == before


def test_the_former_prefix_is_not_used_where_the_present_one_or_another_one_is(client: RecordingQdrant):
    old = written_before()
    QdrantStore(old, prefix="team").add([record(7)], model=None)
    QdrantStore(old, prefix="retentive").add([record(8)], model=None)

    assert listed(QdrantStore(old)) == [id_of(8)]
    assert listed(QdrantStore(old, prefix="recollect")) == [id_of(2), id_of(1)]
    assert listed(QdrantStore(old, prefix="team")) == [id_of(7)]


def test_the_settings_reach_the_collections_and_the_searches(client: RecordingQdrant):
    settings = CollectionSettings(shards=6, replicas=3, consistency=2, quantization="int8", on_disk=True, ef=99)
    store = QdrantStore(client, prefix="team", settings=settings)
    store.add([embedded(1)], model=MODEL)

    created = {given[0]: options for name, given, options in client.arguments if name == "create_collection"}
    notes, of_memories = created["team_notes"], list(created.values())[-1]
    assert (notes["replication_factor"], notes["write_consistency_factor"]) == (3, 2)
    assert (of_memories["shard_number"], of_memories["replication_factor"]) == (6, 3)
    assert of_memories["write_consistency_factor"] == 2
    assert of_memories["quantization_config"].scalar.type == q.ScalarType.INT8
    assert of_memories["sparse_vectors_config"]["words"].modifier == q.Modifier.IDF
    [params] = of_memories["vectors_config"].values()
    assert (params.size, params.distance, params.on_disk) == (16, q.Distance.DOT, True)
    assert params.multivector_config.comparator == q.MultiVectorComparator.MAX_SIM

    client.arguments.clear()
    nearest_ids(store, vector(1), limit=1)
    request, _ = client.arguments[-1][1][1]
    assert (request.params.hnsw_ef, request.params.quantization.rescore) == (99, True)


def test_profiles_are_tenants_and_every_field_of_a_filter_or_an_order_is_indexed(
    client: RecordingQdrant, store: QdrantStore
):
    indexes: dict[str, Any] = {}
    for name, given, options in client.arguments:
        if name == "create_payload_index" and "memories" in given[0]:
            indexes[given[1]] = options["field_schema"]

    assert indexes.pop("profile").is_tenant is True
    validity = {"key", "superseded_by", "valid_since", "valid_until", "expiry"}
    rest = {"project", "session", "kind", "position", "born", "when", "day", "parts", "content_hash"}
    assert set(indexes) == rest | validity
    assert all(schema.range and schema.lookup for schema in indexes.values() if schema.type == "integer")
    [options] = [
        options for name, given, options in client.arguments if name == "create_collection" and "memories" in given[0]
    ]
    assert (options["hnsw_config"].m, options["hnsw_config"].payload_m) == (0, 16)


def test_a_long_running_process_reads_state_and_count_again_after_a_while(
    client: RecordingQdrant, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = QdrantStore(client)
    assert elsewhere._collections.memory_count() == 0
    store.add([embedded(n) for n in range(3)], model=MODEL)
    assert elsewhere.model() is None
    assert elsewhere._collections.memory_count() == 0

    monkeypatch.setattr(model_collections, "MAX_AGE", 0.0)

    assert elsewhere.model() == MODEL
    assert elsewhere._collections.memory_count() == 3


def test_a_model_of_another_name_with_the_same_fingerprint_is_the_same_model(store: QdrantStore):
    store.add([embedded(1)], model=MODEL)
    renamed: Model = replace(MODEL, name="renamed")

    store.add([embedded(2)], model=renamed)

    assert (store.model(), store.stats().vectors) == (MODEL, 2)


# Limits and encodings


def test_ids_that_are_no_uuids_are_refused_in_writes_and_unknown_in_reads(store: QdrantStore):
    with pytest.raises(Invalid, match="not a UUID"):
        store.add([Record(memory(1)._replace(id="mine"))], model=None)
    with pytest.raises(Invalid, match="cursor"):
        store.list(HERE, cursor="mine")

    id = "0190abcd-0000-7000-8000-00000000000a"
    store.add([Record(memory(1)._replace(id=id))], model=None)
    assert store.get([id.upper(), id.replace("-", ""), f"{{{id}}}", id]) == store.get([id])


def test_pages_include_the_smallest_and_the_largest_id(store: QdrantStore):
    first, last = (f"{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}" for digit in "0f")
    store.add([Record(memory(1)._replace(id=first)), Record(memory(2)._replace(id=last))], model=None)

    page = store.list(HERE, limit=1)
    rest = store.list(HERE, limit=1, cursor=page.next_cursor)
    assert sorted(one.id for one in (*page.memories, *rest.memories)) == [first, last]
    assert rest.next_cursor is None


def test_the_number_of_a_term_never_changes():
    assert (number_of("tea"), number_of("東京")) == (532194854, 3179978821)


def test_the_vectors_of_a_memory_are_cut_to_what_the_server_accepts(
    store: QdrantStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(points, "MAX_NUMBERS", 3 * 16 + 15)

    store.add([record(1, vectors=np.stack([axis(n) for n in range(5)]))], model=MODEL)

    assert store.stats().vectors == 3
    assert "only its first 3" in caplog.text


def test_metadata_is_returned_unchanged_however_large_its_numbers(store: QdrantStore):
    given = {"number": 2**80, "tiny": 1e-300, "text": "half\\u0000"}
    store.add([record(1, metadata=given)], model=None)

    assert store.get([id_of(1)])[0].metadata == given


def test_names_that_look_like_uuids_are_counted_under_their_own_spelling(store: QdrantStore):
    name = "0123456789abcdef0123456789abcdef"
    store.add([record(1, profile=name, project=name, session=name)], model=None)

    found: Sequence[Any] = [*store.sessions(name), *store.projects(name), *store.profiles()]
    assert [(one.name, one.memories) for one in found] == [(name, 1)] * 3


def test_a_recall_leaves_out_and_names_a_text_that_another_program_changed_until_it_is_repaired(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(number, session="a") for number in range(1, 5)], model=MODEL)
    for number, text in ((2, "apples, changed"), (3, "note number3.")):
        client.set_payload(client.alias_target, {"text": text}, points=[point_of(id_of(number))])
    damaged = [Damage(id_of(2), NOT_ITS_TEXT), Damage(id_of(3), NOT_ITS_TEXT)]

    with store.open_search(make_query("note changed")) as search:
        found = [*search.keyword(9).candidates, *search.nearest(axis(0), 9).candidates]
        around = search.neighbours([id_of(1), id_of(4)])
        scores = search.scores([id_of(number) for number in range(1, 5)])
    assert {candidate.memory.id for candidate in found} == scores.semantic.keys() == {id_of(1), id_of(4)}
    assert {one for pair in around.values() for one in pair} == {None}
    assert sorted(set(search.damaged), key=lambda one: one.id) == damaged
    assert [sentence[:51] for sentence in store.check()] == ["2 memories have another text than the one that was "]

    assert set(store.repair(at=NOW).changed) == {id_of(2), id_of(3)}
    assert store.check() == []
    with store.open_search(make_query("changed")) as search:
        assert [candidate.memory.id for candidate in search.keyword(9).candidates] == [id_of(2)]
        assert not search.damaged


def test_a_text_that_was_stored_without_a_hash_is_taken_to_be_right(client: RecordingQdrant, store: QdrantStore):
    store.add([embedded(1)], model=MODEL)
    point = [point_of(id_of(1))]
    client.set_payload(client.alias_target, {"text": "other words"}, points=point)
    client.delete_payload(client.alias_target, ["stored_text_hash"], points=point)

    with store.open_search(make_query("note")) as search:
        assert [candidate.memory.text for candidate in search.nearest(axis(0), 9).candidates] == ["other words"]
        assert not search.damaged


def test_a_check_finds_wrong_terms_vectors_and_projects_and_unused_collections(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(1, session="a", project="p"), embedded(2)], model=MODEL)
    name = client.alias_target
    client.set_payload(name, {"project": "q"}, points=[point_of(id_of(1))])
    client.set_payload(name, {"text": "other words", "parts": 4}, points=[point_of(id_of(2))])
    client.delete_payload(name, ["stored_text_hash"], points=[point_of(id_of(2))])  # as it was written before
    client.create_collection("retentive_memories_left", vectors_config={})

    assert store.check() == [
        "1 memory is indexed with other terms than those of its text",
        "1 memory has another number of vectors than recorded",
        "1 memory is in another project than its session",
        "1 memory has a vector of another text; run: retentive doctor --repair",
        "the collection retentive_memories_left is not in use; delete it if no re-embedding is running",
    ]
