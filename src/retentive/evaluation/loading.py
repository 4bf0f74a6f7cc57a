"""An engine that holds a judged set, loaded the way a user's memories are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from retentive.engine import Engine
from retentive.errors import Conflict, Unavailable
from retentive.evaluation.evaluation_set import JudgedSet
from retentive.inference.embedders import Embedder, open_embedder
from retentive.inference.embedders.cache import CachedEmbedder
from retentive.inference.embedders.disk_cache import DiskCachedEmbedder
from retentive.models import DEFAULT_PROFILE
from retentive.settings import EmbedderSettings, Settings
from retentive.stores import open_store

BATCH = 128
PAGE = 1000


@contextmanager
def open_measuring_embedder(
    settings: EmbedderSettings, *, cache: Path | None, queries: int = 0
) -> Iterator[Embedder | None]:
    """The embedder that the settings name, with a file of vectors before it if one is given.

    In front of both is memory for every query, so that no recall that is timed reads that file.
    """
    embedder = open_embedder(settings)
    if embedder is None:
        yield None
        return
    if cache is not None:
        embedder = DiskCachedEmbedder(embedder, cache)
    remembering = CachedEmbedder(embedder, size=max(4096, 2 * queries))
    try:
        yield remembering
    finally:
        remembering.close()


@contextmanager
def open_loaded_engine(
    judged: JudgedSet,
    embedder: Embedder | None,
    *,
    store: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Engine]:
    """An engine on a store with exactly this set's memories: a new one for the time being, or the one named.

    The engine's clock stands still, so that no memory is older than another for having been loaded first.
    """
    with ExitStack() as stack:
        if store is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="retentive-eval-", ignore_cleanup_errors=True))
            store = str(Path(folder) / "set.db")
        now = datetime.now(UTC)
        settings = Settings(store=store, profile=DEFAULT_PROFILE)
        engine = stack.enter_context(Engine(open_store(store), embedder, settings=settings, clock=lambda: now))
        load(engine, judged, progress=progress)
        yield engine


def load(engine: Engine, judged: JudgedSet, *, progress: Callable[[int], None] = lambda done: None) -> None:
    """Put a set's memories into an engine's store, in the order of the set; those there already stay.

    `Conflict`, and nothing is done, if the store holds anything else: its words would count in every score.
    """
    there = _present(engine)
    if engine.stats().memories:
        _refuse_strangers(engine, there, judged)
    drafts = judged.drafts()
    while batch := list(islice(drafts, BATCH)):
        engine.remember_many([draft for draft in batch if (draft.source, draft.text) not in there])
        progress(len(batch))
    if engine.embeddings.embedder() is None:
        return
    problem = engine.embeddings.problem()
    if problem or engine.embeddings.count_missing():
        raise Unavailable(f"the set could not be embedded: {problem or 'the embedder failed on the way'}")


def _present(engine: Engine) -> set[tuple[str | None, str]]:
    """The source and text of every memory that is in the store already."""
    found: set[tuple[str | None, str]] = set()
    cursor = None
    while True:
        page = engine.list(cursor=cursor, limit=PAGE)
        found.update((memory.source, memory.text) for memory in page.memories)
        cursor = page.next_cursor
        if cursor is None:
            return found


def _refuse_strangers(engine: Engine, there: set[tuple[str | None, str]], judged: JudgedSet) -> None:
    ours = there & {(draft.source, draft.text) for draft in judged.drafts()}
    strangers = engine.stats().memories - len(ours)
    if strangers:
        raise Conflict(
            f"{engine.settings.public_store} holds {strangers} memories that are not of this set; give it a store of its own"
        )
