"""Values and requests of a hostile caller: wrong types and ranges, syntax of other languages, broken Unicode."""

from __future__ import annotations

import json
import random
import socket
import string
from collections.abc import Mapping
from typing import Any

from tests.attack.harness import words
from tests.stores.build import id_of

TEXTS: tuple[str, ...] = (
    "", " ", "\0", "a\0b", "\n" * 50, "\ud800", "x\udfffy", "\u202egnol", "\u200b", "é" * 100, "e\u0301" * 100,
    "🧑‍🚀" * 50, "'); DROP TABLE memories;--", '" OR 1=1 NEAR( "* ^ AND', "words:x AND scope:p1", "-a -b", '"', '""',
    '"a', "*", "a*", "(((((", "NOT", "NEAR/3", "{a b}", "col : x", "%s%n", "${jndi:ldap://x}",
    "<script>alert(1)</script>", "../../../etc", "\\", "\\u0000", "\x1b[31m", "9" * 400, "1e999", "NaN", "null",
    "true", "-0", "2026-13-99T99:99", "9999-12-31T23:59:59+14:00", "0001-01-01T00:00:00-14:00", "yesterday",
    "last " * 200, "in 99999999 years", "ﷺ" * 30, "\ufeff", "I" * 300, "ß" * 90, "a" * 9000, "word " * 3000,
    "00000000-0000-0000-0000-000000000000", "{}", "[]", "'", "--", ";", "\r\nSet-Cookie: a=b",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 0.5, -0.0, 1e308, -1e308, 1e-320, 2**31, 2**63, -(2**63), 2**64, 10**30, 10**400, True, False,
)  # fmt: skip
ENUMS = (
    "episodic",
    "semantic",
    "identity",
    "classic-rrf",
    "weighted",
    "hybrid",
    "day",
    "month",
    "year",
    "rrf",
    "linear",
)


def text(dice: random.Random) -> str:
    """A text, hostile or plain."""
    chosen = dice.random()
    if chosen < 0.5:
        return dice.choice(TEXTS)
    if chosen < 0.6:
        return "".join(chr(dice.randrange(0x110000)) for _ in range(dice.randrange(1, 40)))
    if chosen < 0.7:
        return "".join(dice.choices(string.printable, k=dice.randrange(1, 60)))
    return words(dice, dice.randrange(1, 12))


def identifier(dice: random.Random) -> str:
    """The id of a memory, mostly of one that may exist."""
    return id_of(dice.randrange(60)) if dice.random() < 0.8 else text(dice)


def value(dice: random.Random, depth: int = 0) -> Any:
    """Any JSON value."""
    chosen = dice.random()
    if chosen < 0.35:
        return text(dice)
    if chosen < 0.55:
        return dice.choice(NUMBERS)
    if chosen < 0.65:
        return None
    if chosen < 0.75:
        return dice.choice(ENUMS)
    if chosen < 0.8:
        return identifier(dice)
    if depth > 3:
        return []
    if chosen < 0.9:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {text(dice): value(dice, depth + 1) for _ in range(dice.randrange(4))}


PLAIN: Mapping[str, Any] = {
    "limit": lambda dice: dice.randrange(1, 50),
    "kinds": lambda dice: dice.sample(("episodic", "semantic", "identity"), dice.randrange(4)),
    "kind": lambda dice: dice.choice(("episodic", "semantic", "identity")),
    "importance": lambda dice: round(dice.random(), 3),
    "metadata": lambda dice: {"a": value(dice)},
    "exclude": lambda dice: [identifier(dice) for _ in range(dice.randrange(4))],
    "recentIds": lambda dice: [identifier(dice) for _ in range(dice.randrange(4))],
    "ids": lambda dice: [identifier(dice) for _ in range(dice.randrange(4))],
    "good": lambda dice: [identifier(dice)],
    "bad": lambda dice: [identifier(dice)],
    "id": identifier,
    "memory": identifier,
    "confirm": lambda dice: dice.random() < 0.5,
    "evergreen": lambda dice: dice.random() < 0.5,
    "dropped": lambda dice: dice.random() < 0.5,
    "everywhere": lambda dice: dice.random() < 0.5,
    "occurred": lambda dice: f"20{dice.randrange(10, 40)}-0{dice.randrange(1, 10)}-11",
    "messages": lambda dice: [{"role": "user", "content": text(dice)} for _ in range(dice.randrange(4))],
    "tuning": lambda dice: {dice.choice(PARAMETERS): value(dice) for _ in range(dice.randrange(3))},
    "scope": lambda dice: {dice.choice(("project", "session", "kinds")): value(dice)},
}
PARAMETERS = (
    "rrfK",
    "keywordWeight",
    "semanticWeight",
    "maxDocumentFrequency",
    "preset",
    "hybrid",
    "minScore",
    "mmrLambda",
    "x",
)


def field(name: str, dice: random.Random) -> Any:
    """A value for a field: often one that fits."""
    if dice.random() < 0.35:
        return value(dice)
    return PLAIN[name](dice) if name in PLAIN else text(dice)


def body(properties: Mapping[str, Any], required: list[str], dice: random.Random) -> Any:
    """A body for an operation: mostly an object with some of its fields."""
    if dice.random() < 0.05:
        return value(dice)
    names = [name for name in properties if dice.random() < 0.4]
    names += [name for name in required if dice.random() < 0.95]
    made = {name: field(name, dice) for name in names}
    if dice.random() < 0.05:
        made[text(dice)] = value(dice)
    return made


def encoded(content: Any, dice: random.Random) -> bytes:
    """A body as bytes; some are no valid JSON or no valid UTF-8."""
    written = json.dumps(content, ensure_ascii=dice.random() < 0.5).encode(errors="surrogatepass")
    chosen = dice.random()
    if chosen < 0.03:
        return written[: dice.randrange(len(written) + 1)]
    if chosen < 0.06:
        return written.replace(b'"', b"\xff", 1)
    if chosen < 0.07:
        return b"[" * 50_000
    if chosen < 0.08:
        return written.decode(errors="replace").encode("utf-16")
    return written


RAW: tuple[bytes, ...] = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /v1/stats HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: x\r\n\r\n",
    b"GET /v1/stats HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    b"GET /v1/stats HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"POST /v1/recall HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/recall HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/recall HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/recall HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /%00%ff/..%2f..%2fetc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
)


def send_raw(port: int, content: bytes) -> bytes:
    """Send bytes on a new connection and return the beginning of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(4096)
        except OSError:  # the service closed the connection
            return b""
