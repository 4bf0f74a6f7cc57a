"""Parse the address of a Qdrant store: the server, the prefix of its collections, and their settings.

    qdrant+https://host:6333/prefix?shards=6&replicas=2&consistency=2&quantization=int8&on_disk=true&ef=512&timeout=10

The API key is read from `RETENTIVE_QDRANT_API_KEY` or from the address (`qdrant+https://:KEY@host/prefix`). It never
appears in a message or a repr.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from retentive.errors import Invalid

API_KEY = "RETENTIVE_QDRANT_API_KEY"

Quantization = Literal["none", "int8", "binary"]


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """How collections are created and searched. Existing collections keep theirs until the next re-embedding.

    `ef` is the size of the candidate list of an HNSW search: a larger one has a better recall and takes longer.
    `timeout` is in seconds, for one request with its retries.
    """

    shards: int | None = None
    replicas: int = 1
    consistency: int | None = None
    quantization: Quantization = "none"
    on_disk: bool = False
    ef: int = 512
    timeout: float = 10.0

    @property
    def write_consistency(self) -> int:
        """How many replicas must apply a write; by default all but one.

        The server stops to read a replica that failed only if the write succeeds. If all must apply it and one cannot,
        the write fails, stays in the others, and replicas differ from then on.
        """
        return max(self.replicas - 1, 1) if self.consistency is None else self.consistency


@dataclass(frozen=True, slots=True)
class Address:
    """A server, the prefix of the store's collections on it (None: the default one), and their settings."""

    url: str
    prefix: str | None = None
    api_key: str | None = field(default=None, repr=False)
    settings: CollectionSettings = CollectionSettings()


def parse_address(address: str, environment: Mapping[str, str]) -> Address:
    """Parse a `qdrant+http://` or `qdrant+https://` address. `Invalid` names the mistake, never the key."""
    try:
        parts = urlsplit(address.removeprefix("qdrant+"))
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"the address of the Qdrant server is not valid: {error}") from None
    if not host:
        raise Invalid("the host is missing; the address of a Qdrant server is qdrant+http://host:6333/prefix")
    if parts.username:
        raise Invalid("write the API key of a Qdrant address after a colon: qdrant+https://:KEY@host/prefix")
    prefix = parts.path.strip("/") or None
    if prefix is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", prefix):
        raise Invalid("the prefix in a Qdrant address has 1 to 100 letters, digits, - and _")
    settings = _settings(parse_qsl(parts.query, keep_blank_values=True))
    shown = f"[{host}]" if ":" in host else host
    key = unquote(parts.password or "") or environment.get(API_KEY) or None
    return Address(f"{parts.scheme}://{shown}:{port or 6333}", prefix, key, settings)


def _settings(pairs: list[tuple[str, str]]) -> CollectionSettings:
    known = sorted(item.name for item in fields(CollectionSettings))
    values: dict[str, Any] = {}
    for name, text in pairs:
        if name not in known:
            raise Invalid(f"a Qdrant address has no setting '{name:.40}'; valid settings: {', '.join(known)}")
        values[name] = _value(name, text)
    settings = CollectionSettings(**values)
    if settings.write_consistency > settings.replicas:
        raise Invalid(f"consistency: at most the number of replicas ({settings.replicas})")
    return settings


def _value(name: str, text: str) -> Any:
    if name == "quantization":
        expected = f"one of {', '.join(get_args(Quantization))}"
        if text in get_args(Quantization):
            return text
    elif name == "on_disk":
        expected = "true or false"
        if text in ("true", "false"):
            return text == "true"
    elif name == "timeout":
        expected = "seconds from 0 to 600"
        with suppress(ValueError):
            if 0 < float(text) <= 600:
                return float(text)
    else:
        expected = "a whole number from 1 to 9999"
        if re.fullmatch(r"[1-9]\d{0,3}", text):
            return int(text)
    raise Invalid(f"{name}: {expected}, not '{text:.40}'")
