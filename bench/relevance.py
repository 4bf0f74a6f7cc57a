"""Fit the coefficients of relevance: `python -m bench.relevance SET… --embedder local:FOLDER [--write]`.

Each query of a set is asked in its own project, in another project of the set, in another set, and in small stores of a
few memories with and without a relevant one. In a set of one project, the sessions of the relevant memories are left
out instead. The answer's log-odds are fitted by logistic regression on one half of the projects; the figures printed
are of the other half. The share of a hit's own evidence is the largest one that loses few relevant memories.

Vectors are cached on disk, so that a second run takes a minute. `--write` replaces the coefficients in
`retentive/ranking/relevance.py`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

import retentive.ranking.relevance as formula
from retentive.engine import Engine
from retentive.evaluation import EvaluationSet, read_evaluation_set
from retentive.evaluation.abstain import auroc, calibration_error, other_projects
from retentive.evaluation.evaluation_set import EvaluationQuery, document_id
from retentive.evaluation.run import all_memories, open_evaluation_embedder, open_loaded_engine
from retentive.inference.embedders import Embedder
from retentive.inference.embedders.disk_cache import default_cache
from retentive.models import Memory, Query
from retentive.pipeline.periods import retrieve_period
from retentive.pipeline.recall import INLINE
from retentive.pipeline.search import search
from retentive.ranking import Tuning, order
from retentive.ranking.rank import is_about_asker
from retentive.ranking.relevance import Relevance, sigmoid
from retentive.settings import Settings, load_settings
from retentive.stores.in_memory import InMemoryStore
from retentive.text.terms import informative_terms

Array = npt.NDArray[np.float64]

SMALL_SIZES = (1, 3, 10, 40)
SMALL_QUERIES = 100
SMALL_WEIGHT = 0.3
MOST_LOST, LEAST_ABSTAINED = 0.018, 0.92
NOISE = """
hi there|hey|good morning|good night|thank you so much|thx|ok|okay, great|sure|yes please|no|never mind|lol|hmm|continue
go on|again|stop|help|test|qwertz|sdfkjh|xyzzy|aaaa|1234|???|how are you?|who are you?|what can you do?|is it so?
what now?|how does it work?|can you do it again?|why not?|tell me a joke|write a poem about the sea
what is 17 times 23?|translate this sentence into French|what is the capital of Mongolia?|explain photosynthesis
the second law of thermodynamics|sort a list in Haskell|Byzantine tax reform|enzyme kinetics of lactase
history of the Hanseatic League|tensor calculus
"""
"""What people type although it asks for no memory, separated by bars."""

NOISE_WEIGHT = 4.0
OWN_SHARES = (0.05, 0.1, 0.15, 0.2)
TUNING = Tuning()


@dataclass(slots=True)
class Row:
    """One query in one scope: the features of the answer, and each of the first ten hits with its judgement."""

    set: str
    group: str
    kind: str
    features: list[float]
    hits: list[tuple[float, float, bool]] = field(default_factory=list)

    @property
    def answerable(self) -> bool:
        return self.kind in ("own", "small-own")


@dataclass(slots=True)
class Loaded:
    """A set in a store of its own."""

    set: EvaluationSet
    engine: Engine
    by_project: dict[str | None, list[Memory]]

    @property
    def has_projects(self) -> bool:
        return len(self.by_project) > 1


def ask(engine: Engine, query: EvaluationQuery, project: str | None, exclude: Sequence[str] = ()) -> Row:
    """Ask a query in a project, through the steps of a recall."""
    asked = Query(query.text, engine.scope(project=project), TUNING, query.asked_at or engine.now(), 10, tuple(exclude))
    timed = retrieve_period(asked, engine.store, month_first=engine.settings.month_first)
    found = search(asked, engine.store, engine.embeddings.embedder, INLINE, timed=timed)
    about_asker = is_about_asker(query.text)
    hits = order(found.lists, TUNING, now=asked.now, context=found.context, about_asker=about_asker).hits
    calibration = engine.calibrations.of(asked, found)
    rated = Relevance(informative_terms(query.text), hits, found.cosines, calibration, found.period)
    row = Row("", "", "", _numbers(rated.features))
    for hit in hits[:10]:
        own = rated.features_of(hit)
        row.hits.append((own.cosine, own.coverage, document_id(hit.memory) in query.relevance))
    return row


def _numbers(features: formula.Features) -> list[float]:
    *others, compared = features
    return [*others, float(np.log(1 + min(compared, formula.MOST_COMPARED)))]


def rows_of(one: Loaded, others: Sequence[Loaded], embedder: Embedder, random: Random) -> Iterator[Row]:
    """Yield the rows of one set."""
    name, queries = one.set.name, one.set.queries
    documents = {document_id(memory): memory for memories in one.by_project.values() for memory in memories}
    elsewhere = other_projects(queries)
    for query in queries:
        group = (query.project if one.has_projects else None) or query.id
        project = query.project if one.has_projects else None
        relevant = [documents[id] for id in query.relevance if id in documents]
        sessions = {memory.session for memory in relevant} - {None}
        found = {"own": ask(one.engine, query, project)}
        if one.has_projects:
            found["other"] = ask(one.engine, query, elsewhere[query.id])
        else:
            left = [m.id for m in one.by_project[query.project] if m in relevant or m.session in sessions]
            found["excluded"] = ask(one.engine, query, None, left)
        if others:
            far = random.choice(others)
            found["cross"] = ask(far.engine, query, random.choice(list(far.by_project)) if far.has_projects else None)
        for kind, row in found.items():
            row.set, row.group, row.kind = name, group, kind
            yield row
    yield from _noise(one, random)
    for query in random.sample(queries, min(SMALL_QUERIES, len(queries))):
        relevant = [documents[id] for id in query.relevance if id in documents]
        sessions = {memory.session for memory in relevant} - {None}
        pool = [m for m in one.by_project[query.project] if m not in relevant and m.session not in sessions]
        for size in SMALL_SIZES if relevant and pool else ():
            for kind, first in (("small-own", [random.choice(relevant)]), ("small-other", [])):
                memories = [*first, *random.sample(pool, min(size - len(first), len(pool)))]
                row = _ask_small(query, memories, embedder)
                row.set, row.group, row.kind = name, (query.project if one.has_projects else None) or query.id, kind
                yield row


def _noise(one: Loaded, random: Random) -> Iterator[Row]:
    for text in NOISE.strip().replace("\n", "|").split("|"):
        for _ in range(3):
            project = random.choice(list(one.by_project)) if one.has_projects else None
            row = ask(one.engine, EvaluationQuery(text, text, {}), project)
            row.set, row.group, row.kind = one.set.name, text, "noise"
            yield row


def _ask_small(query: EvaluationQuery, memories: Sequence[Memory], embedder: Embedder) -> Row:
    with Engine(InMemoryStore(), embedder, settings=Settings(store="")) as engine:
        fields = ("text", "session", "speaker", "source", "occurred")
        engine.remember_many([{name: getattr(memory, name) for name in fields} for memory in memories])
        return ask(engine, query, None)


def logistic(x: Array, y: Array, weight: Array, *, penalty: float = 1e-4) -> Array:
    """Fit a logistic regression by Newton's method; return the intercept and the coefficients."""
    mean, deviation = x.mean(0), x.std(0) + 1e-9
    z = np.column_stack([np.ones(len(x)), (x - mean) / deviation])
    ridge = np.diag([0.0] + [penalty * len(x)] * x.shape[1])
    beta = np.zeros(z.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-z @ beta))
        beta += np.linalg.solve(
            (z * (weight * p * (1 - p))[:, None]).T @ z + ridge, z.T @ (weight * (y - p)) - ridge @ beta
        )
    slopes = beta[1:] / deviation
    return np.concatenate([[beta[0] - slopes @ mean], slopes])


def fit(rows: Sequence[Row], columns: Sequence[int]) -> Array:
    """Fit the log-odds of the answer on these features."""
    x = np.array([[row.features[at] for at in columns] for row in rows])
    weights = {"small-own": SMALL_WEIGHT, "small-other": SMALL_WEIGHT, "noise": NOISE_WEIGHT}
    weight = np.array([weights.get(row.kind, 1.0) for row in rows])
    y = np.array([float(row.answerable) for row in rows])
    weight[y == 1] *= weight[y == 0].sum() / weight[y == 1].sum()  # as many answerable as not
    return logistic(x, y, weight)


def hit_relevance(row: Row, beta: Array, own: float) -> list[tuple[float, bool]]:
    """The relevance of each hit of a row, with its judgement."""
    best = float(beta[0] + beta[1:] @ np.array(row.features))
    cosine, _, coverage, *_ = row.features
    found = []
    for c, v, judged in row.hits:
        lag = max(float(beta[1] * (cosine - c) + beta[3] * (coverage - v)), 0.0)
        found.append((sigmoid(best - own * lag - max(lag - formula.FAR, 0.0)), judged))
    return found


def losses(rows: Sequence[Row], beta: Array, own: float, least: float) -> tuple[float, float]:
    """The share of answerable queries that lose their relevant memories, and of the others that get nothing."""
    lost = [
        any(judged for _, judged in hits) and not any(judged and p >= least for p, judged in hits)
        for row in rows
        if row.kind == "own" and (hits := hit_relevance(row, beta, own))
    ]
    empty = [all(p < least for p, _ in hit_relevance(row, beta, own)) for row in rows if row.kind == "other"]
    return float(np.mean(lost)), float(np.mean(empty)) if empty else 1.0


def choose(rows: Sequence[Row], beta: Array) -> tuple[float, float]:
    """The largest share of own evidence with which a threshold loses little and abstains often; the highest such."""
    best = (0.1, 0.2)
    for own in OWN_SHARES:
        for least in np.arange(0.05, 0.4, 0.05):
            lost, empty = losses(rows, beta, own, float(least))
            if lost <= MOST_LOST and empty >= LEAST_ABSTAINED:
                best = (own, round(float(least), 2))
    return best


def usable(rows: Sequence[Row], related: Sequence[str]) -> list[Row]:
    """The rows whose label can be trusted.

    In a set whose projects are parts of one series, another part may have an answer; a memory of the same pool, too.
    """
    return [row for row in rows if row.kind != "excluded" and not (row.kind == "other" and row.set in related)]


def report(rows: Sequence[Row], beta: Array, own: float, least: float) -> None:
    """Print the figures of each set."""
    for name in sorted({row.set for row in rows}):
        mine = [row for row in rows if row.set == name]
        p = {kind: _relevances(mine, beta, kind) for kind in dict.fromkeys(row.kind for row in mine)}
        lost, empty = losses(mine, beta, own, least)
        print(f"{name}: lost {lost:.3f}, abstained {empty:.3f} (own {own:g}, min_relevance {least:g})")
        for kind, values in p.items():
            answerable = p["small-own" if kind.startswith("small") else "own"]
            if kind not in ("own", "small-own"):
                labels = np.r_[np.ones(len(answerable)), np.zeros(len(values))]
                both = np.r_[answerable, values]
                print(f"  {kind}: AUROC {auroc(answerable, values):.4f}, ECE {calibration_error(both, labels):.3f}")


def _relevances(rows: Sequence[Row], beta: Array, kind: str) -> Array:
    return np.array([sigmoid(float(beta[0] + beta[1:] @ np.array(row.features))) for row in rows if row.kind == kind])


def write(beta: Array, keyword: Array, own: float, least: float, unrelated: float, spread: float) -> None:
    """Replace the coefficients in the module."""
    path = Path(formula.__file__)
    text = path.read_text(encoding="utf-8")
    typical = f"own={own:.2f},\n    unrelated={unrelated:.3f},\n    spread={spread:.3f},"
    fields = ("intercept", "cosine", "background", "coverage", "missing", "size")
    fitted = "\n    ".join(f"{name}={value:.2f}," for name, value in zip(fields, beta, strict=True))
    fitted = f"FITTED = Coefficients(\n    {fitted}\n    {typical}\n)"
    text = re.sub(r"FITTED = Coefficients\(.*?\n\)", fitted, text, flags=re.DOTALL)
    text = re.sub(r"(KEYWORD = .*?intercept=)[-\d.]+", rf"\g<1>{keyword[0]:.2f}", text, flags=re.DOTALL)
    text = re.sub(r"(KEYWORD = .*?coverage=)[-\d.]+", rf"\g<1>{keyword[1]:.2f}", text, flags=re.DOTALL)
    text = re.sub(r"(KEYWORD = .*?missing=)[-\d.]+", rf"\g<1>{keyword[2]:.2f}", text, flags=re.DOTALL)
    text = re.sub(r"(DEFAULT_MIN_RELEVANCE = )[\d.]+", rf"\g<1>{least:g}", text)
    path.write_text(text, encoding="utf-8")


def read_rows(folders: Sequence[str], name: str | None, cache: Path) -> tuple[list[Row], float, str]:
    """Return the rows of all sets, the typical spread of cosines between memories, and the model's fingerprint."""
    random = Random(7)
    with ExitStack() as stack:
        settings = load_settings({"embedder": name}).embedder
        embedder = stack.enter_context(open_evaluation_embedder(settings, cache=cache))
        assert embedder is not None
        fingerprint = embedder.model.fingerprint
        formula.FITTED_MODELS = frozenset({*formula.FITTED_MODELS, fingerprint})
        loaded = []
        for folder in folders:
            engine = stack.enter_context(open_loaded_engine(read := read_evaluation_set(folder), embedder))
            by_project: dict[str | None, list[Memory]] = {}
            for memory in all_memories(engine):
                by_project.setdefault(memory.project, []).append(memory)
            loaded.append(Loaded(read, engine, by_project))
        rows = []
        for one in loaded:
            rows += rows_of(one, [far for far in loaded if far is not one], embedder, random)
            print(f"{one.set.name}: {len(rows)} rows", flush=True)
        return rows, float(np.mean([s.spread for one in loaded for s in one.engine.calibrations.samples])), fingerprint


def main() -> None:
    """Read the sets, fit, print the figures, and write the coefficients if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--embedder")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--rows", type=Path, help="keep the rows in this file, and use them again if it exists")
    parser.add_argument("--related", nargs="*", default=(), help="names of sets whose projects are one series")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.rows is not None and options.rows.exists():
        read = json.loads(options.rows.read_text(encoding="utf-8"))
        names = {Path(folder).name for folder in options.sets}
        rows = [row for row in (Row(*values) for values in read["rows"]) if row.set in names]
        spread, fingerprint = read["spread"], read["fingerprint"]
    else:
        rows, spread, fingerprint = read_rows(options.sets, options.embedder, options.cache)
        if options.rows is not None:
            kept = {"rows": [astuple(row) for row in rows], "spread": spread, "fingerprint": fingerprint}
            options.rows.write_text(json.dumps(kept), encoding="utf-8")
    groups = sorted({(row.set, row.group) for row in rows})
    first = {group for at, group in enumerate(groups) if at % 2 == 0}
    fitted = [row for row in rows if (row.set, row.group) in first]
    held_out = [row for row in rows if (row.set, row.group) not in first]
    beta = fit(usable(fitted, options.related), range(5))
    own, least = choose(usable(fitted, options.related), beta)
    print(f"fitted on half: {beta.round(2)}; held out:")
    report(held_out, beta, own, least)
    rows = usable(rows, options.related)
    whole, keyword = fit(rows, range(5)), fit(rows, [2, 3])
    own, least = choose(rows, whole)
    unrelated = float(np.mean([row.features[1] for row in rows if row.kind == "own"]))
    print(f"\nfitted on all: {whole.round(2)}, own {own:g}, min_relevance {least:g}, keyword {keyword.round(2)}")
    print(f"unrelated {unrelated:.3f}, spread {spread:.3f}, model {fingerprint}")
    if options.write:
        write(whole, keyword, own, least, unrelated, spread)


if __name__ == "__main__":
    main()
