"""The JSON of the hooks is that of the standard library."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.server import light_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_a_value_is_written_and_read_as_by_the_standard_library(value: Any) -> None:
    written = light_json.dumps(value)
    assert written == json.dumps(value)
    assert light_json.loads(written) == value
    assert light_json.loads(json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "{} {}", "nul", '"\n"', b"\xff", '{"a" 1}'])
def test_what_is_not_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        light_json.loads(text)


def test_what_is_not_json_is_a_value_error_where_the_standard_library_is_not_loaded() -> None:
    code = (
        "import sys\nfrom retentive.server.light_json import loads\nassert 'json.decoder' not in sys.modules\n"
        "for text in ('{', '[1,]', '\"\\n\"', 'nul', ''):\n"
        "    try: loads(text)\n    except ValueError: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.stdout.split(), done.returncode) == (["refused"] * 5, 0), done.stderr


def test_space_and_a_byte_order_mark_are_skipped() -> None:
    assert light_json.loads(b'\xef\xbb\xbf \n{"a": [1, NaN]} \r\n')["a"][0] == 1


def test_a_value_that_has_no_json_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a set is not JSON"):
        light_json.dumps({"a": {1}})


def test_without_the_functions_in_c_the_standard_library_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light_json, "_scan", None)
    monkeypatch.setattr(light_json, "_encode", None)
    assert light_json.loads(light_json.dumps({"a": [1, "é"]})) == {"a": [1, "é"]}
