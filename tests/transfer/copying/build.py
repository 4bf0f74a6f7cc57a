"""A store with some data of every kind, and stores to copy it to."""

from __future__ import annotations

import random
from datetime import timedelta

from retentive.pipeline.access_tokens import AccessTokens
from retentive.pipeline.tuning_history import save_parameters
from retentive.stores.base import Store
from retentive.stores.values import Judgement, Record
from retentive.transfer.copying import (
    CopyOptions,
    CopyResult,
    Verification,
    copy_store,
    finish_copy,
    verify_stores,
)
from tests.stores.build import MODEL, NOW, memory, rows, vector

WORDS = ["quartz", "violet", "meadow", "lantern", "copper", "willow", "harbour", "thunder", "pepper", "saddle", "ember"]

Result = tuple[CopyResult, Verification]


def records(count: int, *, start: int = 0, vectors: bool = True) -> list[Record]:
    """Memories of two profiles, in sessions, projects and none, of every kind, some in parts, some not embedded."""
    dice = random.Random(count + start)
    made = []
    for number in range(start, start + count):
        session = dice.choice([None, "a", "b", "c"])
        parts = dice.choice([0, 1, 1, 1, 3]) if vectors else 0
        made.append(
            Record(
                memory(
                    number,
                    f"{' '.join(dice.choices(WORDS, k=6))} number{number}",
                    profile=dice.choice(["default", "default", "ada"]),
                    session=session,
                    project={"a": "p", "b": "q"}.get(session or "", None if session else dice.choice([None, "p"])),
                    position=10 * number if session else None,
                    kind=dice.choice(["episodic", "episodic", "semantic", "identity"]),
                    speaker=dice.choice([None, "Ada"]),
                    importance=round(dice.random(), 3),
                    metadata=dice.choice([{}, {"tags": ["ü", 1.5, None], "large": 1e22}]),
                    source=dice.choice([None, "notes.md"]),
                    occurred=dice.choice([None, NOW - timedelta(days=number, microseconds=7)]),
                    accessed=dice.choice([None, NOW]),
                    access_count=dice.choice([0, 3]),
                    evergreen=dice.random() < 0.1,
                    content_hash=f"hash{number}",
                ),
                rows(*(vector(7 * number + part) for part in range(parts))) if parts else None,
            )
        )
    return made


def judgement(number: int, *, of: Record, relevance: int = 2) -> Judgement:
    return Judgement(
        f"query {number}",
        of.memory.id,
        relevance,
        NOW + timedelta(seconds=number),
        of.memory.profile,
        project=[None, "p"][number % 2],
        asked_at=[None, NOW][number % 2],
    )


def fill(store: Store, count: int = 120) -> list[Record]:
    """Everything that a store can hold."""
    made = records(count)
    mixed = random.Random(1).sample(made, len(made))
    for at in range(0, len(mixed), 50):
        store.add(mixed[at : at + 50], model=MODEL)
    store.judge([judgement(number, of=made[-number]) for number in range(1, 9)])
    save_parameters(store, {"keyword_weight": 1.1}, by="test", now=NOW)
    AccessTokens(store, profile="default", clock=lambda: NOW).create(access="read")
    return made


def copied(
    source: Store,
    target: Store,
    *,
    name: str = "source",
    **options: bool,
) -> Result:
    """A copy from its beginning, or from where it was broken off, to its end, as the command line makes it."""
    chosen = CopyOptions(**options)
    done = copy_store(source, target, name=name, options=chosen)
    found = verify_stores(source, target, options=chosen)
    if chosen.into or found.agrees:
        finish_copy(target)
    return done, found


def verdicts(verified: Verification) -> dict[str, bool | None]:
    return {check.name: check.agrees for check in verified.checks}
