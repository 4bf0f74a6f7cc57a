"""What every store promises about a filter: both retrievers search only what matches it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from retentive.models import Filter, Scalar, Scope
from retentive.stores.base import Store
from tests.stores.build import (
    MODEL,
    NOW,
    axis,
    find_keyword,
    id_of,
    keyword_ids,
    nearest_ids,
    record,
    rows,
    scores_by_id,
)

DAY = timedelta(days=1)


def with_metadata(**values: Scalar) -> Filter:
    return Filter(metadata=tuple(values.items()))


@pytest.mark.parametrize(
    ("wanted", "inside"),
    [
        (Filter(since=NOW - DAY), {"created": NOW}),
        (Filter(since=NOW, until=NOW + DAY), {"created": NOW - 90 * DAY, "occurred": NOW}),
        (with_metadata(topic="car"), {"metadata": {"topic": "car", "other": [1, {"topic": 2}]}}),
        (Filter(since=NOW - DAY, metadata=(("topic", "car"),)), {"created": NOW, "metadata": {"topic": "car"}}),
    ],
    ids=["since", "occurred", "metadata", "both"],
)
@pytest.mark.parametrize("scope", [Scope("ada"), Scope("ada", project="p"), Scope("ada", sessions=("s",))])
def test_hundreds_of_better_memories_outside_the_filter_do_not_hide_the_one_inside(
    store: Store, wanted: Filter, inside: dict[str, Any], scope: Scope
):
    home: dict[str, Any] = {"profile": "ada", "project": "p", "session": "s"}
    outside = {"created": NOW - 30 * DAY, "metadata": {"topic": "cars", "note": '"topic": "car"'}, **home}
    store.add([record(n, "tea tea", vectors=rows(axis(0)), **outside) for n in range(600)], model=MODEL)
    text = "a long note about tea, a cup, a garden and rain"
    store.add([record(900, text, vectors=rows(axis(1, lean=0, by=0.1)), **(outside | inside))], model=MODEL)
    store.add([record(901, "tea", vectors=rows(axis(0)), **({"profile": "bob"} | inside))], model=MODEL)

    assert keyword_ids(store, "tea", scope, limit=10, filter=wanted) == [id_of(900)]
    assert nearest_ids(store, axis(0), scope, limit=10, filter=wanted) == [id_of(900)]
    assert nearest_ids(store, axis(0), scope, limit=10, filter=wanted, exclude=[id_of(900)]) == []
    unfiltered = find_keyword(store, "tea", scope)
    assert scores_by_id(find_keyword(store, "tea", scope, filter=wanted)) == {
        id_of(900): pytest.approx(scores_by_id(unfiltered)[id_of(900)], abs=1e-6)
    }


VALUES: dict[int, Any] = {
    1: "car", 2: 1, 3: 1.0, 4: True, 5: None, 6: "1", 7: "true", 8: ["car"], 9: {"key": "car"}, 10: False, 11: 0,
    12: '東京 "quoted" \\ back', 13: "nul \0 inside", 14: 12, 15: "", 16: -0.5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("car", [1]), (1, [2, 3]), (1.0, [2, 3]), (True, [4]), (None, [5]), ("1", [6]), ("true", [7]), (False, [10]),
        (0, [11]), ('東京 "quoted" \\ back', [12]), ("nul \0 inside", [13]), (12, [14]), ("", [15]), (-0.5, [16]),
        ("nothing", []), ("%", []), ("' OR 1=1 --", []),
    ],
)  # fmt: skip
def test_metadata_is_compared_by_type_and_value(store: Store, value: Scalar, expected: list[int]):
    odd = "a \"key' with \\ all: of it"
    store.add([record(n, "tea", metadata={"key": one, odd: one}) for n, one in VALUES.items()], model=None)
    store.add([record(99, "tea"), record(98, "tea", metadata={"other": "car", "nested": {"key": "car"}})], model=None)

    for key in ("key", odd):
        assert sorted(keyword_ids(store, "tea", filter=Filter(metadata=((key, value),)))) == [
            id_of(n) for n in expected
        ]


def test_since_is_inclusive_and_until_is_not(store: Store):
    store.add([record(n, "tea", created=NOW + n * DAY) for n in range(5)], model=None)

    assert keyword_ids(store, "tea", filter=Filter(NOW + DAY, NOW + 3 * DAY)) == [id_of(1), id_of(2)]
    assert keyword_ids(store, "tea", filter=Filter(until=NOW)) == []
