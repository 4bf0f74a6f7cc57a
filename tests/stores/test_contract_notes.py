"""What every store promises of notes, of writes that name themselves, and of profiles: one suite over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from retentive.errors import Conflict
from retentive.models import Profile, Scope
from retentive.stores import IdempotencyKey, Store
from tests.stores.build import NOW, id_of, record
from tests.stores.openers import OPENERS


@pytest.fixture(params=OPENERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = OPENERS[request.param](tmp_path)
    yield opened
    assert opened.check() == []
    opened.close()


def test_notes_are_found_by_how_their_names_begin(store: Store):
    store.keep({"token/b": "2", "token/a": "1", "token": "no", "tokenless": "no", "to%en/": "no"})

    assert list(store.list_values("token/").items()) == [("token/a", "1"), ("token/b", "2")]
    assert store.list_values("t_ken/") == store.list_values("%") == {}


def test_notes_are_kept_together_or_not_at_all(store: Store):
    store.keep({"a": "1", "b": "1"})

    assert not store.keep({"a": "2", "b": "2"}, expected={"a": "1", "b": "another"})
    assert not store.keep({"c": "2"}, expected={"a": None})
    assert (store.get_value("a"), store.get_value("b"), store.get_value("c")) == ("1", "1", None)

    assert store.keep({"a": "2", "b": None, "c": "2"}, expected={"a": "1", "c": None})
    assert (store.get_value("a"), store.get_value("b"), store.get_value("c")) == ("2", None, "2")


def test_of_many_who_expect_the_same_only_one_keeps_a_note(store: Store):
    with ThreadPoolExecutor(8) as threads:
        kept = list(threads.map(lambda n: store.keep({"a": str(n)}, expected={"a": None}), range(8)))

    assert kept.count(True) == 1
    assert store.get_value("a") == str(kept.index(True))


def test_a_write_that_is_sent_again_gives_what_it_wrote_and_writes_nothing(store: Store):
    idempotency_key = IdempotencyKey("me/key", "print", NOW)
    first = store.add([record(1, session="s"), record(2, session="s")], model=None, idempotency_key=idempotency_key)

    again = store.add([record(3, session="s"), record(4, session="s")], model=None, idempotency_key=idempotency_key)

    assert again == first
    assert store.stats().memories == 2
    store.remove([id_of(1)])
    assert store.add([record(5)], model=None, idempotency_key=idempotency_key) == first[1:]


def test_a_name_that_was_used_for_another_write_is_refused(store: Store):
    store.add([record(1)], model=None, idempotency_key=IdempotencyKey("key", "print", NOW))

    with pytest.raises(Conflict, match="another request"):
        store.add([record(2)], model=None, idempotency_key=IdempotencyKey("key", "other print", NOW))
    assert store.stats().memories == 1


def test_a_write_that_failed_has_not_used_its_name(store: Store):
    store.add([record(1)], model=None)
    idempotency_key = IdempotencyKey("key", "print", NOW)

    with pytest.raises(Conflict, match=id_of(1)):
        store.add([record(2), record(1)], model=None, idempotency_key=idempotency_key)

    assert [memory.id for memory in store.add([record(2)], model=None, idempotency_key=idempotency_key)] == [id_of(2)]


def test_the_name_of_a_write_is_free_again_after_a_day(store: Store):
    store.add([record(1)], model=None, idempotency_key=IdempotencyKey("key", "print", NOW))
    later = NOW + timedelta(days=1, seconds=1)
    store.add([record(2)], model=None, idempotency_key=IdempotencyKey("another", "print", later))

    store.add([record(3)], model=None, idempotency_key=IdempotencyKey("key", "other print", later))

    assert store.stats().memories == 3


def test_of_many_who_send_the_same_write_only_one_writes(store: Store):
    idempotency_key = IdempotencyKey("key", "print", NOW)

    with ThreadPoolExecutor(8) as threads:
        written = list(
            threads.map(lambda n: store.add([record(n)], model=None, idempotency_key=idempotency_key), range(8))
        )

    assert store.stats().memories == 1
    assert all(memories == written[0] for memories in written)


def test_a_change_that_is_sent_again_is_not_made_again_whatever_came_after_it(store: Store):
    store.add([record(1, "first")], model=None)
    idempotency_key = IdempotencyKey("key", "print", NOW)
    store.update(record(1, "second"), model=None, idempotency_key=idempotency_key)
    store.update(record(1, "third"), model=None)

    again = store.update(record(1, "second"), model=None, idempotency_key=idempotency_key)

    assert again.text == store.get([id_of(1)])[0].text == "third"
    with pytest.raises(Conflict, match="another request"):
        store.update(record(1, "fourth"), model=None, idempotency_key=IdempotencyKey("key", "other print", NOW))


def test_a_removal_that_is_sent_again_tells_what_it_removed_and_removes_nothing(store: Store):
    store.add([record(1), record(2), record(3)], model=None)
    idempotency_key = IdempotencyKey("key", "print", NOW)

    assert store.remove([id_of(1), id_of(2), id_of(9)], idempotency_key=idempotency_key) == 2
    store.add([record(1)], model=None)
    assert store.remove([id_of(1), id_of(2), id_of(9)], idempotency_key=idempotency_key) == 2

    assert store.stats().memories == 2
    assert store.remove([id_of(8)], idempotency_key=IdempotencyKey("nothing", "print", NOW)) == 0


def test_profiles_are_those_who_have_memories_with_how_much(store: Store):
    store.add([record(1, project="p", session="s"), record(2), record(3, profile="ana", session="x")], model=None)
    store.add([record(4, profile="gone")], model=None)
    store.remove_scope(Scope("gone"))

    assert store.profiles() == [Profile("ana", 0, 1, 1), Profile("default", 1, 1, 2)]
