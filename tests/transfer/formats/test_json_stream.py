"""JSON of any size and depth, read one element at a time."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentive.transfer.formats import json_stream
from retentive.transfer.formats.json_stream import Element, IgnoredKey, InvalidJson, detect_shape, read_elements
from tests.transfer.formats.samples import as_file

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def read(data: bytes | str, *lists: str) -> list[Element | IgnoredKey | InvalidJson]:
    return list(read_elements(as_file(data if isinstance(data, bytes) else data.encode()), lists=lists))


@given(st.lists(VALUES, max_size=5))
@settings(max_examples=60, deadline=None)
def test_elements_are_what_the_json_module_reads(values):
    written = json.dumps(values, ensure_ascii=False).encode(errors="replace")

    assert [element.value for element in read(written)] == json.loads(written)


def test_an_object_yields_the_elements_of_its_lists_and_its_other_keys():
    assert read('{"a": {"b": 1}, "results": [{"x": 1}, 2], "links": []}', "results") == [
        Element(1, {"x": 1}),
        Element(2, 2),
        IgnoredKey("a"),
        IgnoredKey("links"),
    ]


def test_an_object_without_a_list_is_the_only_element():
    assert read('{"a": {"b": [1]}, "c": null}', "results") == [Element(1, {"a": {"b": [1]}, "c": None})]


@pytest.mark.parametrize("data", ["", " ", '[{"a": 1}, {"b"', '[{"a": 1}] and more', '[{"a": 1},]', '[{"a": 1}, NaN]'])
def test_elements_before_invalid_json_are_read_and_the_place_is_reported(data):
    *before, cut = read(data)

    assert isinstance(cut, InvalidJson)
    assert before in ([], [Element(1, {"a": 1})])
    assert "invalid or incomplete JSON" in cut.reason
    assert "b'" not in cut.reason


def test_a_document_cut_off_anywhere_gives_the_elements_that_are_complete():
    whole = json.dumps([{"at": at, "text": "x" * at} for at in range(5)])

    for end in range(len(whole)):
        *found, cut = read(whole[:end])
        complete = sum(whole[:end].count(f'"at": {at}') and f'{"x" * at}"}}' in whole[:end] for at in range(5))
        assert isinstance(cut, InvalidJson)
        assert len(found) <= complete
        assert [element.value["at"] for element in found] == list(range(len(found)))


def test_an_element_that_is_too_deep_is_skipped_and_the_next_is_read():
    deep, next_one = read('[{"a": ' + "[" * 50_000 + "]" * 50_000 + '}, {"b": 1}]')

    assert (deep.value, deep.problem) == (None, "it is nested deeper than 100 levels")
    assert next_one == Element(2, {"b": 1})


def test_a_document_that_is_only_deep_ends_with_its_reason():
    assert [type(one) for one in read("[" * 200_000)] == [InvalidJson]


def test_an_element_of_too_many_parts_is_skipped_without_being_held(monkeypatch):
    monkeypatch.setattr(json_stream, "MAX_NODES", 1000)
    data = b'[{"a": [' + b"[]," * 300_000 + b'1]}, {"b": 1}]'

    tracemalloc.start()
    found = read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == [Element(1, None, "it has more than 1,000 parts"), Element(2, {"b": 1})]
    assert peak < 10_000_000


class CountingFile(io.BytesIO):
    """A file that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size)


def test_a_long_value_is_parsed_in_few_pieces_because_each_is_parsed_with_all_before_it():
    file = CountingFile(b'["' + b"\\u0041" * 2_000_000 + b'"]')

    [element] = read_elements(file)

    assert element.value == "A" * 2_000_000
    assert file.reads < 20


def test_a_value_too_long_for_memory_ends_the_reading_with_its_reason(monkeypatch):
    monkeypatch.setattr(json_stream, "MAX_VALUE_BYTES", 1 << 20)

    class Endless:
        """A string without an end, of which nobody should ask for more than a little."""

        given = 0

        def read(self, size: int, /) -> bytes:
            self.given += size
            return b'[{"a": 1}, "' if self.given == size else b"x" * size

    source = Endless()

    first, cut = read_elements(source)

    assert first == Element(1, {"a": 1})
    assert cut == InvalidJson("a single value is longer than 1,048,576 bytes")
    assert source.given < 3 << 20


@pytest.mark.parametrize("number", ["1e400", "123456789012345678901234567890", "1" * 10_000, "-" + "9" * 1_000_000])
def test_a_number_out_of_any_range_ends_the_reading_and_not_the_process(number):
    first, cut = read(f"[{2**53}, {number}, 3]")

    assert first == Element(1, 2**53)
    assert isinstance(cut, InvalidJson)
    assert "overflow" in cut.reason


@pytest.mark.parametrize(
    ("data", "outer", "inner", "name"),
    [
        ('[{"a": {"b": 1}, "c": [{"d": 1}]}, {"e": 1}]', "", "ac", None),
        ('{"x": 1, "results": [{"a": 1}], "y": [{"z": 1}]}', "x results", "a", "results"),
        ('{"mapping": {}, "tags": ["t"]}', "mapping tags", "", None),
        ('[{"a": 1, "b": {"c": ', "", "ab", None),
        ("not JSON", "", "", None),
    ],
)
def test_the_shape_of_a_document_is_detected_by_its_first_bytes(data, outer, inner, name):
    shape = detect_shape(as_file(data.encode()))

    assert (shape.outer, shape.inner, shape.name) == (set(outer.split()), set(inner), name)
