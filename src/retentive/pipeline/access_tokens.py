"""Tokens: who may come in from another machine, as whom, and to do what.

A token is shown once, when it is made. The store keeps a hash of it: whoever reads the store cannot come in with what
they find there. A token is long and random, so a plain SHA-256 is enough; there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from retentive.errors import Invalid, NotFound
from retentive.models import Serializable
from retentive.stores import Store

Access = Literal["read", "write", "admin"]
ACCESSES: tuple[Access, ...] = get_args(Access)
"""What a token allows, each with what stands before it: to read, to change memories, to change settings."""

PREFIX = "token/"
_MARK = "rcl_"
"""Makes a token that leaked into a log or a repository easy to find."""


@dataclass(frozen=True, slots=True)
class Token(Serializable):
    """A token as it is kept, without its secret."""

    id: str
    profile: str
    access: Access
    created: datetime
    note: str = ""


def create_token(store: Store, *, profile: str, access: Access, note: str = "", now: datetime) -> tuple[Token, str]:
    """A new token and its secret, which is not kept and cannot be shown again."""
    if access not in ACCESSES:
        raise Invalid(f"there is no access '{access}'; there are {', '.join(ACCESSES)}")
    secret = _MARK + secrets.token_urlsafe(32)
    token = Token(secrets.token_hex(4), profile, access, now, note)
    store.keep({f"{PREFIX}{_hashed(secret)}": json.dumps(token.to_dict())})
    return token, secret


def find_token(store: Store, secret: str) -> Token | None:
    """The token with this secret, None if there is none or it was taken back."""
    kept = store.get_value(f"{PREFIX}{_hashed(secret)}")
    return None if kept is None else _parsed(kept)


def list_tokens(store: Store) -> list[Token]:
    """Every token, oldest first."""
    return sorted(map(_parsed, store.list_values(PREFIX).values()), key=lambda token: (token.created, token.id))


def revoke_token(store: Store, id: str) -> Token:
    """The token that was taken back; from now on nobody comes in with it."""
    for name, kept in store.list_values(PREFIX).items():
        token = _parsed(kept)
        if token.id == id:
            store.keep({name: None})
            return token
    raise NotFound(f"there is no token {id}; see: retentive token list")


def looks_like_token(secret: str) -> bool:
    """Whether this could be one of these tokens, and not a key for somebody else."""
    return secret.startswith(_MARK)


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _parsed(kept: str) -> Token:
    fields = json.loads(kept)
    return Token(**{**fields, "created": datetime.fromisoformat(fields["created"])})
