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


def load_samples(engine: SampleTarget) -> Sequence[Memory]:
    """Store the sample memories and return them; nothing if one of their sessions exists."""
    text = resources.files("retentive.transfer.samples").joinpath("conversations.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    existing = {session.name for session in engine.sessions()}
    if any(line.get("session") in existing for line in lines):
        return []
    return engine.remember_many({**line, "source": SOURCE} for line in lines)
