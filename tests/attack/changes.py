"""Random writes whose outcome can be checked: each changes some memories, all or none of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from retentive.engine import Engine
from tests.attack.harness import Run, all_records, is_vector_of, words
from tests.stores.build import id_of, keyword_ids

Change = Mapping[str, str | None]
"""The text that each memory has afterwards, by id; None if it is forgotten."""

LENGTHS = (3, 10, 40, 200)
"""Long texts fill pages, which SQLite then splits."""


class Writer:
    """Makes random changes to memories of its own. Each text has a word that no other text has."""

    def __init__(self, seed: float, first: int, *, lengths: tuple[int, ...] = LENGTHS) -> None:
        self._dice = random.Random(seed)
        self._numbers = count(first)
        self._session = f"session {first}"
        self._live: list[str] = []
        self._lengths = lengths

    def next(self) -> Change:
        """Choose the next change."""
        dice = self._dice
        chosen = dice.random()
        if chosen < 0.45 or len(self._live) < 10:
            new = [id_of(next(self._numbers)) for _ in range(dice.choice((1, 1, 2, 12)))]
            return {id: self._text() for id in new}
        if chosen < 0.75:
            return {dice.choice(self._live): self._text()}
        return dict.fromkeys(dice.sample(self._live, dice.choice((1, 1, 5))), None)

    def make(self, engine: Engine, change: Change, *, idempotency_key: str | None = None) -> None:
        """Make the change, and remember that it was acknowledged."""
        first = next(iter(change))
        text = change[first]
        if text is None:
            engine.forget(*change, idempotency_key=idempotency_key)
            self._live = [id for id in self._live if id not in change]
        elif first in self._live:
            engine.update(first, text=text, idempotency_key=idempotency_key)
        else:
            drafts = [{"id": id, "text": text, "session": self._session} for id, text in change.items()]
            engine.remember_many(drafts, idempotency_key=idempotency_key)
            self._live += change

    def _text(self) -> str:
        return f"only{self._dice.getrandbits(60):x} {words(self._dice, self._dice.choice(self._lengths))}"


@dataclass
class Expected:
    """The texts that a store must have, by id, and changes of which it is not known whether they were made."""

    texts: dict[str, str] = field(default_factory=dict)
    unknown: list[Change] = field(default_factory=list)

    def acknowledge(self, change: Change) -> None:
        """Record a change that was made."""
        for id, text in change.items():
            if text is None:
                self.texts.pop(id, None)
            else:
                self.texts[id] = text

    def compare(self, engine: Engine, run: Run) -> None:
        """Compare a store with what was acknowledged: its texts, its vectors, its indexes."""
        records = {record.memory.id: record for record in all_records(engine.store)}
        stored = {id: record.memory.text for id, record in records.items()}
        for change in self.unknown:
            made = [stored.get(id) == text for id, text in change.items()]
            not_made = [stored.get(id) == self.texts.get(id) for id in change]
            if all(made):
                self.acknowledge(change)
            elif not all(not_made):
                run.fail("half written", f"{sum(made)} of {len(made)} changes: {', '.join(change)}")
                self.texts.update({id: stored[id] for id in change if id in stored})
        self.unknown = []
        for sentence in self._differences(stored):
            run.fail("lost", sentence)
        embedder = engine.embeddings.embedder()
        assert embedder is not None
        for id, record in records.items():
            if record.vectors is not None and not is_vector_of(record, embedder.model):
                run.fail("problems", f"the vector of {id} is of another text")
        for id in list(stored)[-3:]:
            word = stored[id].split()[0]
            if keyword_ids(engine.store, word) != [id]:
                run.fail("problems", f"the keyword retriever does not find {id} by {word}")
        for problem in engine.check():
            run.fail("problems", problem)

    def _differences(self, stored: Mapping[str, str]) -> Iterator[str]:
        for id in self.texts.keys() | stored.keys():
            if stored.get(id) != self.texts.get(id):
                acknowledged = self.texts.get(id, "forgotten")
                yield f"{id} was acknowledged as '{acknowledged[:40]}' and is '{stored.get(id, 'not there')[:40]}'"
