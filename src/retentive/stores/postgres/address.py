"""The address of a PostgreSQL store: a libpq URL with a few parameters of our own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from psycopg.pq import Conninfo

from retentive.errors import Invalid, unknown_name
from retentive.settings import public_address

DEADLINE = 10.0
"""Seconds for which reads and writes are retried when the server is lost."""

_OWN_PARAMETERS = ("schema", "replica", "deadline", "readers", "writers", "bm25")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^][:,/?@#]*)(?::\d*)?"
_URL = re.compile(rf"(postgres(?:ql)?://(?:[^@/]*@)?{_HOST}(?:,{_HOST})*(?:/[^@?]*)?)(?:\?(.*))?", re.DOTALL)
"""What libpq reads: user and password end at the first @, and contain no slash."""


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
        return public_address(self.server)


def parse_address(text: str) -> Address:
    """Parse `postgresql://user:password@host:port/database?schema=…&replica=…&deadline=…&readers=…&writers=…&bm25=…`."""
    server, own = _split(text)
    schema = own.get("schema")
    if schema is not None and not _SCHEMA.match(schema):
        raise Invalid(f"schema: lower-case letters, digits and _, at most 51, not {schema!r:.80}")
    replica = own.get("replica") or None
    if replica is not None:
        if not replica.startswith(("postgresql://", "postgres://")):
            raise Invalid("replica: an address that starts with postgresql://, with its special characters as %XX")
        replica, _ = _split(replica)
    if own.get("bm25", "on") not in ("on", "off"):
        raise Invalid(f"bm25: on or off, not {own['bm25']!r:.40}")
    return Address(
        server,
        schema,
        replica,
        _number("deadline", own.get("deadline"), DEADLINE, 0.1, 3600),
        int(_number("readers", own.get("readers"), 16, 1, 1000)),
        int(_number("writers", own.get("writers"), 8, 1, 1000)),
        own.get("bm25", "on") == "on",
    )


def _split(address: str) -> tuple[str, dict[str, str]]:
    """The URL for libpq, and our own parameters. `Invalid` shows nothing that may belong to a password."""
    if re.search(r"%(?:00|(?![0-9A-Fa-f]{2}))", address):
        raise Invalid("the address of a PostgreSQL store has a % without two digits after it; write % itself as %25")
    found = _URL.fullmatch(address)
    pairs = [part.partition("=") for part in (found[2] or "").split("&") if part] if found else []
    own = {unquote(name): unquote(value) for name, _, value in pairs if unquote(name) in _OWN_PARAMETERS}
    for_libpq = [(name, value) for name, _, value in pairs if unquote(name) not in own]
    readable = all(separator for _, separator, _ in pairs) and not any("@" in "".join(pair) for pair in for_libpq)
    if found is None or not readable:
        raise Invalid(
            "the address of a PostgreSQL store is postgresql://user:password@host:port/database?name=value; "
            "in the user, the password and the values, write / as %2F, @ as %40, # as %23 and ? as %3F"
        )
    known = [option.keyword.decode() for option in Conninfo.get_defaults()]
    for name, _ in for_libpq:
        if unquote(name) not in (*known, "ssl"):
            names = [*_OWN_PARAMETERS, *known]
            raise Invalid(unknown_name("PostgreSQL parameter", f"{unquote(name):.40}", names))
    return found[1] + "?" * bool(for_libpq) + "&".join(map("=".join, for_libpq)), own


def _number(name: str, text: str | None, default: float, least: float, most: float) -> float:
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = -1
    if not least <= number <= most:
        raise Invalid(f"{name}: a number from {least:g} to {most:g}, not {text!r:.40}")
    return number
