"""The comparison of two stores finds every kind of difference, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from retentive.pipeline.access_tokens import AccessTokens
from retentive.pipeline.tuning_history import save_parameters
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.values import Record
from retentive.transfer.copying import CopyOptions, verify_stores
from retentive.transfer.copying.contents import Checksum, canonical_memory
from tests.stores.build import ALL, MODEL, NOW, OTHER, memory, rows, vector
from tests.transfer.copying.build import copied, fill, verdicts


@pytest.fixture
def twins() -> tuple[Store, Store]:
    """Two stores that hold the same."""
    one, other = open_store("memory://"), open_store("memory://")
    fill(one)
    assert copied(one, other)[1].agrees
    return one, other


def compared(one: Store, other: Store, **options: bool) -> dict[str, bool | None]:
    return verdicts(verify_stores(one, other, options=CopyOptions(**options)))


def changed(store: Store, **fields: object) -> None:
    old = store.scan(limit=ALL).records[5].memory
    store.update(Record(old._replace(**fields)), model=None)


CHANGES: dict[str, tuple[Callable[[Store], object], set[str]]] = {
    "a memory less": (
        lambda store: store.remove([store.scan(limit=1).records[0].memory.id]),
        {"memories", "profiles", "kinds", "contents", "use"},
    ),
    "another text": (lambda store: changed(store, text="quartz!"), {"contents"}),
    "another importance": (lambda store: changed(store, importance=0.123), {"contents"}),
    "other metadata": (lambda store: changed(store, metadata={"tags": []}), {"contents"}),
    "a use more": (lambda store: store.touch([store.scan(limit=1).records[0].memory.id], at=NOW), {"use"}),
    "a session elsewhere": (
        lambda store: store.move_session("default", "c", project="q"), {"sessions", "contents"}
    ),
    "a judgement less": (
        lambda store: store.unjudge(store.judgements("default")[:1]), {"judgements"}
    ),
    "another judgement": (
        lambda store: store.judge([replace(store.judgements("default")[0], relevance=3)]), {"judgements"}
    ),
    "a parameter turned": (lambda store: save_parameters(store, {"keyword_weight": 2}, by="", now=NOW), {"settings"}),
    "a token more": (lambda store: AccessTokens(store, profile="x", clock=lambda: NOW).create(), set()),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_every_kind_of_difference_is_seen_under_its_name(twins, change):
    work, expected = CHANGES[change]

    work(twins[1])

    found = {name for name, agrees in compared(*twins).items() if agrees is False}
    assert expected <= found
    assert found - expected <= {"vectors", "sessions"}
    assert bool(found) == bool(expected)


def test_another_vector_is_seen_and_one_that_rounds_alike_is_not():
    def store(lean: float) -> Store:
        made = open_store("memory://")
        made.add([Record(memory(1), rows(vector(1) + lean))], model=MODEL)
        return made

    assert compared(store(0), store(0.01))["vectors"] is False
    assert compared(store(0), store(1e-8))["vectors"] is True


def test_vectors_of_another_model_are_seen():
    stores = [open_store("memory://") for _ in "12"]
    for store, model in zip(stores, (MODEL, OTHER), strict=True):
        store.add([Record(memory(1), rows(vector(1)))], model=model)

    assert compared(*stores)["model"] is False
    assert compared(*stores, vectors=False)["model"] is None


def test_tokens_are_compared_where_they_were_to_go_along(twins):
    assert compared(*twins)["settings"] is True
    assert compared(*twins, tokens=True)["settings"] is False


def test_what_the_target_holds_besides_is_a_difference_unless_it_was_added_to(twins):
    twins[1].add([Record(memory(900))], model=None)

    assert compared(*twins)["contents"] is False
    assert compared(*twins, into=True)["contents"] is True


# Checksums


def test_a_checksum_does_not_depend_on_order_and_counts_repeated_items():
    def of(*things: bytes) -> Checksum:
        total = Checksum()
        for thing in things:
            total.add(thing)
        return total

    assert of(b"a", b"b", b"b") == of(b"b", b"a", b"b")
    assert of(b"a", b"a") != of(b"b", b"b")
    assert of(b"a", b"a") != of()


def test_parts_of_a_thing_cannot_slip_into_one_another():
    one, other = Checksum(), Checksum()

    one.add(b"ab", b"c")
    other.add(b"a", b"bc")

    assert one != other


def test_numbers_that_are_equal_are_written_alike():
    given = memory(1, metadata={"n": 1e22, "deep": [1.0, 2.5]})

    assert canonical_memory(given) == canonical_memory(given._replace(metadata={"n": 10**22, "deep": [1, 2.5]}))
    assert canonical_memory(given) != canonical_memory(given._replace(metadata={"n": 10**22, "deep": [1, 2.6]}))
