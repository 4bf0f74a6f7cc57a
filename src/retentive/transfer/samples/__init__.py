"""A small set of made-up conversations, so that a newcomer has something to recall within a minute."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

from retentive.engine import Engine
from retentive.models import Memory

SOURCE = "retentive-sample"

QUERIES = (
    "why did they choose induction?",
    "which version broke the login?",
    "where should I travel with my bad knee?",
    "what does the cat eat?",
)


def load_samples(engine: Engine) -> Sequence[Memory]:
    """The sample memories now in the store; those that are there already are not added again."""
    text = resources.files("retentive.transfer.samples").joinpath("conversations.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    there = {session.name for session in engine.sessions()}
    if any(line.get("session") in there for line in lines):
        return []
    return engine.remember_many({**line, "source": SOURCE} for line in lines)
