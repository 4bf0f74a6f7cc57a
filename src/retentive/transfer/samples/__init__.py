"""Invented conversations to try recalls with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Protocol

from retentive.models import Memory
from retentive.stores.values import Session

SOURCE = "retentive-sample"

QUERIES = (
    "why did they choose induction?",
    "which version broke the login?",
    "where should I travel with my bad knee?",
    "what does the cat eat?",
)


class SampleTarget(Protocol):
    """The verbs of `Engine` that loading the samples uses."""

    def sessions(self) -> Sequence[Session]:
        """Return the sessions of the profile."""
        ...

    def remember_many(self, drafts: Iterable[Mapping[str, Any]]) -> Sequence[Memory]:
        """Store memories."""
        ...


def read_samples() -> list[dict[str, Any]]:
    """Return the sample memories, as they are sent to be stored."""
    text = resources.files("retentive.transfer.samples").joinpath("conversations.jsonl").read_text(encoding="utf-8")
    return [{**json.loads(line), "source": SOURCE} for line in text.splitlines()]


def load_samples(engine: SampleTarget) -> Sequence[Memory]:
    """Store the sample memories and return them; nothing if one of their sessions exists."""
    samples = read_samples()
    existing = {session.name for session in engine.sessions()}
    if any(sample.get("session") in existing for sample in samples):
        return []
    return engine.remember_many(samples)
