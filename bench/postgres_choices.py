"""Measures what two choices of the PostgreSQL store are based on: `python -m bench.postgres_choices ADDRESS`.

How many of the best memories by BM25 are among those that are scored, with our selection and with `ts_rank_cd`; and how
long a recall takes in how many round trips, on a connection with and without delay. An empty database is filled first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from statistics import mean, median
from time import perf_counter

from tests.stores.postgres_proxy import proxied

from bench import corpus as bench_corpus
from bench.corpus import Corpus
from bench.measured import ReadyEmbedder
from bench.progress import Progress
from bench.vectors import make_corpus
from retentive.engine import Engine
from retentive.inference.embedders import open_embedder
from retentive.models import Query, Scope
from retentive.pipeline.recall import recall
from retentive.pipeline.remember import Draft
from retentive.ranking import Tuning
from retentive.settings import EmbedderSettings, Settings
from retentive.stores.postgres import PostgresStore
from retentive.stores.postgres.connections import execute_on
from retentive.stores.postgres.search_stats import read_search_stats
from retentive.stores.values import SearchRequest

BEST = 30
SCORED = 64
EVERYTHING = 20_000
MAX_DOCUMENT_FREQUENCY = 0.05

_CREATE_PLAIN_TABLE = """
    DROP TABLE IF EXISTS bench_plain;
    CREATE TABLE bench_plain AS SELECT key, id, to_tsvector('simple', terms) AS words FROM memories;
    CREATE INDEX ON bench_plain USING gin (words);
    ANALYZE bench_plain;
"""
_RANKED = b"""
    SELECT id FROM bench_plain WHERE words @@ %s::tsquery ORDER BY ts_rank_cd(words, %s::tsquery) DESC LIMIT %s
"""


def fill(store: PostgresStore, corpus: Corpus, embedder: ReadyEmbedder, progress: Progress) -> None:
    """Store the corpus and create the indexes."""
    engine = Engine(store, embedder, settings=Settings(store=""))
    with progress.task("remember everything", total=len(corpus.texts)) as advance:
        for start in range(0, len(corpus.texts), 1000):
            part = zip(corpus.texts[start : start + 1000], corpus.sessions[start : start + 1000], strict=True)
            advance(len(engine.remember_many([Draft(text, session=session) for text, session in part])))
    store.run_maintenance()


def shares_of_best(store: PostgresStore, queries: Sequence[bench_corpus.BenchQuery]) -> Iterator[tuple[float, float]]:
    """Yield, for each query, the share of the best by BM25 that is scored: with our selection, with `ts_rank_cd`."""
    connections = store._connections  # noqa: SLF001
    connections.write(lambda one: one.execute(_CREATE_PLAIN_TABLE.encode(), prepare=False) and None)
    for query in queries:
        stats = connections.read(lambda one: read_search_stats(execute_on(one), Scope(), query.text))  # noqa: B023
        searched, scored = (
            " | ".join(f"'{term}'" for term in terms)
            for terms in (stats.retrieving_terms(MAX_DOCUMENT_FREQUENCY), stats.frequencies)
        )
        ours, every = (keyword(store, query.text, limit) for limit in (BEST, EVERYTHING))
        best = list(every.values())[:BEST]
        ranked = connections.fetch(_RANKED, (searched, scored, SCORED))
        theirs = sorted((every.get(id, 0.0) for (id,) in ranked), reverse=True)[:BEST]
        least = best[-1] - 1e-9
        yield tuple(sum(score >= least for score in scores) / len(best) for scores in (ours.values(), theirs))


def keyword(store: PostgresStore, text: str, limit: int) -> dict[str, float]:
    """Return the scores of the best keyword candidates by id, best first."""
    query = Query(text, Scope(), Tuning(max_document_frequency=MAX_DOCUMENT_FREQUENCY), datetime.now(UTC))
    found = store.search(SearchRequest(query, keyword=limit)).candidates["keyword"]
    return {candidate.memory.id: candidate.score for candidate in found}


def time_recalls(address: str, queries: Sequence[bench_corpus.BenchQuery], *, delay: float) -> tuple[float, int]:
    """Return the median milliseconds of a recall in a session, and its round trips."""
    with proxied(address, delay=delay) as proxy, ThreadPoolExecutor(4) as threads:
        store = PostgresStore(proxy.address)
        times, trips = [], 0
        for one in queries:
            scope = Scope(sessions=(one.session,), only_sessions=True)
            query = Query(one.text, scope, Tuning(), datetime.now(UTC), vector=one.vector)
            before, started = proxy.trips, perf_counter()
            recall(query, store, lambda: None, threads)
            times.append((perf_counter() - started) * 1000)
            trips = proxy.trips - before
        store.close()
    return median(times[5:]), trips


def main() -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="a database that is used for nothing else: postgresql://…")
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
    ours, theirs = zip(*shares_of_best(store, corpus.queries), strict=True)
    print(f"of the best {BEST} by BM25 are scored: ours {mean(ours):.3f}, ts_rank_cd {mean(theirs):.3f}")
    for delay in (0.0, 0.002):
        milliseconds, trips = time_recalls(options.address, corpus.queries, delay=delay)
        print(f"delay {delay * 1000:.0f} ms: {milliseconds:.1f} ms, {trips} round trips")
    store.close()
    embedder.close()


if __name__ == "__main__":
    main()
