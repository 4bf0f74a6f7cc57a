"""JSON of any size, one element at a time: deep, endless or cut-off documents cost neither memory nor the rest.

ijson gives the events; elements are built here, because its own builder has no limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol

from retentive.errors import MissingExtra
from retentive.transfer.formats.reading import Utf8

try:
    import ijson
except ImportError:  # pragma: no cover
    raise MissingExtra("reading JSON of any size", "import") from None

DEEPEST = 100
MOST_PARTS = 2_000_000
"""Keys and values of one element: a long conversation has some ten thousand."""

MOST_CHARACTERS = 64 * 1024 * 1024
LONGEST_VALUE = 64 * 1024 * 1024
"""The parser holds a value before anybody can measure it: beyond this many bytes, reading ends."""

HEAD = 1 << 18
_OPENS, _CLOSES = ("start_map", "start_array"), ("end_map", "end_array")
_Events = Iterator[tuple[str, Any]]


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a document, counted from 1; without a value where it is too deep or too large to be held."""

    number: int
    value: Any = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something that stands beside the elements, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a document stops being JSON, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What a document looks like by its beginning.

    `outer` are the keys of an object, `inner` those of the first object in an array or in the object's list `name`.
    """

    outer: frozenset[str]
    inner: frozenset[str]
    name: str | None = None


def elements(file: Readable, *, lists: tuple[str, ...] = ()) -> Iterator[Element | Ignored | Cut]:
    """The elements of an array, or of those `lists` that an object has; without any, the object as the only one."""
    source = _Measured(file)
    try:
        yield from _walk(_events(source), lists)
    except _TooLong:
        yield Cut(f"a single value is longer than {LONGEST_VALUE:,} bytes")
    except (ijson.JSONError, ValueError) as error:
        yield Cut(f"this is not JSON, or only the beginning of it ({_said(error)})")


def shape_of(file: IO[bytes]) -> Shape:
    """What a document looks like, by no more than its first bytes."""
    path: list[str] = []
    outer: set[str] = set()
    inner: set[str] = set()
    name: str | None = None
    held: str | None = None
    try:
        for event, value in _events(_Measured(_Head(Utf8(file)))):
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
                held = name
    except (ijson.JSONError, ValueError):
        pass  # a beginning ends in the middle of something
    return Shape(frozenset(outer), frozenset(inner), held)


def _walk(events: _Events, lists: tuple[str, ...]) -> Iterator[Element | Ignored]:
    event, value = next(events, ("", None))
    if event == "start_array":
        yield from _array(events)
    elif event == "start_map":
        yield from _object(events, lists)
    elif event:
        yield Element(1, value)
    for _ in events:  # so that whatever follows the end is noticed
        pass


def _array(events: _Events) -> Iterator[Element]:
    for number, (event, value) in enumerate(events, 1):
        if event == "end_array":
            return
        builder = _Builder()
        builder.take(event, value, events)
        yield Element(number, builder.value, builder.problem)


def _object(events: _Events, lists: tuple[str, ...]) -> Iterator[Element | Ignored]:
    builder = _Builder()
    whole: dict[str, Any] = {}
    listed = False
    for event, name in events:
        if event == "end_map":
            break
        opening, value = next(events)
        if name in lists and opening == "start_array":
            listed = True
            yield from _array(events)
        else:
            builder.take(opening, value, events)
            if not builder.problem:
                whole[name] = builder.value
    if listed:
        yield from (Ignored(name) for name in whole)
    else:
        yield Element(1, None if builder.problem else whole, builder.problem)


class _Builder:
    """Puts a value together from its events, as long as it is neither too deep nor too large."""

    def __init__(self) -> None:
        self.value: Any = None
        self.problem: str | None = None
        self._parts = 0
        self._characters = 0
        self._holders: list[Any] = []
        self._names: list[str] = []

    def take(self, event: str, value: Any, events: _Events) -> None:
        """Take one whole value, of which the first event was read already."""
        depth = 0
        while True:
            depth += (event in _OPENS) - (event in _CLOSES)
            if not self.problem:
                self._measure(value, depth)
                self._build(event, value)
            if depth == 0:
                return
            event, value = next(events)

    def _build(self, event: str, value: Any) -> None:
        if self.problem:
            self.value, self._holders, self._names = None, [], []
        elif event in _CLOSES:
            self.value = self._holders.pop()
        elif event == "map_key":
            self._names.append(value)
        else:
            made = _made(event, value)
            if self._holders:
                _put(self._holders[-1], self._names, made)
            if event in _OPENS:
                self._holders.append(made)
            self.value = made

    def _measure(self, value: Any, depth: int) -> None:
        self._parts += 1
        self._characters += len(value) if isinstance(value, str) else 0
        if depth > DEEPEST:
            self.problem = f"it is nested deeper than {DEEPEST} levels"
        elif self._parts > MOST_PARTS:
            self.problem = f"it has more than {MOST_PARTS:,} parts"
        elif self._characters > MOST_CHARACTERS:
            self.problem = f"it has more than {MOST_CHARACTERS:,} characters"


def _made(event: str, value: Any) -> Any:
    if event == "start_map":
        return {}
    if event == "start_array":
        return []
    return value


def _put(holder: Any, names: list[str], value: Any) -> None:
    if isinstance(holder, dict):
        holder[names.pop()] = value
    else:
        holder.append(value)


class _TooLong(Exception):
    """A value that the parser would have to hold whole."""


class _Measured:
    """Bytes for the parser, given out only as long as it makes something of them."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.since = 0

    def read(self, size: int = -1) -> bytes:
        if size == 0:  # asked by the parser, to see whether bytes or text come
            return b""
        if self.since > LONGEST_VALUE:
            raise _TooLong
        chunk = self._file.read(size)
        self.since += len(chunk)
        return chunk


class _Head:
    """The first bytes of something, and then its end."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._left = HEAD

    def read(self, size: int, /) -> bytes:
        chunk = self._file.read(size) if self._left > 0 else b""
        self._left -= len(chunk)
        return chunk


def _events(source: _Measured) -> _Events:
    # As floats: left to make Python's own numbers, ijson 3.6 crashes the process at one of 5,000 digits.
    for event in ijson.basic_parse(source, use_float=True):
        source.since = 0
        yield event


def _said(error: BaseException) -> str:
    """The parser's reason without the bytes it quotes."""
    first = str(error).removeprefix("b'").removeprefix('b"').split("\n")[0].split("\\n")[0]
    return first.removeprefix("parse error: ").removeprefix("lexical error: ") or "it ends in the middle"
