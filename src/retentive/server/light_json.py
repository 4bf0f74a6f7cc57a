"""JSON without the module `json`, which imports `re`: that takes as long as the start of Python itself.

`loads` and `dumps` call the C functions that `json` calls. Where Python does not have them, they are those of `json`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPACE = " \t\n\r"
_MARK = b"\xef\xbb\xbf"


class _ScannerOptions:
    """What a scanner reads of a `json.JSONDecoder`."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int = float, int
    parse_constant = {name: float(name) for name in ("NaN", "Infinity", "-Infinity")}.__getitem__


def _refuse(value: Any) -> Any:
    raise TypeError(f"a {type(value).__name__} is not JSON")


try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    _options: Any = _ScannerOptions()
    _scan: Any = make_scanner(_options)
    _encode: Any = make_encoder(None, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, True)
except (ImportError, AttributeError, TypeError):  # not CPython, or a version of it with another interface
    _scan = _encode = None


def loads(text: str | bytes) -> Any:
    """Return the value of a JSON text; `ValueError` if it is none. Bytes are UTF-8."""
    if _scan is None:
        import json

        return json.loads(text)
    if isinstance(text, bytes):
        text = text.removeprefix(_MARK).decode("utf-8", "surrogatepass")
    text = text.strip(_SPACE)
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):  # without `json.decoder`, CPython 3.11 has no exception for most errors
        end = -1
    if end != len(text):
        raise ValueError("this is not one JSON value")
    return value


def dumps(value: Any) -> str:
    """Return a value as JSON in ASCII."""
    if _encode is None:
        import json

        return json.dumps(value)
    return "".join(_encode(value, 0))
