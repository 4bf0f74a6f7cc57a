"""The indexes of the SQLite store: large scopes, and that nothing is left of a removed memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from retentive.models import Candidate, Model, Scope
from retentive.stores.sqlite import search as sqlite_search
from retentive.stores.sqlite import vector_index
from retentive.stores.sqlite.vector_blocks import BLOCK, record_type
from retentive.stores.sqlite.vector_index import VectorIndex, _Columns
from retentive.stores.values import Vector
from retentive.text import bm25
from tests.stores.build import (
    ALL,
    DIMENSION,
    HERE,
    MODEL,
    Meanwhile,
    embedded,
    find_nearest,
    first_vectors,
    id_of,
    ids_of,
    keyword_ids,
    make_query,
    nearest_ids,
    record,
    scores_by_id,
    search,
    semantic_scores,
    vector,
)
from tests.stores.sqlite_file import EVERYWHERE, finds, opened


def test_a_long_search_blocks_no_writer_and_sees_one_snapshot(path: str):
    with opened(path, busy_seconds=0.02) as store:
        store.add([embedded(1)], model=MODEL)
        meanwhile = Meanwhile(vector(2), lambda: store.add([embedded(2)], model=MODEL))
        found = search(store, make_query("note"), keyword=ALL, semantic=ALL, vector=meanwhile)

        assert [ids_of(best) for best in found.candidates.values()] == [[id_of(1)]] * 2
        assert finds(store, 2) == EVERYWHERE


# Large scopes

WIDE = Model("wide", "1", 128, "fingerprint of wide")


def cloud(size: int) -> Vector:
    """Unit vectors in clusters, as texts on a few subjects make them."""
    dice = np.random.default_rng(1)
    centres = dice.standard_normal((20, WIDE.dimension))
    points = centres[dice.integers(20, size=size)] + 0.8 * dice.standard_normal((size, WIDE.dimension))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


POINTS, QUERIES = np.split(cloud(3030), [3000])


@pytest.fixture(scope="module")
def large_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """2,400 memories of one part and 300 of two, a third of them in session `third`."""
    path = str(tmp_path_factory.mktemp("large") / "memories.db")
    with opened(path) as store:
        parts = [POINTS[n : n + 1] for n in range(2400)] + [POINTS[n : n + 2] for n in range(2400, 3000, 2)]
        homes = ["third" if n % 3 == 0 else "rest" for n in range(len(parts))]
        store.add([record(n, vectors=parts[n], session=homes[n]) for n in range(len(parts))], model=WIDE)
        store.remove([id_of(n) for n in range(0, 2700, 50)])
    return path


THIRD = Scope(sessions=("third",))


@pytest.mark.parametrize("scope", [HERE, THIRD], ids=["most of the store", "a part of it"])
def test_a_large_scope_is_searched_by_sign_codes_with_exact_scores_of_the_best(
    large_path: str, monkeypatch: pytest.MonkeyPatch, scope: Scope
):
    with opened(large_path) as store:
        exact = [find_nearest(store, query, scope, limit=10) for query in QUERIES]
        monkeypatch.setattr(vector_index, "EXACT", 100)
        monkeypatch.setattr(vector_index, "RESCORED", 300)
        coded = [find_nearest(store, query, scope, limit=10) for query in QUERIES]

        for query, found in zip(QUERIES, coded, strict=True):
            true = semantic_scores(store, query, ids_of(found))
            assert scores_by_id(found) == pytest.approx(true, abs=1e-6)
            assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert all(len(found) == len(set(ids_of(found))) == 10 for found in coded)
        same = [len(set(ids_of(a)) & set(ids_of(b))) for a, b in zip(exact, coded, strict=True)]
        assert np.mean(same) / 10 > 0.95
        assert [a[0] for a in exact] == [b[0] for b in coded]
        if scope is THIRD:
            assert all(one.memory.session == "third" for one in coded[0])


def test_a_large_scope_is_not_compared_vector_by_vector(large_path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vector_index, "EXACT", 100)
    monkeypatch.setattr(vector_index, "RESCORED", 10)
    with opened(large_path) as store:
        coded = find_nearest(store, QUERIES[0], limit=100)
        assert len(coded) == 100

        found = find_nearest(store, QUERIES[0], limit=1)  # 30 to rescore are less than a 25th of all
        read = int(np.count_nonzero(store._index._rounded._row_of > 0))  # type: ignore[union-attr]

    assert found[0] == coded[0]
    assert read < 3000


def test_an_approximate_search_of_a_large_scope_reads_few_vectors(large_path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vector_index, "EXACT", 100)
    with opened(large_path) as store:
        probes = [search(store, make_query(), semantic=30, vector=query, approximate=True) for query in QUERIES]
        found = [one.candidates["semantic"] for one in probes]
        assert store._index._rounded._used == 0  # type: ignore[union-attr]
        exact = [find_nearest(store, query, limit=30) for query in QUERIES]
        assert store._index._rounded._used > 0  # type: ignore[union-attr]

    same = [len(set(ids_of(a)) & set(ids_of(b))) for a, b in zip(found, exact, strict=True)]
    assert np.mean(same) / 30 > 0.5


def test_excluded_memories_do_not_count_towards_the_limit_in_a_large_scope(
    large_path: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vector_index, "EXACT", 100)
    monkeypatch.setattr(vector_index, "RESCORED", 50)
    with opened(large_path) as store:
        known = nearest_ids(store, QUERIES[0], limit=400)

        found = nearest_ids(store, QUERIES[0], limit=10, exclude=known)

    assert len(found) == 10
    assert not set(found) & set(known)


def test_vectors_that_do_not_fit_into_memory_give_the_same_results(large_path: str, monkeypatch: pytest.MonkeyPatch):
    def results() -> list[Any]:
        with opened(large_path) as store:
            found = [nearest_ids(store, query, THIRD, limit=20) for query in QUERIES[:5]]
            first = {id: row.tolist() for id, row in first_vectors(store, found[0]).items()}
            return [*found, semantic_scores(store, QUERIES[0], found[0]), first]

    cached = results()
    for limit in (0, 100, 1500, 2999):
        monkeypatch.setattr(vector_index, "CACHED", limit * 4 * WIDE.dimension)
        monkeypatch.setattr(vector_index, "CACHED_ROUNDED", limit * WIDE.dimension)
        *found, scores, first = results()
        assert found == cached[:-2]
        assert scores == pytest.approx(cached[-2], abs=1e-6)
        assert first == cached[-1]


@pytest.mark.parametrize("limit", [2, 40])
@pytest.mark.parametrize("scope", [HERE, Scope(project="p"), Scope(kinds=("episodic",))])
def test_the_keyword_retriever_gives_the_same_whether_it_scores_few_memories_itself_or_leaves_it_to_the_index(
    path: str, monkeypatch: pytest.MonkeyPatch, scope: Scope, limit: int
):
    texts = ["tea", "tea milk", "tea tea honey", "milk honey cup", "cup saucer spoon", "garden"]
    with opened(path) as store:
        homes = [{"project": "p"}, {"project": "q"}, {}]
        store.add([record(at, texts[at % 6], **homes[at % 3 - at % 2]) for at in range(1, 60)], model=None)

        def results(few: int, lengths: int = 256) -> tuple[Sequence[Candidate], Mapping[str, float]]:
            monkeypatch.setattr(sqlite_search, "MAX_READ", few)
            monkeypatch.setattr(bm25, "MIN_SCORED", max(few, 1))
            monkeypatch.setattr(sqlite_search, "LENGTHS_AT_ONCE", lengths)
            query = make_query("tea with honey and a spoon", scope, exclude=[id_of(3)])
            found = search(store, query, keyword=limit, ids=[id_of(at) for at in range(1, 60)], scores=True)
            return found.candidates["keyword"], found.scores["keyword"]

        assert results(few=1000) == results(few=10) == results(few=0) == results(few=0, lengths=1)
        assert results(few=1000)[0]


# Removed memories


def test_the_text_of_a_removed_memory_is_nowhere_in_the_file(path: str):
    secrets = [f"zq{letter}xkvbjsecret" for letter in "abcdefghij"]
    with opened(path) as store:
        store.add([embedded(n, f"alpha beta word{n} zebra") for n in range(200)], model=MODEL)
        for n, secret in enumerate(secrets, 1000):
            kept = {"speaker": secret, "source": f"{secret}.md", "metadata": {secret: secret}}
            store.add([embedded(n, f"the {secret} and {secret}-{n} of it", **kept)], model=MODEL)
        store.add([embedded(n, "zqa zqb zqz zoo") for n in range(2000, 2005)], model=MODEL)

        store.remove([id_of(1000), id_of(1001), id_of(1002)])
        store.remove([id_of(1003)])
        store.move_session(
            "default", store.add([record(3000, secrets[4], session="s")], model=None)[0].session or "", project="p"
        )
        store.remove([id_of(1004), id_of(3000)])
        for n in range(1005, 1010):
            store.update(record(n, "something else"), model=None)

    content = Path(path).read_bytes()

    # FTS5 leaves out what a term shares with the one before it, so the ends of the words are looked for.
    assert content.count(b"kvbjsecret") == 0
    assert not Path(path + "-wal").exists()
    with opened(path) as store:
        assert store.check() == []
        assert len(keyword_ids(store, "zebra")) == 200


def test_the_text_of_a_removed_memory_is_not_in_the_log_either_while_the_store_is_open(path: str):
    with opened(path) as store:
        store.add([embedded(n, f"the zqaxkvbjsecret{n} of it", session="s") for n in range(4)], model=MODEL)
        assert secrets_on_disk(path) > 0

        store.remove([id_of(0)])
        store.update(record(1, "something else"), model=None)
        store.remove_scope(Scope(sessions=("s",)))

        assert secrets_on_disk(path) == 0


def test_a_removal_does_not_wait_for_an_open_search(path: str):
    # A store that waited for the search would wait for an hour, and the test would be stopped.
    with opened(path, busy_seconds=3600) as store, opened(path) as other:
        store.add([embedded(n, f"the zqaxkvbjsecret{n} of it") for n in range(2)], model=MODEL)

        def remove() -> None:
            assert store.remove([id_of(0)]) == [id_of(0)]
            assert secrets_on_disk(path) > 0

        found = search(other, make_query("the"), keyword=ALL, vector=Meanwhile(None, remove))
        assert len(found.candidates["keyword"]) == 2

        store.remove([id_of(1)])

        assert secrets_on_disk(path) == 0


def secrets_on_disk(path: str) -> int:
    return sum(Path(path + end).read_bytes().count(b"kvbjsecret") for end in ("", "-wal"))


def test_the_text_of_a_stored_memory_is_in_the_file_as_it_is(path: str):
    with opened(path) as store:
        store.add([embedded(1, "the zqaxkvbjsecret of it")], model=MODEL)

    assert Path(path).read_bytes().count(b"kvbjsecret") >= 2


def test_the_vector_of_a_removed_memory_is_nowhere_in_the_file(path: str):
    forgotten, kept = (vector(number).astype("<f2").tobytes() for number in (500, 501))
    with opened(path) as store:
        store.add([embedded(n) for n in (500, 501)], model=MODEL)

        store.remove([id_of(500)])

    content = Path(path).read_bytes()
    assert (content.count(forgotten), content.count(kept)) == (0, 1)


def test_the_key_of_a_damaged_block_takes_no_memory():
    columns, records = _Columns(BLOCK, 64), np.zeros(BLOCK, record_type(64))
    records["memory"][:4] = [7, 7, 2**62, -5]

    columns.put(0, records)
    owners, places, unknown = columns.places_of(np.array([7, 2**62, 8]), BLOCK)

    assert (owners.tolist(), places.tolist(), unknown.tolist()) == ([7, 7], [0, 1], [2**62, 8])


def block(first_key: int) -> bytes:
    """A block in which each memory has one vector."""
    records = np.zeros(BLOCK, record_type(DIMENSION))
    records["memory"] = np.arange(first_key, first_key + BLOCK)
    return records.tobytes()


def test_an_index_that_grows_while_places_are_looked_up_is_seen_whole():
    class Growing(VectorIndex):
        growing: Thread | None = None

        @property
        def _count(self) -> int:
            if self.growing is not None:
                thread, self.growing = self.growing, None
                thread.start()
                thread.join(0.5)
            return self.counted

        @_count.setter
        def _count(self, count: int) -> None:
            self.counted = count

    def grow() -> None:
        with index._refreshing:
            index._put(BLOCK, 2, block(BLOCK + 1))

    index = Growing(1, DIMENSION)
    index._put(0, 1, block(1))
    index.growing = thread = Thread(target=grow)

    owners, places = index._places(None, [BLOCK])  # the last slot, behind which the next vector of a memory would be

    thread.join()
    assert (owners, places.tolist(), index.counted) == ([BLOCK], [BLOCK - 1], 2 * BLOCK)
