"""Which collections of memories there are, and which one is searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from retentive.models import Model


@dataclass(frozen=True, slots=True)
class Version:
    """A collection of all memories, with the vectors of one model; at first there is none."""

    collection: str
    model: Model | None = None

    @property
    def vector(self) -> str | None:
        """The name of its vectors: after their model, so that no other model's can be searched by mistake."""
        if self.model is None:
            return None
        return f"dense_{blake2b(self.model.fingerprint.encode(), digest_size=8).hexdigest()}"

    def is_of(self, model: Model) -> bool:
        """Whether its vectors are this model's."""
        return self.model is not None and self.model.fingerprint == model.fingerprint


@dataclass(frozen=True, slots=True)
class State:
    """Which collections there are, which one is searched, and how many memories it held when that was read."""

    active: Version
    others: tuple[Version, ...] = ()
    stamp: int = 0
    memories: int = 0

    @property
    def versions(self) -> tuple[Version, ...]:
        """All collections that a write goes to."""
        return (self.active, *self.others)

    def of(self, model: Model) -> Version | None:
        """The collection that has this model's vectors."""
        return next((one for one in self.versions if one.is_of(model)), None)


def to_payload(state: State, *, turning: bool = False) -> dict[str, Any]:
    versions = [
        {"collection": one.collection, "model": None if one.model is None else asdict(one.model)}
        for one in state.versions
    ]
    return {"type": "state", "active": state.active.collection, "turning": turning, "versions": versions}


def to_version(written: Mapping[str, Any]) -> Version:
    model = written["model"]
    return Version(written["collection"], None if model is None else Model(**model))
