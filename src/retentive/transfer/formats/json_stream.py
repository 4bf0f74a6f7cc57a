"""A streaming JSON reader: yields the elements of a document of any size, with limits on depth and size.

ijson parses the events. Elements are built here, because the builder of ijson has no limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol

from retentive.extras import needs_extra
from retentive.transfer.formats.streams import Utf8Reader

with needs_extra("reading JSON of any size", "import"):
    import ijson

MAX_DEPTH = 100
MAX_NODES = 2_000_000
"""Keys and values of one element: a long conversation has some ten thousand."""

MAX_CHARACTERS = 64 * 1024 * 1024
MAX_VALUE_BYTES = 64 * 1024 * 1024
"""The parser buffers a whole value before its length is known, so reading ends at this length."""

PIECE_BYTES, MAX_PIECE_BYTES = 64 * 1024, 16 * 1024 * 1024
"""The parser reads a value again from its start with each piece: one of 20 MB in pieces of 64 KB took a minute. So the
pieces of a long value grow. All of them large would hold the events of many small values."""

HEAD_BYTES = 1 << 18
_OPENS, _CLOSES = ("start_map", "start_array"), ("end_map", "end_array")
_Events = Iterator[tuple[str, Any]]


class Readable(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a document, numbered from 1; `value` is None if it is too deep or too large."""

    number: int
    value: Any = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class IgnoredKey:
    """A key of the outer object that is not one of the lists that were read."""

    name: str


@dataclass(frozen=True, slots=True)
class InvalidJson:
    """The end of reading, because the rest of the document is not valid JSON."""

    reason: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The structure at the start of a document.

    `outer` are the keys of an object, `inner` those of the first object in an array or in the object's list `name`.
    """

    outer: frozenset[str]
    inner: frozenset[str]
    name: str | None = None


def read_elements(file: Readable, *, lists: tuple[str, ...] = ()) -> Iterator[Element | IgnoredKey | InvalidJson]:
    """Yield the elements of an array, or of the named lists of an object.

    An object without any of these lists is itself the only element.
    """
    try:
        yield from _read_document(_events(_LimitedReader(file)), lists)
    except _ValueTooLong:
        yield InvalidJson(f"a single value is longer than {MAX_VALUE_BYTES:,} bytes")
    except (ijson.JSONError, ValueError) as error:
        yield InvalidJson(f"invalid or incomplete JSON ({_parser_message(error)})")


def detect_shape(file: IO[bytes]) -> Shape:
    """Return the structure of a document, by its first bytes."""
    path: list[str] = []
    outer: set[str] = set()
    inner: set[str] = set()
    name: str | None = None
    list_name: str | None = None
    try:
        for event, value in _events(_LimitedReader(_Head(Utf8Reader(file)))):
            if event in _OPENS:
                path.append(event)
            elif event in _CLOSES:
                path.pop()
                if inner and path[-1:] == ["start_array"] and len(path) < 3:
                    break
            elif event == "map_key" and path == ["start_map"]:
                outer.add(value)
                name = value
            elif event == "map_key" and path in (
                ["start_array", "start_map"],
                ["start_map", "start_array", "start_map"],
            ):
                inner.add(value)
                list_name = name
    except (ijson.JSONError, ValueError):
        pass  # the first bytes end in the middle of a value
    return Shape(frozenset(outer), frozenset(inner), list_name)


def _read_document(events: _Events, lists: tuple[str, ...]) -> Iterator[Element | IgnoredKey]:
    event, value = next(events, ("", None))
    if event == "start_array":
        yield from _read_array(events)
    elif event == "start_map":
        yield from _read_object(events, lists)
    elif event:
        yield Element(1, value)
    for _ in events:  # the parser reports trailing content
        pass


def _read_array(events: _Events) -> Iterator[Element]:
    for number, (event, value) in enumerate(events, 1):
        if event == "end_array":
            return
        builder = _Builder()
        builder.build(event, value, events)
        yield Element(number, builder.value, builder.problem)


def _read_object(events: _Events, lists: tuple[str, ...]) -> Iterator[Element | IgnoredKey]:
    builder = _Builder()
    whole: dict[str, Any] = {}
    has_list = False
    for event, name in events:
        if event == "end_map":
            break
        opening, value = next(events)
        if name in lists and opening == "start_array":
            has_list = True
            yield from _read_array(events)
        else:
            builder.build(opening, value, events)
            if not builder.problem:
                whole[name] = builder.value
    if has_list:
        yield from (IgnoredKey(name) for name in whole)
    else:
        yield Element(1, None if builder.problem else whole, builder.problem)


class _Builder:
    """Builds a value from its events, within the limits."""

    def __init__(self) -> None:
        self.value: Any = None
        self.problem: str | None = None
        self._nodes = 0
        self._characters = 0
        self._containers: list[Any] = []
        self._keys: list[str] = []

    def build(self, event: str, value: Any, events: _Events) -> None:
        """Consume one whole value, whose first event is given."""
        depth = 0
        while True:
            depth += (event in _OPENS) - (event in _CLOSES)
            if not self.problem:
                self._check_limits(value, depth)
                self._add(event, value)
            if depth == 0:
                return
            event, value = next(events)

    def _add(self, event: str, value: Any) -> None:
        if self.problem:
            self.value, self._containers, self._keys = None, [], []
        elif event in _CLOSES:
            self.value = self._containers.pop()
        elif event == "map_key":
            self._keys.append(value)
        else:
            new: Any = {} if event == "start_map" else [] if event == "start_array" else value
            container = self._containers[-1] if self._containers else None
            if isinstance(container, dict):
                container[self._keys.pop()] = new
            elif container is not None:
                container.append(new)
            if event in _OPENS:
                self._containers.append(new)
            self.value = new

    def _check_limits(self, value: Any, depth: int) -> None:
        self._nodes += 1
        self._characters += len(value) if isinstance(value, str) else 0
        if depth > MAX_DEPTH:
            self.problem = f"it is nested deeper than {MAX_DEPTH} levels"
        elif self._nodes > MAX_NODES:
            self.problem = f"it has more than {MAX_NODES:,} parts"
        elif self._characters > MAX_CHARACTERS:
            self.problem = f"it has more than {MAX_CHARACTERS:,} characters"


class _ValueTooLong(Exception):
    """A single value exceeds `MAX_VALUE_BYTES`."""


class _LimitedReader:
    """Bytes for the parser; stops when many were read without an event."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.bytes_since_event = 0

    def read(self, size: int = -1) -> bytes:
        if size == 0:  # the parser tests whether the source gives bytes or text
            return b""
        if self.bytes_since_event > MAX_VALUE_BYTES:
            raise _ValueTooLong
        chunk = self._file.read(min(size, max(PIECE_BYTES, self.bytes_since_event)))
        self.bytes_since_event += len(chunk)
        return chunk


class _Head:
    """The first `HEAD_BYTES` of a source."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._left = HEAD_BYTES

    def read(self, size: int, /) -> bytes:
        chunk = self._file.read(min(size, self._left)) if self._left > 0 else b""
        self._left -= len(chunk)
        return chunk


def _events(source: _LimitedReader) -> _Events:
    # As floats: with Python's own integers, ijson 3.6 crashes the process at a number of 5,000 digits.
    for event in ijson.basic_parse(source, use_float=True, buf_size=MAX_PIECE_BYTES):
        source.bytes_since_event = 0
        yield event


def _parser_message(error: BaseException) -> str:
    """Return the parser's reason without the bytes that it quotes."""
    first = str(error).removeprefix("b'").removeprefix('b"').split("\n")[0].split("\\n")[0]
    return first.removeprefix("parse error: ").removeprefix("lexical error: ") or "it ends in the middle of a value"
