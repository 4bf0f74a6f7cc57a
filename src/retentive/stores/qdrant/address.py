"""The address of a vector index on a Qdrant server.

    qdrant+https://host:6333/prefix?shards=6&replicas=2&quantization=int8&on_disk=true&ef=512&timeout=5

The API key is read from `RETENTIVE_QDRANT_API_KEY` or from the address (`qdrant+https://:KEY@host/prefix`). It never
appears in a message or a repr.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from retentive.errors import Invalid

API_KEY = "RETENTIVE_QDRANT_API_KEY"

DEFAULT_PREFIX = "retentive"

_NUMBER = r"[1-9]\d{0,3}"
_SETTINGS = {
    "shards": (_NUMBER, "a whole number from 1 to 9999"),
    "replicas": (_NUMBER, "a whole number from 1 to 9999"),
    "ef": (_NUMBER, "a whole number from 1 to 9999"),
    "timeout": (r"[1-9]\d{0,2}", "seconds from 1 to 999"),
    "quantization": ("none|int8|binary", "one of none, int8, binary"),
    "on_disk": ("true|false", "true or false"),
}


@dataclass(frozen=True, slots=True)
class Address:
    """A server, the prefix of the index's collections, how these are created, and how they are searched.

    `ef` is the size of the candidate list of an HNSW search. `timeout` is how many seconds a recall waits.
    """

    https: bool
    host: str
    port: int
    prefix: str = DEFAULT_PREFIX
    api_key: str | None = field(default=None, repr=False)
    shards: int | None = None
    replicas: int = 1
    quantization: str = "none"
    on_disk: bool = False
    ef: int = 512
    timeout: int = 5


def parse_address(address: str, environment: Mapping[str, str]) -> Address:
    """Parse a `qdrant+http://` or `qdrant+https://` address. `Invalid` names the mistake, never the key."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"the address of the vector index is not valid: {error}") from None
    if parts.scheme not in ("qdrant+http", "qdrant+https") or not host:
        raise Invalid("the address of a vector index is qdrant+http://host:6333/prefix or qdrant+https://…")
    if parts.username:
        raise Invalid("write the API key of a Qdrant address after a colon: qdrant+https://:KEY@host/prefix")
    prefix = parts.path.strip("/") or DEFAULT_PREFIX
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", prefix):
        raise Invalid("the prefix in a Qdrant address has 1 to 100 letters, digits, - and _")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, text in given.items():
        if name not in _SETTINGS:
            raise Invalid(f"a Qdrant address has no setting '{name:.40}'; valid settings: {', '.join(_SETTINGS)}")
        pattern, expected = _SETTINGS[name]
        if not re.fullmatch(pattern, text):
            raise Invalid(f"{name}: {expected}, not '{text:.40}'")
    return Address(
        https=parts.scheme == "qdrant+https",
        host=host,
        port=port or 6333,
        prefix=prefix,
        api_key=unquote(parts.password or "") or environment.get(API_KEY) or None,
        shards=int(given["shards"]) if "shards" in given else None,
        replicas=int(given.get("replicas", 1)),
        quantization=given.get("quantization", "none"),
        on_disk=given.get("on_disk") == "true",
        ef=int(given.get("ef", 512)),
        timeout=int(given.get("timeout", 5)),
    )
