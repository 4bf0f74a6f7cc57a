"""What every store promises about writes that are sent again with the same idempotency key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from retentive.errors import Conflict, VersionConflict
from retentive.stores.base import Store
from retentive.stores.values import IdempotencyKey
from tests.stores.build import (
    NOW,
    id_of,
    record,
)


def test_an_add_that_is_sent_again_returns_what_it_wrote_and_writes_nothing(store: Store):
    idempotency_key = IdempotencyKey("me/key", "print", NOW)
    first = store.add([record(1, session="s"), record(2, session="s")], model=None, idempotency_key=idempotency_key)

    again = store.add([record(3, session="s"), record(4, session="s")], model=None, idempotency_key=idempotency_key)

    assert again == first
    assert store.stats().memories == 2
    store.remove([id_of(1)])
    assert store.add([record(5)], model=None, idempotency_key=idempotency_key) == first[1:]


def test_a_key_that_was_used_for_another_request_is_a_conflict(store: Store):
    store.add([record(1)], model=None, idempotency_key=IdempotencyKey("key", "print", NOW))

    with pytest.raises(Conflict, match="another request"):
        store.add([record(2)], model=None, idempotency_key=IdempotencyKey("key", "other print", NOW))
    assert store.stats().memories == 1


def test_a_write_that_failed_has_not_used_its_key(store: Store):
    store.add([record(1)], model=None)
    idempotency_key = IdempotencyKey("key", "print", NOW)

    with pytest.raises(Conflict, match=id_of(1)):
        store.add([record(2), record(1)], model=None, idempotency_key=idempotency_key)

    assert [memory.id for memory in store.add([record(2)], model=None, idempotency_key=idempotency_key)] == [id_of(2)]


def test_a_key_can_be_used_again_after_a_day(store: Store):
    store.add([record(1)], model=None, idempotency_key=IdempotencyKey("key", "print", NOW))
    later = NOW + timedelta(days=1, seconds=1)
    store.add([record(3)], model=None, idempotency_key=IdempotencyKey("key", "other print", later))

    assert store.stats().memories == 2


def test_an_update_with_a_key_that_is_used_again_after_a_day_checks_the_version(store: Store):
    [before] = store.add([record(1, "first")], model=None)
    store.update(record(1, "second"), model=None, idempotency_key=IdempotencyKey("key", "print", NOW))
    later = NOW + timedelta(days=1, seconds=1)
    store.add([record(2)], model=None, idempotency_key=IdempotencyKey("another", "print", later))

    reused = IdempotencyKey("key", "other print", later)
    with pytest.raises(VersionConflict):
        store.update(record(1, "third"), model=None, if_version=before.version, idempotency_key=reused)
    assert [memory.text for memory in store.get([id_of(1)])] == ["second"]


def test_of_many_threads_that_send_the_same_write_only_one_writes(store: Store):
    idempotency_key = IdempotencyKey("key", "print", NOW)

    with ThreadPoolExecutor(8) as threads:
        written = list(
            threads.map(lambda n: store.add([record(n)], model=None, idempotency_key=idempotency_key), range(8))
        )

    assert store.stats().memories == 1
    assert all(memories == written[0] for memories in written)


def test_an_update_that_is_sent_again_changes_nothing_even_after_a_later_update(store: Store):
    store.add([record(1, "first")], model=None)
    idempotency_key = IdempotencyKey("key", "print", NOW)
    store.update(record(1, "second"), model=None, idempotency_key=idempotency_key)
    store.update(record(1, "third"), model=None)

    again = store.update(record(1, "second"), model=None, idempotency_key=idempotency_key)

    assert again.text == store.get([id_of(1)])[0].text == "third"
    with pytest.raises(Conflict, match="another request"):
        store.update(record(1, "fourth"), model=None, idempotency_key=IdempotencyKey("key", "other print", NOW))


def test_a_removal_that_is_sent_again_returns_the_ids_removed_then_and_removes_nothing(store: Store):
    store.add([record(1), record(2), record(3)], model=None)
    idempotency_key = IdempotencyKey("key", "print", NOW)

    removed = store.remove([id_of(2), id_of(1), id_of(9)], idempotency_key=idempotency_key)
    store.add([record(1)], model=None)
    again = store.remove([id_of(2), id_of(1), id_of(9)], idempotency_key=idempotency_key)

    assert removed == again == [id_of(2), id_of(1)]
    assert store.stats().memories == 2
    assert store.remove([id_of(8)], idempotency_key=IdempotencyKey("nothing", "print", NOW)) == []
