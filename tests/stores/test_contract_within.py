"""What every store promises about reads and writes that are limited to a scope."""

from __future__ import annotations

from datetime import timedelta

import pytest

from retentive.errors import Conflict, NotFound
from retentive.models import Scope
from retentive.stores.base import Store
from retentive.stores.rules import is_within
from retentive.stores.values import IdempotencyKey, Record
from tests.stores.build import MODEL, NOW, embedded, everything, id_of, listed, memory, rows, vector

OUTSIDE = {
    "profile": Scope("elsewhere"),
    "unknown profile": Scope("unknown"),
    "project": Scope(project="q"),
    "unknown project": Scope(project="unknown"),
    "session of the same project": Scope(sessions=("b",)),
    "session of another project": Scope(sessions=("c",)),
    "session of the same name in another profile": Scope("elsewhere", sessions=("a",)),
    "unknown session": Scope(sessions=("unknown",)),
    "no session": Scope(sessions=()),
    "kind": Scope(kinds=("identity",)),
    "no kind": Scope(kinds=()),
    "project and session": Scope(project="q", sessions=("a",)),
    "names that are no text": Scope("half \ud83d", "with\0nul", ("half \ud83d", "with\0nul")),
}
INSIDE = {
    "profile": Scope(),
    "project": Scope(project="p"),
    "session": Scope(sessions=("b", "a")),
    "only session": Scope(sessions=("a",), only_sessions=True),
    "kind": Scope(kinds=("identity", "semantic")),
    "all": Scope("default", "p", ("a",), ("semantic",)),
}
FIRST = id_of(1)

outside = pytest.mark.parametrize("scope", OUTSIDE.values(), ids=OUTSIDE)
inside = pytest.mark.parametrize("scope", INSIDE.values(), ids=INSIDE)


@pytest.fixture
def filled(store: Store) -> Store:
    """A store whose first memory is in session `a` of project `p`."""
    store.add(
        [
            embedded(1, session="a", project="p", kind="semantic"),
            embedded(2, session="b", project="p"),
            embedded(3, session="c", project="q", kind="identity"),
            embedded(4, session="a", profile="elsewhere"),
        ],
        model=MODEL,
    )
    return store


@outside
def test_a_memory_outside_the_scope_is_not_returned(filled: Store, scope: Scope):
    assert filled.get([FIRST], within=scope) == []


@inside
def test_a_memory_inside_the_scope_is_returned(filled: Store, scope: Scope):
    assert filled.get([id_of(4), FIRST, "nobody"], within=scope) == filled.get([FIRST])


def test_memories_inside_the_scope_are_returned_in_the_order_of_the_ids(filled: Store):
    found = filled.get([id_of(n) for n in (3, 4, 2, 9, 1)], within=Scope(project="p"))

    assert [one.id for one in found] == [id_of(2), id_of(1)]


@outside
def test_updating_a_memory_outside_the_scope_is_not_found_and_changes_nothing(filled: Store, scope: Scope):
    before = everything(filled, "default", "elsewhere")
    key = IdempotencyKey("key", "print", NOW)

    with pytest.raises(NotFound, match=f"there is no memory {FIRST}"):
        filled.update(
            Record(memory(1, "changed", project="new"), rows(vector(9))), model=MODEL, within=scope, idempotency_key=key
        )

    assert everything(filled, "default", "elsewhere") == before
    updated = filled.update(Record(memory(1, "changed")), model=None, idempotency_key=key)
    assert updated.text == "changed"


@inside
def test_a_memory_inside_the_scope_is_updated(filled: Store, scope: Scope):
    changed = filled.get([FIRST])[0]._replace(text="changed")

    assert filled.update(Record(changed), model=None, within=scope) == changed
    assert filled.get([FIRST]) == [changed]


def test_an_update_checks_the_memory_as_it_is_stored_not_its_new_contents(filled: Store):
    new = memory(1, kind="identity", project="q")
    with pytest.raises(NotFound):
        filled.update(Record(new), model=None, within=Scope(project="q"))

    assert filled.update(Record(new), model=None, within=Scope(project="p")).project == "q"


@outside
def test_removing_a_memory_outside_the_scope_returns_nothing_and_changes_nothing(filled: Store, scope: Scope):
    before = everything(filled, "default", "elsewhere")

    assert filled.remove([FIRST], within=scope) == []

    assert everything(filled, "default", "elsewhere") == before


@inside
def test_a_memory_inside_the_scope_is_removed(filled: Store, scope: Scope):
    assert filled.remove([id_of(4), FIRST], within=scope) == [FIRST]

    assert filled.get([FIRST]) == []
    assert listed(filled, Scope("elsewhere")) == [id_of(4)]


def test_remove_returns_exactly_the_ids_removed_in_the_order_given(filled: Store):
    filled.add([embedded(number, project="p") for number in (5, 6, 7)], model=MODEL)

    removed = filled.remove([id_of(n) for n in (7, 3, 1, 4, 7, 9, 6)], within=Scope(project="p"))

    assert removed == [id_of(7), id_of(1), id_of(6)]
    assert listed(filled) == [id_of(5), id_of(3), id_of(2)]
    assert listed(filled, Scope("elsewhere")) == [id_of(4)]


def test_a_removal_within_a_scope_that_is_sent_again_returns_the_same_ids(filled: Store):
    key = IdempotencyKey("key", "print", NOW)

    first = filled.remove([id_of(2), id_of(3), id_of(1)], within=Scope(project="p"), idempotency_key=key)

    assert first == [id_of(2), id_of(1)]
    assert filled.remove([id_of(2), id_of(3), id_of(1)], within=Scope(project="p"), idempotency_key=key) == first
    with pytest.raises(Conflict):
        filled.remove([id_of(3)], idempotency_key=IdempotencyKey("key", "another print", NOW))
    assert listed(filled) == [id_of(3)]


@pytest.mark.parametrize("scope", [None, *INSIDE.values()])
def test_is_within_accepts_a_memory_of_the_scope(scope: Scope | None):
    assert is_within(memory(1, session="a", project="p", kind="semantic"), scope)


@outside
def test_is_within_rejects_a_memory_outside_the_scope(scope: Scope):
    assert not is_within(memory(1, session="a", project="p", kind="semantic"), scope)


def test_is_within_never_matches_a_missing_project_or_session_by_an_empty_name():
    assert not is_within(memory(1), Scope(project=""))
    assert not is_within(memory(1), Scope(sessions=("",)))


def test_ids_are_found_by_their_prefix_in_a_scope(filled: Store):
    ids = [id_of(number) for number in (1, 2, 3, 4)]

    assert filled.ids_with_prefix("0190") == filled.ids_with_prefix(FIRST[:-1]) == ids
    assert filled.ids_with_prefix(FIRST) == filled.ids_with_prefix(FIRST, within=Scope(project="p")) == [FIRST]
    assert filled.ids_with_prefix("0190", within=Scope()) == ids[:3]
    assert filled.ids_with_prefix("01900000-0", within=Scope(sessions=("b",)), limit=1) == [id_of(2)]
    assert filled.ids_with_prefix("0190", within=Scope("elsewhere"), limit=1) == [id_of(4)]
    assert len(filled.ids_with_prefix("", limit=3)) == 3
    for prefix in ("0191", f"{FIRST}0", "01900000_", "0190000000", "0190%", "half \ud83d", "\0", "é"):
        assert filled.ids_with_prefix(prefix) == []


@outside
def test_an_id_outside_the_scope_is_not_found_by_its_prefix(filled: Store, scope: Scope):
    assert FIRST not in filled.ids_with_prefix("0190", within=scope)


def test_the_statistics_have_the_time_of_the_newest_memory(store: Store):
    assert store.stats().last_stored is None
    store.add([embedded(1, created=NOW - timedelta(days=2))], model=MODEL)
    store.add([embedded(2, created=NOW - timedelta(days=1), occurred=NOW)], model=MODEL)

    assert store.stats().last_stored == NOW - timedelta(days=1)
