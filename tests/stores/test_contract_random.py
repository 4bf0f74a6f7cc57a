"""Random changes, after each of which every store must agree with the store in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from retentive.errors import Conflict, NotFound
from retentive.models import KINDS, Query, Scope
from retentive.stores.base import Store
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.values import Record, Vector
from tests.stores import postgres_server
from tests.stores.build import (
    ALL,
    HERE,
    MODEL,
    NOW,
    OTHER,
    make_query,
    memory,
    neighbours,
    rows,
    scores_by_id,
    search,
    vector,
)
from tests.stores.postgres_store import connected, fetch, opened

VOCABULARY = ["tea", "milk", "running", "runs", "café", "ERR_CONN_42", "東京", "🚀", "the", "deploy", "auth-service"]
SCOPES = [
    HERE,
    Scope(project="p"),
    Scope(sessions=("a",)),
    Scope(sessions=("a", "b"), only_sessions=True),
    Scope(sessions=("a", "b", "c")),
    Scope(kinds=("semantic", "identity")),
    Scope(outside_projects=True),
    Scope(outside_projects=True, kinds=("episodic", "identity")),
    Scope(sessions=("a", "b"), outside_projects=True),
    Scope(project="p", outside_projects=True),
    Scope("bob", sessions=("a",), kinds=("episodic",)),
]


def random_record(dice: random.Random, number: int) -> Record:
    return Record(
        memory(
            number,
            " ".join(dice.choices(VOCABULARY, k=dice.randint(1, 12))),
            profile=dice.choice(["default", "default", "bob"]),
            session=dice.choice([None, "a", "b", "c"]),
            project=dice.choice([*[None] * 4, "p", "q"]),
            kind=dice.choice(KINDS),
            speaker=dice.choice([None, "Ada"]),
            occurred=dice.choice([None, NOW - timedelta(days=number)]),
        ),
        None if dice.random() < 0.2 else rows(*(vector(dice.randrange(10**6)) for _ in range(dice.randint(1, 3)))),
    )


def random_change(dice: random.Random, number: int, known: list[str]) -> Callable[[Store], object]:
    """Return a random change, to be made in both stores. Its results can be compared."""
    some = dice.sample(known, min(len(known), dice.randint(1, 3)))
    fresh = [random_record(dice, 10 * number + at) for at in range(dice.randint(1, 4))]
    model = dice.choice([MODEL, MODEL, MODEL, OTHER])
    changed = replace(fresh[0], memory=fresh[0].memory._replace(id=dice.choice(known or ["nobody"])))
    session, source, target = dice.choice("abc"), dice.choice([None, "p", "q"]), dice.choice([None, "p", "q"])
    scope = dice.choice(SCOPES)
    seed = dice.randrange(10**6)
    fields = dice.sample(["text", "speaker", "kind", "importance", "metadata", "occurred", "source"], 2)

    def reembed(store: Store) -> bool:
        waiting = store.unembedded(model, limit=ALL)
        store.attach([Record(one, rows(vector(seed + at))) for at, one in enumerate(waiting)], model=model)
        return store.switch_model(model)

    changes: list[tuple[int, Callable[[Store], object]]] = [
        (10, lambda store: store.add(fresh, model=model)),
        (6, lambda store: store.add(fresh, model=model, exact=True)),
        (4, lambda store: store.update(changed, model=model)),
        (1, lambda store: store.update(changed, model=model, within=scope)),
        (2, lambda store: store.update(replace(changed, vectors=None), model=None)),
        (4, lambda store: store.update(changed, model=model, fields=fields)),
        (4, lambda store: store.remove(some)),
        (1, lambda store: store.remove(some, within=scope)),
        (1, lambda store: store.get(some, within=scope)),
        (2, lambda store: store.move_session("default", session, project=target)),
        (2, lambda store: store.move_session("default", session, from_project=source, project=target)),
        (1, lambda store: store.drop_session("default", session, project=source)),
        (2, lambda store: store.touch(some, at=NOW + timedelta(hours=seed % 100))),
        (1, lambda store: store.switch_model(model)),
        (1, reembed),
        (1, lambda store: store.remove_scope(Scope(sessions=("c",), only_sessions=True))),
        (1, lambda store: store.remove_scope(Scope(kinds=("identity",), outside_projects=True))),
    ]
    return dice.choices([change for _, change in changes], [weight for weight, _ in changes])[0]


def outcome(change: Callable[[Store], object], store: Store) -> object:
    try:
        return change(store)
    except (Conflict, NotFound) as error:
        return type(error)


def all_scores(store: Store, query: Query, near: Vector, ids: list[str]) -> list[dict[str, float]]:
    """Return the scores that one search gives: of both retrievers, to the end, and of some memories by id."""
    found = search(store, query, keyword=ALL, semantic=ALL, vector=near, ids=ids, scores=True)
    return [*map(scores_by_id, found.candidates.values()), *map(dict, found.scores.values())]


def recall_reads(store: Store, query: Query, near: Vector) -> list[dict[str, float]]:
    """Return the scores that a recall reads."""
    options = {"keyword": query.pool, "semantic": query.pool, "depth": query.depth, "scores": True}
    found = search(store, query, vector=near, **options)
    ids = [one.memory.id for best in found.candidates.values() for one in best]
    assert search(store, query, vector=near, centres=query.pool, **options).neighbours == neighbours(store, ids)
    return [*map(scores_by_id, found.candidates.values()), *map(dict, found.scores.values())]


def assert_close(ours: list[dict[str, float]], expected: list[dict[str, float]]) -> None:
    """Compare scores, of which some stores compute in single precision. It is faster than `pytest.approx`."""
    for found, wanted in zip(ours, expected, strict=True):
        assert found.keys() == wanted.keys()
        values = [found[id] for id in wanted]
        np.testing.assert_allclose(values, list(wanted.values()), rtol=1e-5, atol=1e-6)


def compare_after_random_changes(store: Store, reference: Store, *, seed: int, steps: int) -> None:
    """Make the same random changes in both stores, and compare after each what they return."""
    dice = random.Random(seed)
    for number in range(steps):
        known = [one.id for profile in ("default", "bob") for one in reference.list(Scope(profile), limit=ALL).memories]
        change = random_change(dice, number, known)
        assert outcome(change, store) == outcome(change, reference)

        scope, text = dice.choice(SCOPES), " ".join(dice.sample(VOCABULARY, 3))
        in_scope = [one.id for one in reference.list(scope, limit=ALL).memories]
        some = dice.sample(in_scope, min(len(in_scope), 20))
        near = vector(dice.randrange(10**6))
        query = make_query(
            text,
            scope,
            exclude=some[: dice.choice([0, 3])],
            vector=dice.choice([None, near]),
            max_document_frequency=dice.choice([1.0, 0.2]),
        )
        assert store.list(scope, limit=ALL) == reference.list(scope, limit=ALL)
        assert_close(*(all_scores(one, query, near, some) for one in (store, reference)))
        if number % 5 == 0:
            everything = replace(query, limit=0)
            assert_close(*(recall_reads(one, everything, near) for one in (store, reference)))

    for profile in ("default", "bob"):
        assert store.sessions(profile) == reference.sessions(profile)
        assert store.projects(profile) == reference.projects(profile)
    assert replace(store.stats(), bytes=0) == reference.stats()
    assert store.check() == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_each_of_many_random_changes_a_store_agrees_with_the_store_in_memory(
    store_and_reference: tuple[Store, Store], seed: int
):
    store, reference = store_and_reference

    compare_after_random_changes(store, reference, seed=seed, steps=200)

    assert reference.stats().memories > 10


def test_postgres_agrees_while_its_keys_outgrow_two_bytes():
    address = postgres_server.address()
    with opened(address) as store:
        with connected(address) as connection:
            for table, column in (("memories", "key"), ("sessions", "id"), ("projects", "id"), ("profiles", "id")):
                connection.execute(f"ALTER TABLE {table} ALTER COLUMN {column} RESTART WITH {2**15 - 30}")
        compare_after_random_changes(store, InMemoryStore(), seed=2, steps=100)
        [[last]] = fetch(store, "SELECT max(key) FROM memories")

    assert last > 2**15
