"""The one row that every search reads first: how far the store has come, how much it holds, which model serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import apsw

K = TypeVar("K")
V = TypeVar("V")


class Lately(Generic[K, V]):
    """What was worked out lately and still holds: each with the sequence number at which it was."""

    SIZE = 256

    def __init__(self) -> None:
        self._known: dict[K, tuple[int, V]] = {}

    def get(self, key: K, sequence: int, work_out: Callable[[], V]) -> V:
        """The value of a key, worked out again if anything was written since."""
        found = self._known.get(key)
        if found is not None and found[0] == sequence:
            return found[1]
        return self.put(key, sequence, work_out())

    def peek(self, key: K, sequence: int) -> V | None:
        """The value of a key, if it is known and nothing was written since."""
        found = self._known.get(key)
        return found[1] if found is not None and found[0] == sequence else None

    def put(self, key: K, sequence: int, value: V) -> V:
        """Keep a value, and give it back."""
        if len(self._known) >= self.SIZE:
            self._known.clear()
        self._known[key] = (sequence, value)
        return value


class State(NamedTuple):
    """The store at one moment. Every write raises the sequence, so what was worked out at one holds until the next."""

    sequence: int
    memories: int
    terms: int
    model: int | None
    dimension: int | None
    profiles: int


def read_state(connection: apsw.Connection) -> State:
    """The store as it is now."""
    row = connection.execute(
        """
        SELECT s.sequence, s.memories, s.terms, m.id, m.dimension, (SELECT count(*) FROM profiles)
        FROM state AS s LEFT JOIN models AS m ON m.id = s.active_model
        """
    ).get
    return State(*row)


def raise_sequence(connection: apsw.Connection) -> int:
    """The next number; whoever sees it knows that something was written."""
    number: int = connection.execute("UPDATE state SET sequence = sequence + 1 RETURNING sequence").get
    return number
