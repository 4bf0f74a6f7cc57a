"""Ids of imported memories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from retentive.transfer.importing.ids import imported_id, moved_id

WHEN = datetime(2026, 5, 8, 13, 56, tzinfo=UTC)


def test_an_id_is_the_same_for_the_same_thing_and_another_for_anything_else():
    given = ("default", "chatgpt", "c1/m1", "hello")
    ids = {imported_id(*given, when=WHEN), imported_id(*given, when=WHEN), imported_id(*given, when=None)}
    ids |= {imported_id(*(*given[:at], given[at] + "x", *given[at + 1 :]), when=WHEN) for at in range(4)}

    assert len(ids) == 6
    assert imported_id("ab", "c", "", "", when=None) != imported_id("a", "bc", "", "", when=None)


def test_ids_are_uuids_of_version_7_that_sort_by_time():
    times = [None, WHEN, WHEN + timedelta(milliseconds=1), WHEN + timedelta(days=9), datetime.max.replace(tzinfo=UTC)]

    ids = [imported_id("default", "f", str(at), "x", when=time) for at, time in enumerate(times)]

    assert ids == sorted(ids)
    assert all(UUID(id).version == 7 and UUID(id).variant == "specified in RFC 4122" for id in ids)
    assert UUID(ids[1]).int >> 80 == int(WHEN.timestamp() * 1000)


def test_a_memory_in_another_profile_has_another_id_of_the_same_time():
    id = imported_id("default", "f", "k", "x", when=WHEN)

    assert moved_id("ana", id) == moved_id("ana", id) != moved_id("ben", id)
    assert UUID(moved_id("ana", id)).int >> 80 == UUID(id).int >> 80
