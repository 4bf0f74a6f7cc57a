"""Measures one number of memories, from an empty directory to the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cold_start import RUNS, ColdTimes, measure_cold
from bench.corpus import SESSIONS, Corpus
from bench.figures import Row, SizeResult, Table, Target
from bench.footprint import Footprint, measure_footprint
from bench.measured import Peer
from bench.progress import Progress
from bench.ranking import POOL, RankingTimes, measure_ranking
from bench.retentive_peer import BATCH, HALVES, FilledStore, RetentivePeer
from bench.timing import Spread, VectorRecall, measure_in_turn, stages, vector_recall
from bench.vectors import RECALL_DEPTH, Truth, make_corpus
from retentive.inference.embedders import Embedder
from retentive.pipeline.query_options import QueryOptions

if TYPE_CHECKING:
    from bench import lancedb_peer
    from bench.postgres import OnPostgres

ENOUGH = 0.95
"""The recall from which LanceDB's vector searches count as comparable."""


FILTERS: dict[str, QueryOptions] = {
    "Retentive, filter of time": {"since": "2000-01-01"},
    "Retentive, as of a time": {"as_of": "2100-01-01"},
    "Retentive, filter of metadata": {"metadata": {"half": HALVES[0]}},
}
"""Filters by what the table calls them: two that every memory matches, and one that half of them match."""


JUDGED = "Retentive, with the judge"
"""What the table calls a recall whose best hits the judge reads; the others are without it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    queries: int
    passes: int
    singles: int
    seed: int
    lancedb: bool
    postgres: bool


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The times and the recall of each peer by name, in scope or not."""

    times: Mapping[str, Spread]
    recall: Mapping[str, VectorRecall]
    stages: Mapping[str, Spread]
    stages_on_postgres: Mapping[str, Spread]

    def rival(self) -> str | None:
        """The name of LanceDB's fastest search with enough recall."""
        names = [name for name in self.times if name.startswith("LanceDB") and self.recall[name].mean >= ENOUGH]
        return min(names, key=lambda name: self.times[name].p50, default=None)


class Measurement:
    """The steps of a measurement of one number of memories, in their order."""

    def __init__(
        self, size: int, plan: Plan, directory: Path, embedder: Embedder, progress: Progress, *, database: str | None
    ) -> None:
        self._plan, self._embedder, self._progress = plan, embedder, progress
        with progress.task(f"{size:,} memories: write texts, mix vectors"):
            self.corpus: Corpus = make_corpus(
                size, queries=plan.queries, seed=plan.seed, embedder=embedder, progress=progress
            )
            self._truth = Truth(self.corpus)
        self.ours = FilledStore(str(directory / "retentive.db"), self.corpus, embedder.model, progress)
        self.lance: lancedb_peer.FilledTable | None = None
        if plan.lancedb:
            from bench import lancedb_peer

            self.lance = lancedb_peer.FilledTable(directory / "lancedb", self.corpus, progress)
        self.postgres: OnPostgres | None = None
        if database is not None:
            from bench.postgres import OnPostgres

            self.postgres = OnPostgres(database, self.corpus, embedder.model, progress)
        self._default = RetentivePeer(self.ours.engine, self.ours.store, self.ours.rows)
        self._rivals = self._lance_peers()

    def _lance_peers(self) -> list[lancedb_peer.LancePeer]:
        """Return a full scan, and the index with the first settings that have enough recall."""
        if self.lance is None:
            return []
        from bench.lancedb_peer import FLAT, INDEXED, LancePeer

        flat = LancePeer(self.lance.table, FLAT)
        if not self.lance.indexed:
            return [flat]
        sample = self.corpus.queries[:50]
        tried = [LancePeer(self.lance.table, search) for search in INDEXED]
        enough = (peer for peer in tried if vector_recall(peer, sample, self._truth, scoped=False).mean >= ENOUGH)
        return [flat, next(enough, tried[-1])]

    def search(self, *, scoped: bool) -> SearchResults:
        """Run every query with every peer, in turn."""
        classic = RetentivePeer(self.ours.engine, self.ours.store, self.ours.rows, tuning="classic-rrf")
        server = self.postgres
        on_postgres: list[Peer] = [server.peer, server.classic, server.plain] if server else []
        filtered = [
            RetentivePeer(self.ours.engine, self.ours.store, self.ours.rows, name=name, options=options)
            for name, options in FILTERS.items()
        ]
        judged = RetentivePeer(self.ours.judged, self.ours.store, self.ours.rows, name=JUDGED)
        peers: list[Peer] = [self._default, *self._rivals, classic, judged, *filtered, *on_postgres]
        queries, turns = self.corpus.queries, self._plan.passes
        where = "in scope" if scoped else "unscoped"
        with self._progress.task(f"recall {where}", total=(turns + 1) * len(peers)) as advance:
            times = measure_in_turn(peers, queries, scoped=scoped, passes=turns, advance=advance)
        with self._progress.task(f"recall at {RECALL_DEPTH} {where}"):
            found = {
                peer.name: vector_recall(peer, queries, self._truth, scoped=scoped)
                for peer in peers
                if "classic" not in peer.name and peer.name not in {JUDGED, *FILTERS}
            }
        on_server = stages(server.peer, queries, scoped=scoped) if server else {}
        return SearchResults(times, found, stages(self._default, queries, scoped=scoped), on_server)

    def rank(self) -> RankingTimes:
        """Measure ranking alone and in a whole recall."""
        with self._progress.task("rank, and recall with real embedding"):
            return measure_ranking(self.ours, self.corpus.queries, self._embedder, seed=self._plan.seed)

    def remember_one_by_one(self) -> float:
        """Measure memories per second."""
        with self._progress.task("remember one by one"):
            return self.ours.singles_per_second(self.corpus, self._plan.singles)

    def start_cold(self) -> ColdTimes:
        """Measure the command line."""
        with self._progress.task("command line, cold"):
            return measure_cold(self.ours.path, self.corpus.queries[0])

    def footprints(self, rival: str | None) -> dict[str, Footprint]:
        """Measure memory and disk of each engine in new processes."""
        with self._progress.task("memory and disk"):
            found = {"Retentive": measure_footprint("retentive", self.ours.path, self.corpus.queries)}
            chosen = [peer.settings for peer in self._rivals if peer.name == rival]
            if self.lance and chosen:
                search = chosen[0]
                settings = (search.name, search.flat, search.nprobes, search.ef, search.refine_factor)
                found[search.name] = measure_footprint("lancedb", self.lance.path, self.corpus.queries, settings)
        return found


def measure(size: int, plan: Plan, directory: Path, embedder: Embedder, progress: Progress) -> SizeResult:
    """Measure one number of memories."""
    if not plan.postgres:
        return _measure(size, plan, directory, embedder, progress, database=None)
    from bench.postgres import database

    with database(f"retentive_bench_{size}") as address:
        return _measure(size, plan, directory, embedder, progress, database=address)


def _measure(
    size: int, plan: Plan, directory: Path, embedder: Embedder, progress: Progress, *, database: str | None
) -> SizeResult:
    measured = Measurement(size, plan, directory, embedder, progress, database=database)
    scoped, whole = measured.search(scoped=True), measured.search(scoped=False)
    server_tables, server_targets = _on_postgres(measured.postgres, scoped, whole)
    ranking = measured.rank()
    singles = measured.remember_one_by_one()
    measured.ours.close()
    cold = measured.start_cold()
    footprints = measured.footprints(whole.rival())
    bulk = size / measured.ours.seconds
    tables = (
        _search_table(f"Recall of 10 in a scope of 1 % ({size // SESSIONS:,} memories)", scoped),
        _search_table("Recall of 10 in the whole store", whole),
        _stage_table(scoped, whole),
        _writing_table(size, bulk, singles, measured.lance),
        *server_tables,
        _ranking_table(ranking),
        _cold_table(cold),
        _footprint_table(footprints),
    )
    targets = (*_search_targets(scoped, whole), *server_targets, *_other_targets(ranking, bulk, cold))
    return SizeResult(size, tables, targets)


def _on_postgres(
    server: OnPostgres | None, scoped: SearchResults, whole: SearchResults
) -> tuple[list[Table], list[Target]]:
    if server is None:
        return [], []
    from bench.postgres import targets

    stages = {
        name: (scoped.stages_on_postgres[name], whole.stages_on_postgres[name]) for name in whole.stages_on_postgres
    }
    tables = server.tables(stages)
    server.close()
    return tables, targets(scoped, whole, sqlite="Retentive, default", plain=server.plain.name)


def _search_table(title: str, results: SearchResults) -> Table:
    rows = []
    for name, times in results.times.items():
        recall = results.recall.get(name)
        found = (recall.mean, recall.least) if recall else (None, None)
        rows.append(Row(name, (times.p50, times.p95, times.cpu, *found)))
    columns = ("p50, ms", "p95, ms", "CPU p50, ms", f"recall@{RECALL_DEPTH}, mean", "minimum")
    note = (
        "CPU time is that of all threads of this process. Recall is of the semantic retriever alone, against exact "
        "cosines of the vectors rounded to float16."
    )
    return Table(title, columns, tuple(rows), note)


def _stage_table(scoped: SearchResults, whole: SearchResults) -> Table:
    rows = []
    for name, times in whole.stages.items():
        in_scope = scoped.stages[name]
        rows.append(Row(name, (in_scope.p50, in_scope.p95, times.p50, times.p95)))
    columns = ("scope p50, ms", "scope p95, ms", "whole p50, ms", "whole p95, ms")
    return Table("Stages of a recall", columns, tuple(rows), "The vectors of the queries are given.")


def _writing_table(size: int, bulk: float, singles: float, lance: lancedb_peer.FilledTable | None) -> Table:
    rows = [
        Row(f"Retentive, {BATCH:,} at a time, all indexes", (bulk, size / bulk)),
        Row("Retentive, one by one", (singles, None)),
    ]
    if lance:
        spent = lance.seconds
        without_vectors = sum(spent.values()) - spent.get("vectors", 0.0)
        rows.append(Row(f"LanceDB, {BATCH:,} at a time, no index", (size / spent["insert"], spent["insert"])))
        rows.append(
            Row("LanceDB, compacted, with indexes of terms and sessions", (size / without_vectors, without_vectors))
        )
        if lance.indexed:
            rows.append(Row("LanceDB, with an index of vectors too", (size / sum(spent.values()), sum(spent.values()))))
    note = "Without embedding. Retentive's writes are durable (synchronous FULL) and searchable when they return."
    return Table("Remembering", ("memories/s", "s"), tuple(rows), note)


def _ranking_table(times: RankingTimes) -> Table:
    rows = (
        Row(f"ranking two pools of {POOL}, with reasons", (times.alone.p50, times.alone.p95)),
        Row("whole recall, with embedding of the query", (times.whole.p50, times.whole.p95)),
        Row("ranking in that recall (two pools of 50)", (times.inside.p50, times.inside.p95)),
    )
    return Table("Ranking", ("p50, ms", "p95, ms"), rows)


def _cold_table(times: ColdTimes) -> Table:
    rows = (
        Row("import onnxruntime, tokenizers", (times.imports, 1.0)),
        Row("retentive recall, whole store", (times.whole, times.whole / times.imports)),
        Row("retentive recall, scope", (times.scoped, times.scoped / times.imports)),
        Row("retentive recall, by the service", (times.served, times.served_share)),
    )
    return Table(f"Cold start, median of {RUNS} processes", ("ms", "× import"), rows)


def _footprint_table(footprints: Mapping[str, Footprint]) -> Table:
    rows: Sequence[Row] = [
        Row(name, tuple(value / 2**20 for value in (one.rss_scoped, one.own_scoped, one.rss, one.own, one.disk)))
        for name, one in footprints.items()
    ]
    columns = ("scope RSS, MiB", "private", "then whole RSS, MiB", "private", "disk, MiB")
    note = "A new process after all queries in the scope, then after all in the whole store. RSS includes mapped files."
    return Table("Memory and disk", columns, tuple(rows), note)


def _search_targets(scoped: SearchResults, whole: SearchResults) -> list[Target]:
    ours, targets = "Retentive, default", []
    for name, results, share in (("scope", scoped, 0.25), ("whole store", whole, 0.6)):
        rival = results.rival()
        if rival:
            figure = results.times[ours].p50 / results.times[rival].p50
            targets.append(Target(f"p50 in {name} / that of {rival}", figure, "≤", share, "×"))
    for name, results, most in (("scope", scoped, 2), ("whole store", whole, 5)):
        slowest = max(results.times[filter].p50 for filter in FILTERS)
        figure = slowest / results.times[ours].p50
        targets.append(Target(f"p50 in {name} with a filter / without", figure, "≤", most, "×"))
    for name, results in (("scope", scoped), ("whole store", whole)):
        targets.append(Target(f"recall@{RECALL_DEPTH} in {name}, mean", results.recall[ours].mean, "≥", 0.99, ""))
    return targets


def _other_targets(ranking: RankingTimes, bulk: float, cold: ColdTimes) -> list[Target]:
    return [
        Target("ranking's share of a whole recall", ranking.share, "≤", 0.25, ""),
        Target("bulk remembering", bulk, "≥", 10_000, "/s"),
        Target("cold recall, whole store / import", cold.whole / cold.imports, "≤", 2.5, "×"),
        Target("cold recall, scope / import", cold.scoped / cold.imports, "≤", 2.5, "×"),
        Target("cold recall, by the service / import", cold.served_share, "≤", 1.0, "×"),
    ]
