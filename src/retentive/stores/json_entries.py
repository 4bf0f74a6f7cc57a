"""Typed JSON values in key-value entries, and transactions that change several entries together."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from retentive.errors import Conflict
from retentive.stores.base import KeyValue

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
R = TypeVar("R")

FIRST_PAUSE, MAX_PAUSE = 0.001, 0.25
"""How many seconds a transaction waits at most before its first and its last tries."""


class JsonEntries(Generic[T]):
    """The key-value entries whose names start with a prefix, each a JSON value of one type.

    The type is anything that pydantic validates: a dataclass, a union, `dict[str, Any]`. Unknown keys are ignored. A
    field that is stored under another name declares it: `Annotated[str, Field(alias="name")]`. A single entry has the
    whole name as its prefix and an empty key.
    """

    def __init__(self, prefix: str, type: Any) -> None:
        self.prefix = prefix
        self._type = type

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        from pydantic import TypeAdapter  # takes a tenth of a second, so only for entries that are read

        return TypeAdapter(self._type)

    def get(self, store: KeyValue, key: str = "") -> T | None:
        """Return the value of one entry; None if it does not exist."""
        text = store.get_value(self.prefix + key)
        return None if text is None else self.parse(text)

    def list(self, store: KeyValue, under: str = "") -> dict[str, T]:
        """Return all values whose keys start with `under`, by key."""
        found = store.list_values(self.prefix + under)
        return {name.removeprefix(self.prefix): self.parse(text) for name, text in found.items()}

    def parse(self, text: str) -> T:
        """Return the value that a text holds; `ValueError` if it is not valid."""
        return self._adapter.validate_python(json.loads(text))

    def dump(self, value: T) -> str:
        """Return the text that `parse` reads."""
        return json.dumps(self._adapter.dump_python(value, mode="json", by_alias=True))


class Transaction:
    """Changes of key-value entries that are all made, or none if an entry that was read has changed meanwhile."""

    def __init__(self, store: KeyValue) -> None:
        self._store = store
        self._expected: dict[str, str | None] = {}
        self._changes: dict[str, str | None] = {}

    def get(self, entries: JsonEntries[T], key: str = "") -> T | None:
        """Return the value of an entry, which must not change before the commit."""
        name = entries.prefix + key
        if name not in self._expected:
            self._expected[name] = self._store.get_value(name)
        text = self._expected[name]
        return None if text is None else entries.parse(text)

    def set(self, entries: JsonEntries[T], value: T | None, key: str = "") -> None:
        """Write an entry at the commit; None deletes it."""
        self._changes[entries.prefix + key] = None if value is None else entries.dump(value)

    def create(self, entries: JsonEntries[T], value: T, key: str = "") -> None:
        """Write an entry that must not exist before the commit."""
        self._expected[entries.prefix + key] = None
        self.set(entries, value, key)

    def commit(self) -> bool:
        """Make all changes; False if something that was read has changed, and then none is made."""
        return not self._changes or self._store.compare_and_set(self._changes, expected=self._expected)


def transact(
    store: KeyValue,
    change: Callable[[Transaction], R],
    *,
    tries: int = 30,
    pause: Callable[[float], object] = time.sleep,
) -> R:
    """Call `change` with a new transaction and commit it, again if another process interfered; return its result.

    Before each further try it waits for a random time, which grows to a quarter of a second: of many processes that
    change the same entries, each gets its turn. `Conflict` if every try was interfered with, after 3 seconds on
    average.
    """
    for number in range(tries):
        if number:
            pause(random.uniform(0, min(FIRST_PAUSE * 2**number, MAX_PAUSE)))  # noqa: S311 - not a secret
        transaction = Transaction(store)
        result = change(transaction)
        if transaction.commit():
            return result
    raise Conflict("other processes are changing the same entries of the store; try again")
