"""Fit what the judge's logits mean: `python -m training.judge.calibrate SET...`.

Every query of the sets, those without an answer too, is asked in its project through the product; the judge reads the
best twenty. The probability that a memory answers or helps is fitted by logistic regression on its logit and the kind
of text; each set counts the same. Prints the coefficients for `retentive/ranking/judged.py`, the calibration error by
kind of text, and for thresholds how many notes are given and what is lost.
"""

from __future__ import annotations

import argparse
import json
from math import log1p
from pathlib import Path
from typing import NamedTuple

import numpy as np

from retentive.evaluation import read_evaluation_set
from retentive.evaluation.abstain import auroc, calibration_error
from retentive.evaluation.evaluation_set import document_id
from retentive.evaluation.run import open_evaluation_embedder, open_loaded_engine
from retentive.inference.embedders.disk_cache import default_cache
from retentive.models import Hit
from retentive.ranking import Tuning
from retentive.ranking.fusion import count_words
from retentive.settings import load_settings

DEPTH = 20
THRESHOLDS = (0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
UNANSWERED = ("adversarial", "never", "idle")


class Row(NamedTuple):
    """A memory that the judge has read for a query."""

    set: str
    query: int
    kind: str
    features: tuple[float, float, float, float]
    gold: bool
    words: float


def _logit(hit: Hit) -> float | None:
    return next((reason.value for reason in hit.why if reason.step == "judge"), None)


def rows_of(folder: Path, first: int) -> list[Row]:
    """What the judge says of the best memories for every query of a set."""
    one = read_evaluation_set(str(folder))
    about = {}
    for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        about[found["_id"]] = found.get("metadata") or {}
    asked = [(q.id, q.text, q.project, q.asked_at, set(q.relevance)) for q in one.queries]
    path = folder / "unanswerable.json"
    for found in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []:
        about[found["_id"]] = found["metadata"]
        asked.append((found["_id"], found["text"], found["metadata"]["project"], None, set()))
    rows = []
    tuning = Tuning().with_parameters(judge="order", judge_depth=DEPTH)
    with (
        open_evaluation_embedder(load_settings().embedder, cache=default_cache()) as embedder,
        open_loaded_engine(one, embedder) as engine,
    ):
        for at, (id, text, project, now, gold) in enumerate(asked):
            kind = about[id].get("category") or "answer"
            kind = kind if kind in (*UNANSWERED, "prompt") else "answer"
            weak = set(about[id].get("weak", ())) if kind in ("answer", "prompt") else set()
            answer = engine.recall(text, project=project, limit=DEPTH, now=now, tuning=tuning, record_use=False)
            for hit in answer:
                logit, document = _logit(hit), document_id(hit.memory)
                if logit is None or document in weak - gold:
                    continue
                words = count_words(hit.memory.text)
                features = (logit, float(not hit.memory.speaker), log1p(words), log1p(count_words(text)))
                helps = document in gold and kind not in UNANSWERED
                rows.append(Row(folder.name, first + at, kind, features, helps, words))
    return rows


def fit(features: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Logistic regression by Newton's method: the intercept, then a coefficient for each feature."""
    inputs = np.column_stack([np.ones(len(features)), features])
    found = np.zeros(inputs.shape[1])
    ridge = 1e-3 * np.eye(inputs.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-inputs @ found))
        slope = inputs.T @ (weights * (labels - probability)) - ridge @ found
        curve = (inputs * (weights * probability * (1 - probability))[:, None]).T @ inputs + ridge
        step = np.linalg.solve(curve, slope)
        found += step
        if np.abs(step).max() < 1e-8:
            break
    return found


def report(rows: list[Row], coefficients: np.ndarray) -> None:
    """Print the calibration error by kind of text, and what thresholds give."""
    features = np.array([row.features for row in rows])
    probability = 1 / (1 + np.exp(-(coefficients[0] + features @ coefficients[1:])))
    gold, sets = np.array([row.gold for row in rows], float), np.array([row.set for row in rows])
    words, notes = np.array([row.words for row in rows]), features[:, 1] == 1
    kinds = {"notes": notes, "turns to 40 words": ~notes & (words <= 40), "longer turns": ~notes & (words > 40)}
    for name in sorted(set(sets)):
        mine = sets == name
        shown = []
        for label, chosen in kinds.items():
            both = mine & chosen
            if both.any():
                error = calibration_error(probability[both], gold[both])
                shown.append(f"{label} {error:.3f} (n={int(both.sum())})")
        print(f"calibration error, {name}: {'; '.join(shown)}")
        _given([row for row in rows if row.set == name], probability[mine])


def _given(rows: list[Row], probability: np.ndarray) -> None:
    by_query: dict[int, list[tuple[float, bool]]] = {}
    kinds: dict[int, str] = {}
    for row, value in zip(rows, probability, strict=True):
        by_query.setdefault(row.query, []).append((float(value), row.gold))
        kinds[row.query] = row.kind
    best = {query: max(value for value, _ in found) for query, found in by_query.items()}
    of = {kind: [query for query in by_query if kinds[query] == kind] for kind in ("answer", "prompt", *UNANSWERED)}
    for yes, no in (("answer", "never"), ("answer", "adversarial"), ("prompt", "idle"), ("answer", "idle")):
        if of[yes] and of[no] and not (yes == "answer" and no == "idle" and of["prompt"]):
            area = auroc(np.array([best[q] for q in of[yes]]), np.array([best[q] for q in of[no]]))
            print(f"  AUROC {yes} against {no}: {area:.3f} (n={len(of[yes])}+{len(of[no])})")
    for least in THRESHOLDS:
        shown = []
        for kind, queries in of.items():
            if queries:
                notes = np.mean([sum(value >= least for value, _ in by_query[q]) for q in queries])
                empty = np.mean([best[q] < least for q in queries])
                has = [q for q in queries if any(gold for _, gold in by_query[q])]
                kept = np.mean([any(g and value >= least for value, g in by_query[q]) for q in has]) if has else 0.0
                shown.append(
                    f"{kind} {notes:.1f} notes, none {100 * empty:.0f} %"
                    + (f", kept {100 * kept:.0f} %" if has else "")
                )
        print(f"  at {least:g}: {'; '.join(shown)}")


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--check", type=Path, nargs="*", default=[], help="Sets that are only measured.")
    options = parser.parse_args()
    rows: list[Row] = []
    for folder in options.sets:
        rows += rows_of(folder, len(rows) * 1000)
    sizes = {name: sum(row.set == name for row in rows) for name in {row.set for row in rows}}
    weights = np.array([len(rows) / len(sizes) / sizes[row.set] for row in rows])
    coefficients = fit(np.array([row.features for row in rows]), np.array([row.gold for row in rows], float), weights)
    names = ("intercept", "logit", "note", "words", "asked")
    print(", ".join(f"{name}={value:.3f}" for name, value in zip(names, coefficients, strict=True)))
    report(rows, coefficients)
    for folder in options.check:
        report(rows_of(folder, 0), coefficients)


if __name__ == "__main__":
    main()
