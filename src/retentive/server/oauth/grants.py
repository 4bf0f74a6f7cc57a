"""What OAuth keeps in the store, as key-value entries: clients, requests that wait for consent, codes and tokens.

All processes of a service share it. Secrets are stored as hashes. An entry has a time at which it expires; expired ones
are removed when new ones are written.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from retentive.pipeline.access_tokens import GRANTS, Access
from retentive.stores.base import KeyValue
from retentive.stores.json_entries import JsonEntries

MARK = "rto_"
"""An access token of OAuth starts with it, so that it is not looked up among the API tokens."""

REQUEST_SECONDS = 600
CODE_SECONDS = 60
ACCESS_SECONDS = 3600
REFRESH_SECONDS = 30 * 24 * 3600
CLIENT_SECONDS = 3600
"""A client that was registered and never approved is removed after this time."""

MAX_WAITING = 1000
"""How many clients, or requests, may wait for approval: registration is open to anybody who reaches the service, and
the oldest give way."""


class Entry(BaseModel):
    """An entry that expires. 0 means never."""

    expires: float = 0.0


class Client(Entry):
    """A registered client, as the SDK describes it."""

    info: dict[str, Any]


class Request(Entry):
    """An authorization request that waits for consent."""

    client_id: str
    params: dict[str, Any]


class Grant(Entry):
    """What a client was granted: by which API token, for which profile, with which access."""

    client_id: str
    token_id: str
    profile: str
    access: Access
    scopes: list[str]
    resource: str | None = None
    family: str = ""
    """All tokens that follow from one consent have the same family, so that they can be revoked together. A code and a
    refresh token start with it: one that was used before is then known as such."""


class Code(Grant):
    """A grant behind an authorization code."""

    code_challenge: str
    redirect_uri: str
    explicit: bool


Kind = Literal["client", "request", "code", "access", "refresh"]
E = TypeVar("E", bound=Entry)


class Table(Generic[E]):
    """The entries of one kind, by the hash of a secret, or by the id of a client."""

    def __init__(self, store: KeyValue, kind: Kind, type: type[E], clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._entries = JsonEntries[E](f"{GRANTS}{kind}/", type)
        self._clock = clock

    def add(self, entry: E, *, seconds: float, mark: str = "", most: int | None = None) -> str:
        """Store an entry for some time, and return the secret that finds it."""
        secret = mark + secrets.token_urlsafe(32)
        self.put(secret, entry, seconds=seconds, most=most)
        return secret

    def put(self, secret: str, entry: E, *, seconds: float, most: int | None = None) -> None:
        """Store an entry under a name of the caller, for some time; 0 for ever.

        Of those that expire, the oldest are removed if there are more than `most`.
        """
        expiring = sorted((one.expires, key) for key, one in self._list().items() if one.expires)
        over = 0 if most is None else len(expiring) + 1 - most
        gone = {key for at, (expires, key) in enumerate(expiring) if at < over or expires < self._clock()}
        entry = entry.model_copy(update={"expires": self._clock() + seconds if seconds else 0.0})
        removed: dict[str, str | None] = {f"{self._entries.prefix}{key}": None for key in gone}
        self._store.compare_and_set({**removed, self._name(secret): self._entries.dump(entry)})

    def get(self, secret: str) -> E | None:
        """Return an entry that has not expired."""
        found = self._entries.get(self._store, _hash(secret))
        return None if found is None or self._expired(found) else found

    def take(self, secret: str) -> E | None:
        """Return an entry and remove it; None if another process has taken it."""
        name = self._name(secret)
        text = self._store.get_value(name)
        if text is None or not self._store.compare_and_set({name: None}, expected={name: text}):
            return None
        found = self._entries.parse(text)
        return None if self._expired(found) else found

    def remove(self, matches: Callable[[E], bool]) -> None:
        """Remove all entries that match."""
        gone: dict[str, str | None] = {
            f"{self._entries.prefix}{key}": None for key, one in self._list().items() if matches(one)
        }
        if gone:
            self._store.compare_and_set(gone)

    def _list(self) -> dict[str, E]:
        return self._entries.list(self._store)

    def _expired(self, entry: E) -> bool:
        return bool(entry.expires) and entry.expires < self._clock()

    def _name(self, secret: str) -> str:
        return f"{self._entries.prefix}{_hash(secret)}"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
