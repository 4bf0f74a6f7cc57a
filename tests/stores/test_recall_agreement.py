"""A recall has the same hits in the same order on SQLite, PostgreSQL and in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from retentive.models import Query, Scope
from retentive.pipeline.recall import INLINE, recall
from retentive.ranking import Tuning
from retentive.stores.base import Store
from retentive.stores.values import Record, Vector
from tests.stores.build import MODEL, NOW, memory, rows, unit, vector
from tests.stores.openers import OPENERS

COMMON = ("tea", "milk", "house", "garden", "today", "people", "work", "week")
"""Words of a sixth of the memories or more."""

NAMES = [f"{first}{second}n" for first in ("ba", "do", "ki", "lu", "me", "sa") for second in ("ga", "pi", "ro", "tu")]
"""Words of a tenth of the memories."""

SCOPES = (Scope(), Scope(project="p"), Scope(sessions=("s3",)), Scope(kinds=("semantic",)))


def rounded(numbers: Vector) -> Vector:
    """A vector that a store in half precision keeps as it is."""
    return unit(numbers).astype(np.float16).astype(np.float32)


def record(dice: random.Random, number: int) -> Record:
    words = dice.choices(COMMON, k=dice.randint(0, 6)) + dice.choices(NAMES, k=dice.randint(1, 4))
    words += [f"filler{dice.randrange(300)}" for _ in range(dice.randint(0, 12))]
    dice.shuffle(words)
    fields = {"session": f"s{number % 5}", "project": "p" if number % 3 else None}
    kind = "semantic" if number % 7 else "identity"
    return Record(memory(number, " ".join(words), kind=kind, **fields), rows(rounded(vector(number))))


def query(dice: random.Random, about: Record) -> Query:
    own = about.memory.text.split()
    words = dice.sample(COMMON, dice.randint(0, 3)) + dice.sample(own, min(len(own), dice.randint(1, 3)))
    near = rounded(about.vectors[0] + 0.3 * vector(dice.randrange(10**6))) if about.vectors is not None else None
    return Query(" ".join(words), dice.choice(SCOPES), Tuning(), NOW, vector=near)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    dice = random.Random(1)
    return [record(dice, number) for number in range(1, 1001)]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> Iterator[tuple[Store, Store]]:
    folder: Path = tmp_path_factory.mktemp("stores")
    opened = OPENERS[request.param](folder), OPENERS["memory"](folder)
    for store in opened:
        store.add(records, model=MODEL)
    yield opened
    for store in opened:
        store.close()


def test_a_recall_has_the_same_hits_as_in_memory_also_for_words_that_many_memories_have(stores, records):
    dice = random.Random(2)

    for _ in range(80):
        asked = query(dice, dice.choice(records))
        ours, expected = (recall(asked, store, lambda: None, INLINE) for store in stores)

        assert [hit.id for hit in ours] == [hit.id for hit in expected], asked.text
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in expected], abs=1e-4), asked.text
