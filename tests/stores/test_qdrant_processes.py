"""Several processes on one Qdrant store: changes of the model, interrupted writes, and writes at the same time.

A second `QdrantStore` on the same client stands for another process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from qdrant_client import models as q

from retentive.errors import Conflict, NotFound, Unavailable, VersionConflict
from retentive.models import Memory, Scope
from retentive.pipeline.recall import recall
from retentive.stores.qdrant import QdrantStore, layout, notes
from retentive.stores.qdrant.points import point_of
from retentive.stores.qdrant.session_notes import session_note_id
from retentive.stores.values import IdempotencyKey, Record
from tests.stores.build import (
    HERE,
    MODEL,
    NOW,
    OTHER,
    axis,
    embedded,
    find_nearest,
    id_of,
    keyword_ids,
    listed,
    make_query,
    memory,
    nearest_ids,
    record,
    rows,
    vector,
)
from tests.stores.qdrant_recording import Interrupted, RecordingQdrant

KEY = IdempotencyKey("key", "print", NOW)


@pytest.fixture
def client() -> RecordingQdrant:
    return RecordingQdrant()


@pytest.fixture
def store(client: RecordingQdrant) -> QdrantStore:
    return QdrantStore(client)


def attach_all(store: QdrantStore, *, to: int = 0, limit: int = 9) -> None:
    """Give some memories without a vector of the other model one."""
    store.attach([Record(one, rows(axis(to))) for one in store.unembedded(OTHER, limit=limit)], model=OTHER)


# Changes of the model


def test_a_change_of_the_model_moves_the_alias_when_every_memory_is_there_and_deletes_the_old_collection(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([record(n, vectors=rows(axis(0)), session="a") for n in range(4)], model=MODEL)
    old = client.alias_target
    attach_all(store, to=1, limit=3)
    assert client.alias_target == old
    assert len(client.collection_names) == 3

    # Writes go to both collections.
    store.add([record(9, "a later note", vectors=rows(axis(2)))], model=OTHER)
    store.update(Record(memory(1, "changed note", session="a"), rows(axis(3))), model=MODEL)
    store.move_session("default", "a", project="p")
    store.remove([id_of(2)])
    assert store.switch_model(OTHER) is False
    assert keyword_ids(store, "later") == [id_of(9)]
    assert nearest_ids(store, axis(3), limit=1) == [id_of(1)]
    attach_all(store, to=1)
    assert store.switch_model(OTHER) is True

    assert client.alias_target != old
    assert client.collection_names == {"retentive_notes", client.alias_target}
    assert sorted(listed(store, Scope(project="p"))) == [id_of(0), id_of(1), id_of(3)]
    assert keyword_ids(store, "changed") == [id_of(1)]
    assert nearest_ids(store, axis(2), limit=1) == [id_of(9)]
    assert store.check() == []


def test_a_process_that_does_not_know_the_new_model_compares_nothing_with_its_vectors(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([record(1, "green tea", vectors=rows(axis(0)))], model=MODEL)
    elsewhere = QdrantStore(client)
    assert nearest_ids(elsewhere, axis(0)) == [id_of(1)]

    attach_all(store)
    assert store.switch_model(OTHER)

    assert elsewhere.model() == MODEL
    with ThreadPoolExecutor(1) as threads:
        found = recall(make_query("green tea", limit=5, vector=vector(3)), elsewhere, lambda: None, threads)
    assert [retriever.found for retriever in found.retrievers] == [0, 1]
    assert elsewhere.model() == OTHER
    assert nearest_ids(elsewhere, axis(0)) == [id_of(1)]


def test_a_search_during_which_the_model_changes_goes_on_without_vectors(client: RecordingQdrant, store: QdrantStore):
    store.add([record(n, "green tea", vectors=rows(axis(0)), session="s") for n in (1, 2)], model=MODEL)
    elsewhere = QdrantStore(client)
    with elsewhere.open_search(make_query("tea")) as search:
        assert search.model == MODEL
        assert len(search.nearest(axis(0), 1).candidates) == 1

        attach_all(store)
        assert store.switch_model(OTHER)

        assert [one.memory.id for one in search.keyword(5).candidates] == [id_of(1), id_of(2)]
        assert search.neighbours([id_of(1)])[id_of(1)][1] == store.get([id_of(2)])[0]
        assert search.vectors([id_of(1)]) == {}
        assert set(search.scores([id_of(1), id_of(2)]).keyword) == {id_of(1), id_of(2)}


def test_a_process_that_embeds_for_the_old_model_stores_its_memory_to_be_embedded_later(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(1)], model=MODEL)
    elsewhere = QdrantStore(client)
    attach_all(store)
    assert store.switch_model(OTHER)

    elsewhere.add([embedded(2)], model=MODEL)

    assert [one.id for one in store.unembedded(OTHER, limit=9)] == [id_of(2)]
    assert len(client.collection_names) == 2


def test_a_memory_written_by_a_process_that_did_not_know_the_new_collection_is_not_lost(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(n) for n in range(3)], model=MODEL)
    attach_all(store)
    [copy] = store.get([id_of(0)])
    # As if another process had been interrupted between the two collections.
    old = client.alias_target
    [point] = client.retrieve(old, [point_of(copy.id)], with_vectors=True)
    payload = {**point.payload, "id": id_of(7), "written": 1}
    client.upsert(old, [q.PointStruct(id=point_of(id_of(7)), vector=point.vector, payload=payload)])
    client.delete(old, q.PointIdsList(points=[point_of(id_of(1))]))

    assert store.switch_model(OTHER) is False
    attach_all(store)
    assert store.switch_model(OTHER) is True

    assert sorted(listed(store)) == [id_of(0), id_of(2), id_of(7)]
    assert store.check() == []


def test_every_write_of_a_process_with_old_knowledge_reaches_a_collection_that_was_created_since(
    client: RecordingQdrant, store: QdrantStore
):
    elsewhere = QdrantStore(client)
    store.add([embedded(n, session="s") for n in (1, 2, 3)], model=MODEL)

    elsewhere.add([record(4, session="s")], model=None)
    attach_all(store)
    elsewhere.add([embedded(5, session="s")], model=MODEL)
    elsewhere.update(Record(memory(1, "changed", session="s")), model=None)
    elsewhere.remove([id_of(2)])
    elsewhere.touch([id_of(3)], at=NOW)
    elsewhere.move_session("default", "s", project="p")

    state = store._collections.read()
    assert len(state.all) == 2
    contents = []
    for collection in state.all:
        found, _ = client.scroll(collection.name, limit=99, with_payload=["id", "text", "project", "access_count"])
        contents.append({one.payload["id"]: one.payload for one in found})
    assert contents[0] == contents[1]
    assert set(contents[0]) == {id_of(n) for n in (1, 3, 4, 5)}
    assert contents[0][id_of(1)]["text"] == "changed"


def test_a_change_of_the_model_waits_until_the_new_collection_is_indexed(
    client: RecordingQdrant,
    store: QdrantStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(layout, "POLL_SECONDS", 0.001)
    store.add([embedded(1)], model=MODEL)
    attach_all(store)
    statuses = [q.CollectionStatus.YELLOW, q.CollectionStatus.YELLOW, q.CollectionStatus.GREEN]
    seen: list[q.CollectionStatus] = []

    def next_status(**_: Any) -> Any:
        seen.append(statuses[len(seen)])
        return q.CollectionInfo.model_construct(status=seen[-1])

    def always(status: q.CollectionStatus) -> Callable[..., Any]:
        return lambda **_: q.CollectionInfo.model_construct(status=status)

    monkeypatch.setattr(client._client, "get_collection", next_status)
    assert store.switch_model(OTHER)
    assert seen == statuses

    monkeypatch.setattr(client._client, "get_collection", always(q.CollectionStatus.YELLOW))
    with caplog.at_level(logging.WARNING):
        layout.wait_until_indexed(store._connection, client.alias_target, 0.01)
    assert "still being indexed" in caplog.text

    monkeypatch.setattr(client._client, "get_collection", always(q.CollectionStatus.RED))
    with pytest.raises(Unavailable, match="damaged"):
        layout.wait_until_indexed(store._connection, client.alias_target, 0.01)


# Interruptions


def interruptions(client: RecordingQdrant, act: Callable[[], Any]) -> Iterator[int]:
    """Repeat an action, interrupted one write later each time, until it completes."""
    for writes in range(100):
        client.writes_left = writes
        try:
            act()
        except Interrupted:
            client.writes_left = None
            yield writes
        else:
            client.writes_left = None
            return
    raise AssertionError("it never completes")


def restarts(act: Callable[[QdrantStore], Any], *, least: int, stored: Sequence[Record] = ()) -> Iterator[QdrantStore]:
    """New stores on a server on which an action was interrupted, one write later each time; the last one completes.

    `least` is how many writes it makes at least.
    """
    completes = False
    for writes in range(100):
        client = RecordingQdrant()
        store = QdrantStore(client)
        if stored:
            store.add(stored, model=MODEL)
        client.writes_left = writes
        try:
            act(store)
            completes = True
        except Interrupted:
            pass
        client.writes_left = None
        yield QdrantStore(client)
        if completes:
            assert writes >= least
            return
    raise AssertionError("it never completes")


def test_an_add_that_is_interrupted_anywhere_and_sent_again_is_stored_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notes, "PENDING_SECONDS", 0)

    def add(store: QdrantStore, first: int) -> list[Memory]:
        both = [embedded(first, session="s"), embedded(first + 1, session="s")]
        return store.add(both, model=MODEL, idempotency_key=KEY)

    for again in restarts(lambda store: add(store, 1), least=11):
        written = add(again, 3)
        assert len(written) == 2
        assert sorted(listed(again)) == sorted(one.id for one in written)
        assert [one.position for one in written] == [0, 1]
        assert len(keyword_ids(again, "note")) == len(nearest_ids(again, vector(1))) == 2
        assert [line for line in again.check() if "not in use" not in line] == []


def test_a_removal_that_is_interrupted_anywhere_and_sent_again_returns_what_it_removed(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(notes, "PENDING_SECONDS", 0)

    def remove(store: QdrantStore) -> list[str]:
        return store.remove([id_of(1), id_of(2)], idempotency_key=KEY)

    for again in restarts(remove, least=3, stored=[embedded(n) for n in (1, 2, 3)]):
        assert remove(again) == [id_of(1), id_of(2)]
        assert listed(again) == [id_of(3)]


def test_an_update_that_is_interrupted_anywhere_and_sent_again_with_its_version_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(notes, "PENDING_SECONDS", 0)
    old, new = embedded(1, "apples", session="s"), record(1, "pears", vectors=rows(axis(3)))
    [before] = QdrantStore(RecordingQdrant()).add([old], model=MODEL)

    def update(store: QdrantStore) -> Memory:
        return store.update(new, model=MODEL, fields=["text"], if_version=before.version, idempotency_key=KEY)

    for again in restarts(update, least=2, stored=[old]):
        updated = update(again)
        assert updated.text == "pears"
        assert again.get([id_of(1)]) == [updated]
        assert nearest_ids(again, axis(3)) == [id_of(1)]
        assert again.check() == []
        with pytest.raises(VersionConflict):
            again.update(record(1, "plums"), model=None, fields=["text"], if_version=before.version)


def test_an_update_that_was_written_and_changed_by_another_process_is_not_made_again(
    client: RecordingQdrant, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    [before] = store.add([embedded(1, "apples")], model=MODEL)
    given = {"model": None, "fields": ["text"], "if_version": before.version, "idempotency_key": KEY}

    def unreachable(*_: Any) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as lost:
        lost.setattr(store._names, "check_sessions", unreachable)
        with pytest.raises(Unavailable, match="no answer"):
            store.update(record(1, "pears"), **given)
    assert [one.text for one in store.get([id_of(1)])] == ["pears"]
    QdrantStore(client).update(record(1, "plums"), model=None, fields=["text"])

    with pytest.raises(VersionConflict):
        store.update(record(1, "pears"), **given)
    assert [one.text for one in store.get([id_of(1)])] == ["plums"]


@pytest.mark.parametrize("removed_late", [False, True])
def test_a_write_whose_answer_and_removal_were_lost_is_completed_when_it_is_sent_again(
    store: QdrantStore, monkeypatch: pytest.MonkeyPatch, removed_late: bool
):
    store.add([embedded(9)], model=MODEL)
    records, upsert = [embedded(1, session="s"), embedded(2, session="s")], store._connection.upsert
    removals: list[tuple[str, q.Filter]] = []

    def applied(*given: Any, **options: Any) -> None:
        upsert(*given, **options)
        raise Unavailable("no answer")

    def not_yet(collection: str, where: q.Filter) -> None:
        removals.append((collection, where))
        raise Unavailable("no connection")

    with monkeypatch.context() as lost:
        lost.setattr(store._connection, "upsert", applied)
        lost.setattr(store._connection, "delete_where", not_yet)
        with pytest.raises(Unavailable, match="no connection"):
            store.add(records, model=MODEL, idempotency_key=KEY)

    assert [one.id for one in store.add(records, model=MODEL, idempotency_key=KEY)] == [id_of(1), id_of(2)]
    if removed_late:  # a server may carry out a request long after it has timed out
        for removal in removals:
            store._connection.delete_where(*removal)
    assert removals
    assert set(listed(store)) == {id_of(1), id_of(2), id_of(9)}
    assert store.check() == []

    store.remove([id_of(1)])
    assert [one.id for one in store.add(records, model=MODEL, idempotency_key=KEY)] == [id_of(2)]
    assert set(listed(store)) == {id_of(2), id_of(9)}


def test_a_part_of_a_write_that_is_removed_late_is_stored_when_it_is_sent_again(
    store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    store.add([embedded(9)], model=MODEL)
    records, upsert = [embedded(1, session="s"), embedded(2, session="s")], store._connection.upsert

    def half(collection: str, points: Sequence[q.PointStruct], **options: Any) -> None:
        upsert(collection, points[:1], **options)
        raise Unavailable("no answer")

    def unreachable(*_: Any) -> None:
        raise Unavailable("no connection")

    with monkeypatch.context() as lost:
        lost.setattr(store._connection, "upsert", half)
        lost.setattr(store._connection, "delete_where", unreachable)
        with pytest.raises(Unavailable, match="no connection"):
            store.add(records, model=MODEL, idempotency_key=KEY)

    assert [one.id for one in store.add(records, model=MODEL, idempotency_key=KEY)] == [id_of(1), id_of(2)]
    assert set(listed(store)) == {id_of(1), id_of(2), id_of(9)}


def test_an_alias_that_another_process_has_moved_late_is_moved_again(client: RecordingQdrant):
    store = QdrantStore(client)
    first = client.alias_target
    delete = store._collections._delete

    def moved_late(collection: Any) -> None:
        if collection.name == first:
            store._collections._move_alias(first, exists=True)
        delete(collection)

    store._collections._delete = moved_late  # type: ignore[method-assign]
    store.add([embedded(1)], model=MODEL)

    assert client.alias_target != first
    assert nearest_ids(store, vector(1)) == [id_of(1)]


def test_a_move_that_is_interrupted_anywhere_is_completed_by_the_next_write(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(n, session="a", project="p") for n in (1, 2)], model=MODEL)
    number = 10

    for _ in interruptions(client, lambda: store.move_session("default", "a", project="q")):
        again = QdrantStore(client)
        # In between each memory is in the one project or in the other.
        for scope in (Scope(sessions=("a",)), Scope(sessions=("a",), only_sessions=True)):
            assert set(keyword_ids(again, "note", scope)) <= set(listed(again))
        number += 1
        [one] = again.add([embedded(number, session="a")], model=MODEL)
        assert again.check() == []
        assert sorted(listed(again, Scope(project=one.project))) == sorted(listed(again))
        again.move_session("default", "a", project="p")

    assert {one.project for one in store.list(HERE).memories} == {"q"}
    assert store.check() == []


def test_a_change_of_the_model_that_is_interrupted_anywhere_searches_the_old_or_the_new_one_and_can_continue():
    def reembed(store: QdrantStore) -> None:
        while not store.switch_model(OTHER):
            attach_all(store, to=1, limit=2)

    interrupted = 0
    done = False
    while not done:
        client = RecordingQdrant()
        store = QdrantStore(client)
        store.add([record(n, vectors=rows(axis(0))) for n in range(3)], model=MODEL)
        client.writes_left = interrupted
        try:
            reembed(store)
            done = True
        except Interrupted:
            interrupted += 1
        client.writes_left = None

        again = QdrantStore(client)
        model = again.model()
        assert model in (MODEL, OTHER)
        best = find_nearest(again, axis(0 if model == MODEL else 1), limit=9)
        assert [candidate.score for candidate in best] == [pytest.approx(1.0)] * 3
        reembed(again)
        assert (again.model(), again.stats().vectors, len(listed(again))) == (OTHER, 3, 3)
        assert [line for line in again.check() if "not in use" not in line] == []
    assert interrupted > 10


# Writes at the same time


def test_of_two_processes_that_expect_the_same_value_only_one_writes(client: RecordingQdrant, store: QdrantStore):
    elsewhere = QdrantStore(client)
    for number in range(10):

        def write(one: QdrantStore, name: str = f"n{number}") -> bool:
            return one.compare_and_set({name: str(id(one))}, expected={name: None})

        with ThreadPoolExecutor(2) as pool:
            written = list(pool.map(write, (store, elsewhere)))
        assert written.count(True) == 1
        assert store.get_value(f"n{number}") == str(id((store, elsewhere)[written.index(True)]))


def test_of_two_processes_that_store_the_same_id_only_one_does(client: RecordingQdrant, store: QdrantStore):
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
        [stored] = store.get([id_of(number)])
        assert stored.text == f"said by{id((store, elsewhere)[outcomes.index(True)])}"


def test_a_batch_with_an_id_that_another_process_has_just_stored_is_taken_back_whole(
    client: RecordingQdrant, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = QdrantStore(client)
    upsert = store._connection.upsert

    def upsert_second(collection: str, points: Any, **options: Any) -> None:
        if "memories" in collection and not listed(elsewhere):
            elsewhere.add([record(2, "first")], model=None)
        upsert(collection, points, **options)

    monkeypatch.setattr(store._connection, "upsert", upsert_second)
    with pytest.raises(Conflict, match=id_of(2)):
        store.add([record(n, "second", session="s") for n in (1, 2, 3)], model=None)

    assert [one.text for one in store.list(HERE).memories] == ["first"]
    assert keyword_ids(store, "second") == []


def test_two_processes_that_create_a_session_of_the_same_name_in_two_projects_create_two(
    client: RecordingQdrant, store: QdrantStore
):
    elsewhere = QdrantStore(client)
    given = [(store, 1, "p"), (elsewhere, 2, "q")]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one[0].add([record(one[1], session="s", project=one[2])], model=None), given))

    assert [(one.project, one.memories) for one in store.sessions("default")] == [("p", 1), ("q", 1)]
    assert store.check() == []


def test_a_memory_follows_a_session_that_another_process_has_moved(client: RecordingQdrant, store: QdrantStore):
    store.add([embedded(1, session="s", project="p")], model=MODEL)
    QdrantStore(client).move_session("default", "s", project="q")

    [added] = store.add([embedded(2, session="s")], model=MODEL)
    updated = store.update(Record(memory(1, "changed", session="s", position=0)), model=None)

    assert (added.project, updated.project) == ("q", "q")
    assert [one.project for one in store.get([id_of(1), id_of(2)])] == ["q", "q"]
    assert store.check() == []


def test_a_memory_that_names_the_former_project_of_a_moved_session_begins_another_one_there(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(1, session="s", project="p")], model=MODEL)
    QdrantStore(client).move_session("default", "s", project="q")

    [added] = store.add([embedded(2, session="s", project="p")], model=MODEL, idempotency_key=KEY)

    assert (added.project, added.position) == ("p", 0)
    assert [one.project for one in store.get([id_of(1), id_of(2)])] == ["q", "p"]
    assert [(one.project, one.memories) for one in store.sessions("default")] == [("p", 1), ("q", 1)]
    assert store.check() == []


def test_a_note_of_a_session_by_an_earlier_version_is_read_and_its_interrupted_move_is_completed(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(n, session="s", project="p") for n in (1, 2)], model=MODEL)
    name = ("default", "s")
    earlier = {"type": "session", "profile": "default", "name": "s", "project": "q", "moving": True, "stamp": 1}
    client.upsert("retentive_notes", [q.PointStruct(id=session_note_id(name), vector={}, payload=earlier)])
    again = QdrantStore(client)
    assert again.stats().sessions == 1

    [added] = again.add([embedded(3, session="s")], model=MODEL)
    [other] = again.add([embedded(4, session="s", project="p")], model=MODEL)

    assert (added.project, other.project) == ("q", "p")
    assert [(one.project, one.memories) for one in again.sessions("default")] == [("p", 1), ("q", 3)]
    assert again.check() == []


def test_a_memory_that_names_the_present_project_of_a_moved_session_is_stored(
    client: RecordingQdrant, store: QdrantStore
):
    store.add([embedded(1, session="s", project="p")], model=MODEL)
    QdrantStore(client).move_session("default", "s", project="q")

    [added] = store.add([embedded(2, session="s", project="q")], model=MODEL)

    assert (added.project, added.position) == ("q", 1)
    assert store.check() == []


def test_processes_that_open_a_new_store_at_the_same_time_share_it():
    client = RecordingQdrant()

    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: QdrantStore(client), range(4)))
    for number, one in enumerate(stores):
        one.add([record(number)], model=None)

    assert [len(listed(one)) for one in stores] == [4] * 4
    assert len(client.collection_names) == 2


def test_processes_that_store_the_first_vectors_at_the_same_time_share_their_collection():
    for _ in range(5):
        client = RecordingQdrant()
        stores = [QdrantStore(client) for _ in range(3)]

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda one: one[1].add([embedded(one[0])], model=MODEL), enumerate(stores)))

        assert [sorted(nearest_ids(one, vector(1))) for one in stores] == [[id_of(0), id_of(1), id_of(2)]] * 3
        assert client.collection_names == {"retentive_notes", client.alias_target}
        assert stores[0].check() == []


# Changes of one memory at the same time


def overtake(monkeypatch: pytest.MonkeyPatch, target: Any, name: str, change: Callable[[], object]) -> None:
    """Make a change just before the next call of a method."""
    method, changes = getattr(target, name), iter([change])

    def overtaken(*given: Any, **options: Any) -> Any:
        for one in changes:
            one()
        return method(*given, **options)

    monkeypatch.setattr(target, name, overtaken)


def test_an_update_overtaken_by_another_process_keeps_both_changes(
    client: RecordingQdrant, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = QdrantStore(client)
    store.add([embedded(1, "apples", session="s")], model=MODEL)
    new = record(1, "pears", vectors=rows(axis(3)))
    overtake(monkeypatch, store._names, "place", lambda: elsewhere.update(new, model=MODEL, fields=["text"]))

    updated = store.update(record(1, importance=0.9), model=None, fields=["importance"], idempotency_key=KEY)

    assert (updated.text, updated.importance) == ("pears", 0.9)
    assert store.get([id_of(1)]) == [updated]
    assert nearest_ids(store, axis(3)) == [id_of(1)]
    assert store.update(record(1, "late"), model=None, idempotency_key=KEY) == updated
    assert store.check() == []


def test_an_update_does_not_bring_back_a_memory_that_another_process_deletes_meanwhile(
    client: RecordingQdrant, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    store.add([embedded(1)], model=MODEL)
    overtake(monkeypatch, store._names, "place", lambda: QdrantStore(client).remove([id_of(1)]))

    with pytest.raises(NotFound):
        store.update(record(1, "late"), model=None)

    assert (listed(store), store.check()) == ([], [])


def test_vectors_are_not_attached_to_a_text_that_another_process_writes_at_that_moment(
    client: RecordingQdrant, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = QdrantStore(client)
    store.add([embedded(1, "apples"), embedded(2)], model=MODEL)
    change = record(1, "pears", vectors=rows(axis(3)))
    waiting = store.unembedded(OTHER, limit=9)
    store._collections.ensure(OTHER)
    overtake(monkeypatch, store._connection, "update", lambda: elsewhere.update(change, model=MODEL, fields=["text"]))

    store.attach([Record(one, rows(axis(5))) for one in waiting], model=OTHER)

    assert [one.text for one in store.unembedded(OTHER, limit=9)] == ["pears"]
    attach_all(store, to=6)
    assert store.switch_model(OTHER) is True
    assert nearest_ids(store, axis(6), limit=1) == [id_of(1)]
    assert store.check() == []
