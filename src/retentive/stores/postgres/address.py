"""The address of a PostgreSQL store: libpq's own, with a few parameters of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from retentive.errors import Invalid

DEADLINE = 10.0
"""Seconds for which a lost server is waited for."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store is: what libpq is told, and what we keep to ourselves."""

    server: str
    schema: str = "retentive"
    replica: str | None = None
    deadline: float = DEADLINE
    readers: int = 16
    writers: int = 8
    bm25: bool = True

    @property
    def shown(self) -> str:
        """The address without its password."""
        return without_password(self.server)


def parse_address(text: str) -> Address:
    """The parts of `postgresql://user:password@host:port/database?schema=…&replica=…&deadline=…&readers=…&writers=…&bm25=…`."""
    parts = urlsplit(text)
    ours: dict[str, str] = {}
    theirs = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in ("schema", "replica", "deadline", "readers", "writers", "bm25"):
            ours[name] = value
        else:
            theirs.append((name, value))
    schema = ours.get("schema", "retentive")
    if not _SCHEMA.match(schema):
        raise Invalid(f"schema: lower-case letters, digits and _, at most 51, not {schema!r:.80}")
    replica = ours.get("replica") or None
    if replica is not None and not replica.startswith(("postgresql://", "postgres://")):
        raise Invalid("replica: an address that begins with postgresql://, with its special characters as %XX")
    if ours.get("bm25", "on") not in ("on", "off"):
        raise Invalid(f"bm25: on or off, not {ours['bm25']!r:.40}")
    return Address(
        urlunsplit(parts._replace(query=urlencode(theirs, quote_via=quote))),
        schema,
        replica,
        _number("deadline", ours.get("deadline"), DEADLINE, 0.1, 3600),
        int(_number("readers", ours.get("readers"), 16, 1, 1000)),
        int(_number("writers", ours.get("writers"), 8, 1, 1000)),
        ours.get("bm25", "on") == "on",
    )


def _number(name: str, text: str | None, default: float, least: float, most: float) -> float:
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = -1
    if not least <= number <= most:
        raise Invalid(f"{name}: a number from {least:g} to {most:g}, not {text!r:.40}")
    return number


def without_password(address: str) -> str:
    """An address as it may be shown: user, host and database, and no secret."""
    parts = urlsplit(address)
    if parts.password:
        who, _, where = parts.netloc.rpartition("@")
        parts = parts._replace(netloc=f"{who.partition(':')[0]}:***@{where}")
    shown = [
        (name, "***" if "password" in name else without_password(value) if name == "replica" else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(query=urlencode(shown, safe="/:*@", quote_via=quote)))
