"""What two choices of the PostgreSQL store rest on, measured: `python -m bench.postgres_choices ADDRESS`.

Which memories are looked at closely where many match a query's words, against `ts_rank_cd`; and both searches of a
recall in one statement, against one by one, on a line with and without delay. The database is filled if it is empty.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from statistics import mean, median
from time import perf_counter
from typing import Any

from tests.stores.postgres_proxy import proxied

from bench.corpus import Corpus, Query
from bench.peers import ReadyEmbedder
from bench.progress import Progress
from bench.vectors import make_corpus
from retentive.engine import Engine
from retentive.inference.embedders import open_embedder
from retentive.models import Scope
from retentive.pipeline.recall import Query, recall
from retentive.pipeline.remember import Draft
from retentive.ranking import Tuning
from retentive.settings import EmbedderSettings, Settings
from retentive.stores.at_once import Asked
from retentive.stores.postgres import PostgresStore

BEST = 30
LOOKED_AT = 64
EVERYTHING = 20_000

_PLAIN = """
    DROP TABLE IF EXISTS bench_plain;
    CREATE TABLE bench_plain AS SELECT key, to_tsvector('simple', terms) AS words FROM memories;
    CREATE INDEX ON bench_plain USING gin (words);
    ANALYZE bench_plain;
"""
_RANKED = """
    SELECT key FROM bench_plain WHERE words @@ %s::tsquery ORDER BY ts_rank_cd(words, %s::tsquery) DESC LIMIT %s
"""


class OneByOne:
    """A store that is asked for one thing at a time."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in ("search_both", "look"):
            raise AttributeError(name)
        return getattr(self._store, name)


def fill(store: PostgresStore, corpus: Corpus, embedder: ReadyEmbedder, progress: Progress) -> None:
    """The corpus in the store, with its index."""
    engine = Engine(store, embedder, settings=Settings(store=""))
    with progress.task("remember everything", total=len(corpus.texts)) as advance:
        for at in range(0, len(corpus.texts), 1000):
            part = zip(corpus.texts[at : at + 1000], corpus.sessions[at : at + 1000], strict=True)
            advance(len(engine.remember_many([Draft(text, session=session) for text, session in part])))
    store.tend()


def kept(store: PostgresStore, queries: Sequence[Query]) -> Iterator[tuple[float, float]]:
    """The share of the true best by words that is found: our way, and by `ts_rank_cd`."""
    store._connections.write(lambda one: one.execute(_PLAIN.encode(), prepare=False) and None)  # noqa: SLF001
    for query in queries:
        asked = Asked(query.text, None, Scope(), BEST, BEST, (), 0.05)
        footing = store._connections.read(lambda one: store._ground(one, asked)).footing  # noqa: SLF001, B023
        searched, scored = (
            " | ".join(f"'{term}'" for term in terms) for terms in (footing.searched(0.05), footing.everywhere)
        )
        every = store.search_words(query.text, Scope(), limit=EVERYTHING, common=0.05)
        best = every[:BEST]
        scores = {found.key: found.score for found in every}
        ours = store.search_words(query.text, Scope(), limit=BEST, common=0.05)
        ranked = store._connections.read(  # noqa: SLF001
            lambda one: one.execute(_RANKED, (searched, scored, LOOKED_AT)).fetchall()  # noqa: B023
        )
        least = best[-1].score - 1e-9
        theirs = sorted((scores.get(key, 0.0) for (key,) in ranked), reverse=True)[:BEST]
        yield (
            sum(found.score >= least for found in ours) / len(best),
            sum(score >= least for score in theirs) / len(best),
        )


def travelled(address: str, queries: Sequence[Query], *, delay: float) -> Iterator[tuple[str, float, int]]:
    """How long a recall in a session takes, and in how many round trips: at once, and one by one."""
    with proxied(address, delay=delay) as proxy, ThreadPoolExecutor(4) as threads:
        store = PostgresStore(proxy.address)
        for name, source in (("at once", store), ("one by one", OneByOne(store))):
            times, trips = [], 0
            for query in queries:
                scope = Scope(sessions=(query.session,), only_sessions=True)
                asked = Query(query.text, scope, Tuning(), 10, datetime.now(UTC), (), query.vector)
                before, started = proxy.trips, perf_counter()
                recall(asked, source, lambda: None, threads)  # type: ignore[arg-type]
                times.append((perf_counter() - started) * 1000)
                trips = proxy.trips - before
            yield name, median(times[5:]), trips
        store.close()


def main() -> None:
    """Measure, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="a database for this alone: postgresql://…")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=60)
    options = parser.parse_args()
    progress = Progress()
    embedder = open_embedder(EmbedderSettings())
    assert embedder is not None
    corpus = make_corpus(options.size, queries=options.queries, seed=1, embedder=embedder, progress=progress)
    store = PostgresStore(options.address)
    if store.stats().memories == 0:
        fill(store, corpus, ReadyEmbedder(embedder.model, corpus.texts, corpus.vectors), progress)
    ours, theirs = zip(*kept(store, corpus.queries), strict=True)
    print(f"of the true {BEST} best by words: ours {mean(ours):.3f}, ts_rank_cd {mean(theirs):.3f}")
    for delay in (0.0, 0.002):
        for name, milliseconds, trips in travelled(options.address, corpus.queries, delay=delay):
            print(f"delay {delay * 1000:.0f} ms, {name}: {milliseconds:.1f} ms, {trips} round trips")
    store.close()
    embedder.close()


if __name__ == "__main__":
    main()
