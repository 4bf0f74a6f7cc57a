"""API tokens: which profile a client may use, or that it may use all, and with which access.

A token is shown once, when it is created. The store holds only its hash, so a copy of the store gives nobody access. A
token is long and random, so a plain SHA-256 is enough.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from retentive.errors import Invalid, NotFound
from retentive.models import Serializable, check_name, check_unicode
from retentive.stores.base import KeyValue
from retentive.stores.json_entries import JsonEntries

Access = Literal["read", "write", "admin"]
ACCESSES: tuple[Access, ...] = get_args(Access)
"""What a token allows; each includes the ones before it: read memories, change memories, change settings."""

PREFIX = "token/"
GRANTS = "oauth/"
"""The key-value entries of OAuth. They are valid at one address of a service, so no copy of a store has them."""

MARKS = ("rtv_", "rcl_")
"""A token starts with a mark, so that one that leaked into a log or a repository is easy to find. New tokens get the
first mark; the second is of tokens created before the project was renamed."""


@dataclass(frozen=True, slots=True)
class Token(Serializable):
    """A token as it is stored, without its secret. Without a profile it is valid for all of them."""

    id: str
    profile: str | None
    access: Access
    created: datetime
    note: str = ""


_TOKENS = JsonEntries[Token](PREFIX, Token)


class AccessTokens:
    """`engine.tokens`: create, find, list and revoke API tokens."""

    def __init__(self, store: KeyValue, *, profile: str, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._profile = profile
        self._clock = clock

    def create(
        self, *, profile: str | None = None, all_profiles: bool = False, access: Access = "read", note: str = ""
    ) -> tuple[Token, str]:
        """Create a token for a profile or for all; return it with its secret, which cannot be shown again."""
        named = None if all_profiles else self._profile if profile is None else profile
        if named is not None:
            check_name("profile", named)
        check_unicode("note", note)
        if access not in ACCESSES:
            raise Invalid(f"there is no access '{access}'; use one of {', '.join(ACCESSES)}")
        secret = MARKS[0] + secrets.token_urlsafe(32)
        token = Token(secrets.token_hex(4), named, access, self._clock(), note)
        self._store.compare_and_set({f"{PREFIX}{_hash(secret)}": _TOKENS.dump(token)})
        return token, secret

    def find(self, secret: str) -> Token | None:
        """Return the token with this secret; None if there is none or it was revoked."""
        return _TOKENS.get(self._store, _hash(secret))

    def revoke(self, id: str, *, profile: str | None = None) -> Token:
        """Revoke a token and return it; with a profile, only one of that profile."""
        for hash, token in _TOKENS.list(self._store).items():
            if token.id == id and profile in (None, token.profile):
                self._store.compare_and_set({f"{PREFIX}{hash}": None})
                return token
        raise NotFound(f"there is no token {id}; see: retentive token list")

    # Defined last: after it, `list` in this class is no longer the type.
    def list(self) -> list[Token]:
        """Return every token that was not revoked, oldest first."""
        return sorted(_TOKENS.list(self._store).values(), key=lambda token: (token.created, token.id))


def looks_like_token(secret: str) -> bool:
    """Whether this could be one of our tokens, and not a key for another service."""
    return secret.startswith(MARKS)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
