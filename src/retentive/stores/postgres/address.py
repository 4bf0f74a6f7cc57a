"""The address of a PostgreSQL store: a libpq URL with a few parameters of our own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from retentive.errors import Invalid

DEADLINE = 10.0
"""Seconds for which reads and writes are retried when the server is lost."""

_OWN_PARAMETERS = ("schema", "replica", "deadline", "readers", "writers", "bm25")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """The URL for libpq, and the parameters that it does not get. `schema` is None if the address names none."""

    server: str
    schema: str | None = None
    replica: str | None = None
    deadline: float = DEADLINE
    readers: int = 16
    writers: int = 8
    bm25: bool = True

    @property
    def shown(self) -> str:
        """The URL of the server without its password."""
        return without_password(self.server)


def parse_address(text: str) -> Address:
    """Parse `postgresql://user:password@host:port/database?schema=…&replica=…&deadline=…&readers=…&writers=…&bm25=…`."""
    parts = urlsplit(text)
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in parameters if name in _OWN_PARAMETERS}
    for_libpq = [(name, value) for name, value in parameters if name not in _OWN_PARAMETERS]
    schema = own.get("schema")
    if schema is not None and not _SCHEMA.match(schema):
        raise Invalid(f"schema: lower-case letters, digits and _, at most 51, not {schema!r:.80}")
    replica = own.get("replica") or None
    if replica is not None and not replica.startswith(("postgresql://", "postgres://")):
        raise Invalid("replica: an address that starts with postgresql://, with its special characters as %XX")
    if own.get("bm25", "on") not in ("on", "off"):
        raise Invalid(f"bm25: on or off, not {own['bm25']!r:.40}")
    return Address(
        urlunsplit(parts._replace(query=urlencode(for_libpq, quote_via=quote))),
        schema,
        replica,
        _number("deadline", own.get("deadline"), DEADLINE, 0.1, 3600),
        int(_number("readers", own.get("readers"), 16, 1, 1000)),
        int(_number("writers", own.get("writers"), 8, 1, 1000)),
        own.get("bm25", "on") == "on",
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
    """Return an address with every password in it replaced by ***."""
    parts = urlsplit(address)
    if parts.password:
        user, _, host = parts.netloc.rpartition("@")
        parts = parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}")
    shown = [
        (name, "***" if "password" in name else without_password(value) if name == "replica" else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(query=urlencode(shown, safe="/:*@", quote_via=quote)))
