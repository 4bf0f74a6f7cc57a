"""Invented conversations to try recalls with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

from retentive.models import Memory
from retentive.stores.rules import pages
from retentive.stores.values import Session

if TYPE_CHECKING:
    from retentive.engine import Engine

SOURCE = "retentive-sample"

PROFILE = "samples"
"""The profile into which `retentive samples` loads them, so that no recall mixes them with other memories."""

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


def remove_samples(engine: Engine) -> int:
    """Delete the sample memories of the engine's profile, and their sessions; return how many there were."""
    projects = {sample["project"] for sample in read_samples()}
    samples = [memory for project in projects for memory in _samples_in(engine, project)]
    removed = engine.forget(*(memory.id for memory in samples))
    for project, session in {(memory.project, memory.session) for memory in samples if memory.session is not None}:
        engine.store.drop_session(engine.settings.profile, session, project=project)
    return len(removed)


def _samples_in(engine: Engine, project: str) -> Iterator[Memory]:
    for page in pages(lambda cursor: engine.list(project=project, cursor=cursor, limit=1000, include_retired=True)):
        yield from (memory for memory in page if memory.source == SOURCE)


def load_samples(engine: SampleTarget) -> Sequence[Memory]:
    """Store the sample memories and return them; nothing if one of their sessions exists."""
    samples = read_samples()
    existing = {session.name for session in engine.sessions()}
    if any(sample.get("session") in existing for sample in samples):
        return []
    return engine.remember_many(samples)
