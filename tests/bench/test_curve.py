"""The picture of how a recall's time grows."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

from bench.curve import draw, lines


def size(memories: int, scope: float, whole: float, lance: float | None = None) -> dict[str, object]:
    rivals = (
        []
        if lance is None
        else [{"subject": f"LanceDB, {name}", "figures": [lance * n, lance]} for name, n in (("a", 2), ("b", 1))]
    )
    tables = [
        {
            "title": title,
            "columns": ["p50, ms", "CPU p50, ms"],
            "rows": [{"subject": "Retentive, default", "figures": [time, time / 2]}, *rivals],
        }
        for title, time in (
            ("Recall of 10 in a scope of 1 % (100 memories)", scope),
            ("Recall of 10 in the whole store", whole),
        )
    ]
    return {"memories": memories, "tables": [*tables, {"title": "Remembering", "rows": []}]}


def test_the_lines_have_the_medians_of_all_sizes_and_the_fastest_search_of_a_rival():
    drawn = lines([{"sizes": [size(100_000, 3.0, 7.0, 9.0)]}, {"sizes": [size(10_000, 2.0, 5.0)]}])

    assert [(line.engine, line.scoped, dict(line.points)) for line in drawn] == [
        ("Retentive", False, {10_000: 5.0, 100_000: 7.0}),
        ("Retentive", True, {10_000: 2.0, 100_000: 3.0}),
        ("LanceDB", False, {100_000: 9.0}),
        ("LanceDB", True, {100_000: 9.0}),
    ]


def test_the_lines_of_another_column():
    drawn = lines([{"sizes": [size(10_000, 2.0, 5.0)]}], column="CPU p50, ms")

    assert [dict(line.points) for line in drawn] == [{10_000: 2.5}, {10_000: 1.0}]


def test_the_picture_is_well_formed_and_has_every_point_inside():
    picture = ET.fromstring(draw(lines([{"sizes": [size(10_000, 2.0, 5.0), size(1_000_000, 9.0, 31.0, 40.0)]}])))

    circles = picture.findall("{*}circle")
    assert len(circles) == 6
    assert all(0 < float(one.attrib["cx"]) < 640 and 0 < float(one.attrib["cy"]) < 380 for one in circles)
    texts = [text.text for text in picture.findall("{*}text")]
    assert {"1,000,000", "10 ms", "Retentive, whole store", "LanceDB, scope", "31", "9.0"} <= set(texts)


def test_labels_of_like_times_are_not_on_each_other():
    picture = ET.fromstring(draw(lines([{"sizes": [size(10_000, 5.0, 5.1, 5.2), size(100_000, 6.0, 6.0, 6.0)]}])))

    labels = [text for text in picture.findall("{*}text") if text.text in ("5.0", "5.1", "5.2", "6.0")]
    for place in {label.attrib["x"] for label in labels}:
        heights = sorted(float(label.attrib["y"]) for label in labels if label.attrib["x"] == place)
        assert len(heights) == 4
        assert all(below - above >= 13 for above, below in pairwise(heights))
